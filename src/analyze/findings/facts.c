/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/facts.h>

#include <analyze/findings/finding.h>
#include <analyze/poll_parts.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <base/text.h>
#include <errno.h>
#include <read/handovers.h>
#include <read/turns.h>

uint32_t ky_share_ppm(uint64_t part, uint64_t whole)
{
	if (part >= whole)
		return whole ? 1000000 : 0;
	while (part > UINT64_MAX / 1000000) {
		part >>= 1;
		whole >>= 1;
	}
	return (uint32_t)(part * 1000000 / whole);
}

uint64_t ky_kind_long_ns(const struct ky_kind_facts *kind)
{
	uint64_t ns = 0;

	for (uint32_t part = 0; part < KY_OWN_PARTS; part++)
		ns += kind->sums[part];
	return ns;
}

bool ky_facts_is_lossy(const struct ky_facts *facts, uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_trace *trace = facts->trace;

	for (uint32_t i = 0; i < trace->loss_count; i++)
		if (trace->losses[i].from_ns < to_ns && trace->losses[i].to_ns > from_ns)
			return true;
	return false;
}

/* Types that a function is generic over say nothing of what it does: app::serve<std::io::Stdout>
 * does not write. The type in front, as of <app::Log as std::io::Write>::write, does. */
bool ky_line_is_runtimes(const struct ky_code_line *line)
{
	static const char *const parts[] = {"tokio::runtime::"};

	return KY_LINE_HAS(line, parts);
}

bool ky_line_has(const struct ky_code_line *line, const char *const *parts, size_t count)
{
	const char *at = line->name + (*line->name == '<');

	for (uint32_t depth = 0; *at; at++) {
		for (size_t i = 0; !depth && i < count; i++)
			if (ky_text_begins(at, parts[i]))
				return true;
		if (*at == '<')
			depth++;
		else if (*at == '>' && depth && at[-1] != '-')
			depth--;
	}
	return false;
}

uint64_t ky_ppm_of(uint64_t ns, uint32_t ppm)
{
	return ns / 1000000 * ppm + ns % 1000000 * ppm / 1000000;
}

struct ky_kind_facts *ky_facts_kind(const struct ky_facts *facts, uint32_t name)
{
	for (uint32_t i = 0; i < facts->kind_count; i++)
		if (facts->kinds[i].name == name)
			return &facts->kinds[i];
	return NULL;
}

static bool take_groups(struct ky_facts *facts)
{
	const struct ky_report *report = facts->report;

	facts->kinds = ky_alloc((report->group_count + (size_t)1) * sizeof(*facts->kinds));
	if (!facts->kinds)
		return false;
	for (uint32_t i = 0; i < report->group_count; i++) {
		const struct ky_task_group *group = &report->groups[i];

		facts->kinds[facts->kind_count++] = (struct ky_kind_facts){
			.name = group->name,
			.is_runtimes = group->is_runtimes,
			.poll_count = group->poll_count,
			.busy_ns = group->busy_ns,
			.wake_count = group->wake_count};
		if (group->is_runtimes)
			continue;
		facts->poll_ns += group->busy_ns;
		facts->ready_ns += group->delay_ns;
	}
	return true;
}

/* block_in_place: another thread had the worker before the poll was over. */
static bool is_moved(const struct ky_facts *facts, const struct ky_poll *poll)
{
	uint64_t end_ns = poll->start_ns + poll->duration_ns;
	struct ky_kind_facts *kind;

	if (!ky_trace_is_handed_over(facts->trace, poll) &&
	    ky_trace_moved_before(facts->trace, poll->worker, end_ns) <= poll->start_ns)
		return false;
	kind = ky_facts_kind(facts, facts->trace->tasks[poll->task].name);
	if (kind)
		kind->moved_count++;
	return true;
}

static bool collect_longest(struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	uint64_t to_ns = facts->report->to_ns ? facts->report->to_ns : UINT64_MAX;
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;
		uint64_t row = ky_column_find(polls, facts->report->from_ns);

		for (; row < polls->row_count; row++) {
			if (!ky_trace_poll_exceeds(trace, worker, row, KY_FIND_LONG_NS))
				continue;
			ky_trace_poll(trace, worker, row, &poll);
			if (poll.start_ns >= to_ns)
				break;
			if (is_moved(facts, &poll))
				continue;
			if (!ky_longest_add(&facts->longest, &poll, row, poll.duration_ns))
				return false;
		}
	}
	ky_longest_finish(&facts->longest);
	return true;
}

static void add_cost(struct ky_kind_facts *kind, const struct ky_trace *trace,
		     const struct ky_poll *poll)
{
	const struct ky_trace_poll_cost *cost = ky_trace_poll_cost(trace, poll->worker,
								   poll->start_ns);
	const struct {
		uint32_t value;
		uint64_t *sum;
	} sums[] = {{KY_COST_MINOR_FAULTS, &kind->minor_faults},
		    {KY_COST_MAJOR_FAULTS, &kind->major_faults}};

	if (!cost)
		return;
	kind->cost_count++;
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
		if (cost->values[sums[i].value] != UINT64_MAX)
			*sums[i].sum += cost->values[sums[i].value];
}

