/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* out_json.h - JSON put together piece by piece: a key, then a value; the comma before it where
 * something stands before it. key NULL: an element of an array. Errors: kept in buf->failed.
 * Threads: owner.
 */
#ifndef KY_CLI_OUT_JSON_H
#define KY_CLI_OUT_JSON_H

#include <base/buf.h>
#include <stdbool.h>
#include <stdint.h>

void ky_json_open(struct ky_buf *out, const char *key, const char *bracket); /* "{" or "[" */
void ky_json_close(struct ky_buf *out, const char *bracket);                 /* "}" or "]" */
void ky_json_number(struct ky_buf *out, const char *key, uint64_t value);
void ky_json_signed(struct ky_buf *out, const char *key, int64_t value);
void ky_json_flag(struct ky_buf *out, const char *key, bool value);
void ky_json_text(struct ky_buf *out, const char *key, const char *value);
void ky_json_null(struct ky_buf *out, const char *key);

#endif
