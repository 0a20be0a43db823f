/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/profile_text.h>

#include <base/alloc.h>
#include <report/heap_text.h>
#include <base/out_text.h>
#include <report/call_text.h>
#include <report/profile_cells.h>
#include <report/unseen_text.h>
#include <inttypes.h>
#include <math.h>
#include <read/sort.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL_BYTES KY_PROFILE_CELL_BYTES
#define CUT_SHARE 50u /* one in so many */
#define ROWS_MAX 15u
#define SHORT_ROWS_MAX 10u

struct profile_view {
	struct ky_buf *out;
	const struct ky_trace *trace;
	const struct ky_stack_profile *profile;
	bool is_coloured;
};

static void share_cells(struct ky_table *table, const struct ky_share *share)
{
	char low[KY_OUT_CELL_BYTES], high[KY_OUT_CELL_BYTES];

	ky_table_cell(table, ky_out_permille(low, (share->ppm + 500) / 1000));
	(void)ky_out_permille(low, (share->low_ppm + 500) / 1000);
	(void)ky_out_permille(high, (share->high_ppm + 500) / 1000);
	low[strlen(low) - 2] = '\0'; /* one "%" will do */
	ky_table_format(table, "%s..%s", low, high);
}

/* "two thirds lost": then nothing is ranked. */
static bool print_withheld(const struct profile_view *view, enum ky_stack_kind kind,
			   const char *what)
{
	char lost[KY_OUT_CELL_BYTES], kept[KY_OUT_CELL_BYTES];

	if (!ky_stack_profile_is_withheld(view->profile, kind))
		return false;
	ky_out_format(view->out,
		      "  %s %s were lost and %s kept: that says nothing about where the time "
		      "went.\n  --json has what was kept.\n\n",
		      ky_out_count(lost, view->profile->lost[kind]), what,
		      ky_out_count(kept, view->profile->counts[kind]));
	return true;
}

/* ---- on CPU ---- */

static void function_rows(const struct profile_view *view,
			  const struct ky_stack_profile_function *functions, uint32_t count,
			  uint32_t total)
{
	const struct ky_code_stacks *code = &view->profile->code;
	struct ky_table table;

	ky_table_begin(&table, "rrrrrrl", "Self|95 %|n|Total|95 %|n|Function");
	for (uint32_t i = 0; i < count; i++) {
		share_cells(&table, &functions[i].self_share);
		ky_table_count(&table, functions[i].self_count);
		share_cells(&table, &functions[i].total_share);
		ky_table_count(&table, functions[i].total_count);
		ky_profile_name_cell(&table,
				     code->lines[code->function_lines[functions[i].function]].name);
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (total > count)
		ky_out_format(view->out, "  ... and %u more functions; --json has %s\n",
			      total - count,
			      total > KY_STACK_PROFILE_FUNCTIONS_MAX ? "400" : "all");
	ky_out_text(view->out, "\n");
}

static bool is_total_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_stack_profile_function *one = a, *other = b;

	(void)ctx;
	if (one->total > other->total || one->total < other->total)
		return one->total > other->total;
	return one->function < other->function;
}

/* The program's own functions by what they and all they call take. */
static void print_own(const struct profile_view *view, const struct ky_stack_profile_cpu *cpu,
		      const char *title)
{
	const struct ky_code_stacks *code = &view->profile->code;
	struct ky_stack_profile_function *own = ky_alloc((cpu->function_count + 1u) * sizeof(*own));
	uint32_t count = 0;

	for (uint32_t i = 0; own && i < cpu->function_count; i++)
		if (ky_code_is_own(&code->lines[code->function_lines[cpu->functions[i].function]]))
			own[count++] = cpu->functions[i];
	if (count) {
		ky_sort(own, count, sizeof(*own), is_total_before, NULL);
		ky_out_heading(view->out, view->is_coloured, title);
		function_rows(view, own, count < SHORT_ROWS_MAX ? count : SHORT_ROWS_MAX, 0);
	}
	ky_free(own);
}

/* Those that ran themselves: what only calls them would fill the table with frames that lie below
 * every task. */
static uint32_t running_count(const struct ky_stack_profile_cpu *cpu, uint32_t max)
{
	uint32_t count = 0;

	while (count < max && count < cpu->function_count && cpu->functions[count].self_count)
		count++;
	return count;
}

