/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/profile_cpu.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

/* Sums of one scope; by function, cleared by walking those that were touched. */
struct scope {
	struct ky_stack_profile *profile;
	const struct ky_trace *trace;
	struct ky_stack_profile_function *sums;
	uint32_t *stamps; /* the last sample that counted it */
	uint32_t *touched;
	uint32_t touched_count, sample;
	struct ky_stack_profile_cpu *out;
};

double ky_stack_profile_weight(const struct ky_stack_profile *profile,
			       const struct ky_stack_row *row)
{
	return profile->is_by_time ? (double)row->value : 1.0;
}

static void scope_begin(struct scope *scope, struct ky_stack_profile_cpu *out, uint32_t name)
{
	scope->out = out;
	out->name = name;
}

static void scope_add(struct scope *scope, const struct ky_stack_row *row)
{
	double weight = ky_stack_profile_weight(scope->profile, row);
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	bool is_leaf = true;

	ky_weights_add(&scope->out->all, weight);
	scope->out->truncated_count += (row->flags & KY_ROW_TRUNCATED) != 0;
	scope->out->stackless_count += row->stack == KY_NONE;
	scope->sample++;
	ky_code_walk_begin(&walk, &scope->profile->code, row->stack);
	while ((line = ky_code_walk_next(&walk))) {
		struct ky_stack_profile_function *sum = &scope->sums[line->function];

		/* It stands below every poll and around every call that it watches: what those do
		 * is not its own. */
		if (line->is_recorder && !is_leaf)
			continue;
		if (!sum->total_count)
			scope->touched[scope->touched_count++] = line->function;
		if (is_leaf) {
			sum->self_count++;
			sum->self += weight;
		}
		is_leaf = false;
		if (scope->stamps[line->function] == scope->sample)
			continue; /* recursion */
		scope->stamps[line->function] = scope->sample;
		sum->total_count++;
		sum->total += weight;
	}
}

static bool is_function_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_stack_profile_function *one = a, *other = b;
	const struct ky_code_stacks *code = ctx;

	if (one->self > other->self || one->self < other->self)
		return one->self > other->self;
	if (one->total > other->total || one->total < other->total)
		return one->total > other->total;
	if (one->function == other->function)
		return false;
	return strcmp(code->lines[code->function_lines[one->function]].name,
		      code->lines[code->function_lines[other->function]].name) < 0;
}

static bool is_total_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_stack_profile_function *one = a, *other = b;

	if (one->total > other->total || one->total < other->total)
		return one->total > other->total;
	return is_function_before(a, b, ctx);
}

/* Those with most time of their own, and of the others those with most beneath them, which in a
 * large program would be none of the first. Returns how many are left, in the order of all. */
static uint32_t keep_most(struct ky_stack_profile_function *list, uint32_t count, uint32_t by_self,
			  uint32_t by_total, const struct ky_code_stacks *code)
{
	ky_sort(list, count, sizeof(*list), is_function_before, code);
	if (count <= by_self + by_total)
		return count;
	ky_sort(list + by_self, count - by_self, sizeof(*list), is_total_before, code);
	ky_sort(list, by_self + by_total, sizeof(*list), is_function_before, code);
	return by_self + by_total;
}

/* How many functions are kept for their self time, and for their total. */
static int scope_end(struct scope *scope, uint32_t by_self, uint32_t by_total)
{
	struct ky_stack_profile_cpu *out = scope->out;
	uint64_t lost = scope->profile->lost[KY_STACK_CPU];
	uint32_t i, count = scope->touched_count;
	struct ky_stack_profile_function *list = ky_alloc((count + 1u) * sizeof(*list)), *kept;

	if (!list)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		uint32_t function = scope->touched[i];

		list[i] = scope->sums[function];
		list[i].function = function;
		memset(&scope->sums[function], 0, sizeof(*scope->sums));
	}
	scope->touched_count = 0;
	out->function_total = count;
	out->function_count = keep_most(list, count, by_self, by_total, &scope->profile->code);
	kept = ky_realloc(list, (out->function_count + 1u) * sizeof(*list));
	out->functions = kept ? kept : list;
	for (i = 0; i < out->function_count; i++) {
		struct ky_stack_profile_function *function = &out->functions[i];

		function->self_share = ky_share_of(function->self, &out->all, lost);
		function->total_share = ky_share_of(function->total, &out->all, lost);
	}
	return 0;
}

