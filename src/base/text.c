/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/text.h>

#include <base/alloc.h>
#include <string.h>

void ky_text(struct ky_buf *out, const char *text)
{
	ky_buf_append(out, text, strlen(text));
}

void ky_text_u64(struct ky_buf *out, uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	ky_buf_append(out, digits + at, sizeof(digits) - at);
}

void ky_text_copy(char *out, size_t out_bytes, const struct ky_buf *text)
{
	size_t count = text->used;

	if (!out || out_bytes == 0)
		return;
	if (count > out_bytes - 1)
		count = out_bytes - 1;
	if (count)
		memcpy(out, text->bytes, count);
	out[count] = '\0';
}

char *ky_text_join(const char *before, const char *after)
{
	size_t before_bytes = strlen(before), after_bytes = strlen(after) + 1;
	char *out = ky_alloc(before_bytes + after_bytes);

	if (!out)
		return NULL;
	/* The zero is the second one's. NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
	memcpy(out, before, before_bytes);
	memcpy(out + before_bytes, after, after_bytes);
	return out;
}

bool ky_text_begins(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool ky_text_contains(const char *text, const char *part)
{
	size_t bytes = strlen(part);

	for (; *text; text++)
		if (*text == *part && strncmp(text, part, bytes) == 0)
			return true;
	return !bytes;
}
