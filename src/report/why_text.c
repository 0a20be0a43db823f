/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/why_text.h>

#include <report/chain_text.h>

#include <analyze/wake_cause.h>
#include <base/out_text.h>
#include <report/profile_cells.h>
#include <report/wake_text.h>
#include <stdio.h>
#include <string.h>

#define SPAN_LINKS_SHOWN 20u
#define GROUPS_MAX 12u
#define STANDS_MAX 12u
/* A tick of Tokio's timer wheel, and the ms to which time-outs are rounded. */
#define LATE_NS UINT64_C(2000000)
#define SMALL_PERMILLE 10u /* parts below are told together */

static bool is_behind(uint32_t part)
{
	return part == KY_PART_BEHIND_CPU || part == KY_PART_BEHIND_BLOCKED ||
	       part == KY_PART_BEHIND_RUNNABLE || part == KY_PART_BEHIND_UNSPLIT;
}

/* What is no poll of another task. */
const char *ky_part_text(uint32_t part)
{
	switch (part) {
	case KY_PART_RECORDER_GAP:
		return "records of its worker are missing";
	case KY_PART_STOPPED:
		return "the process was stopped, by a signal or a debugger";
	case KY_PART_PARKED:
		return "its worker was parked: notified late, or woken late by the kernel";
	case KY_PART_PARKED_NOTIFIED:
		return "its worker was parked and notified: the kernel woke it late";
	case KY_PART_PARKED_QUIET:
		return "its worker was parked, and no thread had notified it";
	case KY_PART_HANDOVER:
		return "its worker went to another thread: a poll called block_in_place";
	case KY_PART_SCHEDULER_READY:
		return "its worker waited for a CPU between two polls";
	case KY_PART_RUNTIME:
		return "in the runtime: scheduler, driver, block_on's own future";
	case KY_PART_NO_HOME:
		return "unknown: what woke it is not recorded";
	case KY_PART_UNKNOWN_STEAL:
		return "unknown: another worker stole it, and when is not recorded";
	default:
		return "";
	}
}

/* "on CPU 80 ms, blocked 1 ms": what the polls did meanwhile. */
static void put_split(struct ky_buf *out, const uint64_t sums[KY_PARTS])
{
	static const struct {
		uint32_t part;
		const char *text;
	} rows[] = {{KY_PART_BEHIND_CPU, "on CPU"},
		    {KY_PART_BEHIND_BLOCKED, "blocked"},
		    {KY_PART_BEHIND_RUNNABLE, "waiting for a CPU"},
		    {KY_PART_BEHIND_UNSPLIT, "not known which"}};
	char cell[KY_OUT_CELL_BYTES];
	uint64_t all = 0;
	bool is_first = true;

	for (uint32_t i = 0; i < 4; i++)
		all += sums[rows[i].part];
	if (all == sums[KY_PART_BEHIND_UNSPLIT])
		return;
	for (uint32_t i = 0; i < 4; i++) {
		if (ky_report_permille(sums[rows[i].part], all) < SMALL_PERMILLE)
			continue;
		ky_out_format(out, "%s%s %s", is_first ? ": " : ", ", rows[i].text,
			      ky_out_duration(cell, sums[rows[i].part]));
		is_first = false;
	}
}

static void put_name(const struct ky_report_view *view, uint32_t name)
{
	char cell[KY_REPORT_NAME_BYTES];
	const char *text = ky_report_name(cell, view, name);

	ky_out_safe(view->out, text, strlen(text));
}

static void put_share(const struct ky_report_view *view, uint64_t ns, uint64_t all_ns)
{
	char duration[KY_OUT_CELL_BYTES], share[KY_OUT_CELL_BYTES];

	ky_out_format(view->out, "%9s %7s  ", ky_out_duration(duration, ns),
		      ky_out_permille(share, ky_report_permille(ns, all_ns)));
}

/* "report::render at src/report.rs:41" */
static void put_code(const struct ky_report_view *view, const struct ky_code_line *code)
{
	char name[KY_PROFILE_CELL_BYTES], place[KY_PROFILE_CELL_BYTES];
	const char *text = ky_profile_short_name(name, code->name);

	ky_out_safe(view->out, text, strlen(text));
	if (!*ky_profile_place(place, code))
		return;
	ky_out_text(view->out, " at ");
	ky_out_safe(view->out, place, strlen(place));
}

/* ---- all slow delays together ---- */

