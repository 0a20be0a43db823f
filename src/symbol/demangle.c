/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <symbol/demangle.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct writer {
	char *out;
	size_t capacity, used;
	bool failed;
};

static void put(struct writer *writer, const char *text, size_t count)
{
	if (writer->failed || count >= writer->capacity - writer->used) {
		writer->failed = true;
		return;
	}
	memcpy(writer->out + writer->used, text, count);
	writer->used += count;
	writer->out[writer->used] = '\0';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void put_code_point(struct writer *writer, uint32_t code)
{
	char utf8[4];
	size_t count = 0;

	if (code < 0x20 || code == 0x7f || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
		writer->failed = true;
		return;
	}
	if (code < 0x80) {
		utf8[count++] = (char)code;
	} else if (code < 0x800) {
		utf8[count++] = (char)(0xc0 | code >> 6);
		utf8[count++] = (char)(0x80 | (code & 0x3f));
	} else if (code < 0x10000) {
		utf8[count++] = (char)(0xe0 | code >> 12);
		utf8[count++] = (char)(0x80 | (code >> 6 & 0x3f));
		utf8[count++] = (char)(0x80 | (code & 0x3f));
	} else {
		utf8[count++] = (char)(0xf0 | code >> 18);
		utf8[count++] = (char)(0x80 | (code >> 12 & 0x3f));
		utf8[count++] = (char)(0x80 | (code >> 6 & 0x3f));
		utf8[count++] = (char)(0x80 | (code & 0x3f));
	}
	put(writer, utf8, count);
}

/* "$LT$" and its kin; text stands behind the first "$", count bytes up to the second. */
static bool put_escape(struct writer *writer, const char *text, size_t count)
{
	static const struct {
		char name[3];
		char text;
	} escapes[] = {{"SP", '@'}, {"BP", '*'}, {"RF", '&'}, {"LT", '<'},
		       {"GT", '>'}, {"LP", '('}, {"RP", ')'}, {"C", ','}};
	uint32_t code = 0;
	size_t i;

	for (i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
		if (strlen(escapes[i].name) != count || memcmp(escapes[i].name, text, count) != 0)
			continue;
		put(writer, &escapes[i].text, 1);
		return true;
	}
	if (count < 2 || count > 7 || text[0] != 'u')
		return false;
	for (i = 1; i < count; i++) {
		if (hex_digit(text[i]) < 0)
			return false;
		code = code << 4 | (uint32_t)hex_digit(text[i]);
	}
	put_code_point(writer, code);
	return true;
}

static void put_identifier(struct writer *writer, const char *text, size_t count)
{
	size_t at = 0;

	/* A leading "_" only keeps the identifier from starting with "$". */
	if (count >= 2 && text[0] == '_' && text[1] == '$')
		at = 1;
	while (at < count && !writer->failed) {
		const char *end;

		if (text[at] == '$') {
			end = memchr(text + at + 1, '$', count - at - 1);
			if (end == NULL ||
			    !put_escape(writer, text + at + 1, (size_t)(end - text) - at - 1)) {
				writer->failed = true;
				return;
			}
			at = (size_t)(end - text) + 1;
		} else if (text[at] == '.' && at + 1 < count && text[at + 1] == '.') {
			put(writer, "::", 2);
			at += 2;
		} else {
			if ((unsigned char)text[at] < 0x20 || text[at] == 0x7f)
				writer->failed = true;
			put(writer, text + at, 1);
			at++;
		}
	}
}

static bool is_hash(const char *text, size_t count)
{
	size_t i;

	if (count != 17 || text[0] != 'h')
		return false;
	for (i = 1; i < count; i++)
		if (hex_digit(text[i]) < 0)
			return false;
	return true;
}

static size_t demangle_legacy(const char *symbol, size_t symbol_bytes, char *out, size_t capacity)
{
	struct writer writer = {.out = out, .capacity = capacity};
	const char *part = NULL;
	size_t part_bytes = 0, at = 3;
	bool is_first = true;

	/* C++ looks the same up to the hash, so the last part decides whether this is Rust at all.
	 */
	while (at < symbol_bytes && symbol[at] != 'E') {
		size_t count = 0, digits = 0;

		while (at < symbol_bytes && symbol[at] >= '0' && symbol[at] <= '9' && digits < 7) {
			count = count * 10 + (size_t)(symbol[at] - '0');
			at++;
			digits++;
		}
		if (digits == 0 || count == 0 || count > symbol_bytes - at)
			return 0;
		if (part != NULL) {
			if (!is_first)
				put(&writer, "::", 2);
			put_identifier(&writer, part, part_bytes);
			is_first = false;
		}
		part = symbol + at;
		part_bytes = count;
		at += count;
	}
	if (at >= symbol_bytes || is_first || !is_hash(part, part_bytes) || writer.failed)
		return 0;
	return writer.used;
}

size_t ky_demangle(const char *symbol, size_t symbol_bytes, char *out, size_t capacity)
{
	size_t bytes = 0;

	if (capacity == 0)
		return 0;
	out[0] = '\0';
	if (symbol_bytes > 3 && memcmp(symbol, "_ZN", 3) == 0)
		bytes = demangle_legacy(symbol, symbol_bytes, out, capacity);
	else if (symbol_bytes > 2 && memcmp(symbol, "_R", 2) == 0)
		bytes = ky_demangle_v0(symbol, symbol_bytes, out, capacity);
	out[bytes] = '\0'; /* nothing of a name that broke off in the middle */
	return bytes;
}
