/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/watched_text.h>

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
#define NAME_BYTES 56u
#define LOOKS_MAX 256u /* compared with each other */
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

/* Silence that somebody asked for looks like a service that idles. */
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

/* What no dump of a firing tells. */
static void print_untold(struct ky_buf *out, const struct ky_trace *trace)
{
	uint64_t untold = number(trace, "rules.untold"), undumped = number(trace, "rules.undumped");
	uint64_t over_budget = number(trace, "rules.untold_over_budget");
	char cells[3][KY_OUT_CELL_BYTES];

	if (over_budget > untold)
		over_budget = untold;
	if (untold)
		ky_out_format(out,
			      "%-9s rules held %s more time%s without a dump: held back by "
			      "cooldown (%s) and by the budget of dumps (%s)\n",
			      "Rules", ky_out_count(cells[0], untold), untold == 1 ? "" : "s",
			      ky_out_count(cells[1], untold - over_budget),
			      ky_out_count(cells[2], over_budget));
	if (undumped)
		ky_out_format(out, "%-9s %s firing%s without a dump: it could not be made\n",
			      "Rules", ky_out_count(cells[0], undumped), undumped == 1 ? "" : "s");
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

static bool is_runnable(const struct ky_trace_stuck *look)
{
	return look->is_running || look->state == 'R';
}

/* What a look saw, in a word that looks share. */
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

/* A thread polls a task once at a time: looks whose spans from the poll's beginning overlap saw the
 * same poll, though each may have measured the beginning a little differently. */
static bool is_same_poll(const struct ky_trace_stuck *a, const struct ky_trace_stuck *b)
{
	return a->tid == b->tid && a->task_id == b->task_id &&
	       (a->poll_start_ns == b->poll_start_ns ||
		(a->poll_start_ns < b->time_ns && b->poll_start_ns < a->time_ns));
}

/* (name), shortened in the middle: what tells names apart stands at both ends. */
static void put_task_name(struct ky_buf *out, const struct ky_trace *trace, uint64_t task_id)
{
	uint32_t task = ky_trace_task(trace, task_id);
	const char *name = ky_trace_name(trace,
					 task != KY_NONE ? trace->tasks[task].name : KY_NONE);
	size_t bytes = strlen(name);

	if (bytes == 0)
		return;
	ky_out_text(out, " (");
	ky_out_safe(out, name, bytes <= NAME_BYTES ? bytes : NAME_BYTES / 2);
	if (bytes > NAME_BYTES) {
		ky_out_text(out, "...");
		ky_out_safe(out, name + bytes - NAME_BYTES / 2, NAME_BYTES / 2);
	}
	ky_out_text(out, ")");
}

/* From the first to the last look that tells what the kernel had counted. */
struct look_times {
	uint64_t span_ns, running_ns, waiting_ns;
	uint32_t looks;
};

struct looks {
	char most[128]; /* what most of them saw */
	uint32_t count, most_count;
	uint64_t last_ns;
	uint64_t pc, pc_ns; /* of the last look that saw one; 0: none did */
	/* The stack that most of them saw, the latest of equals; KY_NONE: none saw one. */
	uint32_t stack, stack_count, stack_look, with_stack;
	/* Looks that found it running, or in want of a processor: there is no stack to take. */
	uint32_t running, starved;
	/* All of them, in order of time, and whether that one found it in want of a processor. */
	uint16_t order[LOOKS_MAX];
	bool is_starved[LOOKS_MAX];
	struct look_times times;
};

/* The looks at this poll that saw the same stack as look `which`. */
static uint32_t count_stack(const struct ky_trace *trace, uint32_t first, uint32_t which,
			    uint32_t total)
{
	const struct ky_trace_stuck *list = trace->stuck;
	uint32_t count = 0;

	for (uint32_t i = first; i < total; i++)
		count += is_same_poll(&list[i], &list[first]) && list[i].stack == list[which].stack;
	return count;
}

static void gather_stacks(struct looks *looks, const struct ky_trace *trace, uint32_t first)
{
	const struct ky_trace_stuck *list = trace->stuck;
	uint32_t total = trace->stuck_count < LOOKS_MAX ? trace->stuck_count : LOOKS_MAX;

	looks->stack = KY_NONE;
	for (uint32_t i = first; i < total; i++) {
		uint32_t count;

		if (!is_same_poll(&list[i], &list[first]))
			continue;
		if (list[i].stack == KY_NONE)
			continue;
		looks->with_stack++;
		count = count_stack(trace, first, i, total);
		if (count < looks->stack_count)
			continue;
		looks->stack = list[i].stack;
		looks->stack_count = count;
		looks->stack_look = i;
	}
}

/* What the poll hangs on, by name. */
static void print_hang(struct ky_buf *out, const struct ky_trace *trace, const struct looks *looks,
		       struct ky_symbol_table *symbols)
{
	const struct ky_trace_stuck *look = &trace->stuck[looks->stack_look];
	const struct ky_stack *stack = &trace->samples.stacks[looks->stack];

	ky_out_format(out, "%-9s hangs on the same stack in %u of %u checks", "",
		      looks->stack_count, looks->count);
	if (looks->running)
		ky_out_format(out, ", ran in %u", looks->running);
	if (looks->starved)
		ky_out_format(out, ", waited for a CPU in %u", looks->starved);
	if (looks->running || looks->starved)
		ky_out_text(out, ": no stack there");
	if (look->guessed_count)
		ky_out_text(out, "; partly by frame pointers");
	ky_out_text(out, "\n");
	ky_frames_text(out, symbols, trace->samples.frames + stack->first, stack->count,
		       look->time_ns, !look->is_truncated, INDENT);
}

/* Between two looks the kernel brings the CPU time of a running thread up to date at its tick. */
#define TICK_NS_MAX UINT64_C(10000000)

static uint64_t grown(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

static bool is_counted(const struct ky_trace_stuck *look)
{
	return look->cpu_ns != UINT64_MAX && look->run_delay_ns != UINT64_MAX;
}

/* It wanted a processor at both looks and had none between them: counted when it gets one. */
static bool got_none(const struct ky_trace_stuck *a, const struct ky_trace_stuck *b)
{
	return is_runnable(a) && is_runnable(b) && a->cpu_ns == b->cpu_ns &&
	       a->run_delay_ns == b->run_delay_ns && a->time_ns != b->time_ns;
}

/* Looks at this poll from `first` on, by their time. */
static void sort_looks(struct looks *looks, const struct ky_trace *trace, uint32_t first)
{
	const struct ky_trace_stuck *list = trace->stuck;
	uint32_t total = trace->stuck_count < LOOKS_MAX ? trace->stuck_count : LOOKS_MAX;

	for (uint32_t i = first; i < total; i++) {
		uint32_t at = looks->count;

		if (!is_same_poll(&list[i], &list[first]))
			continue;
		for (; at && list[looks->order[at - 1]].time_ns > list[i].time_ns; at--)
			looks->order[at] = looks->order[at - 1];
		looks->order[at] = (uint16_t)i;
		looks->count++;
	}
}

/* Which looks found it in want of a processor rather than on one: it had none since the look
 * before, or waited for longer than it ran; of the first look the one behind it tells. */
static void find_starved(struct looks *looks, const struct ky_trace_stuck *list)
{
	const struct ky_trace_stuck *before = NULL;
	uint32_t before_at = 0;

	for (uint32_t i = 0; i < looks->count; i++) {
		const struct ky_trace_stuck *look = &list[looks->order[i]];

		if (!is_counted(look))
			continue;
		if (before && got_none(before, look))
			looks->is_starved[before_at] = looks->is_starved[i] = true;
		else if (before && is_runnable(look))
			looks->is_starved[i] = grown(before->run_delay_ns, look->run_delay_ns) >
					       grown(before->cpu_ns, look->cpu_ns);
		before = look;
		before_at = i;
	}
	for (uint32_t i = 0; i < looks->count; i++) {
		looks->starved += looks->is_starved[i];
		looks->running += !looks->is_starved[i] && is_runnable(&list[looks->order[i]]);
	}
}

/* What the thread did in the time between the looks. */
static void find_times(struct looks *looks, const struct ky_trace_stuck *list)
{
	const struct ky_trace_stuck *first = NULL, *last = NULL, *since = NULL;
	struct look_times *times = &looks->times;
	uint64_t rest_ns;

	for (uint32_t i = 0; i < looks->count; i++) {
		const struct ky_trace_stuck *look = &list[looks->order[i]];

		if (!is_counted(look) || (last && look->time_ns == last->time_ns))
			continue;
		first = first ? first : look;
		since = last && got_none(last, look) ? since : look;
		last = look;
		times->looks++;
	}
	if (!last || times->looks < 2)
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
	    !looks->is_starved[looks->count - 1])
		times->running_ns += rest_ns;
}

static void put_times(struct ky_buf *out, const struct look_times *times)
{
	char cells[4][KY_OUT_CELL_BYTES];

	if (!times->span_ns)
		return;
	ky_out_format(
		out, "%-9s of %s between %u checks: %s blocked, %s waiting for a CPU, %s running\n",
		"", ky_out_duration(cells[0], times->span_ns), times->looks,
		ky_out_duration(cells[1], times->span_ns - times->waiting_ns - times->running_ns),
		ky_out_duration(cells[2], times->waiting_ns),
		ky_out_duration(cells[3], times->running_ns));
}

/* All looks at this poll; the first of them is `first`. */
static void gather_looks(struct looks *looks, const struct ky_trace *trace, uint32_t first)
{
	const struct ky_trace_stuck *list = trace->stuck;
	char one[128], other[128];

	sort_looks(looks, trace, first);
	find_starved(looks, list);
	find_times(looks, list);
	for (uint32_t i = 0; i < looks->count; i++) {
		const struct ky_trace_stuck *look = &list[looks->order[i]];
		uint32_t count = 0;

		looks->last_ns = look->time_ns > looks->last_ns ? look->time_ns : looks->last_ns;
		if (look->pc && look->time_ns >= looks->pc_ns) {
			looks->pc = look->pc;
			looks->pc_ns = look->time_ns;
		}
		activity(one, sizeof(one), trace, look, looks->is_starved[i]);
		for (uint32_t k = 0; k < looks->count; k++) {
			activity(other, sizeof(other), trace, &list[looks->order[k]],
				 looks->is_starved[k]);
			count += strcmp(one, other) == 0;
		}
		if (count > looks->most_count) {
			looks->most_count = count;
			memcpy(looks->most, one, sizeof(looks->most));
		}
	}
}

static void print_stuck_poll(struct ky_buf *out, const struct ky_trace *trace, uint32_t first,
			     const struct ky_code_names *names)
{
	const struct ky_trace_stuck *poll = &trace->stuck[first];
	struct looks looks = {.last_ns = poll->time_ns};
	char cell[KY_OUT_CELL_BYTES];

	gather_looks(&looks, trace, first);
	ky_out_format(out, "%-9s thread %u in task %" PRIu64, "Stuck", poll->tid, poll->task_id);
	put_task_name(out, trace, poll->task_id);
	ky_out_format(out, " for %s: ",
		      ky_out_duration(cell, looks.last_ns > poll->poll_start_ns ?
						    looks.last_ns - poll->poll_start_ns :
						    0));
	safe(out, looks.most);
	ky_out_format(out, " in %u of %u checks\n", looks.most_count, looks.count);
	put_times(out, &looks.times);
	gather_stacks(&looks, trace, first);
	if (!names || !names->table)
		return;
	if (looks.stack != KY_NONE) {
		print_hang(out, trace, &looks, names->table);
		return;
	}
	if (looks.running || looks.starved)
		ky_out_format(out, "%-9s no stack: it %s when it was checked\n", "",
			      looks.starved > looks.running ? "waited for a CPU" : "ran");
	if (!looks.pc)
		return;
	ky_out_format(out, "%-9s last seen in ", "");
	ky_code_text(out, names->table, looks.pc, looks.pc_ns);
	ky_out_text(out, "\n");
}

/* One line for each poll, however often it was looked at. */
static void print_stuck(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_code_names *names)
{
	const struct ky_trace_stuck *list = trace->stuck;
	uint32_t polls = 0;

	for (uint32_t i = 0; i < trace->stuck_count && i < LOOKS_MAX; i++) {
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
	print_untold(out, trace);
	print_stuck(out, trace, names);
}
