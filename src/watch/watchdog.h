/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* watchdog.h - checks a ring from outside its threads and says when a rule holds. A step function
 * like the drain: no thread, no file it writes, and its clock can be faked.
 *
 * Nothing armed, or the process is gone: it asks never to be called again. It checks at most 20
 * times a second, however often it is called.
 * A rule fires once while what it says continues, and again when that was over in between. What
 * cooldown or budget held back fires as soon as they allow if it still continues.
 * Its own lateness (stopped, starved, suspended machine) is noticed: each interval between two
 * checks in which a poll over a rule's threshold could begin and end unseen is counted, and after a
 * longer one what was seen before is discarded. Of polls under 57 ms none is promised to be seen.
 * A poll of a process that was itself stopped is not stuck.
 * The image is untrusted (ring_view.h).
 * Threads: owner.   Memory: bounded by the ring's slots and threads, rules and KY_STUCK_NOTES.
 */
#ifndef KY_WATCH_WATCHDOG_H
#define KY_WATCH_WATCHDOG_H

#include <watch/rule.h>
#include <watch/stuck_log.h> /* KY_STUCK_NOTES */
#include <wire/ring_image.h>
#include <wire/watch_note.h> /* struct ky_stuck_note, struct ky_event_sums */

struct ky_watchdog;

#define KY_CHECK_INTERVAL_NS UINT64_C(50000000) /* never more often */

/* A rule has fired. What it points to lives until the callback returns. */
struct ky_firing {
	const struct ky_rule *rule; /* a copy: */
	uint32_t rule_index;        /* of options.rules[] */
	uint64_t value;             /* what was measured, in the rule's unit */
	uint64_t monotonic_ns;
	uint32_t tid;     /* 0: of no thread */
	uint64_t task;    /* 0: of no task */
	uint64_t runtime; /* its key where a runtime stalls; 0: of none, or unknown */
	/* Firings that cooldown or budget held back since the last that was let through, and the
	 * rules that they belong to (bit = index of the rule). */
	uint64_t suppressed_count, suppressed_rules;
	const struct ky_stuck_note *notes; /* in order of time */
	size_t note_count;
	uint64_t late_count, late_max_ns; /* checks that came too late since the last firing */
	uint64_t stopped_count;           /* polls that stood because the process was stopped */
};

typedef void (*ky_firing_fn)(void *ctx, const struct ky_firing *firing);

struct ky_watchdog_options {
	const uint8_t *image; /* the mapped ring */
	size_t image_bytes;
	uint32_t pid;                /* for /proc; 0: the calling process */
	const struct ky_rule *rules; /* copied */
	size_t rule_count;           /* at most KY_RULES_MAX */
	bool has_sums;               /* a drain feeds ky_watchdog_step() */
	uint32_t dumps_per_hour_max; /* 0: 12 */
	uint64_t dump_bytes_max;     /* an hour; 0: 1 GiB; reported by ky_watchdog_spent() */
	ky_firing_fn fire;
	void *fire_ctx;
	/* The clocks of this moment, in the ring's ticks; realtime is not used. NULL: those of this
	 * machine. */
	int (*anchor)(void *ctx, struct ky_clock_anchor *out);
	void *anchor_ctx;
	/* May the process's memory be read now? A filter of system calls may kill for it. NULL:
	 * always. */
	bool (*may_read)(void);
	const char *proc;   /* NULL: "/proc"; tests have their own */
	const char *cgroup; /* NULL: "/sys/fs/cgroup" */
	/* A rule that can never fire (no drain feeds it, no cgroup to read, ..) makes open fail;
	 * where this is not NULL it is left out instead, and its bit is set here. */
	uint64_t *unusable_rules;
	char *errbuf; /* one sentence about the first such rule; may be NULL */
	size_t errbuf_bytes;
};

/* Returns 0; -ENOMEM; -ENOTSUP with a sentence in errbuf: a rule can never fire; -EINVAL: too many
 * rules or no `fire`; what a ring view returns about the image. */
int ky_watchdog_open(struct ky_watchdog **out, const struct ky_watchdog_options *options);
void ky_watchdog_close(struct ky_watchdog *watchdog);

/* Before the first check: continues where `before` is, whose rules are the first of this one's,
 * with its budget, its cooldowns, its statistics and what was held back. */
void ky_watchdog_follow(struct ky_watchdog *watchdog, const struct ky_watchdog *before);

/* One check. sums: NULL where no drain runs. Returns after how many ns to call again, sooner does
 * no harm; UINT64_MAX: never, nothing is armed or the process is gone. fire() is called in here. */
uint64_t ky_watchdog_step(struct ky_watchdog *watchdog, const struct ky_event_sums *sums);

/* The notes that came since the last firing, in order of time: what happened while its dump waited
 * for `after`. Returns how many, at most KY_STUCK_NOTES. */
size_t ky_watchdog_notes(const struct ky_watchdog *watchdog, struct ky_stuck_note *out, size_t max);

/* A dump cost so many bytes of the budget. */
void ky_watchdog_spent(struct ky_watchdog *watchdog, uint64_t bytes);
/* Nothing came of the dump of the firing of that time: it takes nothing of the budget. */
void ky_watchdog_failed(struct ky_watchdog *watchdog, uint64_t fired_ns);

struct ky_watchdog_stats {
	uint64_t steps; /* that checked */
	uint64_t fired, suppressed, late_count, stopped_count;
	uint64_t late_max_ns;  /* the latest of late_count; clocks that went back are not in it */
	uint64_t unwatched_ns; /* between those and the checks before them */
	uint64_t waiting;      /* of suppressed: since the last firing, not reported by one yet */
	uint64_t over_budget;  /* of waiting: held back by the budget, not by a cooldown */
	bool is_failing;       /* the last of them because too many dumps had failed */
};
void ky_watchdog_stats(const struct ky_watchdog *watchdog, struct ky_watchdog_stats *out);

#endif
