/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/json_write.h>
#include <base/utf8.h>
#include <base/text.h>
#include <string.h>

void ky_json_string(struct ky_buf *out, const char *text, size_t text_bytes)
{
	static const char hex[] = "0123456789abcdef";
	const uint8_t *at = (const uint8_t *)text, *end = at + text_bytes;

	ky_text(out, "\"");
	while (at < end) {
		size_t count = ky_utf8_sequence(at, (size_t)(end - at));
		char escape[7] = {'\\', 'u', '0', '0', 0, 0, 0};

		if (count == 0) {
			ky_text(out, "\xef\xbf\xbd");
			at++;
			continue;
		}
		if (*at == '"' || *at == '\\') {
			ky_text(out, "\\");
			ky_buf_append(out, at, 1);
		} else if (*at < 0x20 || *at == 0x7f) {
			escape[4] = hex[*at >> 4];
			escape[5] = hex[*at & 15];
			ky_text(out, escape);
		} else {
			ky_buf_append(out, at, count);
		}
		at += count;
	}
	ky_text(out, "\"");
}

void ky_json_key(struct ky_buf *out, const char *key)
{
	uint8_t last = out->used > 0 && out->bytes ? out->bytes[out->used - 1] : '{';

	if (last != '{' && last != '[' && last != '\n')
		ky_text(out, ",");
	if (key != NULL) {
		ky_json_string(out, key, strlen(key));
		ky_text(out, ":");
	}
}

void ky_json_open(struct ky_buf *out, const char *key, const char *bracket)
{
	ky_json_key(out, key);
	ky_text(out, bracket);
}

void ky_json_close(struct ky_buf *out, const char *bracket)
{
	ky_text(out, bracket);
}

void ky_json_number(struct ky_buf *out, const char *key, uint64_t value)
{
	ky_json_key(out, key);
	ky_text_u64(out, value);
}

void ky_json_signed(struct ky_buf *out, const char *key, int64_t value)
{
	ky_json_key(out, key);
	if (value < 0)
		ky_text(out, "-");
	ky_text_u64(out, value < 0 ? UINT64_C(0) - (uint64_t)value : (uint64_t)value);
}

void ky_json_flag(struct ky_buf *out, const char *key, bool value)
{
	ky_json_key(out, key);
	ky_text(out, value ? "true" : "false");
}

void ky_json_text(struct ky_buf *out, const char *key, const char *value)
{
	ky_json_key(out, key);
	ky_json_string(out, value, strlen(value));
}

void ky_json_null(struct ky_buf *out, const char *key)
{
	ky_json_key(out, key);
	ky_text(out, "null");
}

void ky_json_text_or_null(struct ky_buf *out, const char *key, const char *value)
{
	if (value)
		ky_json_text(out, key, value);
	else
		ky_json_null(out, key);
}

void ky_json_number_text(struct ky_buf *out, const char *key, uint64_t value)
{
	ky_json_key(out, key);
	ky_text(out, "\"");
	ky_text_u64(out, value);
	ky_text(out, "\"");
}

void ky_json_number_or_null(struct ky_buf *out, const char *key, bool is_known, uint64_t value)
{
	if (is_known)
		ky_json_number(out, key, value);
	else
		ky_json_null(out, key);
}
