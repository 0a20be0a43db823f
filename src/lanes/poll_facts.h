/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* poll_facts.h - all that a trace has of one poll, span or blocking run, as JSON; and the way from
 * words, moments and evidence back to a poll.
 *
 * Invariants:  times are nanoseconds from the first poll, park or wake of the trace; `id` is what
 *              outlives this run: kind:worker:start.
 * Threads:     owner.
 */
#ifndef KY_LANES_POLL_FACTS_H
#define KY_LANES_POLL_FACTS_H

#include <analyze/code_stacks.h>
#include <analyze/delay_parts.h>
#include <analyze/own_parts.h>
#include <base/buf.h>
#include <lanes/lanes.h>

#define KY_FACTS_SAMPLES_MAX 64u /* stacks listed of one poll */
#define KY_FACTS_FRAMES_MAX 128u
#define KY_FACTS_FOUND_MAX 50u

/* stacks: NULL: functions have no names. Errors: buf->failed. */
void ky_poll_facts_json(struct ky_buf *out, const struct ky_trace *trace, uint32_t worker,
			uint64_t row, const struct ky_code_stacks *stacks);
void ky_span_facts_json(struct ky_buf *out, const struct ky_trace *trace, uint32_t span);
void ky_run_facts_json(struct ky_buf *out, const struct ky_trace *trace, uint32_t run);

/* The poll of a task (UINT64_MAX: any) whose time a moment lies in or after which it is next; of
 * evidence of findings and of links. Returns false where there is none. */
bool ky_facts_find_poll(const struct ky_trace *trace, uint64_t task_id, uint64_t time_ns,
			uint32_t *worker, uint64_t *row);

/* What a text may mean, at most KY_FACTS_FOUND_MAX: a task by its number, kinds of task by part of
 * their name, spans, functions in samples. */
void ky_facts_search_json(struct ky_buf *out, const struct ky_lanes *lanes, const char *text,
			  const struct ky_code_stacks *stacks);

/* What a part of a delay is, in words that follow "N ms". */
const char *ky_part_words(enum ky_part part);
const char *ky_own_part_words(enum ky_own_part part);

#endif
