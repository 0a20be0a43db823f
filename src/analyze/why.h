/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* why.h - what `kymo why` says: the slow delays of a trace, each split into its parts, and all of
 * them together by who waited for what.
 *
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_WHY_H
#define KY_ANALYZE_WHY_H

#include <analyze/code_stacks.h>
#include <analyze/delay_context.h>
#include <analyze/own_parts.h>
#include <analyze/span_times.h>
#include <base/buf.h>

#define KY_WHY_WORST 10u
#define KY_WHY_WORST_MAX 1000u
#define KY_WHY_OVER_NS UINT64_C(1000000)
#define KY_WHY_SLOW_MAX (1u << 14) /* delays that are split: the longest ones, some 20 us each */

struct ky_why_options {
	uint64_t from_ns, to_ns; /* polls that start in [from, to); to 0: no end */
	uint64_t over_ns;        /* delays longer than that */
	uint64_t task_id;        /* with has_task: of this task alone, and each of its delays */
	uint32_t worst_count;    /* 0: KY_WHY_WORST; at most KY_WHY_WORST_MAX */
	uint32_t slow_max;       /* 0: KY_WHY_SLOW_MAX, which it is at most */
	bool has_task;
	const struct ky_span_times *spans; /* polls of tasks in one of them; NULL: all */
};

/* What one kind of task waited for. */
struct ky_why_group {
	uint64_t ns;
	uint64_t long_ns;     /* of it: behind polls that are slow by the same measure */
	uint64_t delay_count; /* delays that have it */
	uint64_t last_delay;  /* while counting */
	/* Of it, behind polls: another worker that could have polled it was idle, at the least. */
	uint64_t idle_ns, idle_long_ns; /* long: as above */
	/* Of this behind polls that are not long, but for the LIFO slot: the most of one delay, in
	 * how many, and that of the last one. */
	uint64_t idle_worst_ns, idle_count, delay_idle_ns;
	/* Behind polls that are long, of one delay: the most on CPU, the most blocked; and those of
	 * the last one. */
	uint64_t cpu_worst_ns, blocked_worst_ns, delay_cpu_ns, delay_blocked_ns;
	struct ky_poll longest; /* behind a poll: the longest of the culprit's */
	uint32_t victim;        /* name index of the tasks that waited */
	uint32_t culprit;       /* name index of the tasks in whose polls; KY_NONE: no poll */
	uint8_t part;           /* enum ky_part; behind a poll: KY_PART_BEHIND_UNSPLIT */
	uint64_t sums[KY_PARTS];
	const struct ky_code_line *code; /* of the culprit: why_code.h; NULL: not known */
	double code_share;               /* of the time, or samples, of its long polls */
	uint64_t code_count;             /* samples, or times off CPU, that it is of */
	bool is_code_off_cpu;
};

struct ky_why {
	uint64_t over_ns;
	uint64_t delay_count, slow_count, left_out_count; /* measured; slow; beyond SLOW_MAX */
	uint64_t slow_ns, slow_all_ns; /* sum of the slow ones; with those left out */
	uint64_t sums[KY_PARTS], ambiguous_ns, moved_count;
	uint64_t *idle_ns; /* by worker: that behind its polls that are not long, of all groups */
	struct ky_delay *worst;            /* longest first; then earlier start, then worker */
	struct ky_delay_context *contexts; /* of the worst */
	uint32_t worst_count;
	struct ky_own_poll *polls; /* the longest, as many as the worst at most */
	uint32_t poll_count;
	struct ky_why_group *groups; /* most time first */
	uint32_t group_count;
};

/* Returns 0, -ENOMEM. */
int ky_why_make(struct ky_why **out, const struct ky_trace *trace,
		const struct ky_why_options *options);
void ky_why_free(struct ky_why *why);

struct ky_what_if;
struct ky_task_chain;
/* What --span adds: a span, and what it depended on. */
struct ky_why_span {
	uint32_t span; /* index */
	struct ky_task_chain *chain;
};
/* One object, keys in fixed order: `kymo why --json`. code NULL: nothing has a name. what_if, span
 * NULL: not asked for. */
void ky_why_json(struct ky_buf *out, const struct ky_trace *trace, const struct ky_why *why,
		 const struct ky_code_stacks *code, const struct ky_what_if *what_if,
		 const struct ky_why_span *span);

#endif
