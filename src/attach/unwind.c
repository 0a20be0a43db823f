/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <attach/unwind.h>
#include <base/alloc.h>
#include <string.h>

#define ENTRY_BYTES_MAX 4096u
#define STATE_STACK 8u

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

enum rule_kind {
	RULE_SAME = 0,
	RULE_AT_CFA, /* saved at CFA + offset */
	RULE_CFA,    /* is CFA + offset */
	RULE_UNKNOWN
};

struct rule {
	enum rule_kind kind;
	int64_t offset;
};

struct row {
	struct rule rules[KY_ARCH_REGISTERS_MAX];
	uint32_t cfa_register;
	int64_t cfa_offset;
	bool is_cfa_known;
};

/* A place in the bytes of one entry; reading past the end makes it bad and gives zeros. */
struct cursor {
	const uint8_t *at, *end;
	uint64_t address; /* of `start`, as linked */
	const uint8_t *start;
	bool is_bad;
};

struct entry {
	uint8_t bytes[ENTRY_BYTES_MAX];
	size_t byte_count;
	uint64_t address;
};

struct frame_info {
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_register;
	uint8_t pointer_encoding;
	bool has_augmentation, is_signal;
	struct cursor initial, program;
	uint64_t start; /* of the function, as linked */
};

static uint64_t take(struct cursor *cursor, uint32_t bytes)
{
	uint64_t value = 0;

	if ((size_t)(cursor->end - cursor->at) < bytes) {
		cursor->is_bad = true;
		cursor->at = cursor->end;
		return 0;
	}
	memcpy(&value, cursor->at, bytes); /* little-endian, as all that we attach to */
	cursor->at += bytes;
	return value;
}

static uint64_t take_uleb(struct cursor *cursor)
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

static int64_t take_sleb(struct cursor *cursor)
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
static uint64_t take_pointer(struct cursor *cursor, uint8_t encoding, uint64_t data_base)
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

static bool read_entry(const struct ky_module *module, uint64_t address, struct entry *out)
{
	uint32_t length;

	if (ky_module_read(module, address, &length, sizeof(length)) != sizeof(length) ||
	    length < 8 || length > ENTRY_BYTES_MAX)
		return false; /* also the 64-bit form, which nobody writes here */
	out->address = address + sizeof(length);
	out->byte_count = length;
	return ky_module_read(module, out->address, out->bytes, length) == length;
}

static struct cursor cursor_of(const struct entry *entry)
{
	return (struct cursor){.at = entry->bytes,
			       .end = entry->bytes + entry->byte_count,
			       .address = entry->address,
			       .start = entry->bytes};
}

/* Where the description of the function around `pc` (as linked) lies; 0: nowhere. The table of
 * .eh_frame_hdr is sorted: pairs of 4 bytes each, the only form that linkers write. */
static uint64_t find_description(const struct ky_module *module, uint64_t pc)
{
	uint8_t bytes[24];
	struct cursor cursor = {.at = bytes, .address = module->frame_table, .start = bytes};
	uint64_t count, table, low = 0, high;
	int32_t pair[2];
	uint8_t head[4];

	cursor.end = bytes + ky_module_read(module, module->frame_table, bytes, sizeof(bytes));
	for (uint32_t i = 0; i < sizeof(head); i++)
		head[i] = (uint8_t)take(&cursor, 1);
	if (head[0] != 1 || head[2] == PE_OMIT || head[3] != (PE_DATA_RELATIVE | PE_SDATA4))
		return 0;
	(void)take_pointer(&cursor, head[1], module->frame_table);
	count = take_pointer(&cursor, head[2], module->frame_table);
	table = module->frame_table + (uint64_t)(cursor.at - bytes);
	if (cursor.is_bad || count == 0 || count > module->frame_table_bytes / sizeof(pair))
		return 0;
	for (high = count; high - low > 1;) {
		uint64_t middle = low + (high - low) / 2;

		if (ky_module_read(module, table + middle * sizeof(pair), pair, sizeof(pair)) !=
		    sizeof(pair))
			return 0;
		if (module->frame_table + (uint64_t)(int64_t)pair[0] <= pc)
			low = middle;
		else
			high = middle;
	}
	if (ky_module_read(module, table + low * sizeof(pair), pair, sizeof(pair)) !=
		    sizeof(pair) ||
	    module->frame_table + (uint64_t)(int64_t)pair[0] > pc)
		return 0;
	return module->frame_table + (uint64_t)(int64_t)pair[1];
}

