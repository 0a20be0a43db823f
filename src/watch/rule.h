/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rule.h - what shall make a dump by itself, as text and as numbers.
 *
 *   RULE    = WHAT ">" VALUE ["for" TIME] { KEY "=" VALUE }
 *   WHAT    = poll | wake | queue | stall | runnable | cpu | throttled | rss | tasks |
 *             counter:NAME | span | errors
 *   KEY     = cooldown (60s) | after (0s) | last (all) | name
 *   TIME    = NUMBER ("ns" | "us" | "ms" | "s" | "m" | "h"), of bytes: [K | M | G | T]; 1.5s, 0.5G
 *   "poll>100ms"  "queue>1000 for 5s cooldown=10m"  "cpu>90% for 10s"  "rss>512M for 60s"
 *   "errors>10/s"  'counter:"jobs waiting">500 name="too many jobs"'
 *
 * Several rules: separated by ";" or line ends; what follows "#" on a line is a comment. A NAME
 * with a space or one of >;#= stands in double quotes. Pure functions. Threads: any.
 */
#ifndef KY_WATCH_RULE_H
#define KY_WATCH_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_RULES_MAX 32u
#define KY_RULE_NAME_BYTES 48u

enum ky_rule_kind {
	KY_RULE_POLL = 1,  /* ns: a poll is open longer */
	KY_RULE_WAKE = 2,  /* ns: wake to poll took longer */
	KY_RULE_QUEUE = 3, /* tasks that are ready and not being polled */
	KY_RULE_STALL = 4, /* ns: no worker of a runtime has polled or parked */
	/* ns: a worker is runnable but does not run (growth of run_delay, which the kernel reports
	 * when the wait is over). More than 16 workers are asked in turns of 100 ms. */
	KY_RULE_RUNNABLE = 5,
	KY_RULE_CPU = 6,       /* percent of one core used by the process */
	KY_RULE_THROTTLED = 7, /* percent of time the cgroup was throttled */
	KY_RULE_RSS = 8,       /* bytes: growth within the duration */
	KY_RULE_TASKS = 9,     /* live tasks */
	KY_RULE_COUNTER = 10,  /* a counter of the application stands above */
	KY_RULE_SPAN = 11,     /* ns: a span took longer */
	KY_RULE_ERRORS = 12    /* growth a second of the counters marked as errors */
};

struct ky_rule {
	enum ky_rule_kind kind;
	uint64_t threshold; /* in the kind's unit */
	/* It must hold so long; rss: within which it grows (60 s without); runnable: within which
	 * run_delay grows by the threshold (1 s without). Not for poll, wake, stall, span: their
	 * threshold is the time. */
	uint64_t duration_ns;
	uint64_t cooldown_ns; /* not again before */
	uint64_t after_ns;    /* the dump takes this much more */
	uint64_t last_ns;     /* and reaches back so far; 0: all there is */
	char counter[KY_RULE_NAME_BYTES];
	char name[KY_RULE_NAME_BYTES]; /* default: its own text */
};

/* Appends to rules[*count]; at most KY_RULES_MAX. Returns 0, or -EINVAL with one sentence that
 * quotes the part it stumbled over. */
int ky_rules_parse(struct ky_rule *rules, size_t *count, const char *text, char *errbuf,
		   size_t errbuf_bytes);

/* The rule as text that parses to the same rule. Returns the length, cut at out_bytes - 1. */
size_t ky_rule_format(const struct ky_rule *rule, char *out, size_t out_bytes);

/* "152 ms", "1,204 tasks", "94 %": a value in the rule's unit, for people. */
size_t ky_rule_value_text(const struct ky_rule *rule, uint64_t value, char *out, size_t out_bytes);

/* Of its threshold and of what is measured: "ns", "bytes", "percent", "tasks", "errors/s", "". */
const char *ky_rule_unit(const struct ky_rule *rule);

/* True where the rule needs the events themselves, not only the ring's hot words and /proc. */
bool ky_rule_needs_events(const struct ky_rule *rule);

#endif
