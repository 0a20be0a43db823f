/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* eh_frame_table.h - the sorted table in front of .eh_frame that a linker makes, for inputs that
 * are .eh_frame alone: .eh_frame lies at FRAMES, the table HEADER_BYTES in front of it. */
#ifndef KY_FUZZ_EH_FRAME_TABLE_H
#define KY_FUZZ_EH_FRAME_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES 0x20000u
#define FRAMES_BYTES_MAX 0x8000u
#define ENTRIES_MAX 512u
#define HEADER_BYTES (12u + ENTRIES_MAX * 8u)

struct pair {
	int32_t start, entry; /* from the beginning of the table */
};

static inline int by_start(const void *a, const void *b)
{
	const struct pair *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

/* As a linker does it, for functions whose place is told from the place of the number itself. */
static inline size_t make_table(uint8_t *out, const uint8_t *frames, size_t count)
{
	static struct pair pairs[ENTRIES_MAX];
	uint8_t head[12] = {1, 0x1b, 0x03, 0x3b};
	uint32_t used = 0, length, back, table = FRAMES - HEADER_BYTES;
	int32_t start;

	for (size_t at = 0; at + 12 <= count && used < ENTRIES_MAX; at += 4 + (size_t)length) {
		memcpy(&length, frames + at, 4);
		memcpy(&back, frames + at + 4, 4);
		memcpy(&start, frames + at + 8, 4);
		if (length > count)
			break;
		if (back != 0)
			pairs[used++] = (struct pair){
				(int32_t)((uint32_t)start + FRAMES + (uint32_t)at + 8 - table),
				(int32_t)(FRAMES + (uint32_t)at - table)};
	}
	qsort(pairs, used, sizeof(pairs[0]), by_start);
	memcpy(head + 8, &used, sizeof(used));
	memcpy(out, head, sizeof(head));
	memcpy(out + sizeof(head), pairs, used * sizeof(pairs[0]));
	return sizeof(head) + used * sizeof(pairs[0]);
}

#endif