/* What is common to functions (a CIE). */
static bool parse_common(const struct entry *entry, struct frame_info *out)
{
	struct cursor cursor = cursor_of(entry);
	const char *augmentation, *letter;
	const uint8_t *rest = NULL;

	if (take(&cursor, 4) != 0)
		return false;
	(void)take(&cursor, 1); /* version */
	augmentation = (const char *)cursor.at;
	if (!memchr(augmentation, 0, (size_t)(cursor.end - cursor.at)))
		return false;
	cursor.at += strlen(augmentation) + 1;
	out->code_align = take_uleb(&cursor);
	out->data_align = take_sleb(&cursor);
	out->return_register = take_uleb(&cursor);
	out->has_augmentation = augmentation[0] == 'z';
	if (augmentation[0] && !out->has_augmentation)
		return false;
	if (out->has_augmentation) {
		uint64_t bytes = take_uleb(&cursor);

		if (bytes > (uint64_t)(cursor.end - cursor.at))
			return false;
		rest = cursor.at + bytes;
	}
	for (letter = augmentation + (out->has_augmentation ? 1 : 0); *letter; letter++) {
		if (*letter == 'R')
			out->pointer_encoding = (uint8_t)take(&cursor, 1);
		else if (*letter == 'L')
			(void)take(&cursor, 1);
		else if (*letter == 'P')
			(void)take_pointer(&cursor, (uint8_t)take(&cursor, 1), 0);
		else if (*letter == 'S')
			out->is_signal = true;
		else
			return false;
	}
	if (rest)
		cursor.at = rest;
	out->initial = cursor;
	return !cursor.is_bad;
}

/* What is one function's own (an FDE). pc as linked. */
static bool parse_function(const struct entry *entry, uint64_t pc, struct frame_info *out)
{
	struct cursor cursor = cursor_of(entry);
	uint64_t bytes;

	(void)take(&cursor, 4);
	out->start = take_pointer(&cursor, out->pointer_encoding, 0);
	bytes = take_pointer(&cursor, out->pointer_encoding & PE_FORMAT, 0);
	if (cursor.is_bad || pc < out->start || pc - out->start >= bytes)
		return false;
	if (out->has_augmentation) {
		bytes = take_uleb(&cursor);
		if (bytes > (uint64_t)(cursor.end - cursor.at))
			return false;
		cursor.at += bytes;
	}
	out->program = cursor;
	return !cursor.is_bad;
}

struct machine {
	struct frame_info info;
	struct row row, initial, saved[STATE_STACK];
	uint32_t saved_count;
	uint64_t location;
	struct entry function, common;
};

static void set_rule(struct machine *machine, struct cursor *cursor, uint64_t idx,
		     enum rule_kind kind, int64_t offset)
{
	if (idx >= ky_arch_register_count) {
		if (idx >= 256)
			cursor->is_bad = true;
		return; /* a vector register: not ours to restore */
	}
	machine->row.rules[idx] = (struct rule){kind, offset};
}

static void restore_rule(struct machine *machine, uint64_t idx)
{
	if (idx < ky_arch_register_count)
		machine->row.rules[idx] = machine->initial.rules[idx];
}

/* A count of data_align units. What makes no sense may overflow: it leads to no frame. */
static int64_t take_offset(const struct machine *machine, struct cursor *cursor)
{
	return (int64_t)(take_uleb(cursor) * (uint64_t)machine->info.data_align);
}

