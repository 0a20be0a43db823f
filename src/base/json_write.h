/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* json_write.h - JSON put together piece by piece: a key, then a value; the comma before it where
 * something stands before it. key NULL: an element of an array. Errors: kept in buf->failed.
 * Threads: owner.
 */
#ifndef KY_BASE_JSON_WRITE_H
#define KY_BASE_JSON_WRITE_H

#include <base/buf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The comma and the key alone: the caller writes the value. */
void ky_json_key(struct ky_buf *out, const char *key);

void ky_json_open(struct ky_buf *out, const char *key, const char *bracket); /* "{" or "[" */
void ky_json_close(struct ky_buf *out, const char *bracket);                 /* "}" or "]" */
void ky_json_number(struct ky_buf *out, const char *key, uint64_t value);
void ky_json_signed(struct ky_buf *out, const char *key, int64_t value);
void ky_json_flag(struct ky_buf *out, const char *key, bool value);
void ky_json_text(struct ky_buf *out, const char *key, const char *value);
void ky_json_text_or_null(struct ky_buf *out, const char *key, const char *value); /* NULL: null */
/* As a string: readers of JSON round numbers beyond 2^53. */
void ky_json_number_text(struct ky_buf *out, const char *key, uint64_t value);
void ky_json_null(struct ky_buf *out, const char *key);
void ky_json_number_or_null(struct ky_buf *out, const char *key, bool is_known, uint64_t value);

/* A JSON string with quotes; bytes that are not UTF-8 become U+FFFD. */
void ky_json_string(struct ky_buf *out, const char *text, size_t text_bytes);

#endif
