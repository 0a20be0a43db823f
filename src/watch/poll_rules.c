/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Polls that stay open and runtimes that stand still: judged by the ring, with what the threads do
 * meanwhile noted from /proc. */
#include <watch/watch_state.h>

#include <kymo/emit.h>
#include <string.h>

#define GROUPS_MAX 64u
#define SPARE_PARTS 8u

/* How long the poll has been open that we can vouch for. */
static uint64_t trusted_age(struct ky_watchdog *watchdog, const struct ky_snapshot_slot *slot)
{
	const struct ky_snapshot_thread *thread = ky_ring_snapshot_thread(&watchdog->snapshot,
									  slot);
	uint64_t age = ky_watch_age(watchdog, slot->begin_ticks);
	uint64_t from = ky_watch_max(watchdog->trusted_ns, thread->excused_ns);
	uint64_t trusted = ky_watch_since(watchdog->now_ns, from);

	return age < trusted ? age : trusted;
}

static bool is_watched(const struct ky_snapshot_slot *slot)
{
	return slot->is_open && slot->depth;
}

/* ---- notes ---- */

static void begin_stuck(struct ky_watchdog *watchdog, const struct ky_snapshot_slot *slot)
{
	struct ky_snapshot_thread *thread = ky_ring_snapshot_thread(&watchdog->snapshot, slot);

	if (thread->stuck_ticks == slot->begin_ticks)
		return;
	thread->stuck_ticks = slot->begin_ticks;
	thread->stuck_begin_ns = watchdog->now_ns - ky_watch_age(watchdog, slot->begin_ticks);
	thread->rules_fired = thread->rules_held = 0;
	thread->is_stopped = false;
	thread->note_next_ns = 0;
	if (ky_ring_snapshot_has_moved(&watchdog->snapshot, slot))
		thread->replaced_ticks = slot->begin_ticks;
}

static void take_note(struct ky_watchdog *watchdog, const struct ky_snapshot_slot *slot)
{
	struct ky_snapshot_thread *thread = ky_ring_snapshot_thread(&watchdog->snapshot, slot);
	struct ky_stuck_note note = {.monotonic_ns = watchdog->now_ns, .task = slot->task};
	bool is_there, is_stopped;

	note.begin_ns = thread->stuck_begin_ns;
	is_there = ky_proc_reader_thread(&watchdog->proc, thread->tid, &note);
	is_stopped = note.state == 'T' || note.state == 't';
	/* A thread that is gone, or about to be, hangs in nothing. */
	if (!is_there || note.state == 'Z' || note.state == 'X') {
		thread->excused_ns = watchdog->now_ns;
		return;
	}
	if (is_stopped) {
		thread->excused_ns = watchdog->now_ns;
		watchdog->stopped_count += !thread->is_stopped;
		watchdog->stats.stopped_count += !thread->is_stopped;
	}
	thread->is_stopped = is_stopped;
	ky_watch_stack(watchdog, &note);
	ky_stuck_logs_add(&watchdog->logs, slot->thread, slot->begin_ticks, &note);
}

/* When to check this poll again. */
static uint64_t next_check(const struct ky_watchdog *watchdog,
			   const struct ky_snapshot_thread *thread, uint64_t trusted_ns)
{
	uint64_t pace = ky_watch_clamp(trusted_ns / 32, KY_CHECK_INTERVAL_NS, KY_WATCH_SECOND);
	uint64_t next = watchdog->now_ns + pace;

	for (uint32_t i = 0; i < watchdog->rule_count; i++) {
		const struct ky_watch_rule *rule = &watchdog->rules[i];
		uint64_t due;

		if (rule->rule.kind != KY_RULE_POLL || thread->rules_fired >> rule->index & 1u ||
		    rule->rule.threshold < trusted_ns)
			continue;
		due = watchdog->now_ns + (rule->rule.threshold - trusted_ns) + 1;
		next = due < next ? due : next;
	}
	return next;
}

/* ---- poll ---- */

/* Whether the rule says something about this poll now. */
static bool exceeds(struct ky_watchdog *watchdog, const struct ky_watch_rule *rule,
		    const struct ky_snapshot_slot *slot, uint64_t *trusted_ns)
{
	const struct ky_snapshot_thread *thread = ky_ring_snapshot_thread(&watchdog->snapshot,
									  slot);

	if (!is_watched(slot) || thread->stuck_ticks != slot->begin_ticks || thread->is_stopped ||
	    thread->replaced_ticks == slot->begin_ticks || thread->rules_fired >> rule->index & 1u)
		return false;
	*trusted_ns = trusted_age(watchdog, slot);
	return *trusted_ns > rule->rule.threshold;
}

