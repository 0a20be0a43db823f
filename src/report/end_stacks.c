/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/end_stacks.h>

#include <base/json_write.h>
#include <base/out_text.h>
#include <inttypes.h>
#include <report/frames_text.h>
#include <string.h>

#define INDENT 4u

enum seen {
	SEEN_NOTHING = 0,
	SEEN_RUNNING, /* a CPU sample */
	SEEN_BLOCKED, /* a call that had blocked and returned */
	SEEN_STUCK    /* a check of the watchdog */
};

/* ---- gathering ---- */

static void note(struct ky_end_stacks *end, const struct ky_event *event, uint64_t tid,
		 uint32_t chain, uint32_t truncated, uint8_t how)
{
	const struct ky_value *value = ky_event_field(event, chain);
	uint64_t ns = event->has_timestamp ? event->timestamp_ns : 0;

	for (uint32_t i = 0; i < end->poll_count; i++) {
		struct ky_end_poll *seen = &end->polls[i];

		if (seen->tid != tid || ns < seen->start_ns || ns < seen->seen_ns || !value ||
		    !value->frame_count)
			continue;
		seen->frame_count = value->frame_count < KY_END_FRAMES_MAX ? value->frame_count :
									     KY_END_FRAMES_MAX;
		memcpy(seen->frames, value->frames, seen->frame_count * sizeof(seen->frames[0]));
		seen->seen_ns = ns;
		seen->how = how;
		seen->is_truncated = ky_event_number(event, truncated, 0) != 0 ||
				     value->frame_count > KY_END_FRAMES_MAX;
	}
}

void ky_end_stacks_event(struct ky_end_stacks *end, const struct ky_event *event)
{
	switch (event->schema->event) {
	case KY_EV_CRASH:
		if (end->crash_count == KY_END_CRASHES_MAX)
			break;
		end->crashes[end->crash_count++] = (struct ky_end_crash){
			.time_ns = event->has_timestamp ? event->timestamp_ns : 0,
			.pc = ky_event_number(event, KY_F_CRASH_pc, 0),
			.signal = ky_event_number(event, KY_F_CRASH_signal_number, 0),
			.tid = (uint32_t)ky_event_number(event, KY_F_CRASH_tid, 0)};
		break;
	case KY_EV_CPU_SAMPLE:
		note(end, event, ky_event_number(event, KY_F_CPU_SAMPLE_tid, 0),
		     KY_F_CPU_SAMPLE_callchain, KY_F_CPU_SAMPLE_is_truncated, SEEN_RUNNING);
		break;
	case KY_EV_OFF_CPU:
		note(end, event, ky_event_number(event, KY_F_OFF_CPU_tid, 0),
		     KY_F_OFF_CPU_callchain, KY_F_OFF_CPU_is_truncated, SEEN_BLOCKED);
		break;
	case KY_EV_STUCK_THREAD:
		note(end, event, ky_event_number(event, KY_F_STUCK_THREAD_tid, 0),
		     KY_F_STUCK_THREAD_callchain, KY_F_STUCK_THREAD_is_truncated, SEEN_STUCK);
		break;
	default:
		break;
	}
}

/* ---- telling ---- */

static const char *const how_names[] = {"nothing", "running", "blocked", "stuck"};

static void say_crash(struct ky_buf *out, const struct ky_end_crash *crash,
		      const struct ky_code_names *names, bool is_json)
{
	struct ky_crash_stack stack;

	ky_code_names_crash(names, crash->time_ns, crash->pc, &stack);
	if (is_json) {
		ky_json_open(out, NULL, "{");
		ky_json_number(out, "signal", crash->signal);
		ky_json_number(out, "tid", crash->tid);
		ky_frames_json(out, names->table, stack.frames, stack.count, crash->time_ns);
		ky_json_flag(out, "whole", stack.is_whole);
		ky_json_close(out, "}");
		return;
	}
	ky_out_format(out, "  signal %" PRIu64 " on thread %u:\n", crash->signal, crash->tid);
	ky_frames_text(out, names->table, stack.frames, stack.count, crash->time_ns, stack.is_whole,
		       INDENT);
}

static void say_poll(struct ky_buf *out, const struct ky_end_poll *seen, uint64_t newest_ns,
		     struct ky_symbol_table *table, bool is_json)
{
	uint64_t before_ns = newest_ns > seen->seen_ns ? newest_ns - seen->seen_ns : 0;
	char cell[KY_OUT_CELL_BYTES];

	if (is_json) {
		ky_json_open(out, NULL, "{");
		ky_json_number(out, "tid", seen->tid);
		ky_json_number(out, "task", seen->task);
		ky_json_text(out, "seen", how_names[seen->how]);
		ky_json_number(out, "before_end_ns", before_ns);
		ky_frames_json(out, table, seen->frames, seen->frame_count, seen->seen_ns);
		ky_json_flag(out, "whole", !seen->is_truncated);
		ky_json_close(out, "}");
		return;
	}
	ky_out_format(out, "  task %" PRIu64 " on thread %u, last seen %s %s before the end:\n",
		      seen->task, seen->tid, how_names[seen->how],
		      ky_out_duration(cell, before_ns));
	ky_frames_text(out, table, seen->frames, seen->frame_count, seen->seen_ns,
		       !seen->is_truncated, INDENT);
}

void ky_end_stacks_put(struct ky_buf *out, const struct ky_end_stacks *end,
		       const struct ky_code_names *names, bool is_json)
{
	if (is_json)
		ky_json_open(out, "crashes", "[");
	for (uint32_t i = 0; i < end->crash_count; i++)
		say_crash(out, &end->crashes[i], names, is_json);
	if (is_json) {
		ky_json_close(out, "]");
		ky_json_open(out, "open_poll_stacks", "[");
	}
	for (uint32_t i = 0; i < end->poll_count; i++)
		if (end->polls[i].how != SEEN_NOTHING)
			say_poll(out, &end->polls[i], end->newest_ns, names->table, is_json);
	if (is_json)
		ky_json_close(out, "]");
}
