/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/watched_text.h>

#include <cli/out_text.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TRIGGERS_MAX 10u
#define POLLS_MAX 10u
#define LOOKS_MAX 256u /* compared with each other */

static void safe(struct ky_buf *out, const char *text)
{
	ky_out_safe(out, text, strlen(text));
}

static void print_end(struct ky_buf *out, const struct ky_trace *trace)
{
	const char *end = ky_trace_metadata(trace, "process.end");
	const char *reason = ky_trace_metadata(trace, "kymo.dump.reason");
	const char *label = ky_trace_metadata(trace, "kymo.dump.label");

	if (end) {
		ky_out_format(out, "%-9s ", "Ended");
		safe(out, strcmp(end, "unknown") == 0 ? "how is not known" : end);
		ky_out_text(out, "\n");
	}
	if (!reason && !label)
		return;
	ky_out_format(out, "%-9s ", "Dump");
	safe(out, reason ? reason : "no reason given");
	if (label) {
		ky_out_text(out, ", \"");
		safe(out, label);
		ky_out_text(out, "\"");
	}
	ky_out_text(out, "\n");
}

static void put_value(struct ky_buf *out, uint64_t value, const char *unit)
{
	char cell[KY_OUT_CELL_BYTES];

	if (strcmp(unit, "ns") == 0) {
		ky_out_text(out, ky_out_duration(cell, value));
	} else if (strcmp(unit, "bytes") == 0) {
		ky_out_text(out, ky_out_bytes(cell, value));
	} else if (strcmp(unit, "percent") == 0) {
		ky_out_format(out, "%s %%", ky_out_count(cell, value));
	} else {
		ky_out_format(out, "%s%s", ky_out_count(cell, value), unit[0] ? " " : "");
		safe(out, unit);
	}
}

static void print_trigger(struct ky_buf *out, const struct ky_trace *trace,
			  const struct ky_trace_trigger *trigger)
{
	char cell[KY_OUT_CELL_BYTES];
	const char *unit = ky_trace_name(trace, trigger->unit);

	ky_out_format(out, "%-9s ", "Rule");
	safe(out, ky_trace_name(trace, trigger->rule));
	ky_out_text(out, " fired at ");
	put_value(out, trigger->value, unit);
	if (trigger->task_id)
		ky_out_format(out, ", task %" PRIu64, trigger->task_id);
	if (trigger->tid)
		ky_out_format(out, ", thread %u", trigger->tid);
	if (trigger->suppressed_count)
		ky_out_format(out, "; %s more held back before it",
			      ky_out_count(cell, trigger->suppressed_count));
	if (trigger->late_count)
		ky_out_format(out, "; the watchdog was late %s time%s",
			      ky_out_count(cell, trigger->late_count),
			      trigger->late_count == 1 ? "" : "s");
	ky_out_text(out, "\n");
}

static void print_crash(struct ky_buf *out, const struct ky_trace_crash *crash)
{
	ky_out_format(out,
		      "%-9s signal %u (code %" PRId64 ") on thread %u, pc 0x%" PRIx64
		      ", address 0x%" PRIx64 "\n",
		      "Crash", crash->signal_number, crash->code, crash->tid, crash->pc,
		      crash->address);
}

/* What a look saw, in a word that looks share. */
static void activity(char *cell, size_t bytes, const struct ky_trace *trace,
		     const struct ky_trace_stuck *stuck)
{
	const char *wchan = ky_trace_name(trace, stuck->wchan);

	if (wchan[0] && strcmp(wchan, "0") != 0)
		(void)snprintf(cell, bytes, "in %s", wchan);
	else if (stuck->is_running || stuck->state == 'R')
		(void)snprintf(cell, bytes, "running");
	else if (stuck->syscall != UINT64_MAX)
		(void)snprintf(cell, bytes, "in system call %" PRIu64, stuck->syscall);
	else if (stuck->state == 'T' || stuck->state == 't')
		(void)snprintf(cell, bytes, "stopped");
	else if (stuck->state == 'S' || stuck->state == 'D')
		(void)snprintf(cell, bytes, "asleep");
	else
		(void)snprintf(cell, bytes, "doing what could not be read");
}

/* The most frequent activity among the looks at this poll, and how many they are. */
static void print_stuck_poll(struct ky_buf *out, const struct ky_trace *trace, uint32_t first)
{
	const struct ky_trace_stuck *list = trace->stuck, *poll = &list[first];
	uint32_t total = trace->stuck_count < LOOKS_MAX ? trace->stuck_count : LOOKS_MAX;
	char most[128] = "", one[128], other[128], cell[KY_OUT_CELL_BYTES];
	uint32_t looks = 0, most_count = 0;
	uint64_t last_ns = poll->time_ns;

	for (uint32_t i = first; i < total; i++) {
		uint32_t count = 0;

		if (list[i].tid != poll->tid || list[i].poll_start_ns != poll->poll_start_ns)
			continue;
		looks++;
		last_ns = list[i].time_ns > last_ns ? list[i].time_ns : last_ns;
		activity(one, sizeof(one), trace, &list[i]);
		for (uint32_t k = first; k < total; k++) {
			if (list[k].tid != poll->tid ||
			    list[k].poll_start_ns != poll->poll_start_ns)
				continue;
			activity(other, sizeof(other), trace, &list[k]);
			count += strcmp(one, other) == 0;
		}
		if (count > most_count) {
			most_count = count;
			memcpy(most, one, sizeof(most));
		}
	}
	ky_out_format(out, "%-9s thread %u ", "Stuck", poll->tid);
	safe(out, most);
	ky_out_format(out, " %u of %u looks, polling task %" PRIu64 " for %s", most_count, looks,
		      poll->task_id,
		      ky_out_duration(cell, last_ns > poll->poll_start_ns ?
						    last_ns - poll->poll_start_ns :
						    0));
	ky_out_text(out, "\n");
}

static void print_stuck(struct ky_buf *out, const struct ky_trace *trace)
{
	const struct ky_trace_stuck *list = trace->stuck;
	uint32_t polls = 0;

	for (uint32_t i = 0; i < trace->stuck_count && i < LOOKS_MAX && polls < POLLS_MAX; i++) {
		bool is_first = true;

		for (uint32_t k = 0; k < i && is_first; k++)
			is_first = list[k].tid != list[i].tid ||
				   list[k].poll_start_ns != list[i].poll_start_ns;
		if (!is_first)
			continue;
		polls++;
		print_stuck_poll(out, trace, i);
	}
}

void ky_watched_text(struct ky_buf *out, const struct ky_trace *trace)
{
	print_end(out, trace);
	for (uint32_t i = 0; i < trace->crash_count && i < TRIGGERS_MAX; i++)
		print_crash(out, &trace->crashes[i]);
	for (uint32_t i = 0; i < trace->trigger_count && i < TRIGGERS_MAX; i++)
		print_trigger(out, trace, &trace->triggers[i]);
	if (trace->trigger_count > TRIGGERS_MAX)
		ky_out_format(out, "%-9s ... and %u more firings\n", "",
			      trace->trigger_count - TRIGGERS_MAX);
	print_stuck(out, trace);
}
