/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Polls of roots, the futures of block_on: a list in the order of their ends. */
#include <read/load.h>

#define LIST_MAX (1u << 22)

bool ky_load_root_poll(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_root_poll poll = {
		.begin_min_ns = ky_frame_number(frame, KY_F_ROOT_POLL_begin_min_ns, 0),
		.begin_max_ns = ky_frame_number(frame, KY_F_ROOT_POLL_begin_max_ns, 0),
		.end_min_ns = ky_frame_number(frame, KY_F_ROOT_POLL_end_min_ns, 0),
		.end_ns = frame->timestamp_ns,
		.woken_ns = ky_frame_number(frame, KY_F_ROOT_POLL_woken_ns, 0),
		.tid = (uint32_t)ky_frame_number(frame, KY_F_ROOT_POLL_tid, 0),
		.is_pending = ky_frame_number(frame, KY_F_ROOT_POLL_is_pending, 0) != 0,
	};
	uint32_t name = ky_load_text(load, frame, KY_F_ROOT_POLL_name), at;

	/* From elsewhere: what contradicts itself bounds nothing. */
	if (trace->root_poll_count == LIST_MAX || poll.begin_min_ns > poll.begin_max_ns ||
	    poll.begin_max_ns > poll.end_min_ns || poll.end_min_ns > poll.end_ns)
		return true;
	poll.task = ky_load_task(load, ky_frame_number(frame, KY_F_ROOT_POLL_task_id, 0),
				 poll.begin_max_ns);
	if (poll.task == UINT32_MAX || trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->root_polls, &trace->root_poll_capacity,
			    trace->root_poll_count + 1, sizeof(poll)))
		return false;
	trace->tasks[poll.task].flags |= KY_TASK_ROOT;
	trace->tasks[poll.task].name = name;
	for (at = trace->root_poll_count++; at && trace->root_polls[at - 1].end_ns > poll.end_ns;
	     at--)
		trace->root_polls[at] = trace->root_polls[at - 1];
	trace->root_polls[at] = poll;
	return true;
}

static uint64_t wait_between(const struct ky_trace *trace, const struct ky_trace_root_poll *before,
			     const struct ky_trace_root_poll *poll)
{
	uint64_t to_ns = poll->begin_min_ns ? poll->begin_min_ns : poll->begin_max_ns;

	if (!before->is_pending || to_ns <= before->end_ns ||
	    ky_trace_has_gap(trace, before->end_ns, to_ns))
		return 0;
	return to_ns - before->end_ns;
}

int ky_roots_finish(struct ky_trace *trace)
{
	size_t bytes = (size_t)trace->task_count * sizeof(uint32_t);
	uint32_t *last; /* poll + 1 */

	if (!trace->root_poll_count)
		return 0;
	last = ky_pages_alloc(&trace->pages, bytes);
	if (!last)
		return trace->pages.failed;
	for (uint32_t i = 0; i < trace->root_poll_count; i++) {
		struct ky_trace_root_poll *poll = &trace->root_polls[i];
		struct ky_task *task = &trace->tasks[poll->task];

		if (last[poll->task])
			poll->wait_ns = wait_between(
				trace, &trace->root_polls[last[poll->task] - 1], poll);
		if (poll->wait_ns >= KY_LONG_WAIT_NS)
			task->long_wait_ns += poll->wait_ns;
		if (poll->woken_ns && ky_trace_has_gap(trace, poll->woken_ns, poll->begin_max_ns))
			poll->woken_ns = 0;
		last[poll->task] = i + 1;
	}
	ky_pages_free(&trace->pages, last, bytes);
	return 0;
}
