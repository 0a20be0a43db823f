/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Calls that failed again and again: a list in the order of time. */
#include <read/load.h>

#define LIST_MAX (1u << 20)

bool ky_load_failed_calls(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	uint64_t task_id = ky_frame_number(frame, KY_F_FAILED_CALLS_task_id, 0);
	struct ky_trace_failed_calls failed = {
		.time_ns = frame->timestamp_ns,
		.count = ky_frame_number(frame, KY_F_FAILED_CALLS_failed_count, 0),
		.syscall = ky_frame_number(frame, KY_F_FAILED_CALLS_syscall_number, 0),
		.fd = ky_frame_number(frame, KY_F_FAILED_CALLS_fd, UINT64_MAX),
		.error = (uint32_t)ky_frame_number(frame, KY_F_FAILED_CALLS_error, 0),
		.tid = (uint32_t)ky_frame_number(frame, KY_F_FAILED_CALLS_tid, 0),
		.task = KY_NONE,
	};
	uint32_t at;

	if (trace->failed_count == LIST_MAX)
		return true;
	if (task_id) {
		failed.task = ky_load_task(load, task_id, frame->timestamp_ns);
		if (failed.task == KY_NONE)
			return false;
	}
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->failed_calls, &trace->failed_capacity,
			    trace->failed_count + 1, sizeof(failed)))
		return false;
	/* Files may come in any order. */
	for (at = trace->failed_count++; at && trace->failed_calls[at - 1].time_ns > failed.time_ns;
	     at--)
		trace->failed_calls[at] = trace->failed_calls[at - 1];
	trace->failed_calls[at] = failed;
	return true;
}