static void print_kinds(const struct profile_view *view)
{
	const struct ky_stack_profile *profile = view->profile;
	struct ky_table table;

	ky_out_heading(view->out, view->is_coloured, "On CPU, by kind of task");
	ky_table_begin(&table, "rrrrll", "CPU|Share|95 %|n|Kind of task|Most of it in");
	for (uint32_t i = 0; i < profile->kind_count && i < SHORT_ROWS_MAX; i++) {
		const struct ky_stack_profile_cpu *kind = &profile->kinds[i];
		uint32_t line = kind->function_count ?
					profile->code.function_lines[kind->functions[0].function] :
					KY_NONE;

		if (profile->is_by_time)
			ky_table_duration(&table, ky_whole(kind->all.sum));
		else
			ky_table_cell(&table, "-");
		share_cells(&table, &kind->share);
		ky_table_count(&table, kind->all.count);
		ky_profile_name_cell(&table, kind->name == KY_NONE ?
						     "(in no task)" :
						     ky_trace_name(view->trace, kind->name));
		ky_profile_name_cell(&table, line == KY_NONE ? "(no stack)" :
							       profile->code.lines[line].name);
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	ky_out_text(view->out, "\n");
}

static void print_long_polls(const struct profile_view *view)
{
	const struct ky_stack_profile_cpu *part = &view->profile->long_polls;
	char over[KY_OUT_CELL_BYTES], low[KY_OUT_CELL_BYTES], high[KY_OUT_CELL_BYTES];
	char count[CELL_BYTES], share[KY_OUT_CELL_BYTES], title[2 * CELL_BYTES];

	(void)ky_out_duration(over, view->profile->long_poll_ns);
	if (!part->all.count) {
		ky_out_format(view->out, "No sample fell in a poll over %s.\n\n", over);
		return;
	}
	(void)snprintf(title, sizeof(title),
		       "Inside polls over %s: %s, %s of the CPU time (%s to %s)", over,
		       ky_profile_samples(count, part->all.count),
		       ky_out_permille(share, (part->share.ppm + 500) / 1000),
		       ky_out_permille(low, (part->share.low_ppm + 500) / 1000),
		       ky_out_permille(high, (part->share.high_ppm + 500) / 1000));
	ky_out_heading(view->out, view->is_coloured, title);
	if (view->profile->long_unsafe_count)
		ky_out_format(view->out,
			      "  without %s in polls whose length is not safe (records lost)\n",
			      ky_profile_samples(count, view->profile->long_unsafe_count));
	function_rows(view, part->functions, running_count(part, SHORT_ROWS_MAX),
		      part->function_total);
	(void)snprintf(title, sizeof(title),
		       "Inside polls over %s, with all they call: the program's own functions",
		       over);
	print_own(view, part, title);
}

const char *ky_profile_windows_text(char *cell, const struct ky_trace *trace)
{
	const char *text = ky_trace_metadata(trace, "sampling.cpu.share_ppm");
	unsigned long ppm = text ? strtoul(text, NULL, 10) : 0;
	char share[KY_OUT_CELL_BYTES];

	cell[0] = '\0';
	if (ppm && ppm < 1000000)
		(void)snprintf(cell, KY_OUT_CELL_BYTES, ", in windows of %s of the time",
			       ky_out_permille(share, (uint32_t)((ppm + 500) / 1000)));
	return cell;
}

/* "perf_event, 99 Hz": who took them. */
static const char *source_text(char *cell, const struct ky_trace *trace)
{
	char windows[KY_OUT_CELL_BYTES];
	const char *source = ky_trace_metadata(trace, "sampling.cpu");
	const char *rate = ky_trace_metadata(trace, "sampling.cpu.rate_hz");

	if (source)
		(void)snprintf(cell, CELL_BYTES, " (%.80s, %.20s Hz%s)", source, rate ? rate : "?",
			       ky_profile_windows_text(windows, trace));
	else
		cell[0] = '\0';
	for (char *at = cell; *at; at++) /* no trace can talk to the terminal */
		if (*at < ' ' || *at == 0x7f)
			*at = '?';
	return cell;
}

/* ---- nothing ---- */

/* of: what there is none of. */
static void print_nothing(const struct profile_view *view, const char *of)
{
	const char *source = ky_trace_metadata(view->trace, "sampling.cpu");
	const char *refused = ky_trace_metadata(view->trace, "sampling.cpu.refused");
	char text[CELL_BYTES] = "the trace does not say why";

	if (refused)
		(void)snprintf(text, sizeof(text), "refused by %.200s", refused);
	else if (source && strcmp(source, "off") == 0)
		(void)snprintf(text, sizeof(text), "sampling was off");
	else if (source)
		(void)snprintf(text, sizeof(text), "sampling: %.80s, and nothing was sampled",
			       source);
	ky_out_format(view->out, "No samples%s: ", of);
	ky_out_safe(view->out, text, strlen(text));
	ky_out_text(view->out, ".\n");
}

static unsigned long refused_threads(const struct profile_view *view)
{
	const char *text = ky_trace_metadata(view->trace, "sampling.cpu.threads_refused");

	return text ? strtoul(text, NULL, 10) : 0;
}

static void print_refused_threads(const struct profile_view *view)
{
	unsigned long count = refused_threads(view);
	char cell[KY_OUT_CELL_BYTES];

	if (count)
		ky_out_format(view->out,
			      "  %s thread%s could not be sampled: no timer was to be had, or "
			      "SIGPROF is blocked there\n",
			      ky_out_count(cell, count), count == 1 ? "" : "s");
}

/* Other things were recorded, but no sampler ran: so polls have no sample, whatever they did. */
static void print_unsampled(const struct profile_view *view)
{
	const char *source = ky_trace_metadata(view->trace, "sampling.cpu");

	if (!source ||
	    (strcmp(source, "off") != 0 && strcmp(source, "none") != 0 && !refused_threads(view)))
		return;
	print_nothing(view, " of CPU time");
	print_refused_threads(view);
	ky_unseen_text(view->out, view->profile, KY_STACK_CPU);
	ky_out_text(view->out, "\n");
}

/* More than a few: perhaps deep stacks, of which perf_event passes on the inner end alone. */
static void print_cut(const struct profile_view *view, const struct ky_stack_profile_cpu *cpu)
{
	const char *source = ky_trace_metadata(view->trace, "sampling.cpu");
	bool is_many = source && strcmp(source, "perf_event") == 0 &&
		       cpu->truncated_count > cpu->all.count / CUT_SHARE;
	char cell[KY_OUT_CELL_BYTES];

	if (cpu->truncated_count)
		ky_out_format(view->out, "  %s do not reach their thread's start%s\n",
			      ky_out_count(cell, cpu->truncated_count),
			      is_many ?
				      ": from before there were unwind tables, or deeper than "
				      "perf_event copies (--sampler timers reads all of a stack)" :
				      "");
}

/* What the process used and no sample stands for: what ran then is not known. */
static void print_missing(const struct profile_view *view)
{
	const struct ky_cpu_cover *cover = &view->profile->cover;
	const char *source = ky_trace_metadata(view->trace, "sampling.cpu");
	uint64_t missing_ns = ky_cpu_cover_missing_ns(cover);
	char missing[KY_OUT_CELL_BYTES], used[KY_OUT_CELL_BYTES], share[KY_OUT_CELL_BYTES];

	if (!missing_ns)
		return;
	ky_out_format(view->out,
		      "  %s (%s) of the %s of CPU time%s that the process used between two "
		      "readings are in no sample:\n"
		      "    %s\n",
		      ky_out_duration(missing, missing_ns),
		      ky_out_permille(share, ky_whole((double)missing_ns * 1000.0 /
						      (double)cover->used_ns)),
		      ky_out_duration(used, cover->used_ns),
		      cover->is_user_only ? " (without the kernel's)" : "",
		      source && strcmp(source, "perf_event") == 0 ?
			      "threads that end within a period have hardly any; --sampler timers "
			      "or --sample 999 take more of them" :
			      "threads that were found late, or met no tick of the kernel, have "
			      "none");
}

static void print_cpu(const struct profile_view *view)
{
	const struct ky_stack_profile *profile = view->profile;
	const struct ky_stack_profile_cpu *cpu = &profile->cpu;
	char time[KY_OUT_CELL_BYTES], lost[KY_OUT_CELL_BYTES], source[CELL_BYTES];
	char count[CELL_BYTES], title[3 * CELL_BYTES];

	if (!cpu->all.count && !profile->lost[KY_STACK_CPU]) {
		print_unsampled(view);
		if (ky_cpu_cover_missing_ns(&profile->cover)) {
			print_nothing(view, " of CPU time");
			print_missing(view);
			ky_out_text(view->out, "\n");
		}
		return;
	}
	(void)snprintf(title, sizeof(title), "On CPU: %s%s%s%s",
		       profile->is_by_time ? ky_out_duration(time, ky_whole(cpu->all.sum)) : "",
		       profile->is_by_time ? " in " : "", ky_profile_samples(count, cpu->all.count),
		       source_text(source, view->trace));
	ky_out_heading(view->out, view->is_coloured, title);
	if (print_withheld(view, KY_STACK_CPU, "samples"))
		return;
	if (profile->lost[KY_STACK_CPU])
		ky_out_format(view->out,
			      "  %s more were lost: the intervals allow for anything in them\n",
			      ky_out_count(lost, profile->lost[KY_STACK_CPU]));
	print_refused_threads(view);
	print_missing(view);
	print_cut(view, cpu);
	ky_unseen_text(view->out, view->profile, KY_STACK_CPU);
	function_rows(view, cpu->functions, running_count(cpu, ROWS_MAX), cpu->function_total);
	print_own(view, cpu, "On CPU, with all they call: the program's own functions");
	print_kinds(view);
	print_long_polls(view);
}

/* ---- off it ---- */

static void print_parts(const struct profile_view *view)
{
	const struct ky_off_cpu_parts *of = &view->profile->off_cpu_parts;
	double rest = view->profile->off_cpu.sum - of->blocked - of->runnable;
	char blocked[KY_OUT_CELL_BYTES], runnable[KY_OUT_CELL_BYTES], either[KY_OUT_CELL_BYTES];

	ky_out_format(view->out,
		      "  blocked %s, runnable (waiting for a CPU) %s, blocked incl. run queue (not "
		      "separated) %s\n",
		      ky_out_duration(blocked, ky_whole(of->blocked)),
		      ky_out_duration(runnable, ky_whole(of->runnable)),
		      ky_out_duration(either, rest > 0.0 ? ky_whole(rest) : 0));
}

static void estimate_cell(struct ky_table *table, const struct ky_total *total)
{
	char sum[KY_OUT_CELL_BYTES], margin[KY_OUT_CELL_BYTES];

	(void)ky_out_duration(sum, ky_whole(total->sum));
	if (total->variance > 0.0)
		ky_table_format(table, "%s +- %s", sum,
				ky_out_duration(margin, ky_whole(ky_total_margin(total))));
	else
		ky_table_cell(table, sum);
}

/* How much of the time the kernel's switch records were watched. */
static void print_observed(const struct profile_view *view)
{
	const struct ky_stack_profile *profile = view->profile;
	uint64_t stretch_ns = profile->switches_stretch_ns;
	char share[KY_OUT_CELL_BYTES], lost[KY_OUT_CELL_BYTES], all[KY_OUT_CELL_BYTES];

	if (!stretch_ns)
		return;
	ky_out_format(
		view->out, "  preemption, page faults and other waits: observed %s of the time",
		ky_out_permille(share, (uint32_t)lround((double)profile->switches_observed_ns *
							1000.0 / (double)stretch_ns)));
	if (profile->switches_lost_count)
		ky_out_format(view->out, ", %s records of the kernel lost",
			      ky_out_count(lost, profile->switches_lost_count));
	ky_out_text(view->out, "\n");
	if (profile->wake_unknown_count)
		ky_out_format(view->out,
			      "  of %s wait%s, %s without a reported wake-up: blocked or runnable "
			      "in bounds\n",
			      ky_out_count(all, profile->wake_wait_count),
			      profile->wake_wait_count == 1 ? "" : "s",
			      ky_out_count(lost, profile->wake_unknown_count));
}

/* "task app::job (7, on tokio-rt-worker)", "postgres (tid 12, process 10)". */
static const char *waker_text(char *cell, const struct profile_view *view,
			      const struct ky_stack_profile_waker *waker)
{
	const char *thread = waker->thread == KY_NONE ? "a thread" :
							ky_trace_name(view->trace, waker->thread);
	const char *kind = waker->kind == KY_NONE ? "(unnamed)" :
						    ky_trace_name(view->trace, waker->kind);
	char id[40] = "several", tid[40] = "", process[40] = "";

	if (waker->task != KY_NONE)
		(void)snprintf(id, sizeof(id), "%" PRIu64, view->trace->tasks[waker->task].id);
	if (waker->tid)
		(void)snprintf(tid, sizeof(tid), "tid %u, ", waker->tid);
	if (waker->is_own)
		(void)snprintf(process, sizeof(process), "this process");
	else if (waker->pid)
		(void)snprintf(process, sizeof(process), "process %u", waker->pid);
	else
		(void)snprintf(process, sizeof(process), "not known");
	if (waker->by != KY_ROW_WOKEN_BY_THREAD)
		(void)snprintf(cell, CELL_BYTES, "a timer or a device");
	else if (waker->is_task)
		(void)snprintf(cell, CELL_BYTES, "task %.100s (%s, on %.40s)", kind, id, thread);
	else
		(void)snprintf(cell, CELL_BYTES, "%.40s (%s%s)", thread, tid, process);
	return cell;
}

/* Shares of the row's time. */
static void woken_note(struct ky_table *table, const struct profile_view *view,
		       const struct ky_stack_profile_wait *wait)
{
	char text[(KY_STACK_PROFILE_WAKERS + 1) * CELL_BYTES] = "woken by ";
	char cell[CELL_BYTES], share[KY_OUT_CELL_BYTES];
	double rest = wait->woken_ns, all = wait->ns.sum;
	size_t at = strlen(text);

	if (!wait->waker_count || all <= 0.0)
		return;
	for (uint32_t i = 0; i < wait->waker_count; i++) {
		double ns = wait->wakers[i].ns;

		rest -= ns;
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s %s", i ? ", " : "",
				       waker_text(cell, view, &wait->wakers[i]),
				       ky_out_permille(share, (uint32_t)lround(ns * 1000.0 / all)));
	}
	if (wait->waker_total > wait->waker_count)
		at += (size_t)snprintf(
			text + at, sizeof(text) - at, ", %u others %s",
			wait->waker_total - wait->waker_count,
			ky_out_permille(share, (uint32_t)lround(fmax(rest, 0.0) * 1000.0 / all)));
	/* Outside the windows that were watched. */
	if (all - wait->woken_ns > all / 100.0)
		(void)snprintf(text + at, sizeof(text) - at, "; not seen %s",
			       ky_out_permille(share, (uint32_t)lround((all - wait->woken_ns) *
								       1000.0 / all)));
	ky_table_note(table, text);
}

