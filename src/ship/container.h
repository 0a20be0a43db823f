/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* container.h - what a trace is wrapped in, known by its first bytes.
 *
 * Threads: any.      Signals: safe.
 */
#ifndef KY_SHIP_CONTAINER_H
#define KY_SHIP_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum ky_container {
	KY_CONTAINER_NONE, /* no trace */
	KY_CONTAINER_RAW,
	KY_CONTAINER_GZIP,
	KY_CONTAINER_ZSTD
};

/* Bytes that ky_container_of() wants to see. */
#define KY_CONTAINER_MAGIC_BYTES 4u

static inline enum ky_container ky_container_of(const uint8_t *bytes, size_t count)
{
	static const uint8_t zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
	static const uint8_t skip_magic[3] = {0x2a, 0x4d, 0x18};

	if (count >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b)
		return KY_CONTAINER_GZIP;
	if (count >= 4 && (memcmp(bytes, zstd_magic, 4) == 0 ||
			   ((bytes[0] & 0xf0) == 0x50 && memcmp(bytes + 1, skip_magic, 3) == 0)))
		return KY_CONTAINER_ZSTD;
	if (count >= 4 && memcmp(bytes, "TRC\0", 4) == 0)
		return KY_CONTAINER_RAW;
	return KY_CONTAINER_NONE;
}

/* All there is of a file may be the beginning of a magic: it was truncated there. */
static inline bool ky_container_is_truncated(const uint8_t *bytes, size_t count)
{
	return count && count < 4 &&
	       (memcmp(bytes, "TRC", count < 3 ? count : 3) == 0 ||
		memcmp(bytes, "\x28\xb5\x2f", count) == 0 || bytes[0] == 0x1f);
}

#endif
