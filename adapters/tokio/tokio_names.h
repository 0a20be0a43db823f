/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* tokio_names.h - which names of a string table are Tokio's, or on the way from one of Tokio's
 * functions to another. The table goes by once, in pieces: of a large program it is tens of
 * megabytes, and a search for each symbol's name would be half of the recorder's start.
 *
 * Invariants:  a kept name is the whole text up to its NUL, of KY_TOKIO_NAME_BYTES_MAX at most;
 *              nothing depends on the order in which a linker writes names.
 * Memory:      anonymous mappings; the caller releases them.
 * Threads:     setup-only.
 */
#ifndef KY_TOKIO_NAMES_H
#define KY_TOKIO_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_TOKIO_NAME_BYTES_MAX 16384u

struct ky_tokio_kept {
	uint32_t start; /* in the string table */
	uint32_t last;  /* where its last wanted part begins: a shorter tail is another name */
	uint32_t text;  /* in ky_tokio_names.texts */
	bool is_proof;  /* it is of Tokio's tasks */
};

struct ky_tokio_names {
	char *texts; /* each with its NUL */
	size_t texts_used, texts_bytes;
	struct ky_tokio_kept *kept; /* by start */
	size_t kept_count, kept_capacity;
	uint32_t *buckets; /* by the upper bits of an offset: names that start below */
	size_t bucket_count;
	bool has_recorder; /* there is a name of kymo's recorder */
	bool has_proof;    /* one of them is of Tokio's tasks */
	/* Allocators that are linked in under names of their own; none of these names is kept. */
	bool has_jemalloc, has_mimalloc;
};

/* Reads `bytes` of the file at `offset`. Returns 0; 1 when it cannot be read; -ENOMEM. */
int ky_tokio_names_read(struct ky_tokio_names *out, int fd, uint64_t offset, uint32_t bytes);
void ky_tokio_names_release(struct ky_tokio_names *names);

/* The wanted name that starts at this offset of the table, as an offset in texts; UINT32_MAX:
 * the name is not wanted. *is_proof: it, or the longer name it is the tail of, is of Tokio's tasks.
 * Linkers let a name be the tail of a longer one. */
uint32_t ky_tokio_names_find(const struct ky_tokio_names *names, uint32_t at, bool *is_proof);

#endif
