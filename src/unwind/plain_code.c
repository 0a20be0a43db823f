/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <stdbool.h>
#include <string.h>
#include <unwind/plain_code.h>
#include <unwind/unwind_table.h>

#define JUMPS_MAX 8u
#define WORDS_MAX 4096

enum {
	RBX = 3,
	RSP = 4,
	RBP = 5,
	REX_B = 1,
	REX_R = 4,
	REX_W = 8
};

/* Words between sp and the return address; where the caller's fp and rbx are. */
struct code_state {
	int32_t depth;
	uint32_t fp, second; /* words below the CFA; 0: in the register */
};

struct jump {
	uint32_t to;
	struct code_state state;
};

struct code_reader {
	const uint8_t *code;
	size_t bytes;
	uint32_t at;
	bool is_bad;
	bool is_end; /* nothing continues after this instruction */
	struct code_state state;
	struct jump jumps[JUMPS_MAX];
	uint32_t jump_count;
};

size_t ky_plain_padding(const uint8_t *code, size_t bytes)
{
	size_t at = 0;

	while (at < bytes && (code[at] == 0xcc || code[at] == 0x90))
		at++;
	return at;
}

static uint32_t next(struct code_reader *reader)
{
	if (reader->at >= reader->bytes) {
		reader->is_bad = true;
		return 0;
	}
	return reader->code[reader->at++];
}

static int32_t next_number(struct code_reader *reader, uint32_t bytes)
{
	uint32_t value = 0;

	for (uint32_t i = 0; i < bytes; i++)
		value |= next(reader) << (8 * i);
	return bytes == 1 ? (int8_t)value : (int32_t)value;
}

/* A register is written. sp never by the way; fp and rbx only once they are saved. */
static void write_register(struct code_reader *reader, uint32_t idx)
{
	if (idx == RSP || (idx == RBP && reader->state.fp == 0) ||
	    (idx == RBX && reader->state.second == 0))
		reader->is_bad = true;
}

struct operand {
	uint32_t reg, rm;
	bool is_register; /* rm is one */
};

static struct operand next_operand(struct code_reader *reader, uint32_t rex)
{
	uint32_t byte = next(reader), mod = byte >> 6;
	struct operand operand = {.reg = (byte >> 3 & 7) | (rex & REX_R ? 8 : 0),
				  .rm = (byte & 7) | (rex & REX_B ? 8 : 0),
				  .is_register = mod == 3};

	if (mod == 3)
		return operand;
	if ((byte & 7) == 4 && (next(reader) & 7) == 5 && mod == 0)
		mod = 2; /* no base: 32 bits follow */
	if ((byte & 7) == 5 && mod == 0)
		mod = 2; /* from the pc */
	if (mod)
		(void)next_number(reader, mod == 1 ? 1 : 4);
	return operand;
}

static void move_sp(struct code_reader *reader, int32_t bytes)
{
	if (bytes % 8)
		reader->is_bad = true;
	reader->state.depth += bytes / 8;
	if (reader->state.depth < 0 || reader->state.depth > WORDS_MAX)
		reader->is_bad = true;
}

/* add, or, .., sub, .., cmp with a number. */
static void take_arithmetic(struct code_reader *reader, uint32_t rex, uint32_t number_bytes)
{
	struct operand operand = next_operand(reader, rex);
	int32_t number = next_number(reader, number_bytes);
	uint32_t kind = operand.reg & 7;

	if (!operand.is_register || kind == 7)
		return;
	if (operand.rm != RSP) {
		write_register(reader, operand.rm);
		return;
	}
	if (number > WORDS_MAX * 8 || number < -WORDS_MAX * 8 || !(rex & REX_W) ||
	    (kind != 0 && kind != 5))
		reader->is_bad = true;
	else
		move_sp(reader, kind == 5 ? number : -number);
}

static void take_push(struct code_reader *reader, uint32_t idx)
{
	move_sp(reader, 8);
	if (idx == RBP && reader->state.fp == 0)
		reader->state.fp = (uint32_t)reader->state.depth + 1;
	if (idx == RBX && reader->state.second == 0)
		reader->state.second = (uint32_t)reader->state.depth + 1;
}

static void take_pop(struct code_reader *reader, uint32_t idx)
{
	uint32_t place = (uint32_t)reader->state.depth + 1;

	if (idx == RSP)
		reader->is_bad = true;
	else if (idx == RBP && reader->state.fp == place)
		reader->state.fp = 0;
	else if (idx == RBX && reader->state.second == place)
		reader->state.second = 0;
	else
		write_register(reader, idx);
	move_sp(reader, -8);
}

static void take_jump(struct code_reader *reader, int32_t distance)
{
	uint32_t to = reader->at + (uint32_t)distance;

	if (distance < 0 || to >= reader->bytes || reader->jump_count == JUMPS_MAX)
		reader->is_bad = true;
	else
		reader->jumps[reader->jump_count++] = (struct jump){to, reader->state};
}

static void take_end(struct code_reader *reader)
{
	if (reader->state.depth != 0 || reader->state.fp || reader->state.second)
		reader->is_bad = true;
	reader->is_end = true;
}

static void take_two_bytes(struct code_reader *reader, uint32_t rex)
{
	uint32_t code = next(reader);

	if (code >= 0x80 && code <= 0x8f)
		take_jump(reader, next_number(reader, 4));
	else if (code == 0x0b)
		reader->is_end = true; /* ud2: whatever the stack */
	else if (code == 0x1f)
		(void)next_operand(reader, rex);
	else
		reader->is_bad = true;
}