static void print_no_waits(const struct profile_view *view)
{
	uint32_t count = view->profile->unseen_count; /* what belongs here is the last */

	if (!count || view->profile->unseen[count - 1].kind != KY_STACK_OFF_CPU)
		return;
	ky_out_heading(view->out, view->is_coloured, "Off CPU: no interval");
	ky_unseen_text(view->out, view->profile, KY_STACK_OFF_CPU);
	ky_out_text(view->out, "\n");
}

static void print_waits(const struct profile_view *view)
{
	const struct ky_stack_profile *profile = view->profile;
	char cell[CELL_BYTES], sum[KY_OUT_CELL_BYTES], title[2 * CELL_BYTES];
	char count[KY_OUT_CELL_BYTES], interval[KY_UNSEEN_INTERVAL_BYTES];
	struct ky_table table;

	if (!profile->wait_total && !profile->lost[KY_STACK_OFF_CPU]) {
		print_no_waits(view);
		return;
	}
	(void)snprintf(title, sizeof(title), "Off CPU: %s%s in %s interval%s",
		       ky_out_duration(sum, ky_whole(profile->off_cpu.sum)),
		       ky_unseen_interval(interval, profile),
		       ky_out_count(count, profile->off_cpu.count),
		       profile->off_cpu.count == 1 ? "" : "s");
	ky_out_heading(view->out, view->is_coloured, title);
	if (print_withheld(view, KY_STACK_OFF_CPU, "intervals"))
		return;
	print_parts(view);
	print_observed(view);
	ky_unseen_text(view->out, view->profile, KY_STACK_OFF_CPU);
	ky_table_begin(&table, "rrrlllll", "Time|n|Longest|State|Why|Where||In");
	for (uint32_t i = 0; i < profile->wait_count && i < ROWS_MAX; i++) {
		const struct ky_stack_profile_wait *wait = &profile->waits[i];

		estimate_cell(&table, &wait->ns);
		ky_table_count(&table, wait->ns.count);
		ky_table_duration(&table, wait->max_ns);
		ky_profile_state_cell(&table, &wait->parts, wait->ns.sum);
		ky_table_cell(&table, ky_call_text(cell, view->trace, wait->reason, wait->syscall,
						   &wait->calls, wait->ns.count));
		ky_profile_where_cells(&table, profile, wait->stack);
		ky_profile_leaf_cell(&table, profile, wait->stack);
		woken_note(&table, view, wait);
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (profile->wait_total > ROWS_MAX)
		ky_out_format(view->out, "  ... and %u more stacks; --json has %s\n",
			      profile->wait_total - ROWS_MAX,
			      profile->wait_total > KY_STACK_PROFILE_ROWS_MAX ? "200" : "all");
	ky_out_text(view->out, "\n");
}

/* ---- tasks that wait ---- */

/* A row is a place, and a task of a select has several. */
static void print_shared(const struct profile_view *view)
{
	const struct ky_stack_profile *profile = view->profile;
	bool any = false;

	for (uint32_t i = 0; i < profile->place_count && i < ROWS_MAX; i++)
		any |= profile->places[i].also_count > 0;
	if (any)
		ky_out_text(view->out,
			    "  a task that waits at several await points (select!, join!) is "
			    "counted at one of them, under Also at the others\n");
}

static void print_waited(const struct profile_view *view)
{
	const struct ky_stack_profile *profile = view->profile;
	char all[KY_OUT_CELL_BYTES], unknown[KY_OUT_CELL_BYTES];

	if (!profile->waited_ns)
		return;
	ky_out_format(view->out,
		      "  waits of 10 ms and more: %s, of which %s without an await point\n",
		      ky_out_duration(all, profile->waited_ns),
		      ky_out_duration(unknown, profile->waited_ns - profile->waited_known_ns));
}

static void print_places(const struct profile_view *view)
{
	const struct ky_stack_profile *profile = view->profile;
	char count[KY_OUT_CELL_BYTES], title[CELL_BYTES];
	uint64_t end_ns = view->trace->run_last_ns;
	struct ky_table table;

	if (!profile->place_total)
		return;
	if (end_ns > profile->to_ns)
		end_ns = profile->to_ns;
	if (profile->shutdown_ns)
		end_ns = profile->shutdown_ns;
	if (profile->waiting_count)
		(void)snprintf(title, sizeof(title), "Where tasks wait: %s %s",
			       ky_out_count(count, profile->waiting_count),
			       profile->shutdown_ns ? "just before the shutdown" : "at the end");
	else
		(void)snprintf(title, sizeof(title), "Where tasks waited; none does at the end");
	ky_out_heading(view->out, view->is_coloured, title);
	print_shared(view);
	print_waited(view);
	ky_table_begin(&table, "rrrrrrlll", "Tasks|Also|Longest|Known for|Waited|n|Where||In");
	for (uint32_t i = 0; i < profile->place_count && i < ROWS_MAX; i++) {
		const struct ky_stack_profile_place *place = &profile->places[i];

		ky_table_count(&table, place->task_count);
		if (place->also_count)
			ky_table_count(&table, place->also_count);
		else
			ky_table_cell(&table, "");
		if (place->task_count + place->also_count && end_ns > place->since_ns)
			ky_table_duration(&table, end_ns - place->since_ns);
		else
			ky_table_cell(&table, "-");
		if (place->known_ns && end_ns > place->known_ns)
			ky_table_duration(&table, end_ns - place->known_ns);
		else
			ky_table_cell(&table, "");
		estimate_cell(&table, &place->ns);
		ky_table_count(&table, place->ns.count);
		ky_profile_where_cells(&table, profile, place->stack);
		ky_profile_leaf_cell(&table, profile, place->stack);
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (profile->place_total > ROWS_MAX)
		ky_out_format(view->out, "  ... and %u more await points\n",
			      profile->place_total - ROWS_MAX);
	ky_out_text(view->out, "\n");
}

void ky_profile_text(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_stack_profile *profile, bool is_coloured)
{
	struct profile_view view = {out, trace, profile, is_coloured};
	uint64_t any = 0;

	for (uint32_t i = 0; i < KY_STACK_KINDS; i++)
		any += profile->counts[i] + (profile->lost[i] > 0);
	if (!any) {
		print_nothing(&view, "");
		print_missing(&view);
		ky_unseen_text(out, profile, KY_STACK_KINDS);
		ky_heap_text(out, trace, profile, is_coloured);
		return;
	}
	print_cpu(&view);
	print_waits(&view);
	print_places(&view);
	ky_heap_text(out, trace, profile, is_coloured);
	if (profile->code.nameless_count)
		ky_out_format(
			out,
			"%u of %u addresses have no name; kymo symbolize -o NEW says why of each "
			"file, --debug-dir leads to files that lie elsewhere\n",
			profile->code.nameless_count, profile->code.spot_count);
}