/* The first group in one sentence. */
static void print_answer(const struct ky_report_view *view, const struct ky_why *why)
{
	const struct ky_why_group *most = &why->groups[0];
	struct ky_buf *out = view->out;
	char cell[KY_OUT_CELL_BYTES];
	uint64_t all_ns = 0;

	if (!why->group_count)
		return;
	for (uint32_t i = 0; i < why->group_count; i++)
		all_ns += why->groups[i].victim == most->victim ? why->groups[i].ns : 0;
	ky_out_format(out, "%s of the slow time from wake to poll of ",
		      ky_out_permille(cell, ky_report_permille(most->ns, all_ns)));
	put_name(view, most->victim);
	if (most->culprit == KY_NONE) {
		ky_out_format(out, ": %s.\n\n", ky_part_text(most->part));
		return;
	}
	ky_out_text(out, most->part == KY_PART_LIFO ?
				 " was the rest of the poll that woke it, of " :
				 " was spent waiting for polls of ");
	put_name(view, most->culprit);
	ky_out_format(out, " (up to %s", ky_out_duration(cell, most->longest.duration_ns));
	if (most->code) {
		ky_out_text(out, most->is_code_off_cpu ? ", off CPU in " : ", on CPU in ");
		put_code(view, most->code);
	}
	ky_out_text(out, ").\n\n");
}

static void print_group(const struct ky_report_view *view, const struct ky_why *why,
			const struct ky_why_group *group)
{
	struct ky_buf *out = view->out;
	char cell[KY_OUT_CELL_BYTES];

	ky_out_text(out, "  ");
	put_share(view, group->ns, why->slow_ns);
	put_name(view, group->victim);
	if (group->part == KY_PART_LIFO) {
		ky_out_text(out, " waited for the end of the poll that woke it, of ");
		put_name(view, group->culprit);
	} else if (is_behind(group->part)) {
		ky_out_text(out, " waited for polls of ");
		put_name(view, group->culprit);
	} else {
		ky_out_format(out, ": %s", ky_part_text(group->part));
	}
	ky_out_format(out, " (%s delay%s", ky_out_count(cell, group->delay_count),
		      group->delay_count == 1 ? "" : "s");
	if (group->longest.duration_ns)
		ky_out_format(out, ", polls up to %s",
			      ky_out_duration(cell, group->longest.duration_ns));
	ky_out_text(out, ")");
	if (is_behind(group->part))
		put_split(out, group->sums);
	ky_out_text(out, "\n");
	if (!group->code)
		return;
	ky_out_format(out, "                       %s of ",
		      ky_out_permille(cell, (uint64_t)(group->code_share * 1000.0 + 0.5)));
	if (group->is_code_off_cpu)
		ky_out_text(out, "the time off CPU in ");
	else
		ky_out_format(out, "%s CPU samples in ", ky_out_count(cell, group->code_count));
	put_code(view, group->code);
	ky_out_text(out, "\n");
}

static void print_groups(const struct ky_report_view *view, const struct ky_why *why)
{
	uint32_t shown = 0;
	uint64_t rest_ns = 0;
	char cell[KY_OUT_CELL_BYTES];

	ky_out_heading(view->out, view->is_coloured, "All slow delays, by what they waited for");
	for (uint32_t i = 0; i < why->group_count; i++) {
		const struct ky_why_group *group = &why->groups[i];

		if (shown < GROUPS_MAX &&
		    (!shown || ky_report_permille(group->ns, why->slow_ns) >= SMALL_PERMILLE)) {
			print_group(view, why, group);
			shown++;
		} else {
			rest_ns += group->ns;
		}
	}
	if (rest_ns) {
		ky_out_text(view->out, "  ");
		put_share(view, rest_ns, why->slow_ns);
		ky_out_format(view->out, "%s other\n",
			      ky_out_count(cell, why->group_count - shown));
	}
	ky_out_text(view->out, "\n");
}

/* ---- one by one ---- */

struct stand {
	uint64_t ns, sums[KY_PARTS];
	struct ky_poll longest;
	uint32_t poll_count, part, name;
};

/* Parts of one kind as one line: polls of the same task kind together, as they came first. */
static uint32_t fold_parts(const struct ky_trace *trace, const struct ky_delay *delay,
			   struct stand *stands, uint32_t max)
{
	uint32_t count = 0;
	uint64_t last_row = KY_NO_ROW;

