/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* quantity.h - sizes, durations and numbers as text: the same in every option, setting and file.
 *
 *   SIZE      65536, 64K, 32M, 2G, 1T: powers of 1,024; also 64k, 64KiB
 *   DURATION  1.5s, 20ms, 3us, 7ns, 2m, 1h: up to nine decimals; 0 needs no unit
 *   number    digits alone
 *
 * Errors:  -EINVAL; -ERANGE: more than 64 bits hold. A sign or a blank is an error.
 * Threads: any.
 */
#ifndef KY_BASE_QUANTITY_H
#define KY_BASE_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

int ky_quantity_bytes(const char *text, uint64_t *out);
int ky_quantity_ns(const char *text, uint64_t *out);
int ky_quantity_number(const char *text, uint64_t *out);

/* One of the three. */
typedef int (*ky_quantity_fn)(const char *text, uint64_t *out);

/* True: text is such a quantity from least to most. */
bool ky_quantity_in(ky_quantity_fn read, const char *text, uint64_t least, uint64_t most,
		    uint64_t *out);
/* The same, or "off": 0. */
bool ky_quantity_or_off(ky_quantity_fn read, const char *text, uint64_t least, uint64_t most,
			uint64_t *out);

/* Digits after a decimal point, as *out of *scale (a power of ten, at most 1e9); further digits
 * are passed over. Moves *text to the first byte that is no digit. */
void ky_quantity_fraction(const char **text, uint64_t *out, uint64_t *scale);

#define KY_QUANTITY_TEXT_BYTES 32u

/* As the functions above take it, exactly: "1.5ms", "90s", "1h"; "64K", "1500". text: of
 * KY_QUANTITY_TEXT_BYTES. Returns text. */
const char *ky_quantity_ns_text(char *text, uint64_t ns);
const char *ky_quantity_bytes_text(char *text, uint64_t bytes);

#endif
