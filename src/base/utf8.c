/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/utf8.h>

/* Range of the second byte by the first one: excludes overlong forms, surrogates and > U+10FFFF. */
static int is_second_ok(uint8_t first, uint8_t second)
{
	uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;

	return second >= low && second <= high;
}

size_t ky_utf8_sequence(const uint8_t *at, size_t count)
{
	uint8_t first = at[0];
	size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;

	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4 || count < length || !is_second_ok(first, at[1]))
		return 0;
	for (size_t i = 2; i < length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	}
	return length;
}

void ky_utf8_clean(uint8_t *text, size_t count)
{
	size_t at = 0;

	while (at < count) {
		size_t length = ky_utf8_sequence(text + at, count - at);

		if (!length)
			text[at] = '?';
		at += length ? length : 1;
	}
}
