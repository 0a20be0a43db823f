/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What was reported from outside the events of the runtime: rules that fired, checks of stuck
 * threads, fatal signals. */
#include <read/load.h>

#define LIST_MAX 65536u        /* of each; no writer makes so many */
#define WINDOWS_MAX (1u << 22) /* five a second make it in more than a week */

static uint64_t number(const struct ky_frame *frame, uint32_t field)
{
	return ky_frame_number(frame, field, 0);
}

static bool load_trigger(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_trigger trigger = {
		.time_ns = frame->timestamp_ns,
		.value = number(frame, KY_F_TRIGGER_value),
		.threshold = number(frame, KY_F_TRIGGER_threshold),
		.task_id = number(frame, KY_F_TRIGGER_task_id),
		.tid = (uint32_t)number(frame, KY_F_TRIGGER_tid),
		.suppressed_count = number(frame, KY_F_TRIGGER_suppressed_count),
		.late_count = number(frame, KY_F_TRIGGER_late_count),
		.rule = ky_load_text(load, frame, KY_F_TRIGGER_rule),
		.unit = ky_load_text(load, frame, KY_F_TRIGGER_unit),
	};

	if (trace->trigger_count == LIST_MAX)
		return true;
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->triggers, &trace->trigger_capacity,
			    trace->trigger_count + 1, sizeof(trigger)))
		return false;
	trace->triggers[trace->trigger_count++] = trigger;
	return true;
}

static bool load_stuck(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_stuck stuck = {
		.time_ns = frame->timestamp_ns,
		.poll_start_ns = number(frame, KY_F_STUCK_THREAD_poll_start_ns),
		.task_id = number(frame, KY_F_STUCK_THREAD_task_id),
		.pc = number(frame, KY_F_STUCK_THREAD_pc),
		.syscall = ky_frame_number(frame, KY_F_STUCK_THREAD_syscall_number, UINT64_MAX),
		.cpu_ns = ky_frame_number(frame, KY_F_STUCK_THREAD_cpu_ns, UINT64_MAX),
		.run_delay_ns = ky_frame_number(frame, KY_F_STUCK_THREAD_run_delay_ns, UINT64_MAX),
		.tid = (uint32_t)number(frame, KY_F_STUCK_THREAD_tid),
		.wchan = ky_load_text(load, frame, KY_F_STUCK_THREAD_wchan),
		.state = (uint8_t)number(frame, KY_F_STUCK_THREAD_state),
		.is_running = number(frame, KY_F_STUCK_THREAD_is_running) != 0,
		.is_truncated = number(frame, KY_F_STUCK_THREAD_is_truncated) != 0,
		.guessed_count = (uint32_t)number(frame, KY_F_STUCK_THREAD_guessed_count),
	};
	bool is_truncated;

	if (trace->stuck_count == LIST_MAX)
		return true;
	if (!ky_load_stack(load, frame, KY_F_STUCK_THREAD_callchain, &stuck.stack, &is_truncated))
		return false;
	stuck.is_truncated |= is_truncated;
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->stuck, &trace->stuck_capacity,
			    trace->stuck_count + 1, sizeof(stuck)))
		return false;
	trace->stuck[trace->stuck_count++] = stuck;
	return true;
}

static bool load_crash(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_crash crash = {
		.time_ns = frame->timestamp_ns,
		.address = number(frame, KY_F_CRASH_address),
		.pc = number(frame, KY_F_CRASH_pc),
		.code = (int64_t)number(frame, KY_F_CRASH_code),
		.signal_number = (uint32_t)number(frame, KY_F_CRASH_signal_number),
		.tid = (uint32_t)number(frame, KY_F_CRASH_tid),
	};

	if (trace->crash_count == LIST_MAX)
		return true;
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->crashes, &trace->crash_capacity,
			    trace->crash_count + 1, sizeof(crash)))
		return false;
	trace->crashes[trace->crash_count++] = crash;
	return true;
}

static bool load_thread_cpu(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_thread_cpu cpu = {
		.time_ns = frame->timestamp_ns,
		.cpu_ns = number(frame, KY_F_THREAD_CPU_cpu_time_ns),
		.run_delay_ns = number(frame, KY_F_THREAD_CPU_run_delay_ns),
		.voluntary = ky_frame_number(frame, KY_F_THREAD_CPU_voluntary_switches, UINT64_MAX),
		.involuntary = ky_frame_number(frame, KY_F_THREAD_CPU_involuntary_switches,
					       UINT64_MAX),
		.worker_id = ky_frame_number(frame, KY_F_THREAD_CPU_worker_id, 255),
		.tid = (uint32_t)number(frame, KY_F_THREAD_CPU_tid),
	};
	uint32_t at;

	if (trace->thread_cpu_count == LIST_MAX)
		return true;
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->thread_cpus, &trace->thread_cpu_capacity,
			    trace->thread_cpu_count + 1, sizeof(cpu)))
		return false;
	/* Files may come in any order. */
	for (at = trace->thread_cpu_count++; at && trace->thread_cpus[at - 1].time_ns > cpu.time_ns;
	     at--)
		trace->thread_cpus[at] = trace->thread_cpus[at - 1];
	trace->thread_cpus[at] = cpu;
	return true;
}

static bool load_off_window(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	uint64_t end_ns = frame->timestamp_ns;
	uint64_t observed_ns = number(frame, KY_F_OFF_CPU_WINDOW_observed_ns);
	uint64_t stretch_ns = number(frame, KY_F_OFF_CPU_WINDOW_stretch_ns);
	struct ky_trace_off_window window = {
		.to_ns = end_ns, .lost_count = number(frame, KY_F_OFF_CPU_WINDOW_lost_count)};
	uint32_t at;

	/* What makes no sense stands for nothing. */
	if (!stretch_ns || observed_ns > stretch_ns || stretch_ns > end_ns ||
	    trace->off_window_count == WINDOWS_MAX)
		return true;
	window.from_ns = end_ns - observed_ns;
	window.stretch_ns = end_ns - stretch_ns;
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->off_windows, &trace->off_window_capacity,
			    trace->off_window_count + 1, sizeof(window)))
		return false;
	for (at = trace->off_window_count++; at && trace->off_windows[at - 1].to_ns > window.to_ns;
	     at--)
		trace->off_windows[at] = trace->off_windows[at - 1];
	trace->off_windows[at] = window;
	return true;
}

struct ky_trace_off_window *ky_trace_off_window_at(const struct ky_trace *trace, uint64_t ns)
{
	uint32_t low = 0, high = trace->off_window_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (trace->off_windows[middle].to_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < trace->off_window_count ? &trace->off_windows[low] : NULL;
}

bool ky_load_watched(struct ky_load *load, const struct ky_frame *frame)
{
	switch (frame->schema->event) {
	case KY_EV_TRIGGER:
		return load_trigger(load, frame);
	case KY_EV_STUCK_THREAD:
		return load_stuck(load, frame);
	case KY_EV_CRASH:
		return load_crash(load, frame);
	case KY_EV_THREAD_CPU:
		return load_thread_cpu(load, frame);
	case KY_EV_OFF_CPU_WINDOW:
		return load_off_window(load, frame);
	default:
		return true;
	}
}

uint64_t ky_trace_lost_switches(const struct ky_trace *trace)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < trace->off_window_count; i++)
		count += trace->off_windows[i].lost_count;
	return count;
}