static int64_t take_signed_offset(const struct machine *machine, struct cursor *cursor)
{
	return (int64_t)((uint64_t)take_sleb(cursor) * (uint64_t)machine->info.data_align);
}

static uint32_t take_register(struct cursor *cursor)
{
	uint64_t idx = take_uleb(cursor);

	if (idx >= ky_arch_register_count)
		cursor->is_bad = true;
	return (uint32_t)idx;
}

static void skip_block(struct cursor *cursor)
{
	uint64_t bytes = take_uleb(cursor);

	if (bytes > (uint64_t)(cursor->end - cursor->at))
		cursor->is_bad = true;
	else
		cursor->at += bytes;
}

/* Instructions without an operand in their own byte. */
static void step_extended(struct machine *machine, struct cursor *cursor, uint32_t opcode)
{
	const struct frame_info *info = &machine->info;
	struct row *row = &machine->row;
	uint64_t idx;

	/* tidy: long because each instruction is a case */
	switch (opcode) {
	case 0x00: /* nop */
		break;
	case 0x01: /* set_loc */
		machine->location = take_pointer(cursor, info->pointer_encoding, 0);
		break;
	case 0x02: /* advance_loc1, 2, 4 */
	case 0x03:
	case 0x04:
		machine->location += take(cursor, 1u << (opcode - 2)) * info->code_align;
		break;
	case 0x05: /* offset_extended */
		idx = take_uleb(cursor);
		set_rule(machine, cursor, idx, RULE_AT_CFA, take_offset(machine, cursor));
		break;
	case 0x06: /* restore_extended */
		restore_rule(machine, take_uleb(cursor));
		break;
	case 0x07: /* undefined */
		set_rule(machine, cursor, take_uleb(cursor), RULE_UNKNOWN, 0);
		break;
	case 0x08: /* same_value */
		set_rule(machine, cursor, take_uleb(cursor), RULE_SAME, 0);
		break;
	case 0x0a: /* remember_state */
		if (machine->saved_count == STATE_STACK)
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
		row->cfa_register = take_register(cursor);
		row->cfa_offset = (int64_t)take_uleb(cursor);
		row->is_cfa_known = true;
		break;
	case 0x0d: /* def_cfa_register */
		row->cfa_register = take_register(cursor);
		break;
	case 0x0e: /* def_cfa_offset */
		row->cfa_offset = (int64_t)take_uleb(cursor);
		break;
	case 0x0f: /* def_cfa_expression: of linkage tables, where nobody waits */
		skip_block(cursor);
		row->is_cfa_known = false;
		break;
	case 0x10: /* expression, val_expression */
	case 0x16:
		idx = take_uleb(cursor);
		skip_block(cursor);
		set_rule(machine, cursor, idx, RULE_UNKNOWN, 0);
		break;
	case 0x11: /* offset_extended_sf */
		idx = take_uleb(cursor);
		set_rule(machine, cursor, idx, RULE_AT_CFA, take_signed_offset(machine, cursor));
		break;
	case 0x14: /* val_offset */
		idx = take_uleb(cursor);
		set_rule(machine, cursor, idx, RULE_CFA, take_offset(machine, cursor));
		break;
	case 0x2e: /* GNU_args_size */
		(void)take_uleb(cursor);
		break;
	default:
		cursor->is_bad = true;
		break;
	}
}

/* Runs until the row for `pc` is complete. */
static bool run_program(struct machine *machine, struct cursor cursor, uint64_t pc)
{
	while (cursor.at < cursor.end && machine->location <= pc && !cursor.is_bad) {
		uint32_t byte = (uint32_t)take(&cursor, 1), low = byte & 0x3f;

		switch (byte >> 6) {
		case 1:
			machine->location += low * machine->info.code_align;
			break;
		case 2:
			set_rule(machine, &cursor, low, RULE_AT_CFA, take_offset(machine, &cursor));
			break;
		case 3:
			restore_rule(machine, low);
			break;
		default:
			step_extended(machine, &cursor, byte);
			break;
		}
	}
	return !cursor.is_bad;
}

