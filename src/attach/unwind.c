/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <attach/unwind.h>
#include <base/alloc.h>
#include <string.h>
#include <unwind/cfi.h>

_Static_assert(KY_UNWIND_REGISTERS <= KY_ARCH_REGISTERS_MAX, "a frame holds what rows speak of");

struct attach_walker {
	const struct ky_process *process;
	const struct ky_attach_module *last; /* that the machine has read from */
	struct ky_cfi_machine machine;
};

static size_t read_module(void *ctx, uint64_t address, void *out, size_t bytes)
{
	return ky_module_read(ctx, address, out, bytes);
}

/* The row for a pc, as linked. */
static bool find_row(struct attach_walker *walker, struct ky_attach_module *module, uint64_t pc)
{
	const struct ky_cfi_source source = {.read = read_module,
					     .ctx = module,
					     .header = module->frame_table,
					     .header_bytes = module->frame_table_bytes};

	if (walker->last != module)
		ky_cfi_reset(&walker->machine);
	walker->last = module;
	return ky_cfi_find(&walker->machine, &source, pc);
}

/* The caller's register, where the row says that it lies. */
static bool restore(const struct attach_walker *walker, uint64_t cfa, uint32_t idx,
		    const struct ky_arch_frame *inner, uint64_t *value)
{
	const struct ky_cfi_rule *rule = &walker->machine.row.rules[idx];
	uint64_t from = cfa;

	if (rule->kind == KY_CFI_IS_CFA)
		*value = cfa + (uint64_t)rule->offset;
	if (rule->kind == KY_CFI_AT_REGISTER)
		from = inner->registers[rule->base];
	if (rule->kind != KY_CFI_AT_CFA && rule->kind != KY_CFI_AT_REGISTER)
		return true;
	return ky_process_read(walker->process, from + (uint64_t)rule->offset, value,
			       sizeof(*value));
}

/* Returns false at the end of the walk; end says which. */
static bool step_out(struct attach_walker *walker, struct ky_arch_frame *frame, bool is_caller,
		     enum ky_unwind_end *end)
{
	struct ky_attach_module *module = ky_process_module_of(walker->process, frame->pc, NULL);
	struct ky_arch_frame outer = *frame;
	const struct ky_cfi_row *row = &walker->machine.row;
	const struct ky_cfi_rule *ra = &row->rules[KY_UNWIND_RA];
	uint64_t cfa, pc = module ? frame->pc - module->bias : 0;

	*end = KY_UNWIND_UNKNOWN;
	/* A caller's pc is after its call, which may end the function: search one byte before
	 * it. */
	if (!module || !find_row(walker, module, is_caller ? pc - 1 : pc) ||
	    walker->machine.is_signal)
		return false;
	if (ra->kind == KY_CFI_UNDEFINED) {
		*end = KY_UNWIND_OUTERMOST; /* how the first frame says that it has no caller */
		return false;
	}
	if (row->cfa != KY_CFI_CFA_REGISTER || ra->kind == KY_CFI_BEYOND)
		return false;
	cfa = frame->registers[row->cfa_register] + (uint64_t)row->cfa_offset;
	for (uint32_t i = 0; i < KY_UNWIND_REGISTERS; i++)
		if (!restore(walker, cfa, i, frame, &outer.registers[i]))
			return false;
	outer.registers[KY_UNWIND_SP] = cfa;
	outer.pc = outer.registers[KY_UNWIND_RA] & KY_UNWIND_PC_MASK;
	if (cfa <= frame->registers[KY_UNWIND_SP])
		return false; /* stacks grow one way */
	*frame = outer;
	return true;
}

void ky_unwind_thread(struct ky_unwind *out, const struct ky_process *process,
		      const struct ky_arch_frame *registers)
{
	struct attach_walker *walker = ky_alloc(sizeof(*walker));
	struct ky_arch_frame frame = *registers;

	out->count = 0;
	out->end = walker ? KY_UNWIND_TOO_DEEP : KY_UNWIND_UNKNOWN;
	if (walker)
		walker->process = process;
	while (walker && out->count < KY_UNWIND_FRAMES_MAX) {
		out->pcs[out->count++] = frame.pc;
		if (!step_out(walker, &frame, out->count > 1, &out->end))
			break;
		out->end = KY_UNWIND_TOO_DEEP;
		if (frame.pc == 0) {
			out->end = KY_UNWIND_OUTERMOST;
			break;
		}
	}
	ky_free(walker);
}
