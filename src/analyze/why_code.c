/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/why_code.h>

#define FUNCTIONS_MAX 64u
#define ROWS_MIN 3u /* fewer samples are no evidence of where the time went */

struct code_function {
	const struct ky_code_line *line; /* of its stack with most weight */
	double weight, line_weight;
	uint64_t count;
};

struct code_search {
	struct code_function list[FUNCTIONS_MAX];
	uint32_t count;
	uint64_t all;
	double weight;
};

static void add(struct code_search *search, const struct ky_code_line *line, double weight)
{
	uint32_t at;

	search->all++;
	search->weight += weight;
	for (at = 0; at < search->count; at++)
		if (search->list[at].line->function == line->function)
			break;
	if (at == FUNCTIONS_MAX)
		return;
	if (at == search->count)
		search->list[search->count++] = (struct code_function){.line = line};
	search->list[at].weight += weight;
	search->list[at].count++;
	if (weight > search->list[at].line_weight) {
		search->list[at].line_weight = weight;
		search->list[at].line = line;
	}
}

static bool find(struct ky_why_group *group, const struct ky_trace *trace,
		 const struct ky_code_stacks *stacks, uint8_t kind, uint64_t long_ns)
{
	struct code_search search = {.count = 0};
	const struct code_function *most = NULL;

	for (uint32_t i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];
		const struct ky_code_line *line;

		if (row->kind != kind || row->task == KY_NONE || row->stack == KY_NONE ||
		    row->flags & KY_ROW_BLOCKING || row->poll_ns < long_ns ||
		    trace->tasks[row->task].name != group->culprit)
			continue;
		line = ky_code_own_line(stacks, row->stack);
		if (line)
			add(&search, line, row->weight * (row->value ? (double)row->value : 1.0));
	}
	for (uint32_t i = 0; i < search.count; i++)
		if (!most || search.list[i].weight > most->weight)
			most = &search.list[i];
	if (!most || search.all < ROWS_MIN)
		return false;
	group->code = most->line;
	group->code_share = most->weight / search.weight;
	group->code_count = search.all;
	group->is_code_off_cpu = kind == KY_STACK_OFF_CPU;
	return true;
}

void ky_why_find_code(struct ky_why *why, const struct ky_trace *trace,
		      const struct ky_code_stacks *stacks)
{
	for (uint32_t i = 0; i < why->group_count && i < KY_WHY_CODE_GROUPS; i++) {
		struct ky_why_group *group = &why->groups[i];
		uint64_t off_ns = group->sums[KY_PART_BEHIND_BLOCKED];
		bool is_off = off_ns > group->sums[KY_PART_BEHIND_CPU];
		uint64_t long_ns = group->longest.duration_ns / 2;

		if (group->culprit == KY_NONE || !long_ns)
			continue;
		if (!find(group, trace, stacks, is_off ? KY_STACK_OFF_CPU : KY_STACK_CPU, long_ns))
			(void)find(group, trace, stacks, is_off ? KY_STACK_CPU : KY_STACK_OFF_CPU,
				   long_ns);
	}
}
