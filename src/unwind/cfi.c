/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <string.h>
#include <unwind/cfi.h>

/* DW_EH_PE_*, low half: the format; high half: what it counts from. */
enum {
	PE_FORMAT = 0x0f,
	PE_ABSOLUTE = 0x00,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_BASE = 0x70,
	PE_PC_RELATIVE = 0x10,
	PE_DATA_RELATIVE = 0x30,
	PE_OMIT = 0xff
};

/* DW_OP_*, those that compilers and linkers write here. */
enum {
	OP_DEREF = 0x06,
	OP_PLUS = 0x22,
	OP_PLUS_ULEB = 0x23,
	OP_LITERAL_0 = 0x30,
	OP_LITERAL_31 = 0x4f,
	OP_REGISTER_0 = 0x70,
	OP_REGISTER_31 = 0x8f
};

static inline uint64_t take(struct ky_cfi_cursor *cursor, uint32_t bytes)
{
	uint64_t value = 0;

	if ((size_t)(cursor->end - cursor->at) < bytes) {
		cursor->is_bad = true;
		cursor->at = cursor->end;
		return 0;
	}
	memcpy(&value, cursor->at, bytes); /* little-endian, as all that we walk */
	cursor->at += bytes;
	return value;
}

static uint64_t take_long_uleb(struct ky_cfi_cursor *cursor)
{
	uint64_t value = 0;

	for (uint32_t shift = 0; shift < 64; shift += 7) {
		uint64_t byte = take(cursor, 1);

		value |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	cursor->is_bad = true;
	return 0;
}

/* Most take one byte. */
static inline uint64_t take_uleb(struct ky_cfi_cursor *cursor)
{
	if (cursor->at < cursor->end && !(*cursor->at & 0x80))
		return *cursor->at++;
	return take_long_uleb(cursor);
}

static int64_t take_sleb(struct ky_cfi_cursor *cursor)
{
	uint64_t value = 0;

	for (uint32_t shift = 0; shift < 64;) {
		uint64_t byte = take(cursor, 1);

		value |= (byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if ((byte & 0x40) && shift < 64)
			value |= ~UINT64_C(0) << shift;
		return (int64_t)value;
	}
	cursor->is_bad = true;
	return 0;
}

/* data_base: of DW_EH_PE_datarel, the start of .eh_frame_hdr. */
static uint64_t take_pointer(struct ky_cfi_cursor *cursor, uint8_t encoding, uint64_t data_base)
{
	uint64_t here = cursor->address + (uint64_t)(cursor->at - cursor->start), value;

	switch (encoding & PE_FORMAT) {
	case PE_ABSOLUTE:
	case PE_UDATA8:
	case PE_SDATA8:
		value = take(cursor, 8);
		break;
	case PE_UDATA4:
		value = take(cursor, 4);
		break;
	case PE_SDATA4:
		value = (uint64_t)(int64_t)(int32_t)take(cursor, 4);
		break;
	case PE_UDATA2:
		value = take(cursor, 2);
		break;
	case PE_SDATA2:
		value = (uint64_t)(int64_t)(int16_t)take(cursor, 2);
		break;
	default:
		cursor->is_bad = true;
		return 0;
	}
	if ((encoding & PE_BASE) == PE_PC_RELATIVE)
		return value + here;
	return (encoding & PE_BASE) == PE_DATA_RELATIVE ? value + data_base : value;
}

void ky_cfi_reset(struct ky_cfi_machine *machine)
{
	machine->common_address = 0;
}

bool ky_cfi_index(const struct ky_cfi_source *source, uint64_t *table, uint64_t *count)
{
	uint8_t bytes[24], head[4];
	struct ky_cfi_cursor cursor = {.at = bytes, .address = source->header, .start = bytes};

	if (source->header_bytes == 0)
		return false;
	cursor.end = bytes + source->read(source->ctx, source->header, bytes, sizeof(bytes));
	for (uint32_t i = 0; i < sizeof(head); i++)
		head[i] = (uint8_t)take(&cursor, 1);
	if (head[0] != 1 || head[2] == PE_OMIT || head[3] != (PE_DATA_RELATIVE | PE_SDATA4))
		return false;
	(void)take_pointer(&cursor, head[1], source->header);
	*count = take_pointer(&cursor, head[2], source->header);
	*table = source->header + (uint64_t)(cursor.at - bytes);
	return !cursor.is_bad && *count > 0 && *count <= source->header_bytes / KY_CFI_PAIR_BYTES;
}

/* Where the description of the function around pc lies; 0: nowhere. */
static uint64_t find_description(const struct ky_cfi_source *source, uint64_t pc)
{
	uint64_t table, count, low = 0;
	int32_t pair[2];

	if (!ky_cfi_index(source, &table, &count))
		return 0;
	for (uint64_t high = count; high - low > 1;) {
		uint64_t middle = low + (high - low) / 2;

		if (source->read(source->ctx, table + middle * sizeof(pair), pair, sizeof(pair)) !=
		    sizeof(pair))
			return 0;
		if (ky_cfi_from_header(source, pair[0]) <= pc)
			low = middle;
		else
			high = middle;
	}
	if (source->read(source->ctx, table + low * sizeof(pair), pair, sizeof(pair)) !=
		    sizeof(pair) ||
	    ky_cfi_from_header(source, pair[0]) > pc)
		return 0;
	return ky_cfi_from_header(source, pair[1]);
}

/* ---- rules ---- */

static inline void set_rule(struct ky_cfi_machine *machine, struct ky_cfi_cursor *cursor,
			    uint64_t idx, enum ky_cfi_kind kind, int64_t offset)
{
	if (idx >= KY_UNWIND_REGISTERS) {
		if (idx >= 256)
			cursor->is_bad = true;
		return; /* a vector register: not ours to restore */
	}
	machine->row.rules[idx] = (struct ky_cfi_rule){(uint8_t)kind, 0, offset};
}

static void restore_rule(struct ky_cfi_machine *machine, uint64_t idx)
{
	if (idx < KY_UNWIND_REGISTERS)
		machine->row.rules[idx] = machine->initial.rules[idx];
}

/* A count of data_align units. What makes no sense may overflow: it leads to no frame. */
static int64_t take_offset(const struct ky_cfi_machine *machine, struct ky_cfi_cursor *cursor)
{
	return (int64_t)(take_uleb(cursor) * (uint64_t)machine->data_align);
}

static int64_t take_signed_offset(const struct ky_cfi_machine *machine,
				  struct ky_cfi_cursor *cursor)
{
	return (int64_t)((uint64_t)take_sleb(cursor) * (uint64_t)machine->data_align);
}

static void define_cfa(struct ky_cfi_row *row, struct ky_cfi_cursor *cursor, uint64_t idx,
		       int64_t offset)
{
	if (idx >= KY_UNWIND_REGISTERS)
		cursor->is_bad = true;
	row->cfa = KY_CFI_CFA_REGISTER;
	row->cfa_register = (uint32_t)idx;
	row->cfa_offset = offset;
}

/* The bytes of an expression, which the cursor passes. */
static struct ky_cfi_cursor take_block(struct ky_cfi_cursor *cursor)
{
	uint64_t bytes = take_uleb(cursor);
	struct ky_cfi_cursor block = *cursor;

	if (bytes > (uint64_t)(cursor->end - cursor->at)) {
		cursor->is_bad = true;
		bytes = 0;
	}
	block.end = block.at + bytes;
	cursor->at += bytes;
	return block;
}

/* "register + offset". */
static bool take_base(struct ky_cfi_cursor *block, uint32_t *idx, int64_t *offset)
{
	uint32_t op = (uint32_t)take(block, 1);

	if (block->is_bad || op < OP_REGISTER_0 || op > OP_REGISTER_31)
		return false;
	*idx = op - OP_REGISTER_0;
	*offset = take_sleb(block);
	return !block->is_bad && *idx < KY_UNWIND_REGISTERS;
}

/* What follows "sp + 8" in the one expression that linkers write for linkage tables: the first
 * instructions of an entry of 16 bytes push one word more. */
static bool take_linkage(struct ky_cfi_cursor *block, int64_t *threshold)
{
	static const uint8_t before[] = {0x80, 0x00, 0x3f, 0x1a}; /* pc, 15, and */
	static const uint8_t after[] = {0x2a, 0x33, 0x24, 0x22};  /* >=, 3, shift left, plus */
	size_t bytes = (size_t)(block->end - block->at);
	uint8_t literal;

	if (bytes != sizeof(before) + 1 + sizeof(after) ||
	    memcmp(block->at, before, sizeof(before)) != 0 ||
	    memcmp(block->at + sizeof(before) + 1, after, sizeof(after)) != 0)
		return false;
	literal = block->at[sizeof(before)];
	*threshold = (int64_t)literal - OP_LITERAL_0;
	return literal >= OP_LITERAL_0 && literal < OP_LITERAL_0 + 16;
}

static void compute_cfa(struct ky_cfi_row *row, struct ky_cfi_cursor block)
{
	int64_t threshold = 0;
	uint32_t op;

	row->cfa = KY_CFI_CFA_UNKNOWN;
	row->cfa_further = 0;
	if (!take_base(&block, &row->cfa_register, &row->cfa_offset))
		return;
	if (row->cfa_register == KY_UNWIND_SP && row->cfa_offset == 8 &&
	    take_linkage(&block, &threshold)) {
		row->cfa = KY_CFI_CFA_PLT;
		row->cfa_offset = threshold;
		return;
	}
	if (block.at == block.end) {
		row->cfa = KY_CFI_CFA_REGISTER;
		return;
	}
	if (take(&block, 1) != OP_DEREF)
		return;
	if (block.at < block.end) {
		op = (uint32_t)take(&block, 1);
		if (op == OP_PLUS_ULEB)
			row->cfa_further = (int64_t)take_uleb(&block);
		else if (op >= OP_LITERAL_0 && op <= OP_LITERAL_31 && take(&block, 1) == OP_PLUS)
			row->cfa_further = (int64_t)op - OP_LITERAL_0;
		else
			return;
	}
	if (!block.is_bad && block.at == block.end)
		row->cfa = KY_CFI_CFA_INDIRECT;
}

/* Saved where an expression says: known where that is "register + offset". */
static void set_expression(struct ky_cfi_machine *machine, struct ky_cfi_cursor *cursor,
			   bool is_place)
{
	uint64_t idx = take_uleb(cursor);
	struct ky_cfi_cursor block = take_block(cursor);
	uint32_t base = 0;
	int64_t offset = 0;

	set_rule(machine, cursor, idx, KY_CFI_BEYOND, 0);
	if (is_place && idx < KY_UNWIND_REGISTERS && take_base(&block, &base, &offset) &&
	    block.at == block.end)
		machine->row.rules[idx] = (struct ky_cfi_rule){KY_CFI_AT_REGISTER, (uint8_t)base,
							       offset};
}

/* ---- the machine ---- */

/* Instructions without an operand in their own byte. */
static void step_extended(struct ky_cfi_machine *machine, struct ky_cfi_cursor *cursor,
			  uint32_t opcode)
{
	struct ky_cfi_row *row = &machine->row;
	uint64_t idx;

	/* tidy: long because each instruction is a case */
	switch (opcode) {
	case 0x00: /* nop */
		break;
	case 0x01: /* set_loc */
		machine->location = take_pointer(cursor, machine->pointer_encoding, 0);
		break;
	case 0x02: /* advance_loc1, 2, 4 */
		machine->location += take(cursor, 1) * machine->code_align;
		break;
	case 0x03:
		machine->location += take(cursor, 2) * machine->code_align;
		break;
	case 0x04:
		machine->location += take(cursor, 4) * machine->code_align;
		break;
	case 0x05: /* offset_extended */
		idx = take_uleb(cursor);
		set_rule(machine, cursor, idx, KY_CFI_AT_CFA, take_offset(machine, cursor));
		break;
	case 0x06: /* restore_extended */
		restore_rule(machine, take_uleb(cursor));
		break;
	case 0x07: /* undefined */
		set_rule(machine, cursor, take_uleb(cursor), KY_CFI_UNDEFINED, 0);
		break;
	case 0x08: /* same_value */
		set_rule(machine, cursor, take_uleb(cursor), KY_CFI_SAME, 0);
		break;
	case 0x09: /* register: in another one, as longjmp() says it */
		idx = take_uleb(cursor);
		(void)take_uleb(cursor);
		set_rule(machine, cursor, idx, KY_CFI_BEYOND, 0);
		break;
	case 0x0a: /* remember_state */
		if (machine->saved_count == KY_CFI_DEPTH_MAX)
			cursor->is_bad = true;
		else
			machine->saved[machine->saved_count++] = *row;
		break;
	case 0x0b: /* restore_state */
		if (machine->saved_count == 0)
			cursor->is_bad = true;
		else
			*row = machine->saved[--machine->saved_count];
		break;
	case 0x0c: /* def_cfa */
		idx = take_uleb(cursor);
		define_cfa(row, cursor, idx, (int64_t)take_uleb(cursor));
		break;
	case 0x0d: /* def_cfa_register */
		idx = take_uleb(cursor);
		if (row->cfa == KY_CFI_CFA_REGISTER)
			define_cfa(row, cursor, idx, row->cfa_offset);
		break;
	case 0x0e: /* def_cfa_offset */
		row->cfa_offset = (int64_t)take_uleb(cursor);
		break;
	case 0x0f: /* def_cfa_expression */
		compute_cfa(row, take_block(cursor));
		break;
	case 0x10: /* expression, val_expression */
	case 0x16:
		set_expression(machine, cursor, opcode == 0x10);
		break;
	case 0x11: /* offset_extended_sf */
		idx = take_uleb(cursor);
		set_rule(machine, cursor, idx, KY_CFI_AT_CFA, take_signed_offset(machine, cursor));
		break;
	case 0x12: /* def_cfa_sf */
		idx = take_uleb(cursor);
		define_cfa(row, cursor, idx, take_signed_offset(machine, cursor));
		break;
	case 0x13: /* def_cfa_offset_sf */
		row->cfa_offset = take_signed_offset(machine, cursor);
		break;
	case 0x14: /* val_offset */
		idx = take_uleb(cursor);
		set_rule(machine, cursor, idx, KY_CFI_IS_CFA, take_offset(machine, cursor));
		break;
#if KY_UNWIND_LINKED
	case 0x2d: /* negate_ra_state: the return address is signed from here on, or not any more */
		break;
#endif
	case 0x2e: /* GNU_args_size */
		(void)take_uleb(cursor);
		break;
	default:
		cursor->is_bad = true;
		break;
	}
}

static inline void step(struct ky_cfi_machine *machine, struct ky_cfi_cursor *cursor)
{
	uint32_t byte = (uint32_t)take(cursor, 1), low = byte & 0x3f;

	switch (byte >> 6) {
	case 1:
		machine->location += low * machine->code_align;
		break;
	case 2:
		set_rule(machine, cursor, low, KY_CFI_AT_CFA, take_offset(machine, cursor));
		break;
	case 3:
		restore_rule(machine, low);
		break;
	default:
		step_extended(machine, cursor, byte);
		break;
	}
}

/* ---- entries ---- */

/* Returns the bytes after the length; 0: not readable, or longer than any we know, as is the
 * 64-bit form, which no thread writes here. */
static size_t read_entry(const struct ky_cfi_source *source, uint64_t address, uint8_t *out,
			 size_t capacity)
{
	uint32_t length;

	if (source->read(source->ctx, address, &length, sizeof(length)) != sizeof(length) ||
	    length < 8 || length > capacity ||
	    source->read(source->ctx, address + sizeof(length), out, length) != length)
		return 0;
	return length;
}

/* The bytes after the length where they lie, else a copy of them; *count as read_entry() returns
 * it. */
static const uint8_t *borrow_entry(const struct ky_cfi_source *source, uint64_t address,
				   uint8_t *copy, size_t capacity, size_t *count)
{
	const uint8_t *at = NULL;
	size_t bytes = 0;
	uint32_t length;

	if (source->borrow)
		at = source->borrow(source->ctx, address, &bytes);
	if (at && bytes >= sizeof(length)) {
		memcpy(&length, at, sizeof(length));
		if (length >= 8 && length <= capacity && length <= bytes - sizeof(length)) {
			*count = length;
			return at + sizeof(length);
		}
	}
	*count = read_entry(source, address, copy, capacity);
	return copy;
}

static bool take_augmentation(struct ky_cfi_machine *machine, struct ky_cfi_cursor *cursor,
			      const char *letters)
{
	const uint8_t *rest = NULL;

	machine->has_augmentation = letters[0] == 'z';
	if (letters[0] && !machine->has_augmentation)
		return false;
	if (machine->has_augmentation) {
		uint64_t bytes = take_uleb(cursor);

		if (bytes > (uint64_t)(cursor->end - cursor->at))
			return false;
		rest = cursor->at + bytes;
		letters++;
	}
	for (; *letters; letters++) {
		if (*letters == 'R')
			machine->pointer_encoding = (uint8_t)take(cursor, 1);
		else if (*letters == 'L')
			(void)take(cursor, 1);
		else if (*letters == 'P')
			(void)take_pointer(cursor, (uint8_t)take(cursor, 1), 0);
		else if (*letters == 'S')
			machine->is_common_signal = true;
		else if (*letters != 'B') /* aarch64: which key signs */
			return false;
	}
	if (rest)
		cursor->at = rest;
	return true;
}

/* What is common to functions (a CIE). */
static bool parse_common(struct ky_cfi_machine *machine, const struct ky_cfi_source *source,
			 uint64_t address)
{
	size_t bytes = read_entry(source, address, machine->common_bytes,
				  sizeof(machine->common_bytes));
	struct ky_cfi_cursor cursor = {.at = machine->common_bytes,
				       .end = machine->common_bytes + bytes,
				       .address = address + sizeof(uint32_t),
				       .start = machine->common_bytes};
	const char *letters;

	machine->common_address = 0;
	machine->pointer_encoding = PE_ABSOLUTE;
	machine->is_common_signal = false;
	if (bytes == 0 || take(&cursor, 4) != 0)
		return false;
	(void)take(&cursor, 1); /* version */
	letters = (const char *)cursor.at;
	if (!memchr(letters, 0, (size_t)(cursor.end - cursor.at)))
		return false;
	cursor.at += strlen(letters) + 1;
	machine->code_align = take_uleb(&cursor);
	machine->data_align = take_sleb(&cursor);
	if (take_uleb(&cursor) != KY_UNWIND_RA || !take_augmentation(machine, &cursor, letters))
		return false;
	memset(&machine->row, 0, sizeof(machine->row));
	machine->saved_count = 0;
	machine->location = 0;
	while (cursor.at < cursor.end && !cursor.is_bad)
		step(machine, &cursor);
	if (cursor.is_bad)
		return false;
	machine->initial = machine->row;
	machine->common_address = address;
	return true;
}

/* Returns false when there is no entry that says what it belongs to; *common gets that. */
static bool begin_entry(struct ky_cfi_machine *machine, const struct ky_cfi_source *source,
			uint64_t address, struct ky_cfi_cursor *out, uint64_t *common)
{
	size_t count;
	const uint8_t *bytes = borrow_entry(source, address, machine->function_bytes,
					    sizeof(machine->function_bytes), &count);
	uint64_t back;

	*out = (struct ky_cfi_cursor){.at = bytes,
				      .end = bytes + count,
				      .address = address + sizeof(uint32_t),
				      .start = bytes};
	back = take(out, 4);
	*common = out->address - back;
	return count && back && back <= out->address;
}

bool ky_cfi_begin(struct ky_cfi_machine *machine, const struct ky_cfi_source *source,
		  uint64_t address)
{
	struct ky_cfi_cursor cursor;
	uint64_t common, bytes;

	if (!begin_entry(machine, source, address, &cursor, &common))
		return false;
	/* Reading that may take away what was borrowed. */
	if ((common != machine->common_address || common == 0) &&
	    (!parse_common(machine, source, common) ||
	     !begin_entry(machine, source, address, &cursor, &common)))
		return false;
	machine->start = take_pointer(&cursor, machine->pointer_encoding, 0);
	machine->bytes = take_pointer(&cursor, machine->pointer_encoding & PE_FORMAT, 0);
	machine->is_signal = machine->is_common_signal;
	if (machine->has_augmentation) {
		bytes = take_uleb(&cursor);
		if (bytes > (uint64_t)(cursor.end - cursor.at))
			return false;
		cursor.at += bytes;
	}
	machine->program = cursor;
	return !cursor.is_bad;
}

/* An instruction that moves on ends the row in front of it. */
static inline bool moves_on(uint8_t opcode)
{
	return opcode >> 6 == 1 || (opcode >= 1 && opcode <= 4);
}

bool ky_cfi_rows(struct ky_cfi_machine *machine, ky_cfi_row_fn report, void *ctx)
{
	struct ky_cfi_cursor cursor = machine->program;
	uint64_t reported = machine->start;

	machine->row = machine->initial;
	machine->saved_count = 0;
	machine->location = machine->start;
	while (cursor.at < cursor.end) {
		if (moves_on(*cursor.at)) {
			report(ctx, reported, &machine->row);
			step(machine, &cursor);
			if (machine->location < reported)
				cursor.is_bad = true;
			reported = machine->location;
		} else {
			step(machine, &cursor);
		}
		if (cursor.is_bad)
			return false;
		if (reported - machine->start >= machine->bytes)
			return true;
	}
	report(ctx, reported, &machine->row);
	return true;
}

bool ky_cfi_find(struct ky_cfi_machine *machine, const struct ky_cfi_source *source, uint64_t pc)
{
	uint64_t at = find_description(source, pc);
	struct ky_cfi_cursor cursor;

	if (!at || !ky_cfi_begin(machine, source, at) || pc < machine->start ||
	    pc - machine->start >= machine->bytes)
		return false;
	machine->row = machine->initial;
	machine->saved_count = 0;
	machine->location = machine->start;
	cursor = machine->program;
	while (cursor.at < cursor.end && !cursor.is_bad) {
		step(machine, &cursor);
		if (machine->location > pc)
			break;
	}
	return !cursor.is_bad;
}
