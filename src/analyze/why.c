/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/why.h>

#include <analyze/crate_name.h>
#include <analyze/idle_peers.h>
#include <analyze/longest.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <errno.h>
#include <read/id_map.h>
#include <read/sort.h>
#include <string.h>

/* A delay behind thousands of polls, as of timers that expire at once, has as many parts: when so
 * many are split the rest is left out, as those beyond KY_WHY_SLOW_MAX are. 1 us a part. */
#define PARTS_MAX 2000000u
#define GROUP_BYTES_MAX (UINT64_C(1) << 28)
#define NAME_BITS 29 /* a poll's name index has 24 */

struct why_making {
	const struct ky_trace *trace;
	const struct ky_why_options *options;
	struct ky_why *why;
	struct ky_longest slow, polls;
	struct ky_pages pages; /* of the map */
	struct ky_id_map group_of_key;
	uint32_t group_capacity;
	struct ky_poll_homes homes;
	struct ky_notified notified;
	struct ky_idle_peers peers;
	struct ky_idle_range *ranges; /* of the slow delays */
	struct ky_delay delay;        /* being split */
	uint8_t *runtimes; /* by name: 1 the runtime's own task, 2 another; 0 not asked yet */
	uint64_t serial;   /* of that delay */
	uint32_t worst_max;
};

/* ---- which ---- */

/* The runtime's own work is nobody's delay. */
static bool is_runtimes(const struct why_making *making, uint32_t name)
{
	uint8_t *known = name != KY_NONE ? &making->runtimes[name] : NULL;

	if (known && !*known)
		*known = ky_crate_name_is_runtime_task(ky_trace_name(making->trace, name)) ? 1 : 2;
	return known && *known == 1;
}

static bool is_wanted(const struct why_making *making, const struct ky_poll *poll)
{
	const struct ky_why_options *options = making->options;

	if (poll->delay_state || poll->start_ns < options->from_ns)
		return false;
	return !is_runtimes(making, making->trace->tasks[poll->task].name);
}

static uint64_t ready_of(const struct ky_poll *poll)
{
	return poll->delay_state ? poll->start_ns : poll->start_ns - poll->delay_ns;
}

/* Not inlined: see walk_batch() in read/delay.c. */
__attribute__((noinline)) static bool collect_lane(struct why_making *making, uint32_t lane)
{
	const struct ky_trace *trace = making->trace;
	const struct ky_column *polls = &trace->workers[lane].polls;
	uint64_t to_ns = making->options->to_ns ? making->options->to_ns : UINT64_MAX;
	struct ky_cursor cursor;
	struct ky_poll poll;
	bool is_row = ky_cursor_begin(&cursor, polls,
				      ky_column_find(polls, making->options->from_ns));

	for (; is_row && cursor.time_ns < to_ns; is_row = ky_cursor_next(&cursor)) {
		ky_trace_poll_at(trace, lane, &cursor, &poll);
		if (making->options->has_task &&
		    trace->tasks[poll.task].id != making->options->task_id)
			continue;
		if (making->options->spans &&
		    !ky_span_times_cover(making->options->spans, poll.task, ready_of(&poll),
					 poll.start_ns + poll.duration_ns))
			continue;
		if (!ky_longest_add(&making->polls, &poll, cursor.row, poll.duration_ns))
			return false;
		if (poll.delay_state)
			continue;
		making->why->delay_count++;
		/* Of one task each delay is of interest. */
		if ((!making->options->has_task && poll.delay_ns <= making->why->over_ns) ||
		    !is_wanted(making, &poll))
			continue;
		making->why->slow_count++;
		making->why->slow_all_ns += poll.delay_ns;
		if (!ky_longest_add(&making->slow, &poll, cursor.row, poll.delay_ns))
			return false;
	}
	return true;
}

/* ---- together ---- */

static bool is_behind(enum ky_part part)
{
	return part == KY_PART_BEHIND_CPU || part == KY_PART_BEHIND_BLOCKED ||
	       part == KY_PART_BEHIND_RUNNABLE || part == KY_PART_BEHIND_UNSPLIT;
}

static struct ky_why_group *find_group(struct why_making *making, uint32_t victim, uint32_t culprit,
				       enum ky_part part)
{
	struct ky_why *why = making->why;
	uint64_t key = ((uint64_t)(victim + 1) << NAME_BITS | (culprit + 1)) << 4 | (unsigned)part;
	uint32_t *slot = ky_id_map_slot(&making->group_of_key, key);

	if (!slot)
		return NULL;
	if (*slot)
		return &why->groups[*slot - 1];
	if (why->group_count == making->group_capacity) {
		uint32_t capacity = making->group_capacity ? making->group_capacity * 2 : 64;
		struct ky_why_group *groups = ky_realloc(why->groups, capacity * sizeof(*groups));

		if (!groups)
			return NULL;
		why->groups = groups;
		making->group_capacity = capacity;
	}
	why->groups[why->group_count] = (struct ky_why_group){
		.victim = victim, .culprit = culprit, .part = (uint8_t)part};
	*slot = ++why->group_count;
	return &why->groups[*slot - 1];
}

