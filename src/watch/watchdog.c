/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Opening, the pace of checks, our own lateness, and what lets a firing through. */
#include <watch/watch_state.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <kymo/arch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LIFE_INTERVAL_NS KY_WATCH_SECOND
#define HOLE_NS_MIN KY_CHECK_INTERVAL_NS

/* ---- opening ---- */

static const char *why_unusable(struct ky_watchdog *watchdog, const struct ky_rule *rule)
{
	struct ky_proc_reader *proc = &watchdog->proc;
	uint32_t file = 0;
	uint64_t value;
	bool is_readable;

	if (ky_rule_needs_events(rule) && !watchdog->options.has_sums)
		return "needs the events, and nothing reads them here";
	switch (rule->kind) {
	case KY_RULE_COUNTER:
	case KY_RULE_ERRORS:
		return watchdog->snapshot.side ? NULL :
						 "needs counters, and this ring has no room for "
						 "them";
	case KY_RULE_CPU:
		return ky_proc_reader_cpu(proc, NULL, &value) ? NULL :
								"cannot read the process's stat";
	case KY_RULE_RSS:
		return ky_proc_reader_rss(proc, NULL, &value) ? NULL :
								"cannot read the process's statm";
	case KY_RULE_THROTTLED:
		return proc->cgroup.levels ? NULL : "finds no cgroup that counts throttling";
	case KY_RULE_RUNNABLE:
		is_readable = ky_proc_reader_run_delay(
			proc, watchdog->options.pid ? watchdog->options.pid : (uint32_t)getpid(),
			&file, &value);
		ky_proc_reader_forget(proc, &file);
		return is_readable ? NULL : "cannot read the schedstat of the process's threads";
	default:
		return NULL;
	}
}

static int add_rule(struct ky_watchdog *watchdog, const struct ky_rule *rule, uint32_t index)
{
	const struct ky_watchdog_options *options = &watchdog->options;
	struct ky_watch_rule *added = &watchdog->rules[watchdog->rule_count];
	const char *why = why_unusable(watchdog, rule);

	if (why) {
		if (options->errbuf && options->errbuf_bytes && !*options->errbuf)
			snprintf(options->errbuf, options->errbuf_bytes,
				 "trigger rule \"%s\" can never fire: it %s", rule->name, why);
		if (!options->unusable_rules)
			return -ENOTSUP;
		*options->unusable_rules |= UINT64_C(1) << index;
		return 0;
	}
	added->rule = *rule;
	added->index = index;
	if (rule->kind == KY_RULE_RUNNABLE) {
		added->delays = ky_alloc(KY_WATCH_DELAYS * sizeof(uint64_t) *
					 watchdog->snapshot.thread_max);
		if (!added->delays)
			return -ENOMEM;
	}
	if (rule->kind == KY_RULE_SPAN) {
		added->reported = ky_alloc(KY_SPANS * sizeof(*added->reported));
		if (!added->reported)
			return -ENOMEM;
	}
	watchdog->rule_count++;
	return 0;
}

/* Which of the times matter to our own lateness, and from when on polls are noted. */
static void find_times(struct ky_watchdog *watchdog)
{
	uint64_t least = UINT64_MAX;

	watchdog->note_after_ns = UINT64_MAX;
	for (uint32_t i = 0; i < watchdog->rule_count; i++) {
		const struct ky_rule *rule = &watchdog->rules[i].rule;
		uint64_t time = rule->duration_ns;

		if (rule->kind == KY_RULE_POLL || rule->kind == KY_RULE_STALL) {
			time = rule->threshold;
			if (time / 2 < watchdog->note_after_ns)
				watchdog->note_after_ns = time / 2;
		} else if (rule->kind == KY_RULE_RUNNABLE) {
			time = rule->threshold;
		}
		if (time && time < least)
			least = time;
	}
	if (least == UINT64_MAX)
		least = KY_WATCH_SECOND;
	watchdog->hole_ns = ky_watch_max(least / 2, HOLE_NS_MIN);
	watchdog->unseen_ns = ky_watch_unseen_ns(watchdog);
}

int ky_watchdog_open(struct ky_watchdog **out, const struct ky_watchdog_options *options)
{
	struct ky_watchdog *watchdog;
	int err;

	*out = NULL;
	if (options->errbuf && options->errbuf_bytes)
		*options->errbuf = 0;
	if (options->unusable_rules)
		*options->unusable_rules = 0;
	if (!options->fire || options->rule_count > KY_RULES_MAX)
		return -EINVAL;
	watchdog = ky_alloc(sizeof(*watchdog));
	if (!watchdog)
		return -ENOMEM;
	watchdog->options = *options;
	watchdog->proc.dir = -1;
	err = ky_ring_snapshot_open(&watchdog->snapshot, options->image, options->image_bytes);
	if (!err)
		ky_proc_reader_open(&watchdog->proc, options->proc, options->cgroup, options->pid,
				    watchdog->snapshot.view.header->pid_namespace);
	for (uint32_t i = 0; !err && i < options->rule_count; i++)
		err = add_rule(watchdog, &options->rules[i], i);
	if (err) {
		ky_watchdog_close(watchdog);
		return err;
	}
	ky_budget_init(&watchdog->budget, options->dumps_per_hour_max, options->dump_bytes_max);
	find_times(watchdog);
	*out = watchdog;
	return 0;
}

