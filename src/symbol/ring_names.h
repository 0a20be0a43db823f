/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_names.h - addresses of a recorded process become names: ring directory -> module -> ELF
 * file.
 *
 * Runs in the `kymo` process, or on the recorder's own thread of a program that links it, never on
 * a thread of the host. The ring and the files it points
 * at are untrusted. Files are found through the process while it lives (so a program that was
 * replaced on disk is still read as it was started), else by path; a build id in the directory must
 * match. Memory:  one symbol index per module that a name falls into, released by close.
 * Threads: owner.
 */
#ifndef KY_SYMBOL_RING_NAMES_H
#define KY_SYMBOL_RING_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <symbol/task_names.h>
#include <wire/ring_image.h>
#include <wire/symbol_source.h>

struct ky_ring_names;

/* Where the symbols of a stripped file are: debug_symbols.h has one. */
typedef void (*ky_add_symbols_fn)(struct ky_task_names *file, const struct ky_code_place *place,
				  uint32_t pid);

/* image        the mapped ring file; read again at every lookup, must outlive the object
 * add_symbols  called for each file that was opened; NULL: a stripped one has no names
 * Returns 0, -ENOMEM. */
int ky_ring_names_open(struct ky_ring_names **out, const uint8_t *image, size_t image_bytes,
		       ky_add_symbols_fn add_symbols);
void ky_ring_names_close(struct ky_ring_names *names);

/* The ring's process has this number here: its own counts in another pid namespace. Before the
 * first lookup. */
void ky_ring_names_process(struct ky_ring_names *names, uint32_t pid);

/* A ky_name_fn (wire/ring_image.h); ctx is the object. A task table gives its future's type, or
 * "A or B" when the linker folded several into one; any other code address gives its function. 0
 * when unknown. */
size_t ky_ring_names_text(void *ctx, const struct ky_entry_name *entry, char *out, size_t capacity);

#endif
