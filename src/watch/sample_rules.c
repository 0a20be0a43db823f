/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Rules about numbers that are read now and then: /proc, the cgroup, counters of the application,
 * sums over events. */
#include <watch/watch_state.h>

#include <string.h>
#include <wire/ring_span.h>

#define SAMPLE_NS (500 * KY_WATCH_MS)
#define CHECK_NS (100 * KY_WATCH_MS)
#define RUN_DELAYS_MAX 16u /* read in one check: more workers take turns */

static const struct ky_watch_about nothing = {.notes_from_ns = UINT64_MAX};

void ky_watch_restart(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	/* Whether it has fired stays: what continues across a hole is no new story. */
	rule->holds = rule->has_base = false;
	rule->next_ns = 0;
	memset(rule->samples, 0, sizeof(rule->samples));
	if (rule->delays)
		memset(rule->delays, 0,
		       KY_WATCH_DELAYS * sizeof(uint64_t) * watchdog->snapshot.thread_max);
}

/* ---- what grows ---- */

static uint64_t sum_errors(const struct ky_ring_side *side)
{
	uint32_t count = atomic_load_explicit(&side->counter_count, memory_order_acquire);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count && i < KY_COUNTERS; i++) {
		if (atomic_load_explicit(&side->counters[i].errors_flag, memory_order_relaxed) == 1)
			sum += atomic_load_explicit(&side->counters[i].value, memory_order_relaxed);
	}
	return sum;
}

static bool read_total(struct ky_watchdog *watchdog, const struct ky_watch_rule *rule,
		       uint64_t totals[KY_CGROUP_LEVELS])
{
	memset(totals, 0, KY_CGROUP_LEVELS * sizeof(*totals));
	if (rule->rule.kind == KY_RULE_CPU)
		return ky_proc_reader_cpu(&watchdog->proc, &watchdog->stat_file, &totals[0]);
	if (rule->rule.kind == KY_RULE_THROTTLED)
		return ky_proc_reader_throttled(&watchdog->proc, totals);
	totals[0] = sum_errors(watchdog->snapshot.side);
	return true;
}

/* The largest growth of them in the rule's unit: percent of the time, or a second. */
static uint64_t rate_of(const struct ky_watch_rule *rule, const uint64_t *from, const uint64_t *to,
			uint64_t ns)
{
	uint64_t factor = rule->rule.kind == KY_RULE_ERRORS ? KY_WATCH_SECOND : 100, rate = 0;

	for (uint32_t i = 0; ns && i < KY_CGROUP_LEVELS; i++) {
		/* Counters that run backwards were reset. */
		uint64_t grown = to[i] > from[i] ? to[i] - from[i] : 0;
		uint64_t one = grown < UINT64_MAX / factor ? grown * factor / ns : UINT64_MAX;

		rate = ky_watch_max(rate, one);
	}
	return rate;
}

static void judge_rate(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	uint64_t totals[KY_CGROUP_LEVELS], ns, rate;
	uint64_t pace = rule->rule.kind == KY_RULE_ERRORS ? KY_WATCH_SECOND : SAMPLE_NS;
	bool holds;

	if (rule->rule.duration_ns && rule->rule.duration_ns < pace)
		pace = ky_watch_max(rule->rule.duration_ns, CHECK_NS);
	else if (rule->rule.duration_ns >= 20 * SAMPLE_NS)
		pace = 2 * SAMPLE_NS;
	rule->next_ns = watchdog->now_ns + pace;
	if (!read_total(watchdog, rule, totals)) {
		ky_watch_restart(watchdog, rule);
		rule->next_ns = watchdog->now_ns + pace;
		return;
	}
	if (rule->has_base) {
		ns = watchdog->now_ns - rule->base_ns;
		holds = rate_of(rule, rule->base_value, totals, ns) > rule->rule.threshold;
		if (holds && !rule->holds)
			memcpy(rule->since_value, rule->base_value, sizeof(totals));
		/* What is reported is the mean since it began. */
		ns = watchdog->now_ns - (rule->holds ? rule->since_ns : rule->base_ns);
		rate = rate_of(rule, rule->since_value, totals, ns);
		ky_watch_level(watchdog, rule, holds, rule->base_ns, rate, &nothing);
	}
	rule->has_base = true;
	rule->base_ns = watchdog->now_ns;
	memcpy(rule->base_value, totals, sizeof(totals));
}

static void judge_rss(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	uint64_t window = rule->rule.duration_ns, least = UINT64_MAX, bytes;
	uint64_t step = ky_watch_max(window / (KY_WATCH_SAMPLES - 2), 1);
	struct ky_watch_sample *last = &rule->samples[rule->sample_at];

	rule->next_ns = watchdog->now_ns + ky_watch_clamp(step, CHECK_NS, SAMPLE_NS);
	if (!ky_proc_reader_rss(&watchdog->proc, &watchdog->statm_file, &bytes))
		return;
	if (!last->ns || watchdog->now_ns - last->ns >= step) {
		rule->sample_at = (rule->sample_at + 1) % KY_WATCH_SAMPLES;
		rule->samples[rule->sample_at] = (struct ky_watch_sample){watchdog->now_ns, bytes};
	}
	for (uint32_t i = 0; i < KY_WATCH_SAMPLES; i++) {
		const struct ky_watch_sample *sample = &rule->samples[i];

		if (sample->ns && watchdog->now_ns - sample->ns <= window && sample->value < least)
			least = sample->value;
	}
	bytes = bytes > least ? bytes - least : 0;
	ky_watch_level(watchdog, rule, bytes > rule->rule.threshold, watchdog->now_ns, bytes,
		       &nothing);
}

