/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* fuzz_text.h - is this text as our encoder writes it? It mends what is not UTF-8. */
#ifndef KY_FUZZ_TEXT_H
#define KY_FUZZ_TEXT_H

#include <base/utf8.h>
#include <stdbool.h>
#include <stddef.h>

static inline bool fuzz_is_utf8(const uint8_t *text, size_t count)
{
	size_t at = 0, length;

	while (at < count) {
		length = ky_utf8_sequence(text + at, count - at);
		if (!length)
			return false;
		at += length;
	}
	return true;
}

#endif