static int make_all(struct scope *scope)
{
	struct ky_stack_profile *profile = scope->profile;
	const struct ky_samples *samples = &scope->trace->samples;
	int result;
	uint32_t i;

	scope_begin(scope, &profile->cpu, KY_NONE);
	for (i = 0; i < samples->row_count; i++)
		if (samples->rows[i].kind == KY_STACK_CPU &&
		    ky_stack_profile_has(profile, &samples->rows[i]))
			scope_add(scope, &samples->rows[i]);
	result = scope_end(scope, KY_STACK_PROFILE_FUNCTIONS_MAX / 2,
			   KY_STACK_PROFILE_FUNCTIONS_MAX / 2);
	if (result < 0)
		return result;
	scope_begin(scope, &profile->long_polls, KY_NONE);
	for (i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];

		if (row->kind != KY_STACK_CPU || !ky_stack_profile_has(profile, row) ||
		    row->flags & KY_ROW_BLOCKING || row->poll_ns <= profile->long_poll_ns)
			continue;
		if (row->flags & KY_ROW_POLL_UNSAFE)
			profile->long_unsafe_count++;
		else
			scope_add(scope, row);
	}
	result = scope_end(scope, KY_STACK_PROFILE_FUNCTIONS_MAX / 2,
			   KY_STACK_PROFILE_FUNCTIONS_MAX / 2);
	profile->long_polls.share = ky_share_of(profile->long_polls.all.sum, &profile->cpu.all,
						profile->lost[KY_STACK_CPU]);
	return result;
}

struct task_kind {
	uint32_t name, row;
};

static bool is_by_name(const void *a, const void *b, const void *ctx)
{
	const struct task_kind *one = a, *other = b;

	(void)ctx;
	return one->name != other->name ? one->name < other->name : one->row < other->row;
}

static bool is_kind_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_stack_profile_cpu *one = a, *other = b;

	(void)ctx;
	if (one->all.sum > other->all.sum || one->all.sum < other->all.sum)
		return one->all.sum > other->all.sum;
	return one->name < other->name;
}

static int add_kinds(struct scope *scope, const struct task_kind *kinds, uint32_t count)
{
	struct ky_stack_profile *profile = scope->profile;
	uint32_t i, first, groups = 0;
	int result = 0;

	for (i = 0; i < count; i++)
		groups += i == 0 || kinds[i].name != kinds[i - 1].name;
	profile->kinds = ky_alloc((groups + 1u) * sizeof(*profile->kinds));
	if (!profile->kinds)
		return -ENOMEM;
	for (i = 0; i < count && result == 0;) {
		struct ky_stack_profile_cpu *group = &profile->kinds[profile->kind_count++];

		first = i;
		scope_begin(scope, group, kinds[i].name);
		for (; i < count && kinds[i].name == kinds[first].name; i++)
			scope_add(scope, &scope->trace->samples.rows[kinds[i].row]);
		result = scope_end(scope, KY_STACK_PROFILE_KIND_FUNCTIONS, 0);
		group->share = ky_share_of(group->all.sum, &profile->cpu.all,
					   profile->lost[KY_STACK_CPU]);
	}
	ky_sort(profile->kinds, profile->kind_count, sizeof(*profile->kinds), is_kind_before, NULL);
	return result;
}

static int make_kinds(struct scope *scope)
{
	const struct ky_samples *samples = &scope->trace->samples;
	struct task_kind *kinds = ky_alloc((scope->profile->counts[KY_STACK_CPU] + 1) *
					   sizeof(*kinds));
	uint32_t i, count = 0;
	int result;

	if (!kinds)
		return -ENOMEM;
	for (i = 0; i < samples->row_count; i++)
		if (samples->rows[i].kind == KY_STACK_CPU &&
		    ky_stack_profile_has(scope->profile, &samples->rows[i]))
			kinds[count++] = (struct task_kind){samples->rows[i].name, i};
	ky_sort(kinds, count, sizeof(*kinds), is_by_name, NULL);
	result = add_kinds(scope, kinds, count);
	ky_free(kinds);
	return result;
}

int ky_stack_profile_cpu(struct ky_stack_profile *profile, const struct ky_trace *trace)
{
	size_t functions = (size_t)profile->code.function_count + 1;
	struct scope scope = {.profile = profile, .trace = trace};
	int result = -ENOMEM;

	scope.sums = ky_alloc(functions * sizeof(*scope.sums));
	scope.stamps = ky_alloc(functions * sizeof(uint32_t));
	scope.touched = ky_alloc(functions * sizeof(uint32_t));
	if (scope.sums && scope.stamps && scope.touched) {
		result = make_all(&scope);
		if (result == 0)
			result = make_kinds(&scope);
	}
	ky_free(scope.sums);
	ky_free(scope.stamps);
	ky_free(scope.touched);
	return result;
}
