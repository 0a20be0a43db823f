/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/last_polls.h>

#include <analyze/findings/permit_waits.h>
#include <base/alloc.h>
#include <base/text.h>
#include <errno.h>

#define NEAR_NS UINT64_C(1000000) /* between the end of a poll and its await point */

static uint8_t point_of(const struct ky_code_stacks *code, uint32_t stack)
{
	static const char *const outside[] = {
		"tokio::net::", "tokio::io::",  "tokio::fs::",   "tokio::process", "tokio::signal",
		"JoinHandle",   "task::join::", "runtime::io::", "hyper::"};
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	uint8_t point = KY_IDLE_OWN;
	bool is_permit = false;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk)) && !ky_code_is_own(line)) {
		if (KY_LINE_HAS(line, outside))
			return KY_IDLE_OUTSIDE;
		if (point == KY_IDLE_TIMER || ky_text_contains(line->name, "tokio::time::")) {
			point = KY_IDLE_TIMER;
			continue;
		}
		/* A sender waits for a permit, its receiver for no such thing. */
		is_permit |= ky_text_contains(line->name, "sync::batch_semaphore::");
		if (ky_text_contains(line->name, "sync::oneshot::"))
			point = KY_IDLE_ANSWER;
		else if (is_permit && ky_text_contains(line->name, "sync::mpsc::"))
			point = KY_IDLE_ROOM;
		else if (point == KY_IDLE_OWN && ky_text_contains(line->name, "tokio::sync::"))
			point = KY_IDLE_INSIDE;
	}
	return point;
}

static void find_points(struct ky_last_polls *out, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_permit_waits permits = {0};

	for (uint32_t i = 0; facts->profile && i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];
		uint8_t point;

		if (row->kind != KY_STACK_PLACE || row->task == KY_NONE || row->stack == KY_NONE ||
		    row->time_ns + NEAR_NS < out->end_ns[row->task] ||
		    (!(row->flags & KY_ROW_WAITS) && row->end_ns + NEAR_NS < out->judged_ns))
			continue;
		point = point_of(&facts->profile->code, row->stack);
		if (point == KY_IDLE_INSIDE &&
		    ky_permit_is_unnamed(&facts->profile->code, row->stack) &&
		    ky_permit_waits_of(&permits, facts, row->task) == KY_SYNC_CHANNEL)
			point = KY_IDLE_ROOM;
		/* Of several points of one wait the first kind decides. */
		if (!out->points[row->task] || point < out->points[row->task]) {
			out->points[row->task] = point;
			out->stacks[row->task] = row->stack;
		}
	}
	ky_permit_waits_release(&permits);
}

int ky_last_polls_make(struct ky_last_polls *out, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	size_t count = trace->task_count + (size_t)1;
	struct ky_poll poll;

	*out = (struct ky_last_polls){.end_ns = ky_alloc(count * sizeof(*out->end_ns)),
				      .counts = ky_alloc(count * sizeof(*out->counts)),
				      .points = ky_alloc(count),
				      .stacks = ky_alloc(count * sizeof(*out->stacks)),
				      .judged_ns = facts->report->shutdown_ns ?
							   facts->report->shutdown_ns :
							   facts->report->to_ns};
	if (!out->end_ns || !out->counts || !out->points || !out->stacks) {
		ky_last_polls_release(out);
		return -ENOMEM;
	}
	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;

		for (uint64_t row = 0; row < polls->row_count; row++) {
			uint64_t end_ns;

			ky_trace_poll(trace, worker, row, &poll);
			if (poll.start_ns >= out->judged_ns)
				break;
			end_ns = poll.start_ns + poll.duration_ns;
			out->counts[poll.task]++;
			if (end_ns > out->end_ns[poll.task])
				out->end_ns[poll.task] = end_ns;
		}
	}
	find_points(out, facts);
	return 0;
}

void ky_last_polls_release(struct ky_last_polls *polls)
{
	ky_free(polls->end_ns);
	ky_free(polls->counts);
	ky_free(polls->points);
	ky_free(polls->stacks);
	*polls = (struct ky_last_polls){0};
}
