/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <export/letter_codes.h>

#include <base/alloc.h>
#include <base/bytes.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS 257u /* 256 bytes and the end of the block */
#define END_OF_BLOCK 256u
#define CODE_BITS_MAX 15u
#define NODES (2 * LETTERS - 1)
#define HEAD_BYTES 256u /* of the stream and its table of codes */
#define ADLER_BASE 65521u
#define ADLER_RUN 5552u /* sums of so many bytes fit 32 bits */

struct letter {
	uint64_t count;
	uint32_t which;
};

struct code {
	uint16_t bits; /* the first one to be sent is the lowest */
	uint16_t length;
};

/* Too large for a stack. */
struct letter_table {
	uint64_t counts[LETTERS];
	struct letter letters[LETTERS]; /* that occur, ascending */
	uint64_t weights[NODES];
	uint16_t parents[NODES];
	uint8_t depths[NODES];
	uint8_t lengths[LETTERS];
	struct code codes[LETTERS];
};

/* ---- bits, the lowest first ---- */

struct bits {
	uint8_t *at;
	uint64_t waiting;
	uint32_t count; /* of them; at most 7 between calls */
};

static inline void settle(struct bits *bits)
{
	(void)ky_put_u64(bits->at, bits->waiting);
	bits->at += bits->count / 8;
	bits->waiting >>= bits->count & ~7u;
	bits->count &= 7;
}

static inline void add(struct bits *bits, uint32_t value, uint32_t length)
{
	bits->waiting |= (uint64_t)value << bits->count;
	bits->count += length;
}

/* ---- codes ---- */

static int by_count(const void *left, const void *right)
{
	const struct letter *a = left, *b = right;

	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	return a->which < b->which ? -1 : 1;
}

/* Huffman's, of the first `count` letters. Two queues: letters, and the nodes that were made, which
 * ascend by themselves. Returns the longest. */
static uint32_t measure(struct letter_table *table, uint32_t count)
{
	uint32_t leaf = 0, node = count, made = count, longest = 0;

	for (uint32_t i = 0; i < count; i++)
		table->weights[i] = table->letters[i].count;
	for (; made < 2 * count - 1; made++) {
		table->weights[made] = 0;
		for (int i = 0; i < 2; i++) {
			bool is_leaf = leaf < count &&
				       (node == made ||
					table->weights[leaf] <= table->weights[node]);
			uint32_t child = is_leaf ? leaf++ : node++;

			table->weights[made] += table->weights[child];
			table->parents[child] = (uint16_t)made;
		}
	}
	table->depths[made - 1] = 0;
	for (uint32_t i = made - 1; i-- > 0;) {
		table->depths[i] = (uint8_t)(table->depths[table->parents[i]] + 1);
		if (i < count) {
			table->lengths[table->letters[i].which] = table->depths[i];
			longest = longest > table->depths[i] ? longest : table->depths[i];
		}
	}
	return longest;
}

/* Where a code would be too long, rare letters count for more until it is not. */
static void make_lengths(struct letter_table *table)
{
	for (;;) {
		uint32_t count = 0;

		memset(table->lengths, 0, sizeof(table->lengths));
		for (uint32_t i = 0; i < LETTERS; i++)
			if (table->counts[i])
				table->letters[count++] = (struct letter){table->counts[i], i};
		qsort(table->letters, count, sizeof(table->letters[0]), by_count);
		if (count == 1) /* one code of no bits is none */
			table->lengths[table->letters[0].which] = 1;
		if (count == 1 || measure(table, count) <= CODE_BITS_MAX)
			return;
		for (uint32_t i = 0; i < LETTERS; i++)
			table->counts[i] = table->counts[i] / 2 + (table->counts[i] != 0);
	}
}

static uint32_t reversed(uint32_t code, uint32_t length)
{
	uint32_t result = 0;

	for (uint32_t i = 0; i < length; i++)
		result |= (code >> i & 1) << (length - 1 - i);
	return result;
}