/* ---- runnable without running ---- */

/* How much a worker waited for a CPU since the older of two moments half a window apart. */
static uint64_t grown_delay(struct ky_watchdog *watchdog, struct ky_watch_rule *rule,
			    const struct ky_snapshot_slot *slot, bool has_run, bool is_new_base)
{
	struct ky_snapshot_thread *thread = ky_ring_snapshot_thread(&watchdog->snapshot, slot);
	uint64_t *bases = rule->delays + KY_WATCH_DELAYS * (size_t)slot->thread, delay_ns, from;

	if (has_run) {
		if (!ky_proc_reader_run_delay(&watchdog->proc, thread->tid, &thread->sched_file,
					      &delay_ns)) {
			memset(bases, 0, KY_WATCH_DELAYS * sizeof(*bases));
			return 0;
		}
		bases[2] = delay_ns + 1;
	}
	if (is_new_base || !bases[1]) {
		bases[0] = bases[1];
		bases[1] = bases[2];
	}
	from = bases[0] ? bases[0] : bases[1];
	return has_run ? ky_watch_since(bases[2], from) : 0;
}

static void forget_exited(struct ky_watchdog *watchdog)
{
	for (uint32_t i = 1; i <= watchdog->snapshot.thread_last; i++) {
		struct ky_snapshot_thread *thread = &watchdog->snapshot.threads[i];

		if (thread->has_exited)
			ky_proc_reader_forget(&watchdog->proc, &thread->sched_file);
	}
}

/* What polls nothing and writes nothing sleeps. */
static bool has_run(const struct ky_watchdog *watchdog, const struct ky_snapshot_slot *slot,
		    uint32_t turns)
{
	const struct ky_snapshot_thread *thread = &watchdog->snapshot.threads[slot->thread];

	return slot->depth || thread->changed_ns + 2 * turns * CHECK_NS >= watchdog->now_ns;
}

static void judge_runnable(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	struct ky_ring_snapshot *snapshot = &watchdog->snapshot;
	struct ky_watch_about about = nothing;
	uint64_t worst_ns = 0;
	uint32_t turns = snapshot->slot_count / RUN_DELAYS_MAX + 1;

	rule->next_ns = watchdog->now_ns + CHECK_NS;
	rule->turn++;
	rule->base_turns -= rule->base_turns > 0;
	if (!rule->has_base || watchdog->now_ns - rule->base_ns >= rule->rule.duration_ns / 2) {
		forget_exited(watchdog);
		rule->has_base = true;
		rule->base_ns = watchdog->now_ns;
		rule->base_turns = turns;
	}
	for (uint32_t i = 0; i < snapshot->slot_count; i++) {
		const struct ky_snapshot_slot *slot = &snapshot->slots[i];
		uint64_t grown_ns;

		if (!slot->is_open || !ky_ring_snapshot_thread(snapshot, slot)->is_worker ||
		    slot->thread % turns != rule->turn % turns)
			continue;
		grown_ns = grown_delay(watchdog, rule, slot, has_run(watchdog, slot, turns),
				       rule->base_turns > 0);
		if (grown_ns <= worst_ns)
			continue;
		worst_ns = grown_ns;
		about.tid = ky_ring_snapshot_thread(snapshot, slot)->tid;
		about.runtime = ky_ring_snapshot_thread(snapshot, slot)->runtime;
		about.task = slot->depth ? slot->task : 0;
	}
	if (worst_ns > rule->rule.threshold)
		rule->since_value[0] = watchdog->now_ns;
	/* It is over when it is over for all, not only for those whose turn it is. */
	if (worst_ns > rule->rule.threshold ||
	    ky_watch_since(watchdog->now_ns, rule->since_value[0]) > turns * CHECK_NS)
		ky_watch_level(watchdog, rule, worst_ns > rule->rule.threshold, watchdog->now_ns,
			       worst_ns, &about);
}

/* ---- what stands at a value ---- */

static bool find_counter(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	const struct ky_ring_side *side = watchdog->snapshot.side;
	/* Pairs with the release store after a new counter's name. */
	uint32_t count = atomic_load_explicit(&side->counter_count, memory_order_acquire);

	for (uint32_t i = 0; !rule->counter && i < count && i < KY_COUNTERS; i++) {
		if (strncmp(side->counters[i].name, rule->rule.counter, KY_COUNTER_NAME_BYTES) == 0)
			rule->counter = i + 1;
	}
	return rule->counter != 0;
}

