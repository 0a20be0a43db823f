/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/culprit.h>

#include <base/text.h>

#define FUNCTIONS_MAX 128u /* of one poll; more of them have no culprit among them */
#define STACK_MAX 64u

struct own_function {
	const struct ky_code_line *line; /* as first seen */
	uint64_t count, depth;           /* sum of own functions between it and the leaf */
};

struct culprit_search {
	struct own_function list[FUNCTIONS_MAX];
	uint32_t count;
	uint64_t all;
};

/* The program's own functions of a stack, the innermost first, each once. */
static uint32_t own_functions(const struct ky_code_stacks *code, uint32_t stack,
			      const struct ky_code_line **out)
{
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	uint32_t count = 0, i;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk)) && count < STACK_MAX &&
	       !(count && ky_code_polls_task(line))) {
		if (!ky_code_is_own(line) || line->file[0] == '.' ||
		    (!*line->file && !ky_text_contains(line->name, "::")))
			continue;
		for (i = 0; i < count && out[i]->function != line->function; i++) {
		}
		if (i == count)
			out[count++] = line;
	}
	return count;
}

static void add_stack(struct culprit_search *search, const struct ky_code_stacks *code,
		      uint32_t stack)
{
	const struct ky_code_line *own[STACK_MAX];
	uint32_t count = own_functions(code, stack, own), at;

	search->all++;
	for (uint32_t i = 0; i < count; i++) {
		for (at = 0; at < search->count; at++)
			if (search->list[at].line->function == own[i]->function)
				break;
		if (at == FUNCTIONS_MAX)
			return;
		if (at == search->count)
			search->list[search->count++] = (struct own_function){.line = own[i]};
		search->list[at].count++;
		search->list[at].depth += i;
	}
}

static bool is_common(const struct culprit_search *search, const struct own_function *candidate)
{
	return candidate->count * 4 >= search->all * 3;
}

/* The innermost that most samples have, further out than `inside`; NULL inside: of all. */
static const struct own_function *innermost(const struct culprit_search *search,
					    const struct own_function *inside)
{
	const struct own_function *best = NULL;

	for (uint32_t i = 0; i < search->count; i++) {
		const struct own_function *one = &search->list[i];

		if (!is_common(search, one) || one == inside ||
		    (inside && one->depth * inside->count <= inside->depth * one->count))
			continue;
		if (!best || one->depth * best->count < best->depth * one->count)
			best = one;
	}
	return best;
}

static bool conclude(struct ky_culprit *out, const struct culprit_search *search)
{
	const struct own_function *inner = innermost(search, NULL), *caller;

	if (!inner)
		return false;
	caller = innermost(search, inner);
	*out = (struct ky_culprit){.line = caller ? caller->line : inner->line,
				   .callee = caller ? inner->line : NULL,
				   .count = caller ? caller->count : inner->count,
				   .all = search->all};
	return true;
}

bool ky_culprit_of_stacks(struct ky_culprit *out, const struct ky_code_stacks *code,
			  const uint32_t *list, size_t count)
{
	struct culprit_search search = {.count = 0};

	for (size_t i = 0; i < count; i++)
		add_stack(&search, code, list[i]);
	return conclude(out, &search);
}

bool ky_culprit_find(struct ky_culprit *out, const struct ky_trace *trace,
		     const struct ky_stack_profile *profile, const struct ky_poll *poll)
{
	struct culprit_search search = {.count = 0};

	for (uint32_t i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];

		if (row->kind == KY_STACK_CPU && row->poll_start_ns == poll->start_ns &&
		    row->task == poll->task && !(row->flags & KY_ROW_BLOCKING))
			add_stack(&search, &profile->code, row->stack);
	}
	return conclude(out, &search);
}