/* RFC 1951, 3.2.2: of one length they ascend with the letter. */
static void make_codes(struct code *codes, const uint8_t *lengths)
{
	uint32_t of_length[CODE_BITS_MAX + 2] = {0}, next[CODE_BITS_MAX + 2] = {0};

	for (uint32_t i = 0; i < LETTERS; i++)
		of_length[lengths[i]]++;
	of_length[0] = 0;
	for (uint32_t length = 1; length <= CODE_BITS_MAX; length++)
		next[length] = (next[length - 1] + of_length[length - 1]) << 1;
	for (uint32_t i = 0; i < LETTERS; i++) {
		codes[i].length = lengths[i];
		if (lengths[i])
			codes[i].bits = (uint16_t)reversed(next[lengths[i]]++, lengths[i]);
	}
}

/* ---- the stream ---- */

/* The one block, with codes of its own. Their lengths, 0 to 15, are four bits each. */
static void put_table(struct bits *bits, const uint8_t *lengths)
{
	add(bits, 1, 1);  /* the last block */
	add(bits, 2, 2);  /* with codes */
	add(bits, 0, 5);  /* for 257 letters */
	add(bits, 1, 5);  /* for two distances, which do not occur */
	add(bits, 15, 4); /* for all lengths of codes, which follow */
	settle(bits);
	/* In the order 16 17 18 0 8 7 ..: what repeats others is not used. */
	for (uint32_t i = 0; i < 19; i++) {
		add(bits, i < 3 ? 0 : 4, 3);
		settle(bits);
	}
	for (uint32_t i = 0; i < LETTERS + 2; i++) {
		add(bits, reversed(i < LETTERS ? lengths[i] : 1, 4), 4);
		settle(bits);
	}
}

static void put_letters(struct bits *bits, const struct code *codes, const uint8_t *bytes,
			size_t count)
{
	size_t i = 0;

	for (; i + 3 <= count; i += 3) { /* 7 + 3 * 15 bits wait at most */
		for (size_t j = 0; j < 3; j++)
			add(bits, codes[bytes[i + j]].bits, codes[bytes[i + j]].length);
		settle(bits);
	}
	for (; i < count; i++) {
		add(bits, codes[bytes[i]].bits, codes[bytes[i]].length);
		settle(bits);
	}
	add(bits, codes[END_OF_BLOCK].bits, codes[END_OF_BLOCK].length);
	bits->count = (bits->count + 7) & ~7u;
	settle(bits);
}

static uint32_t adler32(const uint8_t *bytes, size_t count)
{
	uint32_t sum = 1, sums = 0;

	while (count) {
		size_t run = count < ADLER_RUN ? count : ADLER_RUN;

		for (size_t i = 0; i < run; i++) {
			sum += bytes[i];
			sums += sum;
		}
		sum %= ADLER_BASE;
		sums %= ADLER_BASE;
		bytes += run;
		count -= run;
	}
	return sums << 16 | sum;
}

static void put(struct ky_buf *out, struct letter_table *table, const uint8_t *bytes, size_t count)
{
	uint32_t sum = adler32(bytes, count);
	struct bits bits = {.waiting = 0};
	uint64_t bit_count = 0;

	for (size_t i = 0; i < count; i++)
		table->counts[bytes[i]]++;
	table->counts[END_OF_BLOCK] = 1;
	make_lengths(table);
	make_codes(table->codes, table->lengths);
	for (size_t i = 0; i < count; i++)
		bit_count += table->codes[bytes[i]].length;
	if (ky_buf_reserve(out, (size_t)(bit_count / 8) + HEAD_BYTES))
		return;
	bits.at = out->bytes + out->used;
	*bits.at++ = 0x78; /* deflate, of a window of 32 KiB; fastest */
	*bits.at++ = 0x01;
	put_table(&bits, table->lengths);
	put_letters(&bits, table->codes, bytes, count);
	for (int shift = 24; shift >= 0; shift -= 8)
		*bits.at++ = (uint8_t)(sum >> shift);
	out->used = (size_t)(bits.at - out->bytes);
}

void ky_letter_codes_put(struct ky_buf *out, const uint8_t *bytes, size_t count)
{
	struct letter_table *table = ky_alloc(sizeof(*table)); /* zeros */

	if (table)
		put(out, table, bytes, count);
	else if (!out->failed)
		out->failed = -ENOMEM;
	ky_free(table);
}
