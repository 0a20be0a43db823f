/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Polls that were open at the last check and have ended since: a check that comes only then finds
 * in the thread's records how long they were. */
#include <watch/watch_state.h>

static bool is_open(const struct ky_watchdog *watchdog, const struct ky_watch_open *poll)
{
	for (uint32_t i = 0; i < watchdog->snapshot.slot_count; i++) {
		const struct ky_snapshot_slot *slot = &watchdog->snapshot.slots[i];

		if (slot->is_open && slot->depth && slot->thread == poll->thread &&
		    slot->begin_ticks == poll->begin_ticks)
			return true;
	}
	return false;
}

/* Where it was open, or in the sub-buffer that its thread took afterwards. */
static bool find_end(struct ky_watchdog *watchdog, const struct ky_watch_open *poll,
		     uint64_t *end_ticks)
{
	struct ky_ring_snapshot *snapshot = &watchdog->snapshot;

	if (ky_ring_snapshot_poll_end(snapshot, poll->slot, poll->number, poll->begin_ticks,
				      end_ticks))
		return true;
	for (uint32_t i = 0; i < snapshot->slot_count; i++) {
		const struct ky_snapshot_slot *slot = &snapshot->slots[i];

		if (slot->is_open && slot->thread == poll->thread &&
		    ky_ring_snapshot_poll_end(snapshot, slot->slot, slot->number, poll->begin_ticks,
					      end_ticks))
			return true;
	}
	return false;
}

/* So much of it that we can vouch for. */
static uint64_t trusted_length(const struct ky_watchdog *watchdog, const struct ky_watch_open *poll,
			       uint64_t end_ticks)
{
	const struct ky_snapshot_thread *thread = &watchdog->snapshot.threads[poll->thread];
	uint64_t begin_ns = watchdog->now_ns - ky_watch_age(watchdog, poll->begin_ticks);
	uint64_t from_ns = ky_watch_max(watchdog->trusted_ns, thread->excused_ns);

	return ky_watch_since(watchdog->now_ns - ky_watch_age(watchdog, end_ticks),
			      ky_watch_max(begin_ns, from_ns));
}

static bool has_moved(struct ky_watchdog *watchdog, const struct ky_watch_open *poll)
{
	const struct ky_snapshot_slot slot = {.thread = poll->thread,
					      .begin_ticks = poll->begin_ticks};

	return watchdog->snapshot.threads[poll->thread].replaced_ticks == poll->begin_ticks ||
	       ky_ring_snapshot_has_moved(&watchdog->snapshot, &slot);
}

static void judge(struct ky_watchdog *watchdog, const struct ky_watch_open *poll, uint64_t length)
{
	const struct ky_snapshot_thread *thread = &watchdog->snapshot.threads[poll->thread];
	const struct ky_watch_about about = {thread->tid,     poll->thread,      poll->task,
					     thread->runtime, poll->begin_ticks, 0};
	bool is_noted = thread->stuck_ticks == poll->begin_ticks;

	for (uint32_t i = 0; i < watchdog->rule_count; i++) {
		struct ky_watch_rule *rule = &watchdog->rules[i];
		bool is_held = is_noted && thread->rules_held >> rule->index & 1u;

		if (rule->rule.kind == KY_RULE_POLL && length > rule->rule.threshold &&
		    !(is_noted && thread->rules_fired >> rule->index & 1u))
			(void)ky_watch_fire(watchdog, rule, length, &about, &is_held);
	}
}

uint64_t ky_watch_least_poll(const struct ky_watchdog *watchdog)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < watchdog->rule_count; i++) {
		const struct ky_rule *rule = &watchdog->rules[i].rule;

		if (rule->kind == KY_RULE_POLL && rule->threshold < least)
			least = rule->threshold;
	}
	return least;
}

static void note_open(struct ky_watchdog *watchdog)
{
	watchdog->open_count = 0;
	for (uint32_t i = 0; i < watchdog->snapshot.slot_count; i++) {
		const struct ky_snapshot_slot *slot = &watchdog->snapshot.slots[i];

		if (slot->is_open && slot->depth && watchdog->open_count < KY_WATCH_OPEN_MAX)
			watchdog->open[watchdog->open_count++] = (struct ky_watch_open){
				.slot = slot->slot,
				.thread = slot->thread,
				.number = slot->number,
				.begin_ticks = slot->begin_ticks,
				.task = slot->task};
	}
}

void ky_watch_ended(struct ky_watchdog *watchdog)
{
	uint64_t least = ky_watch_least_poll(watchdog), end_ticks, length;

	for (uint32_t i = 0; i < watchdog->open_count; i++) {
		const struct ky_watch_open *poll = &watchdog->open[i];

		/* Before it has been open for so long no record need be read. */
		if (trusted_length(watchdog, poll, watchdog->ticks) <= least ||
		    is_open(watchdog, poll) || !find_end(watchdog, poll, &end_ticks))
			continue;
		length = trusted_length(watchdog, poll, end_ticks);
		if (length > least && !has_moved(watchdog, poll))
			judge(watchdog, poll, length);
	}
	note_open(watchdog);
}
