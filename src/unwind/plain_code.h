/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* plain_code.h - rows for functions without unwind data that are simple enough to be read: the
 * `main` that rustc makes of a program with panic=abort is one, and it is below every stack there.
 *
 * Exact or not at all: the instructions are followed from the function's beginning to its return,
 * forward jumps included; one that is not in the small list here, or that could change what the
 * rows speak of in another way, and the function stays unknown.
 *
 * Threads:     any.      x86-64 alone.
 */
#ifndef KY_UNWIND_PLAIN_CODE_H
#define KY_UNWIND_PLAIN_CODE_H

#include <stddef.h>
#include <stdint.h>

#define KY_PLAIN_BYTES_MAX 512u
#define KY_PLAIN_ROWS_MAX 32u

struct ky_plain_row {
	uint32_t at; /* from the beginning */
	uint32_t rule;
};

struct ky_plain {
	uint32_t bytes; /* of the function */
	uint32_t row_count;
	struct ky_plain_row rows[KY_PLAIN_ROWS_MAX];
};

/* Bytes that only fill up, at the beginning of `code`. */
size_t ky_plain_padding(const uint8_t *code, size_t bytes);

/* A function at the beginning of `code`. Returns 0; -1: not one that is understood. */
int ky_plain_read(const uint8_t *code, size_t bytes, struct ky_plain *out);

#endif
