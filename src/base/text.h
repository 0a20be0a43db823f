/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* text.h - sentences and JSON put together from pieces, without printf: the engine also runs where
 * there is no C library; and two questions to a text. Errors: kept in buf->failed.
 * Threads: owner.
 */
#ifndef KY_BASE_TEXT_H
#define KY_BASE_TEXT_H

#include <base/buf.h>
#include <stdbool.h>
#include <stdint.h>

void ky_text(struct ky_buf *out, const char *text);
void ky_text_u64(struct ky_buf *out, uint64_t number);

/* Copies what fits of a finished sentence into a caller's buffer, always NUL-terminated. */
void ky_text_copy(char *out, size_t out_bytes, const struct ky_buf *text);

/* The two, one after the other; the caller's, for ky_free(). NULL: memory is out. */
char *ky_text_join(const char *before, const char *after);

bool ky_text_begins(const char *text, const char *prefix);
bool ky_text_contains(const char *text, const char *part);

#endif