void ky_watchdog_close(struct ky_watchdog *watchdog)
{
	if (!watchdog)
		return;
	for (uint32_t i = 0; watchdog->snapshot.threads && i < watchdog->snapshot.thread_max; i++) {
		if (i > watchdog->snapshot.thread_last)
			break;
		ky_proc_reader_forget(&watchdog->proc, &watchdog->snapshot.threads[i].sched_file);
	}
	for (uint32_t i = 0; i < KY_RULES_MAX; i++) {
		ky_free(watchdog->rules[i].delays);
		ky_free(watchdog->rules[i].reported);
	}
	ky_proc_reader_drop(&watchdog->stat_file);
	ky_proc_reader_drop(&watchdog->statm_file);
	ky_proc_reader_close(&watchdog->proc);
	ky_ring_snapshot_release(&watchdog->snapshot);
	ky_free(watchdog);
}

void ky_watchdog_follow(struct ky_watchdog *watchdog, const struct ky_watchdog *before)
{
	watchdog->budget = before->budget;
	watchdog->fired_ns = before->fired_ns;
	watchdog->suppressed_count = before->suppressed_count;
	watchdog->suppressed_rules = before->suppressed_rules;
	watchdog->late_count = before->late_count;
	watchdog->late_max_ns = before->late_max_ns;
	watchdog->stopped_count = before->stopped_count;
	watchdog->stats = before->stats;
	/* Which of them are usable may have changed. */
	for (uint32_t i = 0; i < watchdog->rule_count; i++)
		for (uint32_t j = 0; j < before->rule_count; j++)
			if (watchdog->rules[i].index == before->rules[j].index)
				watchdog->rules[i].cooldown_until_ns =
					before->rules[j].cooldown_until_ns;
}

/* ---- firing ---- */

static void suppress(struct ky_watchdog *watchdog, const struct ky_watch_rule *rule,
		     bool is_over_budget, bool *is_held)
{
	if (*is_held)
		return;
	*is_held = true;
	watchdog->suppressed_count++;
	watchdog->suppressed_rules |= UINT64_C(1) << rule->index;
	watchdog->stats.suppressed++;
	watchdog->stats.waiting++;
	if (!is_over_budget)
		return;
	watchdog->stats.over_budget++;
	watchdog->stats.is_failing = ky_budget_is_failing(&watchdog->budget, watchdog->now_ns);
}

bool ky_watch_fire(struct ky_watchdog *watchdog, struct ky_watch_rule *rule, uint64_t value,
		   const struct ky_watch_about *about, bool *is_held)
{
	struct ky_firing firing = {.rule = &rule->rule, .rule_index = rule->index, .value = value};

	bool is_cooling = watchdog->now_ns < rule->cooldown_until_ns;

	if (is_cooling || !ky_budget_allows(&watchdog->budget, watchdog->now_ns)) {
		suppress(watchdog, rule, !is_cooling, is_held);
		return false;
	}
	*is_held = false;
	firing.monotonic_ns = watchdog->now_ns;
	firing.tid = about->tid;
	firing.task = about->task;
	firing.runtime = about->runtime;
	firing.suppressed_count = watchdog->suppressed_count;
	firing.suppressed_rules = watchdog->suppressed_rules;
	firing.late_count = watchdog->late_count;
	firing.late_max_ns = watchdog->late_max_ns;
	firing.stopped_count = watchdog->stopped_count;
	firing.notes = watchdog->notes;
	if (about->notes_from_ns != UINT64_MAX)
		firing.note_count = ky_stuck_logs_get(&watchdog->logs, about->thread,
						      about->begin_ticks, about->notes_from_ns,
						      watchdog->notes, KY_STUCK_NOTES);
	watchdog->suppressed_count = watchdog->suppressed_rules = watchdog->late_count =
		watchdog->late_max_ns = watchdog->stopped_count = 0;
	rule->cooldown_until_ns = watchdog->now_ns + rule->rule.cooldown_ns;
	watchdog->fired_ns = watchdog->now_ns;
	watchdog->stats.fired++;
	watchdog->stats.waiting = watchdog->stats.over_budget = 0;
	watchdog->stats.is_failing = false;
	ky_budget_add(&watchdog->budget, watchdog->now_ns, 1, 0);
	watchdog->options.fire(watchdog->options.fire_ctx, &firing);
	return true;
}

