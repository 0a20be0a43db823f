/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* watchdog.h - looks at a ring from outside its threads and says when a rule holds. A step function
 * like the drain: no thread, no file it writes, and its clock can be faked.
 *
 * Nothing armed: it asks never to be called again. It looks at most 20 times a second.
 * Its own lateness (stopped, starved, suspended machine) is noticed: what it saw across such a hole
 * is discarded, and the hole is counted.
 * Threads: owner.   Memory: bounded by rules, workers and KY_STUCK_NOTES.
 */
#ifndef KY_RECORD_TRIGGER_WATCHDOG_H
#define KY_RECORD_TRIGGER_WATCHDOG_H

#include <record/trigger/rule.h>
#include <wire/ring_image.h>
#include <wire/watch_note.h> /* struct ky_stuck_note, struct ky_event_sums */

struct ky_watchdog;

#define KY_STUCK_NOTES 64u

/* A rule has fired. */
struct ky_firing {
	const struct ky_rule *rule;
	uint64_t value; /* what was measured, in the rule's unit */
	uint64_t monotonic_ns;
	uint32_t tid;  /* 0: of no thread */
	uint64_t task; /* 0: of no task */
	/* Firings that cooldown or budget held back since the last that was let through, and the
	 * rules that they belong to (bit = index of the rule). */
	uint64_t suppressed_count, suppressed_rules;
	const struct ky_stuck_note *notes; /* in order of time */
	size_t note_count;
	uint64_t late_count, late_max_ns; /* holes of the watchdog's own since the last firing */
};

typedef void (*ky_firing_fn)(void *ctx, const struct ky_firing *firing);

struct ky_watchdog_options {
	const uint8_t *image; /* the mapped ring */
	size_t image_bytes;
	uint32_t pid; /* for /proc; 0: the calling process */
	const struct ky_rule *rules;
	size_t rule_count;
	uint32_t dumps_per_hour_max; /* 0: 12 */
	uint64_t dump_bytes_max;     /* an hour; 0: 1 GiB; told by ky_watchdog_spent() */
	ky_firing_fn fire;
	void *fire_ctx;
	uint64_t (*now_ns)(void *ctx); /* NULL: CLOCK_MONOTONIC */
	const char *proc;              /* NULL: "/proc"; tests have their own */
	void *now_ctx;
};

/* Returns 0; -ENOMEM; what a ring view returns about the image. */
int ky_watchdog_open(struct ky_watchdog **out, const struct ky_watchdog_options *options);
void ky_watchdog_close(struct ky_watchdog *watchdog);

/* One look. sums: NULL where no drain runs. Returns after how many ns to call again; UINT64_MAX:
 * nothing is armed. */
uint64_t ky_watchdog_step(struct ky_watchdog *watchdog, const struct ky_event_sums *sums);

/* A dump cost so many bytes of the budget. */
void ky_watchdog_spent(struct ky_watchdog *watchdog, uint64_t bytes);

struct ky_watchdog_stats {
	uint64_t steps, fired, suppressed, late_count, cpu_ns;
};
void ky_watchdog_stats(const struct ky_watchdog *watchdog, struct ky_watchdog_stats *out);

#endif
