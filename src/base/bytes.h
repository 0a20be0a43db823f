/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bytes.h - little-endian numbers in unaligned bytes, and unsigned LEB128.
 *
 * Invariants:  ky_varint_put writes at most KY_VARINT_BYTES_MAX bytes; ky_varint_get refuses an
 *              encoding that is longer, cut short, or does not fit 64 bits.
 * Threads: any. Signals: safe.
 */
#ifndef KY_BASE_BYTES_H
#define KY_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KY_VARINT_BYTES_MAX 10u

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "numbers are copied as they lie in memory");

static inline uint16_t ky_get_u16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline uint32_t ky_get_u32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline uint64_t ky_get_u64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline uint8_t *ky_put_u16(uint8_t *at, uint16_t value)
{
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

static inline uint8_t *ky_put_u32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

static inline uint8_t *ky_put_u64(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

/* Room for KY_VARINT_BYTES_MAX bytes at `at`; those after the last one may be touched. Returns
 * after the last byte. */
static inline uint8_t *ky_varint_put(uint8_t *at, uint64_t value)
{
	/* One or two bytes without a branch on which: ids and lengths straddle 127 at random. */
	if (__builtin_expect(value < 0x4000, 1)) {
		uint32_t is_long = value > 0x7f;

		/* The upper seven bits move up by one: added once more, they do. */
		ky_put_u16(at, (uint16_t)(value + (value & ~UINT64_C(0x7f)) + (is_long << 7)));
		return at + 1 + is_long;
	}
	while (value >= 0x80) {
		*at++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*at++ = (uint8_t)value;
	return at;
}

/* Returns bytes read, 1..10; 0: the number continues after the bytes; -1: it does not fit 64
 * bits */
static inline int ky_varint_get(const uint8_t *at, size_t count, uint64_t *value)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < KY_VARINT_BYTES_MAX; i++) {
		if (i == count)
			return 0;
		if (i == KY_VARINT_BYTES_MAX - 1 && at[i] > 1)
			return -1;
		sum |= (uint64_t)(at[i] & 0x7f) << (7 * i);
		if (at[i] < 0x80) {
			*value = sum;
			return (int)i + 1;
		}
	}
	return -1;
}

#endif