/* pc as linked. */
static bool find_row(struct machine *machine, const struct ky_module *module, uint64_t pc)
{
	uint64_t at = module->frame_table_bytes ? find_description(module, pc) : 0;
	struct frame_info *info = &machine->info;
	uint32_t back;

	memset(info, 0, sizeof(*info));
	if (!at || !read_entry(module, at, &machine->function))
		return false;
	memcpy(&back, machine->function.bytes, sizeof(back));
	if (back == 0 || back > machine->function.address ||
	    !read_entry(module, machine->function.address - back, &machine->common) ||
	    !parse_common(&machine->common, info) ||
	    !parse_function(&machine->function, pc, info) ||
	    info->return_register != ky_arch_return_register)
		return false;
	memset(&machine->row, 0, sizeof(machine->row));
	machine->saved_count = 0;
	machine->location = 0;
	if (!run_program(machine, info->initial, UINT64_MAX))
		return false;
	machine->initial = machine->row;
	machine->location = info->start;
	return run_program(machine, info->program, pc);
}

/* Returns false at the end of the walk; end says which. */
static bool step_out(struct machine *machine, const struct ky_process *process,
		     struct ky_arch_frame *frame, bool is_caller, enum ky_unwind_end *end)
{
	const struct ky_module *module = ky_process_module_of(process, frame->pc, NULL);
	struct ky_arch_frame outer = *frame;
	const struct row *row = &machine->row;
	uint64_t cfa, pc = module ? frame->pc - module->bias : 0;

	*end = KY_UNWIND_UNKNOWN;
	/* A caller's pc is behind its call, which may end the function: look one byte back. */
	if (!module || !find_row(machine, module, is_caller ? pc - 1 : pc) || !row->is_cfa_known ||
	    row->cfa_register >= ky_arch_register_count || machine->info.is_signal)
		return false;
	if (row->rules[ky_arch_return_register].kind == RULE_UNKNOWN) {
		*end = KY_UNWIND_OUTERMOST; /* how the first frame says that it has no caller */
		return false;
	}
	cfa = frame->registers[row->cfa_register] + (uint64_t)row->cfa_offset;
	for (uint32_t i = 0; i < ky_arch_register_count; i++) {
		const struct rule *rule = &row->rules[i];

		if (rule->kind == RULE_CFA)
			outer.registers[i] = cfa + (uint64_t)rule->offset;
		if (rule->kind == RULE_AT_CFA &&
		    !ky_process_read(process, cfa + (uint64_t)rule->offset, &outer.registers[i],
				     sizeof(outer.registers[i])))
			return false;
	}
	outer.registers[ky_arch_stack_register] = cfa;
	outer.pc = outer.registers[ky_arch_return_register];
	if (cfa <= frame->registers[ky_arch_stack_register])
		return false; /* stacks grow one way */
	*frame = outer;
	return true;
}

void ky_unwind_thread(struct ky_unwind *out, const struct ky_process *process,
		      const struct ky_arch_frame *registers)
{
	struct machine *machine = ky_alloc(sizeof(*machine));
	struct ky_arch_frame frame = *registers;

	out->count = 0;
	out->end = machine ? KY_UNWIND_TOO_DEEP : KY_UNWIND_UNKNOWN;
	while (machine && out->count < KY_UNWIND_FRAMES_MAX) {
		out->pcs[out->count++] = frame.pc;
		if (!step_out(machine, process, &frame, out->count > 1, &out->end))
			break;
		out->end = KY_UNWIND_TOO_DEEP;
		if (frame.pc == 0) {
			out->end = KY_UNWIND_OUTERMOST;
			break;
		}
	}
	ky_free(machine);
}
