/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/watched_text.h>
#include <analyze/short_name.h>

#include <report/frames_text.h>
#include <base/out_text.h>
#include <report/syscall_name.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdlib.h>
#include <string.h>

#define TRIGGERS_MAX 10u
#define POLLS_MAX 10u
#define NAME_COLUMNS 60u
#define READS_MAX 256u /* compared with each other */
#define INDENT 10u

static void safe(struct ky_buf *out, const char *text)
{
	ky_out_safe(out, text, strlen(text));
}

static uint64_t number(const struct ky_trace *trace, const char *key)
{
	const char *text = ky_trace_metadata(trace, key);

	return text ? strtoull(text, NULL, 10) : 0;
}

/* Recording that a user stopped has the silence of a service that idles. */
static void print_stop(struct ky_buf *out, const struct ky_trace *trace)
{
	uint64_t stopped_ns = number(trace, "recording.stopped_ns"), last_ns = 0;
	char cell[KY_OUT_CELL_BYTES];

	for (uint32_t i = 0; i < trace->file_count; i++)
		if (trace->files[i].last_ns > last_ns)
			last_ns = trace->files[i].last_ns;
	if (stopped_ns && last_ns > stopped_ns)
		ky_out_format(out,
			      "%-9s %s before the last event, on request: later events were not "
			      "recorded\n",
			      "Stopped", ky_out_duration(cell, last_ns - stopped_ns));
	else if (stopped_ns)
		ky_out_format(out,
			      "%-9s with the last event, on request: later events were not "
			      "recorded\n",
			      "Stopped");
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
	print_stop(out, trace);
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

/* Firings that no dump reports. */
static void print_unreported(struct ky_buf *out, const struct ky_trace *trace)
{
	uint64_t unreported = number(trace, "rules.untold"),
		 undumped = number(trace, "rules.undumped");
	uint64_t over_budget = number(trace, "rules.untold_over_budget");
	char cells[3][KY_OUT_CELL_BYTES];

	if (over_budget > unreported)
		over_budget = unreported;
	if (unreported)
		ky_out_format(out,
			      "%-9s rules held %s more time%s without a dump: held back by "
			      "cooldown (%s) and by the budget of dumps (%s)\n",
			      "Rules", ky_out_count(cells[0], unreported),
			      unreported == 1 ? "" : "s",
			      ky_out_count(cells[1], unreported - over_budget),
			      ky_out_count(cells[2], over_budget));
	if (undumped)
		ky_out_format(out, "%-9s %s firing%s without a dump: it could not be made\n",
			      "Rules", ky_out_count(cells[0], undumped), undumped == 1 ? "" : "s");
}

/* A rule that did not fire says nothing about this time. */
static void print_unwatched(struct ky_buf *out, const struct ky_trace *trace)
{
	uint64_t count = number(trace, "watchdog.late");
	char cells[2][KY_OUT_CELL_BYTES];

	if (count)
		ky_out_format(out,
			      "%-9s %s, in %s interval%s between checks of the rules: what began "
			      "and ended in %s did not fire\n",
			      "Unwatched",
			      ky_out_duration(cells[0], number(trace, "watchdog.unwatched_ns")),
			      ky_out_count(cells[1], count), count == 1 ? "" : "s",
			      count == 1 ? "it" : "one of them");
}

static void print_crash_stack(struct ky_buf *out, const struct ky_trace_crash *crash,
			      const struct ky_code_names *names)
{
	struct ky_crash_stack stack;

	ky_code_names_crash(names, crash->time_ns, crash->pc, &stack);
	ky_frames_text(out, names->table, stack.frames, stack.count, crash->time_ns, stack.is_whole,
		       INDENT);
}

static void print_crash(struct ky_buf *out, const struct ky_trace_crash *crash,
			const struct ky_code_names *names)
{
	ky_out_format(out,
		      "%-9s signal %u (code %" PRId64 ") on thread %u, pc 0x%" PRIx64
		      ", address 0x%" PRIx64 "\n",
		      "Crash", crash->signal_number, crash->code, crash->tid, crash->pc,
		      crash->address);
	if (names && names->table)
		print_crash_stack(out, crash, names);
}

static bool is_runnable(const struct ky_trace_stuck *check)
{
	return check->is_running || check->state == 'R';
}

/* What a check saw, in a word that checks share. */
static void activity(char *cell, size_t bytes, const struct ky_trace *trace,
		     const struct ky_trace_stuck *stuck, bool is_starved)
{
	const char *wchan = ky_trace_name(trace, stuck->wchan);
	const char *machine = ky_trace_metadata(trace, "machine.architecture"), *name = NULL;

	if (machine && stuck->syscall != UINT64_MAX)
		name = ky_syscall_name(machine, stuck->syscall);
	if (wchan[0] && strcmp(wchan, "0") != 0)
		(void)snprintf(cell, bytes, "%s", wchan);
	else if (is_runnable(stuck))
		(void)snprintf(cell, bytes, is_starved ? "waiting for a CPU" : "running");
	else if (name)
		(void)snprintf(cell, bytes, "%s", name);
	else if (stuck->syscall != UINT64_MAX)
		(void)snprintf(cell, bytes, "system call %" PRIu64, stuck->syscall);
	else if (stuck->state == 'T' || stuck->state == 't')
		(void)snprintf(cell, bytes, "stopped");
	else if (stuck->state == 'S' || stuck->state == 'D')
		(void)snprintf(cell, bytes, "asleep");
	else
		(void)snprintf(cell, bytes, "nothing readable");
}

/* A thread polls a task once at a time: checks whose spans from the poll's beginning overlap saw
 * the same poll, though each may have measured the beginning a little differently. */
static bool is_same_poll(const struct ky_trace_stuck *a, const struct ky_trace_stuck *b)
{
	return a->tid == b->tid && a->task_id == b->task_id &&
	       (a->poll_start_ns == b->poll_start_ns ||
		(a->poll_start_ns < b->time_ns && b->poll_start_ns < a->time_ns));
}

/* (name), as short_name.h has it. */
static void put_task_name(struct ky_buf *out, const struct ky_trace *trace, uint64_t task_id)
{
	uint32_t task = ky_trace_task(trace, task_id);
	const char *name = ky_trace_name(trace,
					 task != KY_NONE ? trace->tasks[task].name : KY_NONE);
	char text[KY_SHORT_NAME_BYTES];

	if (!*name)
		return;
	ky_short_name(text, name, NAME_COLUMNS);
	ky_out_text(out, " (");
	ky_out_safe(out, text, strlen(text));
	ky_out_text(out, ")");
}

/* From the first to the last check that has what the kernel had counted. */
struct check_times {
	uint64_t span_ns, running_ns, waiting_ns;
	uint32_t checks;
};

struct checks {
	char most[128]; /* what most of them saw */
	uint32_t count, most_count;
	uint64_t last_ns;
	uint64_t pc, pc_ns; /* of the last check that saw one; 0: none did */
	/* The stack that most of them saw, the latest of equals; KY_NONE: none saw one. */
	uint32_t stack, stack_count, stack_check, with_stack;
	/* Checks that found it running, or waiting for a CPU: there is no stack to take. */
	uint32_t running, starved;
	/* All of them, in order of time, and whether that one found it waiting for a CPU. */
	uint16_t order[READS_MAX];
	bool is_starved[READS_MAX];
	struct check_times times;
};

/* The checks of this poll that saw the same stack as check `which`. */
static uint32_t count_stack(const struct ky_trace *trace, uint32_t first, uint32_t which,
			    uint32_t total)
{
	const struct ky_trace_stuck *list = trace->stuck;
	uint32_t count = 0;

	for (uint32_t i = first; i < total; i++)
		count += is_same_poll(&list[i], &list[first]) && list[i].stack == list[which].stack;
	return count;
}

static void gather_stacks(struct checks *checks, const struct ky_trace *trace, uint32_t first)
{
	const struct ky_trace_stuck *list = trace->stuck;
	uint32_t total = trace->stuck_count < READS_MAX ? trace->stuck_count : READS_MAX;

	checks->stack = KY_NONE;
	for (uint32_t i = first; i < total; i++) {
		uint32_t count;

		if (!is_same_poll(&list[i], &list[first]))
			continue;
		if (list[i].stack == KY_NONE)
			continue;
		checks->with_stack++;
		count = count_stack(trace, first, i, total);
		if (count < checks->stack_count)
			continue;
		checks->stack = list[i].stack;
		checks->stack_count = count;
		checks->stack_check = i;
	}
}

/* What the poll hangs on, by name. */
static void print_hang(struct ky_buf *out, const struct ky_trace *trace,
		       const struct checks *checks, struct ky_symbol_table *symbols)
{
	const struct ky_trace_stuck *check = &trace->stuck[checks->stack_check];
	const struct ky_stack *stack = &trace->samples.stacks[checks->stack];

	ky_out_format(out, "%-9s hangs on the same stack in %u of %u checks", "",
		      checks->stack_count, checks->count);
	if (checks->running)
		ky_out_format(out, ", ran in %u", checks->running);
	if (checks->starved)
		ky_out_format(out, ", waited for a CPU in %u", checks->starved);
	if (checks->running || checks->starved)
		ky_out_text(out, ": no stack there");
	if (check->guessed_count)
		ky_out_text(out, "; partly by frame pointers");
	ky_out_text(out, "\n");
	ky_frames_text(out, symbols, trace->samples.frames + stack->first, stack->count,
		       check->time_ns, !check->is_truncated, INDENT);
}

/* Between two checks the kernel brings the CPU time of a running thread up to date at its tick. */
#define TICK_NS_MAX UINT64_C(10000000)

static uint64_t grown(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

static bool is_counted(const struct ky_trace_stuck *check)
{
	return check->cpu_ns != UINT64_MAX && check->run_delay_ns != UINT64_MAX;
}

/* It waited for a CPU at both checks and had none between them: counted when it gets one. */
static bool got_none(const struct ky_trace_stuck *a, const struct ky_trace_stuck *b)
{
	return is_runnable(a) && is_runnable(b) && a->cpu_ns == b->cpu_ns &&
	       a->run_delay_ns == b->run_delay_ns && a->time_ns != b->time_ns;
}

/* Checks of this poll from `first` on, by their time. */
static void sort_checks(struct checks *checks, const struct ky_trace *trace, uint32_t first)
{
	const struct ky_trace_stuck *list = trace->stuck;
	uint32_t total = trace->stuck_count < READS_MAX ? trace->stuck_count : READS_MAX;

	for (uint32_t i = first; i < total; i++) {
		uint32_t at = checks->count;

		if (!is_same_poll(&list[i], &list[first]))
			continue;
		for (; at && list[checks->order[at - 1]].time_ns > list[i].time_ns; at--)
			checks->order[at] = checks->order[at - 1];
		checks->order[at] = (uint16_t)i;
		checks->count++;
	}
}

/* Which checks found it waiting for a CPU rather than on one: it had none since the check before,
 * or waited for longer than it ran; the first check is judged by the one after it. */
static void find_starved(struct checks *checks, const struct ky_trace_stuck *list)
{
	const struct ky_trace_stuck *before = NULL;
	uint32_t before_at = 0;

	for (uint32_t i = 0; i < checks->count; i++) {
		const struct ky_trace_stuck *check = &list[checks->order[i]];

		if (!is_counted(check))
			continue;
		if (before && got_none(before, check))
			checks->is_starved[before_at] = checks->is_starved[i] = true;
		else if (before && is_runnable(check))
			checks->is_starved[i] = grown(before->run_delay_ns, check->run_delay_ns) >
						grown(before->cpu_ns, check->cpu_ns);
		before = check;
		before_at = i;
	}
	for (uint32_t i = 0; i < checks->count; i++) {
		checks->starved += checks->is_starved[i];
		checks->running += !checks->is_starved[i] && is_runnable(&list[checks->order[i]]);
	}
}

/* What the thread did in the time between the checks. */
static void find_times(struct checks *checks, const struct ky_trace_stuck *list)
{
	const struct ky_trace_stuck *first = NULL, *last = NULL, *since = NULL;
	struct check_times *times = &checks->times;
	uint64_t rest_ns;

	for (uint32_t i = 0; i < checks->count; i++) {
		const struct ky_trace_stuck *check = &list[checks->order[i]];

		if (!is_counted(check) || (last && check->time_ns == last->time_ns))
			continue;
		first = first ? first : check;
		since = last && got_none(last, check) ? since : check;
		last = check;
		times->checks++;
	}
	if (!last || times->checks < 2)
		return;
	times->span_ns = last->time_ns - first->time_ns;
	times->running_ns = grown(first->cpu_ns, last->cpu_ns);
	if (times->running_ns > times->span_ns)
		times->running_ns = times->span_ns;
	rest_ns = times->span_ns - times->running_ns;
	times->waiting_ns = grown(first->run_delay_ns, last->run_delay_ns) +
			    (last->time_ns - since->time_ns);
	if (times->waiting_ns > rest_ns)
		times->waiting_ns = rest_ns;
	rest_ns -= times->waiting_ns;
	if (rest_ns <= TICK_NS_MAX && since == last && is_runnable(last) &&
	    !checks->is_starved[checks->count - 1])
		times->running_ns += rest_ns;
}

static void put_times(struct ky_buf *out, const struct check_times *times)
{
	char cells[4][KY_OUT_CELL_BYTES];

	if (!times->span_ns)
		return;
	ky_out_format(
		out, "%-9s of %s between %u checks: %s blocked, %s waiting for a CPU, %s running\n",
		"", ky_out_duration(cells[0], times->span_ns), times->checks,
		ky_out_duration(cells[1], times->span_ns - times->waiting_ns - times->running_ns),
		ky_out_duration(cells[2], times->waiting_ns),
		ky_out_duration(cells[3], times->running_ns));
}

/* All checks of this poll; the first of them is `first`. */
static void gather_checks(struct checks *checks, const struct ky_trace *trace, uint32_t first)
{
	const struct ky_trace_stuck *list = trace->stuck;
	char one[128], other[128];

	sort_checks(checks, trace, first);
	find_starved(checks, list);
	find_times(checks, list);
	for (uint32_t i = 0; i < checks->count; i++) {
		const struct ky_trace_stuck *check = &list[checks->order[i]];
		uint32_t count = 0;

		checks->last_ns = check->time_ns > checks->last_ns ? check->time_ns :
								     checks->last_ns;
		if (check->pc && check->time_ns >= checks->pc_ns) {
			checks->pc = check->pc;
			checks->pc_ns = check->time_ns;
		}
		activity(one, sizeof(one), trace, check, checks->is_starved[i]);
		for (uint32_t k = 0; k < checks->count; k++) {
			activity(other, sizeof(other), trace, &list[checks->order[k]],
				 checks->is_starved[k]);
			count += strcmp(one, other) == 0;
		}
		if (count > checks->most_count) {
			checks->most_count = count;
			memcpy(checks->most, one, sizeof(checks->most));
		}
	}
}

static void print_stuck_poll(struct ky_buf *out, const struct ky_trace *trace, uint32_t first,
			     const struct ky_code_names *names)
{
	const struct ky_trace_stuck *poll = &trace->stuck[first];
	struct checks checks = {.last_ns = poll->time_ns};
	char cell[KY_OUT_CELL_BYTES];

	gather_checks(&checks, trace, first);
	ky_out_format(out, "%-9s thread %u in task %" PRIu64, "Stuck", poll->tid, poll->task_id);
	put_task_name(out, trace, poll->task_id);
	ky_out_format(out, " for %s: ",
		      ky_out_duration(cell, checks.last_ns > poll->poll_start_ns ?
						    checks.last_ns - poll->poll_start_ns :
						    0));
	safe(out, checks.most);
	ky_out_format(out, " in %u of %u checks\n", checks.most_count, checks.count);
	put_times(out, &checks.times);
	gather_stacks(&checks, trace, first);
	if (!names || !names->table)
		return;
	if (checks.stack != KY_NONE) {
		print_hang(out, trace, &checks, names->table);
		return;
	}
	if (checks.running || checks.starved)
		ky_out_format(out, "%-9s no stack: it %s when it was checked\n", "",
			      checks.starved > checks.running ? "waited for a CPU" : "ran");
	if (!checks.pc)
		return;
	ky_out_format(out, "%-9s last seen in ", "");
	ky_code_text(out, names->table, checks.pc, checks.pc_ns);
	ky_out_text(out, "\n");
}

/* One line for each poll, however often it was checked. */
static void print_stuck(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_code_names *names)
{
	const struct ky_trace_stuck *list = trace->stuck;
	uint32_t polls = 0;

	for (uint32_t i = 0; i < trace->stuck_count && i < READS_MAX; i++) {
		bool is_first = true;

		for (uint32_t k = 0; k < i && is_first; k++)
			is_first = !is_same_poll(&list[k], &list[i]);
		if (!is_first)
			continue;
		if (polls++ < POLLS_MAX)
			print_stuck_poll(out, trace, i, names);
	}
	if (polls > POLLS_MAX)
		ky_out_format(out, "%-9s ... and %u more stuck polls\n", "", polls - POLLS_MAX);
}

void ky_watched_text(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_code_names *names)
{
	print_end(out, trace);
	for (uint32_t i = 0; i < trace->crash_count && i < TRIGGERS_MAX; i++)
		print_crash(out, &trace->crashes[i], names);
	for (uint32_t i = 0; i < trace->trigger_count && i < TRIGGERS_MAX; i++)
		print_trigger(out, trace, &trace->triggers[i]);
	if (trace->trigger_count > TRIGGERS_MAX)
		ky_out_format(out, "%-9s ... and %u more firings\n", "",
			      trace->trigger_count - TRIGGERS_MAX);
	print_unreported(out, trace);
	print_unwatched(out, trace);
	print_stuck(out, trace, names);
}
