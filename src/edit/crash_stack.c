/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <edit/crash_stack.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>
#include <unistd.h>
#include <unwind/unwind_build.h>
#include <unwind/unwind_maps.h>
#include <unwind/unwind_object.h>
#include <unwind/unwind_walk.h>

#define AREA_BYTES (UINT64_C(256) << 20) /* of address space: what is not written takes none */
#define MODULES_MAX 64u                  /* that one stack leads through */

struct tables {
	uint8_t *memory, *area;
	uint64_t used;
	uint32_t module_count;
	struct ky_unwind_builder builder;
	struct ky_unwind_object object;
	uint32_t tried[MODULES_MAX];
	uint32_t tried_count;
	ky_crash_open_fn open;
	void *ctx;
};

static int write_area(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	struct tables *tables = ctx;

	if (offset > AREA_BYTES || count > AREA_BYTES - offset)
		return KYMO_E_LIMIT;
	memcpy(tables->area + offset, bytes, count);
	return 0;
}

static struct ky_unwind_head *head_of(struct tables *tables)
{
	return (struct ky_unwind_head *)(void *)tables->area;
}

/* Puts a module into the index, which is kept by start. */
static void add_module(struct tables *tables, const struct ky_unwind_built *built, uint64_t bias,
		       uint64_t start, uint64_t end)
{
	struct ky_unwind_head *head = head_of(tables);
	uint32_t at = tables->module_count, word;
	struct ky_unwind_module *module = &head->modules[at];

	module->wide_count = built->wide_count;
	module->start = bias + start;
	module->end = bias + end;
	module->base = bias + built->base;
	module->blocks_offset = built->blocks_offset;
	module->rows_offset = built->rows_offset;
	module->wide_offset = built->wide_offset;
	module->block_count = built->block_count;
	module->row_count = built->row_count;
	for (word = at; word > 0 && head->modules[head->index[0][word - 1]].start > module->start;
	     word--)
		head->index[0][word] = head->index[0][word - 1];
	head->index[0][word] = (uint16_t)at;
	tables->module_count++;
	tables->used = built->end_offset;
	atomic_store_explicit(&head->used_bytes, tables->used, memory_order_relaxed);
	/* An even number of changes: index 0 is the valid one. */
	atomic_store_explicit(&head->index_word, tables->module_count, memory_order_release);
}

/* The code of the file around an address as linked. Returns false when nothing was added. */
static bool build(struct tables *tables, int fd, uint64_t linked, uint64_t bias)
{
	struct ky_unwind_built built;

	if (ky_unwind_object_init(&tables->object, ky_unwind_read_file, &fd, false, 0) < 0)
		return false;
	for (uint32_t i = 0; i < tables->object.segment_count; i++) {
		const struct ky_unwind_segment *segment = &tables->object.segments[i];

		if (!segment->is_code || linked < segment->address ||
		    linked - segment->address >= segment->memory_bytes)
			continue;
		ky_cfi_reset(&tables->builder.machine);
		if (ky_unwind_build(&tables->builder, &tables->object.source, segment->address,
				    segment->address + segment->memory_bytes, tables->used,
				    AREA_BYTES, write_area, tables, &built) < 0)
			return false;
		add_module(tables, &built, bias, segment->address,
			   segment->address + segment->memory_bytes);
		return true;
	}
	return false;
}

/* Makes the tables for where a walk ended early. Returns true when it may get further now. */
static bool extend(struct tables *tables, uint64_t pc)
{
	struct ky_crash_code code = {0};
	int fd = tables->tried_count < MODULES_MAX ? tables->open(tables->ctx, pc, &code) : -1;
	bool is_built = true;

	if (fd < 0)
		return false;
	for (uint32_t i = 0; i < tables->tried_count && is_built; i++)
		is_built = tables->tried[i] != code.module;
	if (is_built) {
		tables->tried[tables->tried_count++] = code.module;
		is_built = build(tables, fd, pc - code.bias, code.bias);
	}
	close(fd);
	return is_built;
}