/* A part behind a poll, that began then. */
static bool add_idle(struct why_making *making, struct ky_why_group *group,
		     const struct ky_delay_part *part, uint64_t from_ns, bool is_long)
{
	uint64_t ns;

	if (!ky_idle_peers_ns(&making->peers, part->worker, from_ns, from_ns + part->ns, &ns))
		return false;
	group->idle_ns += ns;
	if (is_long)
		group->idle_long_ns += ns;
	if (!ns || is_long || part->part == KY_PART_LIFO)
		return true;
	making->why->idle_ns[part->worker] += ns;
	group->idle_count += !group->delay_idle_ns;
	group->delay_idle_ns += ns;
	group->idle_worst_ns = ky_later(group->idle_worst_ns, group->delay_idle_ns);
	return true;
}

/* Of polls that are long by themselves. */
static void add_behind(struct ky_why_group *group, const struct ky_delay_part *part)
{
	if (part->part == KY_PART_BEHIND_CPU)
		group->delay_cpu_ns += part->ns;
	else if (part->part == KY_PART_BEHIND_BLOCKED)
		group->delay_blocked_ns += part->ns;
	group->cpu_worst_ns = ky_later(group->cpu_worst_ns, group->delay_cpu_ns);
	group->blocked_worst_ns = ky_later(group->blocked_worst_ns, group->delay_blocked_ns);
}

static bool add_part(struct why_making *making, const struct ky_delay_part *part, uint64_t from_ns)
{
	const struct ky_trace *trace = making->trace;
	const struct ky_delay *delay = &making->delay;
	enum ky_part kind = is_behind(part->part) ? KY_PART_BEHIND_UNSPLIT :
						    (enum ky_part)part->part;
	struct ky_poll poll = {.task = KY_NONE};
	struct ky_why_group *group;
	uint32_t culprit = KY_NONE;

	if (part->poll_row != KY_NO_ROW && (is_behind(part->part) || part->part == KY_PART_LIFO)) {
		ky_trace_poll(trace, part->worker, part->poll_row, &poll);
		culprit = trace->tasks[poll.task].name;
	}
	group = find_group(making, trace->tasks[delay->poll.task].name, culprit, kind);
	if (!group)
		return false;
	if (group->last_delay != making->serial) {
		group->delay_count++;
		group->delay_idle_ns = group->delay_cpu_ns = group->delay_blocked_ns = 0;
	}
	group->last_delay = making->serial;
	group->ns += part->ns;
	group->sums[part->part] += part->ns;
	if (poll.task != KY_NONE && poll.duration_ns > making->why->over_ns) {
		group->long_ns += part->ns;
		add_behind(group, part);
	}
	if (poll.task != KY_NONE && poll.duration_ns > group->longest.duration_ns)
		group->longest = poll;
	return poll.task == KY_NONE ||
	       add_idle(making, group, part, from_ns, poll.duration_ns > making->why->over_ns);
}

static bool take_delay(struct why_making *making, const struct ky_long_row *slow,
		       uint64_t *part_count)
{
	const struct ky_split split = {making->trace, &making->homes, &making->notified};
	struct ky_why *why = making->why;
	struct ky_poll poll;
	uint64_t at_ns;

	ky_trace_poll(making->trace, slow->worker, slow->row, &poll);
	if (!ky_delay_split(&making->delay, &split, &poll))
		return false;
	making->serial++;
	*part_count += making->delay.part_count;
	at_ns = making->delay.ready_ns;
	for (uint32_t i = 0; i < making->delay.part_count; i++) {
		if (!add_part(making, &making->delay.parts[i], at_ns))
			return false;
		at_ns += making->delay.parts[i].ns;
	}
	for (uint32_t part = 0; part < KY_PARTS; part++)
		why->sums[part] += making->delay.sums[part];
	why->slow_ns += making->delay.delay_ns;
	why->ambiguous_ns += making->delay.ambiguous_ns;
	why->moved_count += making->delay.is_moved;
	if (why->worst_count < making->worst_max) { /* they come longest first */
		why->worst[why->worst_count++] = making->delay;
		memset(&making->delay, 0, sizeof(making->delay));
		return ky_delay_context(&why->contexts[why->worst_count - 1], making->trace,
					&why->worst[why->worst_count - 1]);
	}
	return true;
}

static bool is_before(const void *first, const void *second, const void *ctx)
{
	const struct ky_why_group *a = first, *b = second;
	const struct ky_trace *trace = ctx;
	int order;

	if (a->ns != b->ns)
		return a->ns > b->ns;
	if (a->part != b->part)
		return a->part < b->part;
	order = strcmp(ky_trace_name(trace, a->victim), ky_trace_name(trace, b->victim));
	if (!order)
		order = strcmp(ky_trace_name(trace, a->culprit), ky_trace_name(trace, b->culprit));
	return order < 0;
}

/* ---- all of it ---- */

