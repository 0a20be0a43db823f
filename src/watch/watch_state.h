/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* watch_state.h - the watchdog's inside, shared by the files that judge the rules.
 * Threads: owner.
 */
#ifndef KY_WATCH_WATCH_STATE_H
#define KY_WATCH_WATCH_STATE_H

#include <watch/budget.h>
#include <proc/proc_reader.h>
#include <ring/ring_snapshot.h>
#include <watch/watchdog.h>

#define KY_WATCH_MS UINT64_C(1000000)
#define KY_WATCH_SECOND UINT64_C(1000000000)
#define KY_WATCH_SAMPLES 64u
#define KY_WATCH_DELAYS 3u

struct ky_watch_sample {
	uint64_t ns, value;
};

struct ky_watch_rule {
	struct ky_rule rule;
	uint32_t index;
	uint64_t next_ns; /* the next check it wants */
	uint64_t cooldown_until_ns;
	/* The state of what it says. */
	bool holds, has_fired;
	bool is_held; /* cooldown or budget kept it back: counted */
	uint64_t since_ns;
	/* What went before. */
	bool has_base;
	uint64_t base_ns, base_value[KY_CGROUP_LEVELS];
	uint64_t since_value[KY_CGROUP_LEVELS];
	struct ky_watch_sample samples[KY_WATCH_SAMPLES]; /* rss */
	uint32_t sample_at;
	/* runnable: KY_WATCH_DELAYS a thread, + 1: at two moments, the older one first, and now */
	uint64_t *delays;
	/* Its checks, of which each reads some threads, and for how many more they get new
	 * bases. */
	uint32_t turn, base_turns;
	uint32_t counter;   /* its index + 1; 0: not found yet */
	uint64_t *reported; /* span: by entry, the span that it has fired about */
};

#define KY_WATCH_OPEN_MAX 256u

/* A worker's outermost poll that was open at the last check. */
struct ky_watch_open {
	uint32_t slot, thread;
	uint64_t number; /* claim number + 1 of the slot */
	uint64_t begin_ticks, task;
};

struct ky_watchdog {
	struct ky_watchdog_options options;
	struct ky_ring_snapshot snapshot;
	struct ky_proc_reader proc;
	uint32_t stat_file, statm_file; /* of the process, as ky_proc_reader_cpu() keeps them */
	struct ky_budget budget;
	struct ky_stuck_logs logs;
	struct ky_watch_rule rules[KY_RULES_MAX];
	uint32_t rule_count; /* that are usable */

	uint64_t now_ns, ticks;       /* of this check */
	uint64_t last_ns, last_ticks; /* of the one before; 0: none */
	uint64_t asked_ns;
	uint64_t hole_ns;       /* so much later than asked is a hole */
	uint64_t unseen_ns;     /* polls up to this may begin and end between two checks */
	uint64_t note_after_ns; /* polls open so long are noted; UINT64_MAX: none */
	uint64_t trusted_ns;    /* no hole since then */
	uint64_t stopped_ns;    /* the process was last seen stopped */
	uint64_t life_next_ns;
	bool is_stopped, is_gone;

	struct ky_watch_open open[KY_WATCH_OPEN_MAX]; /* at the last check; further ones are not */
	uint32_t open_count;

	struct ky_event_sums sums; /* since the last check; is_known: there were some */
	uint64_t ready_since_ns;   /* tasks have been ready all the time since; 0: none are */

	uint64_t fired_ns; /* the last time */
	uint64_t suppressed_count, suppressed_rules, late_count, late_max_ns, stopped_count;
	struct ky_watchdog_stats stats;
	struct ky_stuck_note notes[KY_STUCK_NOTES]; /* of the firing under way */
};

/* What a firing is about. */
struct ky_watch_about {
	uint32_t tid, thread;
	uint64_t task, runtime, begin_ticks;
	uint64_t notes_from_ns; /* UINT64_MAX: none */
};

/* Fires unless cooldown or budget forbid it: then it is counted once, as *is_held says. Returns
 * whether it fired. */
bool ky_watch_fire(struct ky_watchdog *watchdog, struct ky_watch_rule *rule, uint64_t value,
		   const struct ky_watch_about *about, bool *is_held);

/* A rule says something now, or not: fires when it has done so for its duration. since_ns: since
 * when at least, where it did not at the check before. */
void ky_watch_level(struct ky_watchdog *watchdog, struct ky_watch_rule *rule, bool holds,
		    uint64_t since_ns, uint64_t value, const struct ky_watch_about *about);

/* poll_rules.c: notes about polls open too long, rules `poll` and `stall`. Returns when to check
 * again at the latest. */
uint64_t ky_watch_polls(struct ky_watchdog *watchdog);
void ky_watch_stall(struct ky_watchdog *watchdog, struct ky_watch_rule *rule);
/* Checks of polls may be so far apart; UINT64_MAX: no rule is about polls. */
uint64_t ky_watch_unseen_ns(const struct ky_watchdog *watchdog);

/* ended_polls.c: rule `poll`, about polls that were open at the last check and are not any more. */
void ky_watch_ended(struct ky_watchdog *watchdog);
/* The shortest of the rules `poll`; UINT64_MAX: there is none. */
uint64_t ky_watch_least_poll(const struct ky_watchdog *watchdog);

/* How old what has this stamp is. */
static inline uint64_t ky_watch_age(const struct ky_watchdog *watchdog, uint64_t ticks)
{
	uint64_t passed = watchdog->ticks > ticks ? watchdog->ticks - ticks : 0;
	uint64_t age = ky_ring_snapshot_ns(&watchdog->snapshot, passed);

	return age < watchdog->now_ns ? age : watchdog->now_ns;
}

/* stuck_stack.c: the stack of a thread that stands still, for a note that has the rest. */
void ky_watch_stack(struct ky_watchdog *watchdog, struct ky_stuck_note *note);

/* sample_rules.c: all others, when they are due. */
void ky_watch_sample(struct ky_watchdog *watchdog, struct ky_watch_rule *rule);
/* What a rule has gathered does not count any more. */
void ky_watch_restart(struct ky_watchdog *watchdog, struct ky_watch_rule *rule);

static inline uint64_t ky_watch_clamp(uint64_t value, uint64_t low, uint64_t high)
{
	return value < low ? low : value > high ? high : value;
}

static inline uint64_t ky_watch_since(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

static inline uint64_t ky_watch_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
