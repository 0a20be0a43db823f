/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/profile_cpu.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

static bool is_keyed_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_keyed_row *one = a, *other = b;

	(void)ctx;
	if (one->site != other->site)
		return one->site < other->site;
	if (one->extra != other->extra)
		return one->extra < other->extra;
	return one->row < other->row;
}

static bool is_same(const struct ky_keyed_row *one, const struct ky_keyed_row *other)
{
	return one->site == other->site && one->extra == other->extra;
}

/* Returns the rows in groups and how many groups there are; NULL: no memory. */
static struct ky_keyed_row *group_rows(const struct ky_stack_profile *profile,
				       const struct ky_trace *trace, enum ky_stack_kind kind,
				       uint32_t *count, uint32_t *groups)
{
	const struct ky_samples *samples = &trace->samples;
	struct ky_keyed_row *keyed = ky_alloc((samples->counts[kind] + 1) * sizeof(*keyed));
	uint32_t i;

	*count = *groups = 0;
	if (!keyed)
		return NULL;
	for (i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];
		struct ky_keyed_row *key = &keyed[*count];

		if (row->kind != kind || !ky_stack_profile_has(profile, row))
			continue;
		key->row = i;
		key->site = row->stack == KY_NONE ? KY_NONE : profile->code.sites[row->stack];
		key->extra = 0;
		if (kind == KY_STACK_OFF_CPU)
			key->extra = (uint64_t)row->reason << 40 | (uint64_t)row->fd_kind << 32 |
				     row->syscall;
		(*count)++;
	}
	ky_sort(keyed, *count, sizeof(*keyed), is_keyed_before, NULL);
	for (i = 0; i < *count; i++)
		*groups += i == 0 || !is_same(&keyed[i], &keyed[i - 1]);
	return keyed;
}

/* ---- off CPU ---- */

static void add_parts(struct ky_off_cpu_parts *parts, const struct ky_stack_row *row, double weight)
{
	parts->blocked += weight * (double)(row->value - row->runnable_max_ns);
	parts->runnable += weight * (double)row->runnable_min_ns;
}

static void add_row(struct ky_total *total, struct ky_cluster *cluster,
		    const struct ky_trace *trace, const struct ky_stack_row *row)
{
	const struct ky_trace_off_window *window = row->sampler == KY_OFF_CPU_BY_SWITCHES ?
							   ky_trace_off_window_at(trace,
										  row->end_ns) :
							   NULL;

	if (!window || window->to_ns == window->from_ns)
		ky_total_add(total, row->weight, (double)row->value);
	else
		ky_cluster_add(total, cluster, window->to_ns,
			       (double)(window->to_ns - window->stretch_ns) /
				       (double)(window->to_ns - window->from_ns),
			       row->weight, (double)row->value);
}

static void add_wait(struct ky_stack_profile_wait *wait, struct ky_cluster *cluster,
		     const struct ky_trace *trace, const struct ky_stack_row *row)
{
	if (row->value > wait->max_ns || !wait->ns.count) {
		wait->max_ns = row->value;
		wait->max_at_ns = row->time_ns;
		wait->max_task = row->task;
	}
	wait->seen_ns += row->value;
	add_parts(&wait->parts, row, row->weight);
	add_row(&wait->ns, cluster, trace, row);
	ky_stack_profile_calls_add(&wait->calls, row);
}

/* Another process ended there, or a dump was made: the next window stands for that time, too. */
static bool is_passed(const struct ky_trace *trace, uint32_t at)
{
	const struct ky_trace_off_window *window = &trace->off_windows[at];

	return window->to_ns == window->from_ns && at + 1 < trace->off_window_count &&
	       window[1].stretch_ns < window->to_ns;
}

void ky_stack_profile_off_cpu_interval(const struct ky_stack_profile *profile, double *low,
				       double *high)
{
	double margin = ky_total_margin(&profile->off_cpu);

	*low = profile->off_cpu.sum - margin;
	*high = profile->off_cpu.sum + margin;
	if (*low < profile->off_cpu_seen_ns)
		*low = profile->off_cpu_seen_ns;
}

