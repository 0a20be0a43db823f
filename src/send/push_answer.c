/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/push_answer.h>

#include <base/bytes.h>
#include <string.h>

#define TEXT_BYTES_MIN 4u
#define FIELD_PARTIAL_SUCCESS 1u
#define FIELD_REJECTED 1u

/* A field of a message. Returns the bytes it took; 0: there is none, or it is damaged. value: of a
 * number; of bytes their count, and they stand at the end of what was taken. */
static size_t next_field(const uint8_t *bytes, size_t count, uint64_t *key, uint64_t *value)
{
	int first = ky_varint_get(bytes, count, key), second;
	size_t fixed;

	if (first <= 0)
		return 0;
	bytes += first;
	count -= (size_t)first;
	switch (*key & 7) {
	case 0:
		second = ky_varint_get(bytes, count, value);
		return second > 0 ? (size_t)first + (size_t)second : 0;
	case 1:
	case 5:
		fixed = (*key & 7) == 1 ? 8 : 4;
		*value = 0;
		return count >= fixed ? (size_t)first + fixed : 0;
	case 2:
		second = ky_varint_get(bytes, count, value);
		if (second <= 0 || *value > count - (size_t)second)
			return 0;
		return (size_t)first + (size_t)second + (size_t)*value;
	default:
		return 0;
	}
}

static uint64_t read_partial(const uint8_t *bytes, size_t count)
{
	uint64_t key, value, rejected = 0;
	size_t used;

	for (; (used = next_field(bytes, count, &key, &value)) > 0; bytes += used, count -= used)
		if (key == (FIELD_REJECTED << 3 | 0) && value <= INT64_MAX)
			rejected = value;
	return rejected;
}

uint64_t ky_push_answer_rejected(const uint8_t *bytes, size_t count)
{
	uint64_t key, value, rejected = 0;
	size_t used;

	for (; (used = next_field(bytes, count, &key, &value)) > 0; bytes += used, count -= used)
		if (key == (FIELD_PARTIAL_SUCCESS << 3 | 2))
			rejected = read_partial(bytes + used - value, (size_t)value);
	return rejected;
}

void ky_push_answer_text(const uint8_t *bytes, size_t count, char *out, size_t out_bytes)
{
	size_t best = 0, best_bytes = 0, from = 0;

	for (size_t at = 0; at <= count; at++) {
		if (at < count && bytes[at] >= ' ' && bytes[at] <= '~')
			continue;
		if (at - from > best_bytes) {
			best = from;
			best_bytes = at - from;
		}
		from = at + 1;
	}
	if (best_bytes < TEXT_BYTES_MIN)
		best_bytes = 0;
	if (best_bytes >= out_bytes)
		best_bytes = out_bytes - 1;
	if (best_bytes)
		memcpy(out, bytes + best, best_bytes);
	out[best_bytes] = '\0';
}
