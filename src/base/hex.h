/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* hex.h - hexadecimal digits, and the bytes that stand as %XX in addresses and keys.
 *
 * Threads: any. Signals: safe.
 */
#ifndef KY_BASE_HEX_H
#define KY_BASE_HEX_H

/* -1: it is none. */
static inline int ky_hex_digit(char digit)
{
	return digit >= '0' && digit <= '9' ? digit - '0' :
	       digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 :
	       digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 :
					      -1;
}

/* The byte that %XX at `at` stands for. -1: there is no %XX before end. */
static inline int ky_hex_percent(const char *at, const char *end)
{
	int high, low;

	if (end - at < 3 || at[0] != '%')
		return -1;
	high = ky_hex_digit(at[1]);
	low = ky_hex_digit(at[2]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

#endif