/* All of them in the order of time, so that those of one window follow each other. */
static void make_sum(struct ky_stack_profile *profile, const struct ky_trace *trace)
{
	const char *split = ky_trace_metadata(trace, "offcpu.split");
	bool has_wakes = split && strcmp(split, "wakeups") == 0;
	struct ky_cluster cluster = {.window = 0};
	uint32_t i;

	for (i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];

		if (row->kind != KY_STACK_OFF_CPU || !ky_stack_profile_has(profile, row))
			continue;
		add_parts(&profile->off_cpu_parts, row, row->weight);
		add_row(&profile->off_cpu, &cluster, trace, row);
		profile->off_cpu_seen_ns += (double)row->value;
	}
	ky_cluster_end(&profile->off_cpu, &cluster);
	for (i = 0; i < trace->off_window_count; i++) {
		const struct ky_trace_off_window *window = &trace->off_windows[i];

		if (window->to_ns < profile->from_ns || window->to_ns >= profile->to_ns)
			continue;
		profile->wake_wait_count += has_wakes ? window->wait_count : 0;
		profile->wake_unknown_count += has_wakes ? window->unwoken_count : 0;
		if (is_passed(trace, i))
			continue;
		profile->switches_observed_ns += window->to_ns - window->from_ns;
		profile->switches_stretch_ns += window->to_ns - window->stretch_ns;
		profile->switches_lost_count += window->lost_count;
	}
}

static bool is_wait_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_stack_profile_wait *one = a, *other = b;

	(void)ctx;
	if (one->ns.sum > other->ns.sum || one->ns.sum < other->ns.sum)
		return one->ns.sum > other->ns.sum;
	if (one->stack != other->stack)
		return one->stack < other->stack;
	if (one->reason != other->reason)
		return one->reason < other->reason;
	if (one->syscall != other->syscall)
		return one->syscall < other->syscall;
	return one->calls.fd_kind < other->calls.fd_kind;
}

static uint32_t bounded(uint32_t count)
{
	return count < KY_STACK_PROFILE_ROWS_MAX ? count : KY_STACK_PROFILE_ROWS_MAX;
}

/* rows: all of one wait. */
static int make_wait(struct ky_stack_profile_wait *wait, const struct ky_trace *trace,
		     const struct ky_keyed_row *rows, uint32_t count)
{
	const struct ky_stack_row *first = &trace->samples.rows[rows[0].row];
	struct ky_cluster cluster = {.window = 0};

	wait->stack = rows[0].site;
	wait->reason = first->reason;
	wait->syscall = first->syscall;
	for (uint32_t i = 0; i < count; i++)
		add_wait(wait, &cluster, trace, &trace->samples.rows[rows[i].row]);
	ky_cluster_end(&wait->ns, &cluster);
	return ky_stack_profile_wakers(wait, trace, rows, count);
}

static int make_waits(struct ky_stack_profile *profile, const struct ky_trace *trace)
{
	uint32_t count, groups, i, next, at = 0;
	struct ky_keyed_row *keyed = group_rows(profile, trace, KY_STACK_OFF_CPU, &count, &groups);
	int result = 0;

	make_sum(profile, trace);
	if (!keyed)
		return -ENOMEM;
	profile->waits = ky_alloc((groups + 1u) * sizeof(*profile->waits));
	if (!profile->waits)
		result = -ENOMEM;
	for (i = 0; i < count && result == 0; i = next) {
		for (next = i + 1; next < count && is_same(&keyed[next], &keyed[i]);)
			next++;
		result = make_wait(&profile->waits[at++], trace, &keyed[i], next - i);
	}
	ky_free(keyed);
	if (result < 0)
		return result;
	ky_sort(profile->waits, groups, sizeof(*profile->waits), is_wait_before, NULL);
	profile->wait_total = groups;
	profile->wait_count = bounded(groups);
	return 0;
}

/* ---- await points ---- */

/* Of each task the places of the last wait in the range are where it waits, unless it ended. */
static uint32_t *last_places(const struct ky_stack_profile *profile, const struct ky_trace *trace)
{
	uint32_t *last = ky_alloc((trace->task_count + 1u) * sizeof(*last)), i;

	for (i = 0; last && i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];

		if (row->kind == KY_STACK_PLACE && row->task != KY_NONE &&
		    (!profile->shutdown_ns || row->time_ns < profile->shutdown_ns) &&
		    ky_stack_profile_has(profile, row))
			last[row->task] = i + 1;
	}
	return last;
}