static bool collect(struct why_making *making)
{
	const struct ky_trace *trace = making->trace;

	for (uint32_t lane = 0; lane < trace->worker_count; lane++) {
		if (!collect_lane(making, lane))
			return false;
	}
	ky_longest_finish(&making->slow);
	ky_longest_finish(&making->polls);
	making->why->left_out_count = making->why->slow_count - making->slow.count;
	return true;
}

/* The longest polls, of those that are slow by the same measure; of one task each. */
static void split_polls(struct why_making *making)
{
	struct ky_why *why = making->why;
	struct ky_poll poll;

	for (size_t i = 0; i < making->polls.count && why->poll_count < making->worst_max; i++) {
		const struct ky_long_row *one = &making->polls.rows[i];

		if (one->length_ns <= why->over_ns && !making->options->has_task)
			break;
		ky_trace_poll(making->trace, one->worker, one->row, &poll);
		ky_own_split(&why->polls[why->poll_count++], making->trace, &poll);
	}
}

static bool find_peers(struct why_making *making)
{
	making->ranges = ky_alloc((making->slow.count + 1) * sizeof(*making->ranges));
	if (!making->ranges)
		return false;
	for (size_t i = 0; i < making->slow.count; i++) {
		const struct ky_long_row *slow = &making->slow.rows[i];

		making->ranges[i] = (struct ky_idle_range){slow->start_ns - slow->length_ns,
							   slow->start_ns};
	}
	return ky_idle_peers_make(&making->peers, making->trace, &making->notified, making->ranges,
				  making->slow.count) == 0;
}

static bool split_all(struct why_making *making)
{
	struct ky_why *why = making->why;
	size_t idle_bytes = (making->trace->worker_count + (size_t)1) * sizeof(*why->idle_ns);
	uint64_t part_count = 0;

	why->worst = ky_alloc((making->worst_max + (size_t)1) * sizeof(*why->worst));
	why->contexts = ky_alloc((making->worst_max + (size_t)1) * sizeof(*why->contexts));
	why->polls = ky_alloc((making->worst_max + (size_t)1) * sizeof(*why->polls));
	why->idle_ns = ky_alloc(idle_bytes);
	if (!why->worst || !why->contexts || !why->polls || !why->idle_ns)
		return false;
	split_polls(making);
	for (size_t i = 0; i < making->slow.count; i++) {
		if (part_count > PARTS_MAX && why->worst_count == making->worst_max) {
			why->left_out_count += making->slow.count - i;
			break;
		}
		if (!take_delay(making, &making->slow.rows[i], &part_count))
			return false;
	}
	ky_sort(why->groups, why->group_count, sizeof(*why->groups), is_before, making->trace);
	return true;
}

int ky_why_make(struct ky_why **out, const struct ky_trace *trace,
		const struct ky_why_options *options)
{
	struct why_making making = {.trace = trace,
				    .options = options,
				    .slow.max = KY_WHY_SLOW_MAX,
				    .polls.max = KY_WHY_SLOW_MAX};
	bool is_made = false;

	*out = making.why = ky_alloc(sizeof(*making.why));
	if (!making.why)
		return -ENOMEM;
	memset(making.why, 0, sizeof(*making.why));
	making.why->over_ns = options->over_ns;
	if (options->slow_max && options->slow_max < KY_WHY_SLOW_MAX)
		making.slow.max = making.polls.max = options->slow_max;
	making.worst_max = options->worst_count ? options->worst_count : KY_WHY_WORST;
	if (making.worst_max > KY_WHY_WORST_MAX)
		making.worst_max = KY_WHY_WORST_MAX;
	ky_pages_init(&making.pages, GROUP_BYTES_MAX);
	ky_id_map_init(&making.group_of_key, &making.pages);
	making.runtimes = ky_alloc(ky_trace_name_count(trace) + (size_t)1);
	is_made = making.runtimes && collect(&making) &&
		  ky_poll_homes_make(&making.homes, trace) == 0 &&
		  ky_notified_make(&making.notified, trace) == 0 && find_peers(&making) &&
		  split_all(&making);
	ky_idle_peers_release(&making.peers);
	ky_free(making.ranges);
	ky_notified_release(&making.notified);
	ky_poll_homes_release(&making.homes);
	ky_delay_release(&making.delay);
	ky_id_map_release(&making.group_of_key);
	ky_pages_release(&making.pages);
	ky_free(making.runtimes);
	ky_longest_release(&making.slow);
	ky_longest_release(&making.polls);
	if (is_made)
		return 0;
	ky_why_free(making.why);
	*out = NULL;
	return -ENOMEM;
}

void ky_why_free(struct ky_why *why)
{
	if (!why)
		return;
	for (uint32_t i = 0; i < why->worst_count; i++)
		ky_delay_release(&why->worst[i]);
	ky_free(why->worst);
	ky_free(why->contexts);
	ky_free(why->polls);
	ky_free(why->groups);
	ky_free(why->idle_ns);
	ky_free(why);
}
