/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* code.c - the walk. Decoding is a guess at every byte offset; a target counts only when it is the
 * exact start of a known symbol, so a wrong guess costs time and not truth. */
#include "code.h"

#include <elf.h>

#include "tokio_arch.h"

struct code_walk {
	const struct ky_tokio_elf *elf;
	ky_tokio_visit_fn visit;
	ky_tokio_code_fn read;
	void *ctx;
	const uintptr_t *targets; /* addresses searched for, or NULL */
	size_t target_count;
	uintptr_t mentioned;
	uint32_t count, count_max;
	bool is_done;
	const struct ky_tokio_symbol *queue[KY_TOKIO_CODE_FUNCTIONS_MAX];
};

static void enqueue(struct code_walk *walk, const struct ky_tokio_symbol *symbol)
{
	if (walk->count == walk->count_max)
		return;
	for (uint32_t i = 0; i < walk->count; i++)
		if (walk->queue[i] == symbol)
			return;
	walk->queue[walk->count++] = symbol;
}

static void take_target(struct code_walk *walk, uintptr_t target)
{
	const struct ky_tokio_symbol *symbol;

	for (size_t i = 0; i < walk->target_count; i++)
		if (walk->targets[i] == target && !walk->mentioned)
			walk->mentioned = target;
	symbol = ky_tokio_elf_find(walk->elf, target);
	if (symbol && symbol->address == target &&
	    ky_tokio_elf_is_in(walk->elf, target, 1, PF_R | PF_X, PF_W))
		enqueue(walk, symbol);
}

static void read_code(struct code_walk *walk, const struct ky_tokio_symbol *symbol)
{
	size_t bytes = symbol->bytes ? symbol->bytes : 64;
	const uint8_t *code = (const uint8_t *)symbol->address;

	if (bytes > KY_TOKIO_CODE_BYTES_MAX)
		bytes = KY_TOKIO_CODE_BYTES_MAX;
	if (!ky_tokio_elf_is_in(walk->elf, symbol->address, bytes, PF_R | PF_X, PF_W))
		return;
	if (walk->read && walk->read(walk->ctx, code, bytes)) {
		walk->is_done = true;
		return;
	}
	for (size_t at = 0; at < bytes; at++) {
		bool is_slot;
		uintptr_t target = ky_tokio_arch_target(code + at, bytes - at, &is_slot);

		if (is_slot && (target % sizeof(target) ||
				!ky_tokio_elf_is_in(walk->elf, target, sizeof(target), PF_R, PF_X)))
			continue;
		if (is_slot)
			target = *(const uintptr_t *)target;
		if (target)
			take_target(walk, target);
	}
}

/* All names of one address. */
static int visit_twins(const struct code_walk *walk, const struct ky_tokio_symbol *symbol)
{
	int decided;

	do {
		decided = walk->visit(walk->ctx, ky_tokio_elf_name(walk->elf, symbol));
		symbol = ky_tokio_elf_twin(walk->elf, symbol);
	} while (!decided && symbol);
	return decided;
}

static int run(struct code_walk *walk, uintptr_t start)
{
	const struct ky_tokio_symbol *symbol = ky_tokio_elf_find(walk->elf, start);

	if (!symbol || symbol->address != start)
		return 0;
	enqueue(walk, symbol);
	for (uint32_t i = 0; i < walk->count && !walk->mentioned && !walk->is_done; i++) {
		int decided = walk->visit ? visit_twins(walk, walk->queue[i]) : 0;

		if (decided)
			return decided;
		read_code(walk, walk->queue[i]);
	}
	return 0;
}

int ky_tokio_code_walk(const struct ky_tokio_elf *elf, uintptr_t start, ky_tokio_visit_fn visit,
		       void *ctx)
{
	struct code_walk walk = {
		.elf = elf, .visit = visit, .ctx = ctx, .count_max = KY_TOKIO_CODE_FUNCTIONS_MAX};

	return run(&walk, start);
}

uintptr_t ky_tokio_code_mention(const struct ky_tokio_elf *elf, uintptr_t start,
				const uintptr_t *targets, size_t target_count)
{
	struct code_walk walk = {.elf = elf,
				 .targets = targets,
				 .target_count = target_count,
				 .count_max = KY_TOKIO_CODE_FUNCTIONS_MAX};

	run(&walk, start);
	return walk.mentioned;
}

bool ky_tokio_code_each(const struct ky_tokio_elf *elf, uintptr_t start, uint32_t count_max,
			ky_tokio_code_fn read, void *ctx)
{
	struct code_walk walk = {.elf = elf, .read = read, .ctx = ctx, .count_max = count_max};

	if (count_max > KY_TOKIO_CODE_FUNCTIONS_MAX)
		walk.count_max = KY_TOKIO_CODE_FUNCTIONS_MAX;
	run(&walk, start);
	return walk.is_done;
}