static bool is_waiting(const struct ky_stack_profile *profile, const struct ky_trace *trace,
		       const uint32_t *last, uint32_t row_index)
{
	const struct ky_stack_row *row = &trace->samples.rows[row_index];
	uint64_t at_ns = profile->shutdown_ns;
	const struct ky_task *task;

	/* It may wait for several things at once: all of the last wait. */
	if (row->task == KY_NONE || !last[row->task] || row->reason == KY_PLACE_REPORTED_POLLED ||
	    trace->samples.rows[last[row->task] - 1].end_ns != row->end_ns)
		return false;
	task = &trace->tasks[row->task];
	/* What ended its last wait may have ended its block_on. */
	if (!at_ns && task->flags & KY_TASK_ROOT && row->reason == KY_PLACE_WAITED)
		return false;
	if (at_ns && row->end_ns < at_ns)
		return false;
	return !(task->flags & KY_TASK_ENDED) || task->end_ns >= (at_ns ? at_ns : profile->to_ns);
}

static void add_place(struct ky_stack_profile_place *place, const struct ky_stack_row *row,
		      bool is_waiting_now)
{
	if (is_waiting_now) {
		if (!place->also_count || row->time_ns < place->since_ns) {
			place->since_ns = row->time_ns;
			place->since_task = row->task;
		}
		if (row->since_ns && row->since_ns < row->time_ns &&
		    (!place->known_ns || row->since_ns < place->known_ns))
			place->known_ns = row->since_ns;
		place->also_count++; /* for now */
	}
	if (row->flags & KY_ROW_END_UNSAFE || row->task == KY_NONE)
		place->unsafe_count++;
	else if (ky_place_has_time(row))
		ky_total_add(&place->ns, row->weight, (double)row->value);
	else if (row->flags & KY_ROW_ALSO && row->value >= KY_LONG_WAIT_NS)
		place->also_ns += row->value;
}

static bool is_place_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_stack_profile_place *one = a, *other = b;

	(void)ctx;
	if (one->task_count != other->task_count)
		return one->task_count > other->task_count;
	if (one->also_count != other->also_count)
		return one->also_count > other->also_count;
	if (one->ns.sum > other->ns.sum || one->ns.sum < other->ns.sum)
		return one->ns.sum > other->ns.sum;
	if (one->also_ns != other->also_ns)
		return one->also_ns > other->also_ns;
	return one->stack < other->stack;
}

/* A task that waits at a place. */
struct standing {
	uint32_t task, place;
};

static bool is_standing_before(const void *a, const void *b, const void *ctx)
{
	const struct standing *one = a, *other = b;

	(void)ctx;
	return one->task != other->task ? one->task < other->task : one->place < other->place;
}

/* One that waits for several things at once stands at several places, and is one task. */
static void count_once(struct ky_stack_profile *profile, struct standing *list, uint32_t count)
{
	uint32_t i, next, best;

	ky_sort(list, count, sizeof(*list), is_standing_before, NULL);
	for (i = 0; i < count; i = next) {
		uint64_t most = 0;

		best = list[i].place;
		for (next = i; next < count && list[next].task == list[i].task; next++) {
			const struct ky_stack_profile_place *place =
				&profile->places[list[next].place];

			if (place->task_count + place->also_count <= most)
				continue;
			most = place->task_count + place->also_count;
			best = list[next].place;
		}
		profile->places[best].task_count++;
		profile->places[best].also_count--;
		profile->waiting_count++;
	}
}

static int make_places(struct ky_stack_profile *profile, const struct ky_trace *trace)
{
	uint32_t count, groups, i, at = 0;
	struct ky_keyed_row *keyed = group_rows(profile, trace, KY_STACK_PLACE, &count, &groups);
	uint32_t *last = last_places(profile, trace);
	uint32_t *counted = ky_alloc((trace->task_count + 1u) * sizeof(*counted));
	struct standing *standing = ky_alloc((count + 1u) * sizeof(*standing));
	uint32_t standing_count = 0;

	profile->places = ky_alloc((groups + 1u) * sizeof(*profile->places));
	if (!keyed || !last || !counted || !standing || !profile->places) {
		ky_free(standing);
		ky_free(counted);
		ky_free(keyed);
		ky_free(last);
		return -ENOMEM;
	}
	for (i = 0; i < count; i++) {
		bool is_now = is_waiting(profile, trace, last, keyed[i].row);
		uint32_t task = trace->samples.rows[keyed[i].row].task;

		at += i > 0 && !is_same(&keyed[i], &keyed[i - 1]);
		profile->places[at].stack = keyed[i].site;
		is_now = is_now && counted[task] != at + 1; /* captured, and reported again */
		if (is_now) {
			counted[task] = at + 1;
			standing[standing_count++] = (struct standing){task, at};
		}
		add_place(&profile->places[at], &trace->samples.rows[keyed[i].row], is_now);
	}
	count_once(profile, standing, standing_count);
	ky_free(standing);
	ky_free(counted);
	ky_free(keyed);
	ky_free(last);
	ky_sort(profile->places, groups, sizeof(*profile->places), is_place_before, NULL);
	profile->place_total = groups;
	profile->place_count = bounded(groups);
	return 0;
}