	for (uint32_t i = 0; i < delay->part_count; i++) {
		const struct ky_delay_part *part = &delay->parts[i];
		uint32_t kind = is_behind(part->part) ? (uint32_t)KY_PART_BEHIND_UNSPLIT :
							part->part;
		struct ky_poll poll = {.task = KY_NONE};
		uint32_t name = KY_NONE, at;

		if (part->poll_row != KY_NO_ROW && part->part != KY_PART_RECORDER_GAP) {
			ky_trace_poll(trace, part->worker, part->poll_row, &poll);
			name = trace->tasks[poll.task].name;
		}
		for (at = 0; at < count; at++)
			if (stands[at].part == kind && stands[at].name == name)
				break;
		if (at == count) {
			if (count == max)
				continue;
			stands[count++] = (struct stand){.part = kind, .name = name};
		}
		stands[at].ns += part->ns;
		stands[at].sums[part->part] += part->ns;
		if (poll.task != KY_NONE) {
			stands[at].poll_count += part->poll_row != last_row;
			if (poll.duration_ns > stands[at].longest.duration_ns)
				stands[at].longest = poll;
		}
		last_row = part->poll_row;
	}
	return count;
}

static void print_stand(const struct ky_report_view *view, const struct ky_delay *delay,
			const struct stand *stand)
{
	struct ky_buf *out = view->out;
	char cell[KY_OUT_CELL_BYTES];

	ky_out_text(out, "    ");
	put_share(view, stand->ns, delay->delay_ns);
	if (stand->part == KY_PART_LIFO) {
		ky_out_text(out, "waited for the end of the poll that woke it, of ");
		put_name(view, stand->name);
		ky_out_format(out, " (%s)", ky_out_duration(cell, stand->longest.duration_ns));
	} else if (is_behind(stand->part)) {
		ky_out_format(out, "waited for %s poll%s of ",
			      ky_out_count(cell, stand->poll_count),
			      stand->poll_count == 1 ? "" : "s");
		put_name(view, stand->name);
		ky_out_format(out, stand->poll_count == 1 ? " (%s)" : " (up to %s)",
			      ky_out_duration(cell, stand->longest.duration_ns));
		put_split(out, stand->sums);
	} else {
		ky_out_text(out, ky_part_text(stand->part));
	}
	ky_out_text(out, "\n");
}

static bool is_longer(const struct stand *a, const struct stand *b)
{
	return a->ns > b->ns;
}

static void put_moment(const struct ky_report_view *view, uint64_t time_ns)
{
	uint64_t start_ns = view->trace->run_first_ns;
	char cell[KY_OUT_CELL_BYTES];

	if (view->is_wall) {
		ky_out_text(view->out, ky_out_utc(cell, ky_trace_unix_ns(view->trace, time_ns)));
		return;
	}
	(void)ky_out_seconds(cell, time_ns >= start_ns ? time_ns - start_ns : start_ns - time_ns);
	ky_out_format(view->out, "%s%.*s s", time_ns >= start_ns ? "+" : "-", (int)strlen(cell) - 3,
		      cell);
}

/* Apart, for its cells lie on the stack. */
static __attribute__((noinline)) void put_wake(const struct ky_report_view *view,
					       const struct ky_delay *delay)
{
	const struct ky_trace *trace = view->trace;
	struct ky_buf *out = view->out;
	char cell[KY_WAKE_TEXT_BYTES];

	if (!delay->is_wake_known)
		return;
	(void)ky_wake_text(cell, view, &delay->wake);
	if (delay->waker == delay->poll.task) {
		ky_out_text(out, ", woken in its own poll");
	} else if (delay->waker != KY_NONE) {
		ky_out_text(out, ", woken by ");
		put_name(view, trace->tasks[delay->waker].name);
		if (*cell)
			ky_out_format(out, " (%s)", cell);
	} else if (*cell) {
		ky_out_format(out, ", woken by %s", cell);
	}
	if (delay->home == KY_NONE)
		ky_out_text(out, ", put in the queue of all");
	else if (delay->is_moved)
		ky_out_format(out, ", put in the queue of worker %llu",
			      (unsigned long long)trace->workers[delay->home].id);
}