/* The longest of those, whose worker still waits for it. */
static struct ky_snapshot_slot *find_longest(struct ky_watchdog *watchdog,
					     struct ky_watch_rule *rule, uint64_t *longest_ns,
					     bool *all_held)
{
	struct ky_ring_snapshot *snapshot = &watchdog->snapshot;
	struct ky_snapshot_slot *found;
	uint64_t trusted_ns;

	do {
		found = NULL;
		*longest_ns = 0;
		*all_held = true;
		for (uint32_t i = 0; i < snapshot->slot_count; i++) {
			struct ky_snapshot_slot *slot = &snapshot->slots[i];

			if (!exceeds(watchdog, rule, slot, &trusted_ns))
				continue;
			*all_held &= ky_ring_snapshot_thread(snapshot, slot)->rules_held >>
					     rule->index &
				     1u;
			if (trusted_ns <= *longest_ns)
				continue;
			*longest_ns = trusted_ns;
			found = slot;
		}
		if (!found || !ky_ring_snapshot_has_moved(snapshot, found))
			return found;
		ky_ring_snapshot_thread(snapshot, found)->replaced_ticks = found->begin_ticks;
	} while (found);
	return NULL;
}

static void judge_polls(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	struct ky_ring_snapshot *snapshot = &watchdog->snapshot;
	uint64_t longest_ns, trusted_ns;
	struct ky_watch_about about;
	struct ky_snapshot_slot *found;
	bool is_held, has_fired;

	found = find_longest(watchdog, rule, &longest_ns, &is_held);
	if (!found)
		return;
	about = (struct ky_watch_about){
		ky_ring_snapshot_thread(snapshot, found)->tid,     found->thread,      found->task,
		ky_ring_snapshot_thread(snapshot, found)->runtime, found->begin_ticks, 0};
	has_fired = ky_watch_fire(watchdog, rule, longest_ns, &about, &is_held);
	/* The others that are too long at the same moment belong to the same story. */
	for (uint32_t i = 0; i < snapshot->slot_count; i++) {
		struct ky_snapshot_thread *thread = ky_ring_snapshot_thread(snapshot,
									    &snapshot->slots[i]);

		if (!exceeds(watchdog, rule, &snapshot->slots[i], &trusted_ns))
			continue;
		if (has_fired)
			thread->rules_fired |= 1u << rule->index;
		else
			thread->rules_held |= 1u << rule->index;
	}
}

/* While no poll is open. A check that is late by one such part still misses no poll over the
 * shortest threshold. */
static uint64_t idle_pace(const struct ky_watchdog *watchdog)
{
	uint64_t least = 2 * watchdog->note_after_ns;

	return ky_watch_clamp(least - least / SPARE_PARTS, KY_CHECK_INTERVAL_NS, KY_WATCH_SECOND);
}

uint64_t ky_watch_unseen_ns(const struct ky_watchdog *watchdog)
{
	uint64_t least = ky_watch_least_poll(watchdog), pace;

	if (least == UINT64_MAX)
		return UINT64_MAX;
	pace = idle_pace(watchdog);
	return ky_watch_max(least, pace + pace / SPARE_PARTS);
}

uint64_t ky_watch_polls(struct ky_watchdog *watchdog)
{
	struct ky_ring_snapshot *snapshot = &watchdog->snapshot;
	uint64_t after = watchdog->note_after_ns, trusted_ns, wanted;
	/* A poll seen for the first time is at most one threshold old, so it is reported at the
	 * latest one shortest interval after that. */
	uint64_t next = watchdog->now_ns + idle_pace(watchdog);

	for (uint32_t i = 0; i < snapshot->slot_count; i++) {
		struct ky_snapshot_slot *slot = &snapshot->slots[i];
		struct ky_snapshot_thread *thread = ky_ring_snapshot_thread(snapshot, slot);

		if (!is_watched(slot))
			continue;
		trusted_ns = trusted_age(watchdog, slot);
		if (trusted_ns < after) {
			wanted = watchdog->now_ns + (after - trusted_ns);
		} else {
			begin_stuck(watchdog, slot);
			if (thread->replaced_ticks == slot->begin_ticks)
				continue;
			if (watchdog->now_ns >= thread->note_next_ns) {
				take_note(watchdog, slot);
				thread->note_next_ns = next_check(watchdog, thread, trusted_ns);
			}
			wanted = thread->note_next_ns;
		}
		next = wanted < next ? wanted : next;
	}
	ky_watch_ended(watchdog);
	for (uint32_t i = 0; i < watchdog->rule_count; i++) {
		if (watchdog->rules[i].rule.kind == KY_RULE_POLL)
			judge_polls(watchdog, &watchdog->rules[i]);
	}
	return next;
}

/* ---- stall ---- */

/* The workers of one runtime. */
struct poll_group {
	uint64_t runtime;
	uint64_t last_ns; /* the last that any of them did */
	uint32_t polls, parked;
	uint32_t tid, thread; /* of the longest poll */
	uint64_t task, begin_ticks;
};

static struct poll_group *find_group(struct poll_group *groups, uint32_t *count, uint64_t runtime)
{
	for (uint32_t i = 0; i < *count; i++) {
		if (groups[i].runtime == runtime)
			return &groups[i];
	}
	if (*count == GROUPS_MAX)
		return &groups[GROUPS_MAX - 1];
	groups[*count] = (struct poll_group){.runtime = runtime};
	return &groups[(*count)++];
}

