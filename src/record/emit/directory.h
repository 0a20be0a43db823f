/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* directory.h - strings, names, runtimes, modules, metadata, threads: what records refer to by
 * number.
 *
 * Invariants:  everything but threads is kept in private memory too: that copy answers "is this
 *              text known", fills the ring's directory when the ring appears (it is created late),
 *              and again in a forked child that reopens. Nothing is ever read back from the file.
 *              Thread entries take at most half of the file's directory, so churn starves no name.
 * Memory:      KY_DIRECTORY_BYTES_DEFAULT + 0.5 MiB of table, touched as used; fixed.
 * Loss:        what does not fit is refused with id 0 and counted in directory_overflow_count.
 * Threads:     under the engine's lock.      Signals: unsafe.
 */
#ifndef KY_RECORD_EMIT_DIRECTORY_H
#define KY_RECORD_EMIT_DIRECTORY_H

#include <record/emit/ring_file.h>
#include <stddef.h>
#include <stdint.h>

#define KY_DIRECTORY_BUCKETS 65536u /* a power of two, twice the entries that could ever fit */

struct ky_directory_cell {
	uint32_t hash;   /* upper half of the entry's key */
	uint32_t offset; /* of the entry in `bytes`, + 1; 0: free */
};

struct ky_directory {
	uint8_t *bytes; /* entries as in the file */
	size_t capacity;
	size_t used;
	struct ky_directory_cell *table;
	uint32_t ids[16];     /* last id given out, by enum ky_entry_kind */
	struct ky_ring *ring; /* NULL: not created yet */
	size_t file_used;
	size_t thread_bytes;
	uint64_t overflow_count; /* before there was a ring */
};

/* One entry: `fixed` then `text`, back to back. */
struct ky_directory_item {
	enum ky_entry_kind kind;
	uint32_t id; /* 0: the next of its kind */
	const void *fixed;
	size_t fixed_bytes;
	const char *text;
	size_t text_bytes;
};

/* Returns 0 or -ENOMEM. */
int ky_directory_init(struct ky_directory *directory, size_t capacity);
void ky_directory_release(struct ky_directory *directory);

/* From now on entries go to this ring too; what is known so far goes there at once. */
void ky_directory_attach(struct ky_directory *directory, struct ky_ring *ring);
void ky_directory_detach(struct ky_directory *directory);

/* How many bytes of a text are kept: all, or what fits KY_STRING_BYTES_MAX without half a
 * character. */
size_t ky_directory_kept(const char *text, size_t text_bytes);

/* Id of an equal entry, or of a new one. Text beyond KY_STRING_BYTES_MAX is cut (flag bit 0 of the
 * entry) and distinguished by the hash of the whole. Returns 0 when full. */
uint32_t ky_directory_intern(struct ky_directory *directory, const struct ky_directory_item *item);

/* Appends without searching for an equal one. Returns the id, 0 when full. */
uint32_t ky_directory_append(struct ky_directory *directory, const struct ky_directory_item *item);

/* Appends to the ring only (threads); false when their half is used up. */
bool ky_directory_thread(struct ky_directory *directory, const struct ky_directory_item *item);

#endif