static void print_delay(const struct ky_report_view *view, const struct ky_delay *delay,
			uint32_t number)
{
	const struct ky_trace *trace = view->trace;
	struct stand stands[STANDS_MAX];
	uint32_t count = fold_parts(trace, delay, stands, STANDS_MAX);
	struct ky_buf *out = view->out;
	char cell[KY_OUT_CELL_BYTES];

	ky_out_format(out, "%3u. %s  ", number, ky_out_duration(cell, delay->delay_ns));
	put_name(view, trace->tasks[delay->poll.task].name);
	ky_out_format(out, ", task %llu, ready at ",
		      (unsigned long long)trace->tasks[delay->poll.task].id);
	put_moment(view, delay->ready_ns);
	ky_out_format(out, ", polled by worker %llu",
		      (unsigned long long)trace->workers[delay->poll.worker].id);
	put_wake(view, delay);
	ky_out_text(out, "\n");
	for (uint32_t shown = 0; shown < count; shown++) {
		uint32_t most = shown;
		struct stand moved;

		for (uint32_t i = shown + 1; i < count; i++)
			if (is_longer(&stands[i], &stands[most]))
				most = i;
		moved = stands[shown];
		stands[shown] = stands[most];
		stands[most] = moved;
		if (shown && ky_report_permille(stands[shown].ns, delay->delay_ns) < SMALL_PERMILLE)
			break;
		print_stand(view, delay, &stands[shown]);
	}
	if (delay->ambiguous_ns)
		ky_out_format(out,
			      "    of which %s could be another worker's: the moment of the steal "
			      "is not recorded\n",
			      ky_out_duration(cell, delay->ambiguous_ns));
}

/* How many tasks stood in the queues, where samples tell that there were any. */
static void print_queues(struct ky_buf *out, const struct ky_delay_context *context)
{
	bool has_worker = context->worker_queue != UINT64_MAX && context->worker_queue;
	bool has_runtime = context->runtime_queue != UINT64_MAX && context->runtime_queue;
	char cell[KY_OUT_CELL_BYTES];

	if (!has_worker && !has_runtime)
		return;
	ky_out_text(out, "    in the delay");
	if (has_worker)
		ky_out_format(out, " up to %s task%s stood in the queue of its worker",
			      ky_out_count(cell, context->worker_queue),
			      context->worker_queue == 1 ? "" : "s");
	if (has_runtime)
		ky_out_format(out, "%s up to %s in that of the runtime", has_worker ? "," : "",
			      ky_out_count(cell, context->runtime_queue));
	ky_out_text(out, "\n");
}

static void print_context(const struct ky_report_view *view, const struct ky_delay *delay,
			  const struct ky_delay_context *context)
{
	struct ky_buf *out = view->out;
	char cell[KY_OUT_CELL_BYTES];
	struct ky_poll poll;

	print_queues(out, context);
	if (context->idle_peer_ns != UINT64_MAX &&
	    ky_report_permille(context->idle_peer_ns, delay->delay_ns) >= SMALL_PERMILLE)
		ky_out_format(out, "    another worker was parked for %s of it\n",
			      ky_out_duration(cell, context->idle_peer_ns));
	if (context->redundant_count)
		ky_out_format(out, "    it was woken %s more time%s meanwhile\n",
			      ky_out_count(cell, context->redundant_count),
			      context->redundant_count == 1 ? "" : "s");
	if (context->timer_late_ns != UINT64_MAX && context->timer_late_ns > LATE_NS &&
	    ky_wake_cause_of(view->code, &delay->wake).kind == KY_WAKE_TIMER)
		ky_out_format(out, "    its timer was due at most %s before it was woken\n",
			      ky_out_duration(cell, context->timer_late_ns));
	if (context->driver_gap_ns == UINT64_MAX || context->driver_gap_ns < delay->delay_ns / 10)
		return;
	ky_out_format(out, "    before that no worker checked for I/O and timers for %s",
		      ky_out_duration(cell, context->driver_gap_ns));
	if (context->gap_worker != KY_NONE) {
		ky_trace_poll(view->trace, context->gap_worker, context->gap_poll_row, &poll);
		ky_out_text(out, ", as the last one to check was in a poll of ");
		put_name(view, view->trace->tasks[poll.task].name);
		ky_out_format(out, " (%s)", ky_out_duration(cell, poll.duration_ns));
	}
	ky_out_text(out, "\n");
}

/* ---- the longest polls ---- */

