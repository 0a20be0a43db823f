/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/answer.h>

#include <string.h>

/* memmem() with a bound on both sides. Returns the offset after it, or count + 1. */
static size_t find_after(const uint8_t *bytes, size_t count, const char *text)
{
	size_t text_bytes = strlen(text);
	const uint8_t *found = memmem(bytes, count, text, text_bytes);

	return found ? (size_t)(found - bytes) + text_bytes : count + 1;
}

bool ky_answer_xml(const uint8_t *bytes, size_t count, const char *tag, char *out, size_t out_bytes)
{
	size_t tag_bytes = strlen(tag), from = 0, used = 0, at;

	out[0] = '\0';
	if (!count) /* no bytes have no address */
		return false;
	for (;;) {
		at = from + find_after(bytes + from, count - from, "<");
		if (at > count || count - at <= tag_bytes)
			return false;
		from = at;
		if (memcmp(bytes + at, tag, tag_bytes) == 0 && bytes[at + tag_bytes] == '>')
			break;
	}
	for (at += tag_bytes + 1; at < count && bytes[at] != '<'; at++) {
		if (bytes[at] < 0x20 || bytes[at] > 0x7e || bytes[at] == '&' ||
		    used + 1 >= out_bytes) {
			out[0] = '\0';
			return false;
		}
		out[used++] = (char)bytes[at];
	}
	out[at < count ? used : 0] = '\0';
	return at < count;
}

static size_t skip_blanks(const uint8_t *bytes, size_t count, size_t at)
{
	while (at < count &&
	       (bytes[at] == ' ' || bytes[at] == '\t' || bytes[at] == '\n' || bytes[at] == '\r'))
		at++;
	return at;
}

static bool copy_string(const uint8_t *bytes, size_t count, size_t at, char *out, size_t out_bytes)
{
	size_t used = 0;

	for (; at < count && bytes[at] != '"'; at++) {
		if (bytes[at] == '\\' && ++at < count && bytes[at] != '/')
			break;
		if (at >= count || bytes[at] < 0x20 || bytes[at] > 0x7e || used + 1 >= out_bytes)
			break;
		out[used++] = (char)bytes[at];
	}
	if (at >= count || bytes[at] != '"')
		used = 0;
	out[used] = '\0';
	return used > 0;
}

/* Where the value under a key begins; count: there is none. */
static size_t find_value(const uint8_t *bytes, size_t count, const char *key)
{
	size_t key_bytes = strlen(key), from = 0, at;

	if (!count) /* no bytes have no address */
		return count;
	for (;;) {
		at = from + find_after(bytes + from, count - from, "\"");
		if (at > count || count - at <= key_bytes)
			return count;
		from = at;
		if (memcmp(bytes + at, key, key_bytes) != 0 || bytes[at + key_bytes] != '"')
			continue;
		at = skip_blanks(bytes, count, at + key_bytes + 1);
		if (at < count && bytes[at] == ':')
			return skip_blanks(bytes, count, at + 1);
	}
}

bool ky_answer_json(const uint8_t *bytes, size_t count, const char *key, char *out,
		    size_t out_bytes)
{
	size_t at = find_value(bytes, count, key);

	out[0] = '\0';
	return at < count && bytes[at] == '"' && copy_string(bytes, count, at + 1, out, out_bytes);
}

bool ky_answer_json_number(const uint8_t *bytes, size_t count, const char *key, uint64_t *out)
{
	size_t from = find_value(bytes, count, key), at = from;

	for (*out = 0; at < count && bytes[at] >= '0' && bytes[at] <= '9' && at - from < 18; at++)
		*out = 10 * *out + (bytes[at] - (uint64_t)'0');
	return at > from && at < count && strchr(" \t\r\n,}", bytes[at]) && bytes[at];
}
