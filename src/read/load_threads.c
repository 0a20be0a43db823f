/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the kernel has counted for threads, workers or not. */
#include <read/load.h>

#define LIST_MAX (1u << 22)

bool ky_load_thread_use(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_thread_use use = {
		.time_ns = frame->timestamp_ns,
		.cpu_ns = ky_frame_number(frame, KY_F_THREAD_USAGE_cpu_time_ns, 0),
		.run_delay_ns = ky_frame_number(frame, KY_F_THREAD_USAGE_run_delay_ns, 0),
		.name = ky_load_text(load, frame, KY_F_THREAD_USAGE_thread_name),
		.tid = (uint32_t)ky_frame_number(frame, KY_F_THREAD_USAGE_tid, 0),
	};
	uint32_t at;

	if (trace->thread_use_count == LIST_MAX)
		return true;
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->thread_uses, &trace->thread_use_capacity,
			    trace->thread_use_count + 1, sizeof(use)))
		return false;
	/* Files may come in any order. */
	for (at = trace->thread_use_count++; at && trace->thread_uses[at - 1].time_ns > use.time_ns;
	     at--)
		trace->thread_uses[at] = trace->thread_uses[at - 1];
	trace->thread_uses[at] = use;
	return true;
}