static void split_longest(struct ky_facts *facts)
{
	struct ky_own_poll own;
	struct ky_poll poll;

	for (size_t i = 0; i < facts->longest.count; i++) {
		const struct ky_long_row *row = &facts->longest.rows[i];
		struct ky_kind_facts *kind;

		ky_trace_poll(facts->trace, row->worker, row->row, &poll);
		kind = ky_facts_kind(facts, facts->trace->tasks[poll.task].name);
		if (!kind)
			continue;
		ky_own_split(&own, facts->trace, &poll);
		add_cost(kind, facts->trace, &poll);
		kind->heavy_count += poll.duration_ns >= KY_FIND_WORST_NS_MIN;
		for (uint32_t part = 0; part < KY_OWN_PARTS; part++) {
			kind->sums[part] += own.sums[part];
			if (poll.duration_ns >= KY_FIND_WORST_NS_MIN) {
				kind->heavy_ns += own.sums[part];
				kind->heavy_sums[part] += own.sums[part];
			}
			if (own.sums[part] > kind->worst[part])
				kind->worst[part] = own.sums[part];
		}
		if (!kind->long_count++) {
			kind->longest = own;
			kind->long_first_ns = poll.start_ns;
		}
		kind->long_first_ns = ky_earlier(kind->long_first_ns, poll.start_ns);
		kind->long_last_ns = ky_later(kind->long_last_ns, poll.start_ns);
	}
}

uint64_t ky_facts_scaled(const struct ky_facts *facts, uint64_t ns)
{
	return (uint64_t)((double)ns * facts->ready_scale);
}

static bool is_behind(uint32_t part)
{
	return part == KY_PART_BEHIND_UNSPLIT || part == KY_PART_LIFO;
}

static void add_idle(const struct ky_facts *facts, struct ky_kind_facts *kind,
		     const struct ky_why_group *group)
{
	if (group->part == KY_PART_LIFO) {
		kind->lifo_ns += ky_facts_scaled(facts, group->long_ns);
		kind->lifo_idle_ns += ky_facts_scaled(facts, group->idle_long_ns);
		kind->lifo_delays += group->delay_count;
		return;
	}
	kind->idle_ns += ky_facts_scaled(facts, group->idle_ns - group->idle_long_ns);
	kind->idle_worst_ns = ky_later(kind->idle_worst_ns, group->idle_worst_ns);
	kind->idle_delays += group->idle_count;
}

static int take_delays(struct ky_facts *facts)
{
	const struct ky_why_options options = {.from_ns = facts->report->from_ns,
					       .to_ns = facts->report->to_ns,
					       .over_ns = KY_FIND_LONG_NS,
					       .slow_max = KY_FIND_SPLIT_POLLS_MAX};
	int result = ky_why_make(&facts->why, facts->trace, &options);

	if (result)
		return result;
	facts->ready_scale = facts->why->left_out_count && facts->why->slow_ns ?
				     (double)facts->why->slow_all_ns / (double)facts->why->slow_ns :
				     1.0;
	for (uint32_t i = 0; i < facts->why->group_count; i++) {
		const struct ky_why_group *group = &facts->why->groups[i];
		struct ky_kind_facts *kind = is_behind(group->part) ?
						     ky_facts_kind(facts, group->culprit) :
						     NULL;

		if (!kind)
			continue;
		kind->behind_ns += ky_facts_scaled(facts, group->long_ns);
		kind->behind_all_ns += ky_facts_scaled(facts, group->ns);
		kind->behind_delays += group->delay_count;
		kind->behind_cpu_worst_ns = ky_later(kind->behind_cpu_worst_ns,
						     group->cpu_worst_ns);
		kind->behind_blocked_worst_ns = ky_later(kind->behind_blocked_worst_ns,
							 group->blocked_worst_ns);
		add_idle(facts, kind, group);
		for (uint32_t part = 0; part < KY_PARTS; part++)
			kind->behind_sums[part] += ky_facts_scaled(facts, group->sums[part]);
	}
	facts->slow_delays = facts->why->slow_count;
	return 0;
}

int ky_facts_make(struct ky_facts *out, const struct ky_trace *trace,
		  const struct ky_report *report, const struct ky_stack_profile *profile)
{
	int result;

	*out = (struct ky_facts){.trace = trace,
				 .report = report,
				 .profile = profile,
				 .longest.max = KY_FIND_SPLIT_POLLS_MAX,
				 .is_lossy = trace->lost_records != 0};
	if (!take_groups(out) || !collect_longest(out)) {
		ky_facts_release(out);
		return -ENOMEM;
	}
	split_longest(out);
	result = take_delays(out);
	if (result)
		ky_facts_release(out);
	return result;
}

void ky_facts_release(struct ky_facts *facts)
{
	ky_why_free(facts->why);
	ky_longest_release(&facts->longest);
	ky_free(facts->kinds);
	*facts = (struct ky_facts){0};
}