void ky_watch_level(struct ky_watchdog *watchdog, struct ky_watch_rule *rule, bool holds,
		    uint64_t since_ns, uint64_t value, const struct ky_watch_about *about)
{
	if (!holds) {
		rule->holds = rule->has_fired = rule->is_held = false;
		return;
	}
	if (!rule->holds)
		rule->since_ns = since_ns;
	rule->holds = true;
	if (!rule->has_fired &&
	    (rule->rule.kind == KY_RULE_RSS || rule->rule.kind == KY_RULE_RUNNABLE ||
	     watchdog->now_ns - rule->since_ns >= rule->rule.duration_ns))
		rule->has_fired = ky_watch_fire(watchdog, rule, value, about, &rule->is_held);
}

/* ---- checks ---- */

static int own_anchor(const struct ky_watchdog *watchdog, struct ky_clock_anchor *out)
{
	uint32_t high;

	out->ticks_before = kymo_arch_ticks(&high);
	out->monotonic_ns = ky_now_ns(CLOCK_MONOTONIC);
	out->ticks_after = kymo_arch_ticks(&high);
	if (watchdog->snapshot.view.flags & KY_RING_CLOCK_MONOTONIC || !KYMO_ARCH_HAS_TICKS)
		out->ticks_before = out->ticks_after = out->monotonic_ns;
	return 0;
}

/* The two clocks of this moment. */
static bool read_clocks(struct ky_watchdog *watchdog)
{
	const struct ky_watchdog_options *options = &watchdog->options;
	struct ky_clock_anchor anchor = {0};

	if (options->anchor ? options->anchor(options->anchor_ctx, &anchor) :
			      own_anchor(watchdog, &anchor))
		return false;
	watchdog->now_ns = anchor.monotonic_ns;
	watchdog->ticks = anchor.ticks_before + (anchor.ticks_after - anchor.ticks_before) / 2;
	return true;
}

static void take_sums(struct ky_watchdog *watchdog, const struct ky_event_sums *sums)
{
	struct ky_event_sums *to = &watchdog->sums;

	if (!sums || !sums->is_known)
		return;
	to->is_known = true;
	if (sums->wake_delay_max_ns >= to->wake_delay_max_ns) {
		to->wake_delay_max_ns = sums->wake_delay_max_ns;
		to->wake_delay_task = sums->wake_delay_task;
	}
	if (sums->span_max_ns >= to->span_max_ns) {
		to->span_max_ns = sums->span_max_ns;
		to->span_max_word = sums->span_max_word;
	}
	to->ready_count = sums->ready_count;
	to->alive_count = sums->alive_count;
	if (!sums->ready_count)
		watchdog->ready_since_ns = 0;
	else if (!watchdog->ready_since_ns)
		watchdog->ready_since_ns = watchdog->now_ns;
}

/* How much of the time since the last check is unknown: we came late, or the clocks
 * disagree about it (suspended or migrated machine: one of them stood still). */
static uint64_t hole_since_last(const struct ky_watchdog *watchdog)
{
	uint64_t late = ky_watch_since(watchdog->now_ns, watchdog->asked_ns);
	uint64_t by_ticks = ky_ring_snapshot_ns(&watchdog->snapshot,
						watchdog->ticks - watchdog->last_ticks);
	uint64_t by_ns = watchdog->now_ns - watchdog->last_ns;
	uint64_t apart = by_ticks > by_ns ? by_ticks - by_ns : by_ns - by_ticks;

	if (watchdog->ticks < watchdog->last_ticks || watchdog->now_ns < watchdog->last_ns)
		return UINT64_MAX;
	return ky_watch_max(late, apart);
}

/* What was seen so far says nothing any more. */
static void distrust(struct ky_watchdog *watchdog)
{
	watchdog->trusted_ns = watchdog->now_ns;
	watchdog->ready_since_ns = 0;
	memset(&watchdog->sums, 0, sizeof(watchdog->sums));
	for (uint32_t i = 0; i < watchdog->rule_count; i++)
		ky_watch_restart(watchdog, &watchdog->rules[i]);
}

/* Too late to trust what lasts, or so late that a poll may have begun and ended unseen. */
static void check_lateness(struct ky_watchdog *watchdog)
{
	uint64_t interval_ns = ky_watch_since(watchdog->now_ns, watchdog->last_ns), hole;

	if (!watchdog->last_ns)
		return;
	hole = hole_since_last(watchdog);
	if (hole <= watchdog->hole_ns && interval_ns <= watchdog->unseen_ns)
		return;
	watchdog->late_count++;
	watchdog->stats.late_count++;
	watchdog->stats.unwatched_ns += interval_ns;
	watchdog->late_max_ns = ky_watch_max(watchdog->late_max_ns, hole);
	if (hole != UINT64_MAX)
		watchdog->stats.late_max_ns = ky_watch_max(watchdog->stats.late_max_ns, hole);
	if (hole > watchdog->hole_ns)
		distrust(watchdog);
}

