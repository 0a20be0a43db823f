/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <probe/process_watch.h>

/* The looker itself stood when it comes so much later than it was due. */
#define LATE_NS (3 * KY_LOOK_NS)
/* What is heard of so soon after that was while it stood, too. */
#define GAP_NS (4 * KY_LOOK_NS)
/* Without growth for so long an interval of throttling is over: periods are 100 ms as a rule. */
#define QUIET_NS (3 * KY_LOOK_NS)
/* A longer one is told in parts; and no throttling that is counted at once began earlier. */
#define INTERVAL_NS UINT64_C(1000000000)

/* ---- stops ---- */

static void put_state(struct ky_resource_source *source, uint8_t change, uint32_t detail,
		      uint64_t after_ns, uint64_t by_ns, enum ky_state_source how)
{
	struct ky_resource_row row = {.kind = KY_RESOURCE_STATE, .scope = change};

	ky_resource_set(&row, KY_STATE_DETAIL, detail);
	ky_resource_set(&row, KY_STATE_AFTER_NS, after_ns);
	ky_resource_set(&row, KY_STATE_BY_NS, by_ns);
	ky_resource_set(&row, KY_STATE_SOURCE, how);
	ky_resource_tell(source, &row, by_ns);
}

/* No earlier than the look before; of the first one nothing is known. */
static uint64_t look_before(const struct ky_process_watch *watch)
{
	return watch->before_ns ? watch->before_ns : 1;
}

static void look_at_state(struct ky_process_watch *watch, struct ky_resource_source *source,
			  const struct ky_proc_reader *reader, uint64_t now_ns)
{
	enum ky_proc_life life = ky_proc_reader_life(reader, &watch->file);

	if (life != KY_PROC_RUNS && life != KY_PROC_STOPPED)
		return;
	if (watch->is_stopped == (life == KY_PROC_STOPPED))
		return;
	watch->is_stopped = !watch->is_stopped;
	put_state(source, watch->is_stopped ? KY_PROCESS_STOPPED : KY_PROCESS_CONTINUED, 0,
		  look_before(watch), now_ns, KY_STATE_SEEN);
}

/* Did the looker stand just before it heard of this? */
static bool is_after_gap(const struct ky_process_watch *watch, uint64_t at_ns)
{
	return watch->gap_to_ns && at_ns >= watch->gap_from_ns && at_ns < watch->gap_to_ns + GAP_NS;
}

/* The process continues, and its stop was not heard of: it was while the looker stood, too. */
static void tell_missed_stop(const struct ky_process_watch *watch,
			     struct ky_resource_source *source, uint64_t at_ns)
{
	uint64_t after_ns = is_after_gap(watch, at_ns) ? watch->gap_from_ns : look_before(watch);
	put_state(source, KY_PROCESS_STOPPED, 0, after_ns, at_ns, KY_STATE_WITH_READER);
	put_state(source, KY_PROCESS_CONTINUED, 0, after_ns, at_ns, KY_STATE_WITH_READER);
}

void ky_process_watch_tell(struct ky_process_watch *watch, struct ky_resource_source *source,
			   uint8_t change, uint32_t detail, uint64_t at_ns)
{
	bool is_stop = change == KY_PROCESS_STOPPED;

	if (change == KY_PROCESS_CONTINUED && !watch->is_stopped)
		tell_missed_stop(watch, source, at_ns);
	else if (is_stop && !watch->is_stopped && is_after_gap(watch, at_ns))
		put_state(source, change, detail, watch->gap_from_ns, at_ns, KY_STATE_WITH_READER);
	else if (!is_stop || !watch->is_stopped)
		put_state(source, change, detail, 0, at_ns, KY_STATE_TOLD);
	watch->is_stopped = is_stop;
}

/* ---- throttling ---- */

static void put_interval(struct ky_throttle_watch *throttle, struct ky_resource_source *source,
			 uint32_t level)
{
	struct ky_resource_row row = {.kind = KY_RESOURCE_THROTTLED, .scope = (uint8_t)level};

	if (!throttle->sum_ns)
		return;
	ky_resource_set(&row, KY_THROTTLED_FROM_NS, throttle->from_ns);
	ky_resource_set(&row, KY_THROTTLED_TO_NS, throttle->to_ns);
	ky_resource_set(&row, KY_THROTTLED_NS, throttle->sum_ns);
	ky_resource_tell(source, &row, throttle->to_ns);
	throttle->sum_ns = 0;
}

static void grow(struct ky_throttle_watch *throttle, uint64_t before_ns, uint64_t now_ns,
		 uint64_t grown_ns)
{
	uint64_t back_ns = grown_ns < INTERVAL_NS ? grown_ns : INTERVAL_NS;
	uint64_t from_ns = before_ns > back_ns ? before_ns - back_ns : 0;

	if (!throttle->sum_ns)
		throttle->from_ns = from_ns > throttle->to_ns ? from_ns : throttle->to_ns;
	throttle->to_ns = now_ns;
	throttle->sum_ns += grown_ns;
}

static void look_at_level(struct ky_process_watch *watch, struct ky_resource_source *source,
			  uint32_t level, uint64_t now_ns)
{
	struct ky_throttle_watch *throttle = &watch->levels[level];
	uint64_t counted_ns;

	if (!ky_cgroup_use_throttled(&source->groups, level, &counted_ns))
		return;
	/* Fewer than before: another cgroup. */
	if (watch->before_ns && counted_ns > throttle->counted_ns)
		grow(throttle, watch->before_ns, now_ns, counted_ns - throttle->counted_ns);
	throttle->counted_ns = counted_ns;
	if (throttle->sum_ns &&
	    (now_ns - throttle->to_ns >= QUIET_NS || now_ns - throttle->from_ns >= INTERVAL_NS))
		put_interval(throttle, source, level);
}

/* ---- both ---- */

void ky_process_watch_look(struct ky_process_watch *watch, struct ky_resource_source *source,
			   const struct ky_proc_reader *reader, uint64_t now_ns)
{
	watch->before_ns = watch->look_ns;
	watch->look_ns = now_ns;
	if (watch->before_ns && now_ns >= watch->due_ns + LATE_NS) {
		watch->gap_from_ns = watch->before_ns;
		watch->gap_to_ns = now_ns;
	}
	if (!watch->is_told)
		look_at_state(watch, source, reader, now_ns);
	for (uint32_t level = 0; level < KY_CGROUP_LEVELS; level++)
		if (source->limited_levels & 1u << level)
			look_at_level(watch, source, level, now_ns);
	watch->due_ns = now_ns + (source->is_idle && !source->limited_levels && !watch->is_stopped ?
					  KY_LOOK_IDLE_NS :
					  KY_LOOK_NS);
}

void ky_process_watch_end(struct ky_process_watch *watch, struct ky_resource_source *source)
{
	for (uint32_t level = 0; level < KY_CGROUP_LEVELS; level++)
		put_interval(&watch->levels[level], source, level);
	ky_proc_reader_drop(&watch->file);
}
