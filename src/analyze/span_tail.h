/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* span_tail.h - what the slow spans of a name have that the typical ones have not.
 *
 * Slow: the longest 1 % and at least KY_TAIL_MIN; typical: the middle half by duration. Of a part
 * of their time it says how much of the extra time it is; of a field, a parent, a spawn place and
 * of concurrency how many have it, and how likely so many of the slow ones were by chance: Fisher's
 * exact test, one-sided, times the number of tests of that name (Bonferroni). A function of the
 * samples in their tasks' time is such a thing, too, and has its mean time of a span.
 * Memory:      48 bytes a span while it is made.
 * Threads:     owner while it is made.
 */
#ifndef KY_ANALYZE_SPAN_TAIL_H
#define KY_ANALYZE_SPAN_TAIL_H

#include <analyze/code_stacks.h>
#include <analyze/span_split.h>

#define KY_TAIL_MIN 10u
#define KY_TAIL_SPANS_MIN 100u /* of a name; of fewer nothing is said */

enum ky_tail_kind {
	KY_TAIL_PART,
	KY_TAIL_FIELD,
	KY_TAIL_PARENT,
	KY_TAIL_SITE,
	KY_TAIL_CONCURRENCY,
	KY_TAIL_CPU,    /* a function that ran in it, by samples */
	KY_TAIL_OFF_CPU /* a function in which its task was off CPU */
};

struct ky_tail_row {
	uint64_t slow_count, typical_count; /* spans of the name in each group */
	uint64_t slow_ns, typical_ns;       /* PART, CPU, OFF_CPU: mean of a span */
	uint64_t slow_ppm, typical_ppm;     /* else: how many have it */
	uint64_t explains_ppm;              /* of these: of the extra time of the slow ones */
	uint64_t p_ppb;                     /* else: 1e-9s, at most 1e9 */
	uint64_t at_least;                  /* CONCURRENCY: others open at its begin */
	uint32_t name;                      /* of the spans: name index */
	uint32_t key, value;                /* FIELD; PARENT, SITE: value; function: its number */
	const char *part;                   /* PART: "ready" ..; CPU, OFF_CPU: the function */
	bool has_ns;                        /* CPU, OFF_CPU: the samples say how long */
	uint8_t kind;                       /* enum ky_tail_kind */
};

struct ky_span_tail {
	struct ky_tail_row *rows; /* by name of the spans; parts first, what explains most first */
	uint32_t count, capacity;
};

/* Of all names. code NULL: without functions. Returns 0, -ENOMEM. */
int ky_span_tail_make(struct ky_span_tail *out, const struct ky_trace *trace,
		      const struct ky_code_stacks *code);
void ky_span_tail_release(struct ky_span_tail *tail);

const char *ky_tail_kind_key(uint32_t kind);

#endif