int ky_stack_profile_waits(struct ky_stack_profile *profile, const struct ky_trace *trace)
{
	int result = make_waits(profile, trace);

	if (result == 0)
		result = make_places(profile, trace);
	if (result == 0)
		result = ky_waiting_kinds_make(profile, trace);
	if (result == 0)
		result = ky_stack_profile_heap(profile, trace);
	return result;
}

/* ---- the worst polls ---- */

static void add_to_poll(struct ky_stack_profile *profile, struct ky_stack_profile_poll *worst,
			const struct ky_stack_row *row)
{
	uint32_t site = row->stack == KY_NONE ? KY_NONE : profile->code.sites[row->stack], i;

	if (row->kind == KY_STACK_CPU) {
		worst->cpu_count++;
		worst->cpu += ky_stack_profile_weight(profile, row);
		for (i = 0; i < worst->cpu_row_count && worst->cpu_rows[i].stack != site; i++) {
		}
		if (i == KY_STACK_PROFILE_WORST_ROWS)
			return;
		worst->cpu_row_count += i == worst->cpu_row_count;
		worst->cpu_rows[i].stack = site;
		worst->cpu_rows[i].count++;
		worst->cpu_rows[i].weight += ky_stack_profile_weight(profile, row);
		return;
	}
	worst->off_count++;
	worst->off_ns += row->value;
	worst->preempted_ns += row->reason == KY_WAIT_PREEMPTED ? row->value : 0;
	worst->fault_ns += row->reason == KY_WAIT_FAULT ? row->value : 0;
	for (i = 0; i < worst->off_row_count; i++)
		if (worst->off_rows[i].stack == site && worst->off_rows[i].reason == row->reason &&
		    worst->off_rows[i].syscall == row->syscall &&
		    worst->off_rows[i].calls.fd_kind == row->fd_kind)
			break;
	if (i == KY_STACK_PROFILE_WORST_ROWS)
		return;
	worst->off_row_count += i == worst->off_row_count;
	worst->off_rows[i].stack = site;
	worst->off_rows[i].reason = row->reason;
	worst->off_rows[i].syscall = row->syscall;
	worst->off_rows[i].count++;
	worst->off_rows[i].ns += row->value;
	add_parts(&worst->off_rows[i].parts, row, 1.0);
	ky_stack_profile_calls_add(&worst->off_rows[i].calls, row);
}

static void order_rows(struct ky_stack_profile_poll *worst)
{
	uint32_t i, k;

	for (i = 1; i < worst->cpu_row_count; i++)
		for (k = i; k > 0 && worst->cpu_rows[k].weight > worst->cpu_rows[k - 1].weight;
		     k--) {
			__typeof__(worst->cpu_rows[0]) moved = worst->cpu_rows[k];

			worst->cpu_rows[k] = worst->cpu_rows[k - 1];
			worst->cpu_rows[k - 1] = moved;
		}
	for (i = 1; i < worst->off_row_count; i++)
		for (k = i; k > 0 && worst->off_rows[k].ns > worst->off_rows[k - 1].ns; k--) {
			__typeof__(worst->off_rows[0]) moved = worst->off_rows[k];

			worst->off_rows[k] = worst->off_rows[k - 1];
			worst->off_rows[k - 1] = moved;
		}
}

void ky_stack_profile_worst(struct ky_stack_profile *profile, const struct ky_trace *trace,
			    const struct ky_report *report)
{
	uint32_t i, k;

	for (i = 0; i < report->worst_poll_count && i < KY_STACK_PROFILE_WORST; i++)
		profile->worst[profile->worst_count++].poll = report->worst_polls[i].poll;
	for (i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];

		if ((row->kind != KY_STACK_CPU && row->kind != KY_STACK_OFF_CPU) ||
		    !row->poll_start_ns || row->flags & KY_ROW_BLOCKING)
			continue;
		for (k = 0; k < profile->worst_count; k++)
			if (profile->worst[k].poll.start_ns == row->poll_start_ns &&
			    profile->worst[k].poll.task == row->task)
				add_to_poll(profile, &profile->worst[k], row);
	}
	for (k = 0; k < profile->worst_count; k++)
		order_rows(&profile->worst[k]);
}
