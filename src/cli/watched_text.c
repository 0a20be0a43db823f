/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/watched_text.h>

#include <cli/frames_text.h>
#include <cli/out_text.h>
#include <cli/syscall_name.h>
#include <inttypes.h>
#include <stdio.h>
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

static void print_crash_stack(struct ky_buf *out, const struct ky_trace_crash *crash,
			      struct ky_trace_symbols *symbols)
{
	struct ky_crash_stack stack = {.count = 0};

	for (uint32_t i = 0; i < symbols->crash_count && !stack.count; i++)
		if (symbols->crashes[i].time_ns == crash->time_ns)
			(void)ky_trace_symbols_crash(symbols, i, &stack);
	if (!stack.count && crash->pc) {
		stack.frames[0] = crash->pc;
		stack.count = 1;
	}
	ky_frames_text(out, symbols->table, stack.frames, stack.count, crash->time_ns,
		       stack.is_whole, INDENT);
}

static void print_crash(struct ky_buf *out, const struct ky_trace_crash *crash,
			struct ky_trace_symbols *symbols)
{
	ky_out_format(out,
		      "%-9s signal %u (code %" PRId64 ") on thread %u, pc 0x%" PRIx64
		      ", address 0x%" PRIx64 "\n",
		      "Crash", crash->signal_number, crash->code, crash->tid, crash->pc,
		      crash->address);
	if (symbols && symbols->table)
		print_crash_stack(out, crash, symbols);
}

/* What a look saw, in a word that looks share. */
static void activity(char *cell, size_t bytes, const struct ky_trace *trace,
		     const struct ky_trace_stuck *stuck)
{
	const char *wchan = ky_trace_name(trace, stuck->wchan);
	const char *machine = ky_trace_metadata(trace, "machine.architecture"), *name = NULL;

	if (machine && stuck->syscall != UINT64_MAX)
		name = ky_syscall_name(machine, stuck->syscall);
	if (wchan[0] && strcmp(wchan, "0") != 0)
		(void)snprintf(cell, bytes, "%s", wchan);
	else if (stuck->is_running || stuck->state == 'R')
		(void)snprintf(cell, bytes, "running");
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

struct looks {
	char most[128]; /* what most of them saw */
	uint32_t count, most_count;
	uint64_t last_ns;
	uint64_t pc, pc_ns; /* of the last look that saw one; 0: none did */
	/* The stack that most of them saw, the latest of equals; KY_NONE: none saw one. */
	uint32_t stack, stack_count, stack_look, with_stack;
	uint32_t running; /* looks that found it running: then there is no stack to take */
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
		looks->running += list[i].is_running || list[i].state == 'R';
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

	ky_out_format(out, "%-9s hangs on the same stack in %u of %u looks", "", looks->stack_count,
		      looks->count);
	if (looks->running)
		ky_out_format(out, ", ran in %u: no stack there", looks->running);
	if (look->guessed_count)
		ky_out_text(out, "; partly by frame pointers");
	ky_out_text(out, "\n");
	ky_frames_text(out, symbols, trace->samples.frames + stack->first, stack->count,
		       look->time_ns, !look->is_truncated, INDENT);
}

/* All looks at this poll; the first of them is `first`. */
static void gather_looks(struct looks *looks, const struct ky_trace *trace, uint32_t first)
{
	const struct ky_trace_stuck *list = trace->stuck, *poll = &list[first];
	uint32_t total = trace->stuck_count < LOOKS_MAX ? trace->stuck_count : LOOKS_MAX;
	char one[128], other[128];

	for (uint32_t i = first; i < total; i++) {
		uint32_t count = 0;

		if (!is_same_poll(&list[i], poll))
			continue;
		looks->count++;
		if (list[i].time_ns > looks->last_ns)
			looks->last_ns = list[i].time_ns;
		if (list[i].pc && list[i].time_ns >= looks->pc_ns) {
			looks->pc = list[i].pc;
			looks->pc_ns = list[i].time_ns;
		}
		activity(one, sizeof(one), trace, &list[i]);
		for (uint32_t k = first; k < total; k++) {
			if (!is_same_poll(&list[k], poll))
				continue;
			activity(other, sizeof(other), trace, &list[k]);
			count += strcmp(one, other) == 0;
		}
		if (count > looks->most_count) {
			looks->most_count = count;
			memcpy(looks->most, one, sizeof(looks->most));
		}
	}
}

static void print_stuck_poll(struct ky_buf *out, const struct ky_trace *trace, uint32_t first,
			     struct ky_trace_symbols *symbols)
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
	ky_out_format(out, " in %u of %u looks\n", looks.most_count, looks.count);
	gather_stacks(&looks, trace, first);
	if (!symbols || !symbols->table)
		return;
	if (looks.stack != KY_NONE) {
		print_hang(out, trace, &looks, symbols->table);
		return;
	}
	if (looks.running)
		ky_out_format(out, "%-9s no stack: it ran when it was looked at\n", "");
	if (!looks.pc)
		return;
	ky_out_format(out, "%-9s last seen in ", "");
	ky_code_text(out, symbols->table, looks.pc, looks.pc_ns);
	ky_out_text(out, "\n");
}

/* One line for each poll, however often it was looked at. */
static void print_stuck(struct ky_buf *out, const struct ky_trace *trace,
			struct ky_trace_symbols *symbols)
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
			print_stuck_poll(out, trace, i, symbols);
	}
	if (polls > POLLS_MAX)
		ky_out_format(out, "%-9s ... and %u more stuck polls\n", "", polls - POLLS_MAX);
}

void ky_watched_text(struct ky_buf *out, const struct ky_trace *trace,
		     struct ky_trace_symbols *symbols)
{
	print_end(out, trace);
	for (uint32_t i = 0; i < trace->crash_count && i < TRIGGERS_MAX; i++)
		print_crash(out, &trace->crashes[i], symbols);
	for (uint32_t i = 0; i < trace->trigger_count && i < TRIGGERS_MAX; i++)
		print_trigger(out, trace, &trace->triggers[i]);
	if (trace->trigger_count > TRIGGERS_MAX)
		ky_out_format(out, "%-9s ... and %u more firings\n", "",
			      trace->trigger_count - TRIGGERS_MAX);
	print_stuck(out, trace, symbols);
}