/* Nothing is recorded, so a poll that hangs is not distinguished from one that has long ended. */
static void check_stopped(struct ky_watchdog *watchdog)
{
	const struct ky_ring_control *control = watchdog->snapshot.view.control;

	if (control && ky_settings_stopped_ns(&control->settings))
		distrust(watchdog);
}

static void check_life(struct ky_watchdog *watchdog)
{
	enum ky_proc_life life;

	if (atomic_load_explicit(&watchdog->snapshot.view.header->state, memory_order_relaxed) ==
	    KY_RING_CLOSED)
		watchdog->is_gone = true;
	/* Ourselves: alive, and stopped only together with the process that asks. */
	if (!watchdog->options.pid || watchdog->now_ns < watchdog->life_next_ns)
		return;
	watchdog->life_next_ns = watchdog->now_ns + LIFE_INTERVAL_NS;
	life = ky_proc_reader_life(&watchdog->proc, &watchdog->stat_file);
	watchdog->is_gone |= life == KY_PROC_GONE;
	watchdog->is_stopped = life == KY_PROC_STOPPED;
	if (watchdog->is_stopped)
		watchdog->stopped_ns = watchdog->now_ns;
}

/* Returns when to check again. */
static uint64_t judge(struct ky_watchdog *watchdog)
{
	uint64_t next = UINT64_MAX;

	if (watchdog->note_after_ns != UINT64_MAX)
		next = ky_watch_polls(watchdog);
	for (uint32_t i = 0; i < watchdog->rule_count; i++) {
		struct ky_watch_rule *rule = &watchdog->rules[i];

		if (rule->rule.kind == KY_RULE_POLL)
			continue;
		/* What is nearly due is due: checks of several rules fall together. And what the
		 * events say is reported once, so it is judged whenever it comes. */
		if (watchdog->now_ns + KY_CHECK_INTERVAL_NS / 2 >= rule->next_ns ||
		    ky_rule_needs_events(&rule->rule)) {
			if (rule->rule.kind == KY_RULE_STALL)
				ky_watch_stall(watchdog, rule);
			else
				ky_watch_sample(watchdog, rule);
		}
		if (rule->next_ns < next)
			next = rule->next_ns;
	}
	memset(&watchdog->sums, 0, sizeof(watchdog->sums));
	return next;
}

uint64_t ky_watchdog_step(struct ky_watchdog *watchdog, const struct ky_event_sums *sums)
{
	uint64_t next;

	if (!watchdog->rule_count || watchdog->is_gone)
		return UINT64_MAX;
	if (!read_clocks(watchdog))
		return KY_CHECK_INTERVAL_NS;
	take_sums(watchdog, sums);
	if (watchdog->last_ns && watchdog->now_ns < watchdog->asked_ns &&
	    watchdog->now_ns >= watchdog->last_ns)
		return watchdog->asked_ns - watchdog->now_ns;
	watchdog->stats.steps++;
	check_lateness(watchdog);
	check_stopped(watchdog);
	check_life(watchdog);
	next = UINT64_MAX;
	if (!watchdog->is_gone) {
		ky_ring_snapshot_step(&watchdog->snapshot, watchdog->now_ns, watchdog->ticks);
		next = judge(watchdog);
	}
	watchdog->last_ns = watchdog->now_ns;
	watchdog->last_ticks = watchdog->ticks;
	if (watchdog->is_gone)
		return UINT64_MAX;
	if (next > watchdog->now_ns + KY_WATCH_SECOND)
		next = watchdog->now_ns + KY_WATCH_SECOND;
	watchdog->asked_ns = ky_watch_max(next, watchdog->now_ns + KY_CHECK_INTERVAL_NS);
	return watchdog->asked_ns - watchdog->now_ns;
}

size_t ky_watchdog_notes(const struct ky_watchdog *watchdog, struct ky_stuck_note *out, size_t max)
{
	if (max > KY_STUCK_NOTES)
		max = KY_STUCK_NOTES;
	return ky_stuck_logs_get(&watchdog->logs, 0, 0, watchdog->fired_ns + 1, out, max);
}

void ky_watchdog_spent(struct ky_watchdog *watchdog, uint64_t bytes)
{
	ky_budget_add(&watchdog->budget, watchdog->now_ns, 0, bytes);
}

void ky_watchdog_failed(struct ky_watchdog *watchdog, uint64_t fired_ns)
{
	ky_budget_fail(&watchdog->budget, watchdog->now_ns, fired_ns);
}

void ky_watchdog_stats(const struct ky_watchdog *watchdog, struct ky_watchdog_stats *out)
{
	*out = watchdog->stats;
}
