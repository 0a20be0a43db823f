/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/end_stacks.h>

#include <base/json_write.h>
#include <base/alloc.h>
#include <cli/cli.h>
#include <report/frames_text.h>
#include <base/out_text.h>
#include <cli/progress.h>
#include <edit/trace_symbols.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 1024u
#define FRAMES_MAX 64u
#define POLLS_MAX 8u
#define INDENT 4u

enum seen {
	SEEN_NOTHING = 0,
	SEEN_RUNNING, /* a sample of the processor */
	SEEN_BLOCKED, /* a call that had blocked and returned */
	SEEN_STUCK    /* a look of the watchdog */
};

/* The last stack of a poll that was open. */
struct last_seen {
	const struct ky_cut_poll *poll;
	uint64_t frames[FRAMES_MAX];
	uint32_t frame_count;
	uint64_t ns;
	uint8_t how; /* enum seen */
	bool is_truncated;
};

struct end {
	struct last_seen polls[POLLS_MAX];
	uint32_t poll_count;
	uint32_t crash_tids[KY_TRACE_CRASHES_MAX];
	uint64_t crash_signals[KY_TRACE_CRASHES_MAX];
	uint32_t crash_count;
};

/* ---- gathering ---- */

static void note(struct end *end, const struct ky_event *event, uint64_t tid, uint32_t chain,
		 uint32_t truncated, uint8_t how)
{
	const struct ky_value *value = ky_event_field(event, chain);
	uint64_t ns = event->has_timestamp ? event->timestamp_ns : 0;

	for (uint32_t i = 0; i < end->poll_count; i++) {
		struct last_seen *seen = &end->polls[i];

		if (seen->poll->tid != tid || ns < seen->poll->start_ns || ns < seen->ns ||
		    !value || !value->frame_count)
			continue;
		seen->frame_count = value->frame_count < FRAMES_MAX ? value->frame_count :
								      FRAMES_MAX;
		memcpy(seen->frames, value->frames, seen->frame_count * sizeof(seen->frames[0]));
		seen->ns = ns;
		seen->how = how;
		seen->is_truncated = ky_event_number(event, truncated, 0) != 0 ||
				     value->frame_count > FRAMES_MAX;
	}
}

static int take(void *ctx, const struct ky_event *event)
{
	struct end *end = ctx;

	switch (event->schema->event) {
	case KY_EV_CRASH:
		if (end->crash_count == KY_TRACE_CRASHES_MAX)
			break;
		end->crash_tids[end->crash_count] = (uint32_t)ky_event_number(event, KY_F_CRASH_tid,
									      0);
		end->crash_signals[end->crash_count++] = ky_event_number(
			event, KY_F_CRASH_signal_number, 0);
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
	return 0;
}

/* ---- telling ---- */

static const char *const how_names[] = {"nothing", "running", "blocked", "stuck"};

static void say_crash(struct ky_buf *out, const struct end *end,
		      const struct ky_trace_symbols *symbols, uint32_t index, bool is_json)
{
	const struct ky_crash_copy *crash = &symbols->crashes[index];
	struct ky_crash_stack stack = {.count = 0};

	(void)ky_trace_symbols_crash(symbols, index, &stack);
	if (!stack.count && crash->pc) {
		stack.frames[0] = crash->pc;
		stack.count = 1;
	}
	if (is_json) {
		ky_json_open(out, NULL, "{");
		ky_json_number(out, "signal", end->crash_signals[index]);
		ky_json_number(out, "tid", end->crash_tids[index]);
		ky_frames_json(out, symbols->table, stack.frames, stack.count, crash->time_ns);
		ky_json_flag(out, "whole", stack.is_whole);
		ky_json_close(out, "}");
		return;
	}
	ky_out_format(out, "  signal %" PRIu64 " on thread %u:\n", end->crash_signals[index],
		      end->crash_tids[index]);
	ky_frames_text(out, symbols->table, stack.frames, stack.count, crash->time_ns,
		       stack.is_whole, INDENT);
}

static void say_poll(struct ky_buf *out, const struct last_seen *seen,
		     const struct ky_cut_report *report, struct ky_symbol_table *table,
		     bool is_json)
{
	uint64_t before_ns = report->newest_ns > seen->ns ? report->newest_ns - seen->ns : 0;
	char cell[KY_OUT_CELL_BYTES];

	if (is_json) {
		ky_json_open(out, NULL, "{");
		ky_json_number(out, "tid", seen->poll->tid);
		ky_json_number(out, "task", seen->poll->task);
		ky_json_text(out, "seen", how_names[seen->how]);
		ky_json_number(out, "before_end_ns", before_ns);
		ky_frames_json(out, table, seen->frames, seen->frame_count, seen->ns);
		ky_json_flag(out, "whole", !seen->is_truncated);
		ky_json_close(out, "}");
		return;
	}
	ky_out_format(out, "  task %" PRIu64 " on thread %u, last seen %s %s before the end:\n",
		      seen->poll->task, seen->poll->tid, how_names[seen->how],
		      ky_out_duration(cell, before_ns));
	ky_frames_text(out, table, seen->frames, seen->frame_count, seen->ns, !seen->is_truncated,
		       INDENT);
}

static void say(struct ky_buf *out, const struct end *end, const struct ky_trace_symbols *symbols,
		const struct ky_cut_report *report, bool is_json)
{
	if (is_json)
		ky_json_open(out, "crashes", "[");
	for (uint32_t i = 0; i < symbols->crash_count && i < end->crash_count; i++)
		say_crash(out, end, symbols, i, is_json);
	if (is_json) {
		ky_json_close(out, "]");
		ky_json_open(out, "open_poll_stacks", "[");
	}
	for (uint32_t i = 0; i < end->poll_count; i++)
		if (end->polls[i].how != SEEN_NOTHING)
			say_poll(out, &end->polls[i], report, symbols->table, is_json);
	if (is_json)
		ky_json_close(out, "]");
}

void ky_end_stacks(struct ky_buf *out, const char *path, const struct ky_cut_report *report,
		   bool is_json)
{
	char argument_text[PATH_BYTES], *argument = argument_text;
	struct ky_input input = {.arguments = &argument, .argument_count = 1};
	struct ky_trace_symbols_options how = {.debug_dir_count = 0};
	struct ky_trace_symbols symbols = {.table = NULL};
	struct end *end = ky_alloc(sizeof(*end));
	int code = end ? KY_EXIT_OK : KY_EXIT_TROUBLE;

	for (; end && end->poll_count < POLLS_MAX && end->poll_count < report->open_poll_count;
	     end->poll_count++)
		end->polls[end->poll_count].poll = &report->open_polls[end->poll_count];
	(void)snprintf(argument_text, sizeof(argument_text), "%s", path);
	if (!code)
		code = ky_input_open(&input);
	if (!code)
		code = ky_trace_symbols_open(&symbols, &input, &how, take, end);
	ky_progress_step("naming code");
	if (!code)
		say(out, end, &symbols, report, is_json);
	else if (is_json)
		ky_end_stacks_none(out);
	ky_trace_symbols_close(&symbols);
	ky_input_close(&input);
	ky_free(end);
}

void ky_end_stacks_none(struct ky_buf *out)
{
	ky_json_open(out, "crashes", "[");
	ky_json_close(out, "]");
	ky_json_open(out, "open_poll_stacks", "[");
	ky_json_close(out, "]");
}
