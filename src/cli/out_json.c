/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/out_json.h>

#include <analyze/report.h>
#include <cli/out_text.h>
#include <inttypes.h>
#include <string.h>

static void put_key(struct ky_buf *out, const char *key)
{
	if (out->used > 0 && strchr("{[\n", out->bytes[out->used - 1]) == NULL)
		ky_out_text(out, ",");
	if (key != NULL) {
		ky_json_string(out, key, strlen(key));
		ky_out_text(out, ":");
	}
}

void ky_json_open(struct ky_buf *out, const char *key, const char *bracket)
{
	put_key(out, key);
	ky_out_text(out, bracket);
}

void ky_json_close(struct ky_buf *out, const char *bracket)
{
	ky_out_text(out, bracket);
}

void ky_json_number(struct ky_buf *out, const char *key, uint64_t value)
{
	put_key(out, key);
	ky_out_format(out, "%" PRIu64, value);
}

void ky_json_signed(struct ky_buf *out, const char *key, int64_t value)
{
	put_key(out, key);
	ky_out_format(out, "%" PRId64, value);
}

void ky_json_flag(struct ky_buf *out, const char *key, bool value)
{
	put_key(out, key);
	ky_out_text(out, value ? "true" : "false");
}

void ky_json_text(struct ky_buf *out, const char *key, const char *value)
{
	put_key(out, key);
	ky_json_string(out, value, strlen(value));
}

void ky_json_null(struct ky_buf *out, const char *key)
{
	put_key(out, key);
	ky_out_text(out, "null");
}
