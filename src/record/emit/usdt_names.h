/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* usdt_names.h - texts that a tracer may read while the program runs: places, and names by their
 * ids.
 *
 * Invariants:  what is here was written, so its pages are there; it is never freed nor changed.
 * Memory:      1 MiB of texts, 384 KiB for 16,384 names, touched as used. What does not fit is
 *              unknown.
 * Threads:     any, without a lock.      Signals: safe.
 */
#ifndef KY_RECORD_EMIT_USDT_NAMES_H
#define KY_RECORD_EMIT_USDT_NAMES_H

#include <kymo/usdt.h>

#define KY_USDT_NAMES_MAX 16384u
#define KY_USDT_TEXT_BYTES_MAX 255u

struct ky_usdt_name {
	const struct kymo_usdt_place *place; /* as its text says it */
	const char *text;
	uint64_t code;
};

/* "", 0, 0. */
extern const struct kymo_usdt_place ky_usdt_nowhere;

/* Remembers a name that was given this id. */
void ky_usdt_name_add(uint32_t id, const char *text, size_t text_bytes, uint64_t code);

/* What is unknown is "" and 0, never NULL. */
struct ky_usdt_name ky_usdt_name_find(uint32_t id);

#endif
