/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* facts.h - what all findings are concluded from, added up once: the three accounts, and what each
 * kind of task did to others.
 *
 * Memory:      400 bytes for each kind of task, and the longest polls (longest.h).
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_ANALYZE_FINDINGS_FACTS_H
#define KY_ANALYZE_FINDINGS_FACTS_H

#include <analyze/longest.h>
#include <analyze/own_parts.h>
#include <analyze/stack_profile.h>
#include <analyze/why.h>

/* All tasks of one name. */
struct ky_kind_facts {
	uint32_t name; /* name index; KY_NONE: unnamed */
	bool is_runtimes;
	bool is_lock_bound;      /* most of its blocked polls were by a lock: lock_convoy.c */
	uint64_t lock_behind_ns; /* then: ready time of others behind their blocked part */
	uint64_t poll_count, busy_ns, wake_count;
	uint64_t moved_count;        /* long polls that passed their worker on: they block nobody */
	uint64_t long_count;         /* polls beyond KY_FIND_LONG_NS among the longest */
	uint64_t sums[KY_OWN_PARTS]; /* of those */
	uint64_t worst[KY_OWN_PARTS];
	/* Of those from KY_FIND_WORST_NS_MIN on. */
	uint64_t heavy_count, heavy_ns, heavy_sums[KY_OWN_PARTS];
	uint64_t long_first_ns, long_last_ns; /* starts of those */
	/* Of those whose costs are known. */
	uint64_t cost_count, minor_faults, major_faults;
	struct ky_own_poll longest;
	/* Ready time of others behind its long polls, or of those it woke for the rest of one. */
	uint64_t behind_ns, behind_sums[KY_PARTS], behind_delays;
	uint64_t behind_cpu_worst_ns, behind_blocked_worst_ns; /* of one delay, by what they did */
	uint64_t behind_all_ns; /* the same behind polls of any length */
	/* Of behind_ns: in the LIFO slot; of that a worker that no task kept was idle. */
	uint64_t lifo_ns, lifo_idle_ns, lifo_delays;
	/* Of the ready time behind its polls that are not long: the same, the most of one delay. */
	uint64_t idle_ns, idle_worst_ns, idle_delays;
};

struct ky_facts {
	const struct ky_trace *trace;
	const struct ky_report *report;
	const struct ky_stack_profile *profile; /* NULL: no stacks */
	struct ky_why *why;                     /* of the range of the report */
	struct ky_kind_facts *kinds;            /* by the report's groups */
	uint32_t kind_count;
	struct ky_longest longest;
	uint64_t ready_ns, poll_ns; /* the accounts, but for the runtime's own tasks */
	uint64_t slow_delays;
	/* Ready time of the delays that were split, the longest, stands for that of all slow ones:
	 * sums of parts are to be multiplied by it. */
	double ready_scale;
	bool is_lossy; /* records are missing in the range */
};

/* Returns 0, -ENOMEM. What it is made from has to live as long. */
int ky_facts_make(struct ky_facts *out, const struct ky_trace *trace,
		  const struct ky_report *report, const struct ky_stack_profile *profile);
void ky_facts_release(struct ky_facts *facts);

/* NULL: no task of this name was polled in the range. */
struct ky_kind_facts *ky_facts_kind(const struct ky_facts *facts, uint32_t name);
/* Length of its long polls, all parts together. */
uint64_t ky_kind_long_ns(const struct ky_kind_facts *kind);

/* Are records missing in [from, to)? */
bool ky_facts_is_lossy(const struct ky_facts *facts, uint64_t from_ns, uint64_t to_ns);

/* Does the name of this function have one of these parts? */
bool ky_line_has(const struct ky_code_line *line, const char *const *parts, size_t count);
/* A function of Tokio's runtime: its own locks are held for no time. */
bool ky_line_is_runtimes(const struct ky_code_line *line);
#define KY_LINE_HAS(line, parts) ky_line_has(line, parts, sizeof(parts) / sizeof((parts)[0]))

/* part / whole in parts per million, at most a million; 0 of 0 is 0. */
uint32_t ky_share_ppm(uint64_t part, uint64_t whole);
/* Of parts of delays: with those that were not split. */
uint64_t ky_facts_scaled(const struct ky_facts *facts, uint64_t ns);
/* So many parts per million of it. */
uint64_t ky_ppm_of(uint64_t ns, uint32_t ppm);

#endif