static bool is_park_reported(const struct ky_watchdog *watchdog)
{
	const struct ky_ring_control *control = watchdog->snapshot.view.control;

	return control &&
	       atomic_load_explicit(&control->gates, memory_order_relaxed) & KYMO_GATE_PARK;
}

/* What a silent worker is doing. False: it is none any more. */
static bool add_silent(struct ky_watchdog *watchdog, struct poll_group *group,
		       const struct ky_snapshot_slot *slot)
{
	const struct ky_snapshot_thread *thread = ky_ring_snapshot_thread(&watchdog->snapshot,
									  slot);

	if (!slot->depth) {
		group->parked += thread->last_record == KYMO_RECORD_PARK ||
				 !is_park_reported(watchdog);
		return true;
	}
	if (ky_ring_snapshot_is_replaced(&watchdog->snapshot, slot->thread, slot->begin_ticks))
		return false;
	group->polls++;
	if (!group->begin_ticks || slot->begin_ticks < group->begin_ticks) {
		group->begin_ticks = slot->begin_ticks;
		group->task = slot->task;
		group->tid = thread->tid;
		group->thread = slot->thread;
	}
	return true;
}

/* Everything that workers have done, to the record where it is quiet for half the threshold. */
static uint32_t find_groups(struct ky_watchdog *watchdog, const struct ky_watch_rule *rule,
			    struct poll_group *groups)
{
	struct ky_ring_snapshot *snapshot = &watchdog->snapshot;
	uint32_t count = 0;

	for (uint32_t i = 0; i < snapshot->slot_count; i++) {
		struct ky_snapshot_slot *slot = &snapshot->slots[i];
		struct ky_snapshot_thread *thread = ky_ring_snapshot_thread(snapshot, slot);
		struct poll_group *group;
		uint64_t last_ns = thread->changed_ns;

		if (!slot->is_open || !thread->is_worker)
			continue;
		group = find_group(groups, &count, thread->runtime);
		if (ky_watch_since(watchdog->now_ns, last_ns) >= rule->rule.threshold / 2 &&
		    ky_ring_snapshot_read(snapshot, slot)) {
			thread = ky_ring_snapshot_thread(snapshot, slot);
			last_ns = watchdog->now_ns - ky_watch_age(watchdog, thread->last_ticks);
			if (!thread->is_worker || !add_silent(watchdog, group, slot))
				continue;
		}
		last_ns = ky_watch_max(last_ns, thread->excused_ns);
		group->last_ns = ky_watch_max(group->last_ns, last_ns);
	}
	return count;
}

void ky_watch_stall(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	struct poll_group groups[GROUPS_MAX], *worst = NULL;
	uint32_t count = find_groups(watchdog, rule, groups);
	uint64_t threshold = rule->rule.threshold, longest_ns = 0, least_ns = UINT64_MAX;
	uint64_t floor_ns = ky_watch_max(watchdog->trusted_ns, watchdog->stopped_ns);
	uint64_t pace = ky_watch_clamp(threshold / 5, KY_CHECK_INTERVAL_NS, KY_WATCH_SECOND);
	struct ky_watch_about about;

	/* A worker whose runtime is unknown vouches for all of them. */
	for (uint32_t i = 0; i < count; i++) {
		if (!groups[i].runtime)
			floor_ns = ky_watch_max(floor_ns, groups[i].last_ns);
	}
	for (uint32_t i = 0; i < count; i++) {
		uint64_t last_ns = ky_watch_max(groups[i].last_ns, floor_ns);
		uint64_t quiet_ns = ky_watch_since(watchdog->now_ns, last_ns);

		least_ns = quiet_ns < least_ns ? quiet_ns : least_ns;
		if (!groups[i].polls || groups[i].parked || quiet_ns <= longest_ns)
			continue;
		longest_ns = quiet_ns;
		worst = &groups[i];
	}
	/* Tasks are ready and no worker takes them, although all sleep. */
	if (!worst && count && least_ns > threshold && watchdog->ready_since_ns &&
	    ky_watch_since(watchdog->now_ns, watchdog->ready_since_ns) > threshold) {
		longest_ns = least_ns;
		worst = &groups[0];
		worst->runtime = count == 1 ? worst->runtime : 0;
	}
	rule->next_ns = watchdog->now_ns + pace;
	if (worst && longest_ns <= threshold && threshold - longest_ns < pace)
		rule->next_ns = watchdog->now_ns + (threshold - longest_ns) + 1;
	if (!worst) {
		ky_watch_level(watchdog, rule, false, 0, 0, NULL);
		return;
	}
	about = (struct ky_watch_about){worst->tid,     0, worst->task,
					worst->runtime, 0, watchdog->now_ns - longest_ns};
	ky_watch_level(watchdog, rule, longest_ns > threshold, watchdog->now_ns, longest_ns,
		       &about);
}
