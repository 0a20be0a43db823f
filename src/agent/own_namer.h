/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_namer.h - who names code in the traces that a program writes of itself. What names need is
 * not linked into a program that has not asked for them: own_names.c sets it.
 *
 * Threads: set before the recorder opens; afterwards the recorder's own thread alone.
 */
#ifndef KY_AGENT_OWN_NAMER_H
#define KY_AGENT_OWN_NAMER_H

#include <record/emit/ring_file.h>
#include <stdbool.h>
#include <wire/ring_image.h>

struct ky_own_namer_calls {
	/* image: the ring; outlives the object. Returns NULL: memory is short. */
	void *(*open)(const uint8_t *image, size_t image_bytes);
	ky_name_fn name;
	void (*close)(void *names);
};

extern const struct ky_own_namer_calls *ky_own_namer_calls; /* NULL: nothing has a name */

/* Zeros: names nothing. */
struct ky_own_namer {
	const struct ky_own_namer_calls *calls;
	const struct ky_ring *ring; /* whose directory says where code lies */
	void *names;
};

/* A ky_name_fn; ctx: a struct ky_own_namer, which opens at the first name. 0 also where a filter of
 * the program may forbid to open files. */
size_t ky_own_name(void *ctx, const struct ky_entry_name *entry, char *out, size_t capacity);
/* Of this ring from here on; NULL: of none. */
void ky_own_namer_follow(struct ky_own_namer *namer, const struct ky_ring *ring);
void ky_own_namer_close(struct ky_own_namer *namer);

#endif
