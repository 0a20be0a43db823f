/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* utf8.h - text that came from outside made fit for readers that insist on UTF-8.
 * Threads: any. Signals: safe.
 */
#ifndef KY_BASE_UTF8_H
#define KY_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the well-formed UTF-8 sequence at the start of count > 0 bytes; 0 if there is none. */
size_t ky_utf8_sequence(const uint8_t *at, size_t count);

/* Replaces every byte that is not part of a well-formed sequence by '?'. The length stays. */
void ky_utf8_clean(uint8_t *text, size_t count);

#endif