static void judge_value(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	uint64_t duration = rule->rule.duration_ns, value = 0;

	rule->next_ns = watchdog->now_ns +
			(duration ? ky_watch_clamp(duration / 4, CHECK_NS, SAMPLE_NS) : CHECK_NS);
	if (rule->rule.kind == KY_RULE_COUNTER) {
		if (!find_counter(watchdog, rule))
			return;
		value = atomic_load_explicit(
			&watchdog->snapshot.side->counters[rule->counter - 1].value,
			memory_order_relaxed);
		value = value > INT64_MAX ? 0 : value; /* below zero */
	} else {
		if (!watchdog->sums.is_known)
			return;
		value = rule->rule.kind == KY_RULE_QUEUE ? watchdog->sums.ready_count :
							   watchdog->sums.alive_count;
	}
	ky_watch_level(watchdog, rule, value > rule->rule.threshold, watchdog->now_ns, value,
		       &nothing);
}

/* ---- what was longest ---- */

/* It slept with the process. */
static bool is_excused(struct ky_watchdog *watchdog, uint64_t ns)
{
	if (!watchdog->stopped_ns || ky_watch_since(watchdog->now_ns, watchdog->stopped_ns) > ns)
		return false;
	watchdog->stopped_count++;
	watchdog->stats.stopped_count++;
	return true;
}

static void judge_wake(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	uint64_t ns = watchdog->sums.wake_delay_max_ns;
	struct ky_watch_about about = nothing;
	bool is_held = false;

	rule->next_ns = watchdog->now_ns + CHECK_NS;
	if (!watchdog->sums.is_known || ns <= rule->rule.threshold || is_excused(watchdog, ns))
		return;
	about.task = watchdog->sums.wake_delay_task;
	ky_watch_fire(watchdog, rule, ns, &about, &is_held);
}

/* ---- spans: while they are open, and when they end ---- */

static bool is_reported(const struct ky_watch_rule *rule, uint64_t word)
{
	for (uint32_t entry = 0; word && entry < KY_SPANS; entry++)
		if (rule->reported[entry] == word)
			return true;
	return false;
}

/* The longest open one that has not been reported, as far as we can vouch for it; 0: none is too
 * long. */
static uint64_t longest_open(struct ky_watchdog *watchdog, const struct ky_watch_rule *rule)
{
	const struct ky_ring_side *side = watchdog->snapshot.side;
	uint64_t longest = 0, trusted = ky_watch_since(watchdog->now_ns, watchdog->trusted_ns);

	for (uint32_t entry = 1; side && entry < KY_SPANS; entry++) {
		struct ky_open_span span;
		uint64_t ns;

		if (!ky_ring_span(side, entry, &span) || rule->reported[entry] == span.word)
			continue;
		ns = ky_ring_snapshot_ns(&watchdog->snapshot,
					 ky_watch_since(watchdog->ticks, span.begin_ticks));
		ns = ns < trusted ? ns : trusted;
		longest = ns > longest ? ns : longest;
	}
	return longest > rule->rule.threshold ? longest : 0;
}

/* Those that are open too long at the same moment belong to the same story. */
static void note_reported(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	const struct ky_ring_side *side = watchdog->snapshot.side;

	for (uint32_t entry = 1; side && entry < KY_SPANS; entry++) {
		struct ky_open_span span;

		if (ky_ring_span(side, entry, &span) &&
		    ky_ring_snapshot_ns(&watchdog->snapshot,
					ky_watch_since(watchdog->ticks, span.begin_ticks)) >
			    rule->rule.threshold)
			rule->reported[entry] = span.word;
	}
}

static void judge_span(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	uint64_t open_ns = longest_open(watchdog, rule), ended_ns = watchdog->sums.span_max_ns;
	uint64_t ns;

	rule->next_ns = watchdog->now_ns + CHECK_NS;
	if (!watchdog->sums.is_known || ended_ns <= rule->rule.threshold ||
	    is_reported(rule, watchdog->sums.span_max_word))
		ended_ns = 0;
	ns = ky_watch_max(open_ns, ended_ns);
	if (!ns)
		rule->is_held = false;
	else if (!is_excused(watchdog, ns) &&
		 ky_watch_fire(watchdog, rule, ns, &nothing, &rule->is_held))
		note_reported(watchdog, rule);
}

void ky_watch_sample(struct ky_watchdog *watchdog, struct ky_watch_rule *rule)
{
	switch (rule->rule.kind) {
	case KY_RULE_CPU:
	case KY_RULE_THROTTLED:
	case KY_RULE_ERRORS:
		judge_rate(watchdog, rule);
		break;
	case KY_RULE_RSS:
		judge_rss(watchdog, rule);
		break;
	case KY_RULE_RUNNABLE:
		judge_runnable(watchdog, rule);
		break;
	case KY_RULE_WAKE:
		judge_wake(watchdog, rule);
		break;
	case KY_RULE_SPAN:
		judge_span(watchdog, rule);
		break;
	default:
		judge_value(watchdog, rule);
		break;
	}
}