static void print_own(const struct ky_report_view *view, const struct ky_own_poll *own)
{
	static const char *const texts[KY_OWN_PARTS] = {
		[KY_OWN_GAP] = "records are missing",
		[KY_OWN_STOPPED] = "the process was stopped",
		[KY_OWN_NESTED] = "in polls inside it",
		[KY_OWN_CPU] = "on CPU",
		[KY_OWN_BLOCKED] = "blocked",
		[KY_OWN_RUNNABLE] = "waiting for a CPU",
		[KY_OWN_UNSPLIT] = "not known which",
	};
	struct ky_buf *out = view->out;
	char cell[KY_OUT_CELL_BYTES];
	bool is_first = true;

	ky_out_format(out, "  %9s  ", ky_out_duration(cell, own->poll.duration_ns));
	put_name(view, view->trace->tasks[own->poll.task].name);
	ky_out_format(out, ", task %llu, at ",
		      (unsigned long long)view->trace->tasks[own->poll.task].id);
	put_moment(view, own->poll.start_ns);
	for (uint32_t part = 0; part < KY_OWN_PARTS; part++) {
		if (ky_report_permille(own->sums[part], own->poll.duration_ns) < SMALL_PERMILLE)
			continue;
		ky_out_format(out, "%s%s %s", is_first ? ": " : ", ", texts[part],
			      ky_out_duration(cell, own->sums[part]));
		is_first = false;
	}
	ky_out_text(out, "\n");
}

static void print_polls(const struct ky_report_view *view, const struct ky_why *why)
{
	if (!why->poll_count)
		return;
	ky_out_text(view->out, "\n");
	ky_out_heading(view->out, view->is_coloured, "The longest polls");
	for (uint32_t i = 0; i < why->poll_count; i++)
		print_own(view, &why->polls[i]);
}

/* ---- all ---- */

static void print_head(const struct ky_report_view *view, const struct ky_why *why)
{
	struct ky_buf *out = view->out;
	char count[KY_OUT_CELL_BYTES], slow[KY_OUT_CELL_BYTES], over[KY_OUT_CELL_BYTES];
	char sum[KY_OUT_CELL_BYTES];

	ky_out_format(out, "%s delays from wake to poll, %s of them slow (over %s): %s in all\n",
		      ky_out_count(count, why->delay_count), ky_out_count(slow, why->slow_count),
		      ky_out_duration(over, why->over_ns), ky_out_duration(sum, why->slow_ns));
	if (why->left_out_count)
		ky_out_format(out, "Only the longest %s are split; %s are left out.\n",
			      ky_out_count(slow, why->slow_count - why->left_out_count),
			      ky_out_count(count, why->left_out_count));
	if (view->trace->delays_no_wake || view->trace->delays_withheld)
		ky_out_format(out, "Not measured: %s without a recorded wake, %s across a loss.\n",
			      ky_out_count(count, view->trace->delays_no_wake),
			      ky_out_count(slow, view->trace->delays_withheld));
	if (why->ambiguous_ns)
		ky_out_format(out,
			      "Of the slow time %s is ambiguous: when a task moved to another "
			      "worker's queue is inferred.\n",
			      ky_out_duration(sum, why->ambiguous_ns));
	ky_out_text(out, "\n");
}

void ky_why_text(const struct ky_report_view *view, const struct ky_why *why)
{
	if (why->slow_count)
		print_answer(view, why);
	print_head(view, why);
	if (!why->slow_count) {
		ky_out_text(view->out,
			    "No task waited longer than that once it was ready. A task "
			    "that is woken late is in none of these\ndelays: see \"Where "
			    "tasks wait\" of `kymo report`.\n");
		print_polls(view, why);
		return;
	}
	print_groups(view, why);
	ky_out_heading(view->out, view->is_coloured, "The slowest");
	for (uint32_t i = 0; i < why->worst_count; i++) {
		print_delay(view, &why->worst[i], i + 1);
		print_context(view, &why->worst[i], &why->contexts[i]);
	}
	print_polls(view, why);
}

void ky_why_span_text(const struct ky_report_view *view, const struct ky_why_span *worst)
{
	const struct ky_trace_span *span = &view->trace->spans[worst->span];

	ky_out_text(view->out, "The longest span ");
	put_name(view, span->name);
	ky_out_text(view->out, ", from ");
	put_moment(view, span->start_ns);
	ky_out_text(view->out, " on; its critical path:\n");
	ky_chain_text(view, worst->chain, SPAN_LINKS_SHOWN);
	ky_out_text(view->out, "\n");
}