#if defined(__aarch64__)
#define REGISTERS_NEEDED 32u
static void order(uint64_t out[KY_UNWIND_REGISTERS], const struct ky_crash_copy *crash)
{
	memcpy(out, crash->registers, 32 * sizeof(out[0]));
	out[32] = crash->pc;
}
#else
#define REGISTERS_NEEDED 17u
/* From the order of ucontext's gregs to DWARF's. */
static void order(uint64_t out[KY_UNWIND_REGISTERS], const struct ky_crash_copy *crash)
{
	static const uint8_t dwarf[17] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16};

	for (size_t i = 0; i < 17; i++)
		out[dwarf[i]] = crash->registers[i];
}
#endif

static bool is_code(const struct tables *tables, uint64_t pc)
{
	struct ky_crash_code code;
	int fd = tables->open(tables->ctx, pc, &code);

	if (fd >= 0)
		close(fd);
	return fd != -ENOENT;
}

/* A call to an address where no code is: the caller's own is on top of the stack. */
static void step_back(const struct tables *tables, struct ky_walk_start *start,
		      struct ky_crash_stack *out, const struct ky_crash_copy *crash)
{
	uint64_t caller;

	if (KY_UNWIND_LINKED || crash->stack_bytes < 8 || is_code(tables, crash->pc))
		return;
	memcpy(&caller, crash->stack, sizeof(caller));
	if (!is_code(tables, caller - 1))
		return;
	out->frames[out->count++] = crash->pc;
	start->pc = caller - 1;
	start->sp += 8;
}

static void walk(struct tables *tables, struct ky_crash_stack *out,
		 const struct ky_crash_copy *crash)
{
	const struct ky_unwind_view view = {.area = tables->area, .area_bytes = AREA_BYTES};
	const struct ky_walk_memory memory = {
		.low = crash->sp, .high = crash->sp + crash->stack_bytes, .bytes = crash->stack};
	uint64_t registers[KY_UNWIND_REGISTERS];
	struct ky_walk_start start = {.pc = crash->pc,
				      .sp = crash->sp,
				      .fp = crash->fp,
				      .is_fp_known = true,
				      .is_second_known = true,
				      .registers = registers};
	struct ky_walk done;
	uint32_t before;

	order(registers, crash);
	start.second = registers[KY_UNWIND_SECOND];
	step_back(tables, &start, out, crash);
	registers[KY_UNWIND_SP] = start.sp;
	before = out->count;
	do {
		memset(&done, 0, sizeof(done));
		done.frames = out->frames + before;
		done.frames_max = KY_CRASH_FRAMES_MAX - before;
		ky_unwind_walk(&done, &view, &memory, &start);
		out->count = before + done.count;
		out->is_whole = done.end == KY_WALK_FIRST;
	} while (!out->is_whole && done.end != KY_WALK_FULL && done.count &&
		 extend(tables, done.last_pc));
	if (!out->count)
		out->frames[out->count++] = crash->pc;
}

int ky_crash_stack_walk(struct ky_crash_stack *out, const struct ky_crash_copy *crash,
			ky_crash_open_fn open, void *ctx)
{
	struct tables *tables;

	memset(out, 0, sizeof(*out));
	if (!crash->pc && !crash->stack_bytes)
		return 0;
	if (crash->register_count < REGISTERS_NEEDED)
		return KYMO_E_UNSUPPORTED;
	tables = ky_alloc(sizeof(*tables));
	if (!tables)
		return -ENOMEM;
	tables->memory = ky_alloc(AREA_BYTES + 64);
	if (tables->memory) {
		tables->area = (uint8_t *)(((uintptr_t)tables->memory + 63) & ~(uintptr_t)63);
		tables->used = (sizeof(struct ky_unwind_head) + 7) & ~(uint64_t)7;
		atomic_store_explicit(&head_of(tables)->used_bytes, tables->used,
				      memory_order_relaxed);
		tables->open = open;
		tables->ctx = ctx;
		(void)extend(tables, crash->pc);
		walk(tables, out, crash);
	}
	ky_free(tables->memory);
	ky_free(tables);
	return out->count ? 0 : -ENOMEM;
}