/* Instructions with an operand. False: not one of them. */
static bool take_with_operand(struct code_reader *reader, uint32_t code, uint32_t rex)
{
	struct operand operand;

	switch (code) {
	case 0x01: /* add, and, sub, xor, mov to rm */
	case 0x21:
	case 0x29:
	case 0x31:
	case 0x89:
	case 0xc7: /* mov number to rm */
		operand = next_operand(reader, rex);
		if (operand.is_register)
			write_register(reader, operand.rm);
		if (code == 0xc7)
			(void)next_number(reader, 4);
		return true;
	case 0x03: /* add, sub, xor, movsxd, mov, lea to reg */
	case 0x2b:
	case 0x33:
	case 0x63:
	case 0x8b:
	case 0x8d:
		operand = next_operand(reader, rex);
		write_register(reader, operand.reg);
		return true;
	case 0x39: /* cmp, cmp, test */
	case 0x3b:
	case 0x85:
		(void)next_operand(reader, rex);
		return true;
	case 0x81:
	case 0x83:
		take_arithmetic(reader, rex, code == 0x83 ? 1 : 4);
		return true;
	case 0xff:
		operand = next_operand(reader, rex);
		if ((operand.reg & 7) == 4)
			take_end(reader); /* jumps into another function */
		else if ((operand.reg & 7) != 2)
			reader->is_bad = true;
		return true;
	default:
		return false;
	}
}

static void take_instruction(struct code_reader *reader)
{
	uint32_t code = next(reader), rex = 0;

	if (code == 0xf3 && reader->bytes - reader->at >= 3 &&
	    memcmp(reader->code + reader->at, "\x0f\x1e\xfa", 3) == 0) {
		reader->at += 3; /* endbr64 */
		return;
	}
	if (code >= 0x40 && code <= 0x4f) {
		rex = code;
		code = next(reader);
	}
	if (code >= 0x50 && code <= 0x57)
		take_push(reader, (code & 7) | (rex & REX_B ? 8 : 0));
	else if (code >= 0x58 && code <= 0x5f)
		take_pop(reader, (code & 7) | (rex & REX_B ? 8 : 0));
	else if (code >= 0x70 && code <= 0x7f)
		take_jump(reader, next_number(reader, 1));
	else if (code >= 0xb8 && code <= 0xbf && !(rex & REX_W)) {
		write_register(reader, (code & 7) | (rex & REX_B ? 8 : 0));
		(void)next_number(reader, 4);
	} else if (code == 0xe8)
		(void)next_number(reader, 4);
	else if (code == 0xc3)
		take_end(reader);
	else if (code == 0x0f)
		take_two_bytes(reader, rex);
	else if (code != 0x90 && !take_with_operand(reader, code, rex))
		reader->is_bad = true;
}

static bool is_same(const struct code_state *a, const struct code_state *b)
{
	return a->depth == b->depth && a->fp == b->fp && a->second == b->second;
}

/* Whatever jumps here must find what came here by itself; after an end, something must. False:
 * the function is over, or bad. */
static bool arrive(struct code_reader *reader)
{
	bool is_reached = !reader->is_end, is_awaited = false;

	for (uint32_t i = 0; i < reader->jump_count; i++) {
		const struct jump *jump = &reader->jumps[i];

		is_awaited |= jump->to > reader->at;
		if (jump->to != reader->at)
			continue;
		if (is_reached && !is_same(&jump->state, &reader->state))
			reader->is_bad = true;
		reader->state = jump->state;
		is_reached = true;
	}
	/* Code that nothing leads to, with more to come: not for us. */
	if (!is_reached && is_awaited)
		reader->is_bad = true;
	reader->is_end = !is_reached;
	return is_reached && !reader->is_bad;
}

static void add_row(struct ky_plain *out, const struct code_reader *reader)
{
	struct ky_cfi_row row = {.cfa = KY_CFI_CFA_REGISTER, .cfa_register = KY_UNWIND_SP};
	struct ky_unwind_wide wide;
	uint32_t rule;

	row.cfa_offset = 8 * ((int64_t)reader->state.depth + 1);
	row.rules[KY_UNWIND_RA] = (struct ky_cfi_rule){KY_CFI_AT_CFA, 0, -8};
	if (reader->state.fp)
		row.rules[KY_UNWIND_FP] = (struct ky_cfi_rule){KY_CFI_AT_CFA, 0,
							       -8 * (int64_t)reader->state.fp};
	if (reader->state.second)
		row.rules[KY_UNWIND_SECOND] = (struct ky_cfi_rule){
			KY_CFI_AT_CFA, 0, -8 * (int64_t)reader->state.second};
	rule = ky_unwind_pack(&row, false, &wide);
	if (rule == KY_UNWIND_WIDE)
		rule = KY_UNWIND_BEYOND;
	if (out->row_count && out->rows[out->row_count - 1].rule == rule)
		return;
	out->rows[out->row_count++] = (struct ky_plain_row){reader->at, rule};
}

int ky_plain_read(const uint8_t *code, size_t bytes, struct ky_plain *out)
{
	struct code_reader reader = {.code = code, .bytes = bytes};

	out->bytes = out->row_count = 0;
	if (KY_UNWIND_LINKED)
		return -1;
	while (arrive(&reader)) {
		if (out->row_count == KY_PLAIN_ROWS_MAX)
			return -1;
		add_row(out, &reader);
		take_instruction(&reader);
		if (reader.is_bad)
			return -1;
	}
	out->bytes = reader.at;
	return reader.is_bad || reader.at == 0 ? -1 : 0;
}
