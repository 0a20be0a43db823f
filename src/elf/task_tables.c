/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <elf/task_tables.h>

#include <elf.h>
#include <string.h>

#define NAME_BYTES 2048u
#define TABLE_WORDS KY_TASK_TABLE_WORDS
#define WAKER_WORDS 4u
#define FUNCTIONS 7u
#define OFFSET_MAX (1u << 20)
#define WORDS_AT_ONCE 256u
#define CLONE_BYTES 64u
#define CODE_BYTES_MIN 7u

bool ky_task_table_is_poll(const char *name)
{
	return strstr(name, "5tokio7runtime4task3raw4poll") ||
	       (strstr(name, "5tokio") && strstr(name, "7runtime4task3raw4poll"));
}

static bool is_poll_at(const struct ky_elf *elf, uint64_t address)
{
	char name[NAME_BYTES];
	size_t count;
	const struct ky_elf_symbol *at = ky_elf_symbols_at(elf, address, &count);

	for (size_t i = 0; i < count; i++)
		if (ky_elf_symbol_name(elf, &at[i], name, sizeof(name)) &&
		    ky_task_table_is_poll(name))
			return true;
	return false;
}

/* As linked, a program's addresses begin near 0, and any number may look like one of code, or any
 * address like an offset: what the loader changes distinguishes them. */
static bool is_address(const struct ky_elf *elf, uint64_t at, uint64_t word)
{
	return ky_elf_is_fixed(elf) ? ky_elf_is_code(elf, word) : ky_elf_is_relocated(elf, at);
}

bool ky_task_table_is_known(const struct ky_elf *elf, uint64_t address, const uint64_t words[10])
{
	uint64_t trailer = words[7], scheduler = words[8], id = words[9];

	for (size_t i = 0; i < FUNCTIONS; i++)
		if (!ky_elf_is_code(elf, words[i]) || !is_address(elf, address + 8 * i, words[i]))
			return false;
	for (size_t i = FUNCTIONS; i < TABLE_WORDS; i++)
		if (is_address(elf, address + 8 * i, words[i]))
			return false;
	return scheduler >= 32 && id >= scheduler && trailer > id && trailer < OFFSET_MAX &&
	       scheduler % 8 == 0 && id % 8 == 0 && trailer % 8 == 0 && id - scheduler <= 256;
}

/* Different functions that tables point to: kinds of task, but for those that the linker folded. */
static void count_named(struct ky_elf *elf, struct ky_task_tables *out)
{
	size_t count;
	const struct ky_elf_pointer *pointers = ky_elf_function_pointers(elf, &count);

	for (size_t i = 0; i < count; i++) {
		uint64_t words[TABLE_WORDS];
		size_t before = 0;

		if (!is_poll_at(elf, pointers[i].value))
			continue;
		while (before < i && pointers[before].value != pointers[i].value)
			before++;
		out->named += before == i;
		/* Of several pointers to it, slots of the GOT among them, one is the table's. */
		out->known += ky_elf_words(elf, pointers[i].address, words, TABLE_WORDS) ==
				      TABLE_WORDS &&
			      ky_task_table_is_known(elf, pointers[i].address, words);
	}
}

/* Is this address the table, or a word of data that holds it? */
static bool leads_to(const struct ky_elf *elf, uint64_t target, uint64_t table)
{
	uint64_t word;

	return target == table || (ky_elf_word(elf, target, &word) == 0 && word == table);
}

/* lea or mov of what lies at a distance from the next instruction; mov of a fixed address. */
static bool names(const struct ky_elf *elf, uint64_t address, const uint8_t *code, uint64_t table)
{
	int32_t distance;
	uint32_t fixed;

	memcpy(&fixed, code + 1, sizeof(fixed));
	if ((code[0] & 0xf8) == 0xb8 && fixed == table)
		return true;
	if ((code[0] & 0xf8) != 0x48 || (code[2] & 0xc7) != 0x05 ||
	    (code[1] != 0x8d && code[1] != 0x8b))
		return false;
	memcpy(&distance, code + 3, sizeof(distance));
	return leads_to(elf, address + CODE_BYTES_MIN + (uint64_t)(int64_t)distance, table);
}

/* A waker's clone adds 0x40 to the word at its argument by a locked instruction, and names its own
 * table: adapters/tokio/tokio_shape.h. */
static bool is_waker(const struct ky_elf *elf, uint64_t address, const uint64_t *words)
{
	static const uint8_t constant[] = {0x40, 0, 0, 0}, add[] = {0x0f, 0xc1};
	uint8_t code[CLONE_BYTES];
	bool has_constant = false, has_addition = false;
	size_t got;

	for (size_t i = 0; i < WAKER_WORDS; i++)
		if (!ky_elf_is_code(elf, words[i]))
			return false;
	got = ky_elf_read(elf, words[0], code, sizeof(code));
	for (size_t at = 0; at + CODE_BYTES_MIN <= got; at++) {
		has_constant |= ((code[at] & 0xf8) == 0xb8 &&
				 memcmp(code + at + 1, constant, sizeof(constant)) == 0) ||
				(code[at] == 0x6a && code[at + 1] == 0x40 &&
				 (code[at + 2] & 0xf8) == 0x58);
		has_addition |= has_constant && code[at] == 0xf0 && (code[at + 1] & 0xfb) == 0x48 &&
				memcmp(code + at + 2, add, sizeof(add)) == 0 &&
				(code[at + 4] & 0xc7) == 0x07;
		if (has_addition && names(elf, words[0] + at, code + at, address))
			return true;
	}
	return false;
}

static void count_shaped(const struct ky_elf *elf, const struct ky_elf_segment *segment,
			 struct ky_task_tables *out)
{
	uint64_t words[WORDS_AT_ONCE + TABLE_WORDS];
	uint64_t from = (segment->address + 7) & ~UINT64_C(7);
	uint64_t end = segment->address + segment->byte_count;

	while (from < end) {
		size_t got = ky_elf_words(elf, from, words, WORDS_AT_ONCE + TABLE_WORDS);
		size_t some = got < WORDS_AT_ONCE ? got : WORDS_AT_ONCE;

		if (got == 0)
			return;
		if (got > (end - from) / 8)
			got = (size_t)((end - from) / 8);
		for (size_t i = 0; i < some; i++) {
			if (!ky_elf_is_code(elf, words[i]))
				continue;
			out->shaped += i + TABLE_WORDS <= got &&
				       ky_task_table_is_known(elf, from + 8 * i, words + i);
			out->wakers += i + WAKER_WORDS <= got &&
				       is_waker(elf, from + 8 * i, words + i);
		}
		from += 8 * some;
	}
}

void ky_task_tables_count(struct ky_elf *elf, struct ky_task_tables *out)
{
	struct ky_elf_segment segment;

	memset(out, 0, sizeof(*out));
	count_named(elf, out);
	for (size_t i = 0; out->named == 0 && ky_elf_segment(elf, i, &segment); i++)
		if (segment.type == PT_GNU_RELRO ||
		    (segment.type == PT_LOAD && ky_elf_is_fixed(elf) &&
		     (segment.flags & (PF_R | PF_W | PF_X)) == PF_R))
			count_shaped(elf, &segment, out);
	if (out->wakers == 0)
		out->shaped = 0;
}
