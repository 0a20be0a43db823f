/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/worst_text.h>

#include <analyze/culprit.h>
#include <analyze/poll_parts.h>
#include <analyze/socket_groups.h>
#include <report/call_text.h>
#include <report/profile_cells.h>
#include <report/socket_text.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct worst_view {
	struct ky_buf *out;
	const struct ky_trace *trace;
	const struct ky_stack_profile *profile;
};

/* "app::export at main.rs:57" */
static void put_line(char *text, size_t text_bytes, const struct ky_code_line *line)
{
	char name[KY_PROFILE_CELL_BYTES], place[KY_PROFILE_CELL_BYTES];

	if (*ky_profile_place(place, line))
		(void)snprintf(text, text_bytes, "%s at %s",
			       ky_profile_short_name(name, line->name), place);
	else
		(void)snprintf(text, text_bytes, "%s", ky_profile_short_name(name, line->name));
}

/* ", app::export at main.rs:57": empty without a stack. */
static const char *own_place(char *text, size_t text_bytes, const struct ky_stack_profile *profile,
			     uint32_t stack)
{
	const struct ky_code_line *line = ky_code_own_line(&profile->code, stack);

	text[0] = '\0';
	if (line) {
		memcpy(text, ", ", 3);
		put_line(text + 2, text_bytes - 2, line);
	}
	return text;
}

/* "  on CPU in it: 7 of 8 samples in app::export at main.rs:57, which calls app::hash" */
static void cpu_answer(char *text, size_t text_bytes, const struct ky_trace *trace,
		       const struct ky_stack_profile *profile)
{
	const struct ky_stack_profile_poll *worst = &profile->worst[0];
	char place[2 * KY_PROFILE_CELL_BYTES + 8], cell[KY_PROFILE_CELL_BYTES];
	char count[KY_OUT_CELL_BYTES];
	struct ky_culprit culprit;
	size_t used;

	if (!ky_culprit_find(&culprit, trace, profile, &worst->poll)) {
		(void)snprintf(text, text_bytes, "  on CPU in it: %s of %s%s",
			       ky_out_count(count, worst->cpu_rows[0].count),
			       ky_profile_samples(cell, worst->cpu_count),
			       own_place(place, sizeof(place), profile, worst->cpu_rows[0].stack));
		return;
	}
	put_line(place, sizeof(place), culprit.line);
	used = (size_t)snprintf(text, text_bytes, "  on CPU in it: %s of %s in %s",
				ky_out_count(count, culprit.count),
				ky_profile_samples(cell, culprit.all), place);
	if (culprit.callee && used < text_bytes)
		(void)snprintf(text + used, text_bytes - used, ", which calls %s",
			       ky_profile_short_name(cell, culprit.callee->name));
}

/* "  on CPU 5.0 ms of it, 6.9 ms waited for a CPU, 120 us blocked": exact, where it is known. */
static void print_parts(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_poll *poll)
{
	char cell[KY_OUT_CELL_BYTES];
	struct ky_poll_parts parts;

	if (!ky_poll_parts(trace, poll, &parts))
		return;
	ky_out_format(out, "  on CPU %s of it", ky_out_duration(cell, parts.cpu_ns));
	if (parts.delay_ns == UINT64_MAX) {
		ky_out_format(out, ", %s waiting for a CPU or blocked",
			      ky_out_duration(cell, parts.off_ns));
	} else {
		ky_out_format(out, ", %s waiting for a CPU", ky_out_duration(cell, parts.delay_ns));
		ky_out_format(out, ", %s blocked", ky_out_duration(cell, parts.blocked_ns));
	}
	if (parts.stopped_ns)
		ky_out_format(out, ", %s more the process was stopped",
			      ky_out_duration(cell, parts.stopped_ns));
	if (parts.unsure_ns)
		ky_out_format(out, "; each to %s", ky_out_duration(cell, parts.unsure_ns));
	ky_out_text(out, "\n");
}

/* "  after 2.5 s of it, in recvfrom: socket ESTABLISHED, peer port 5432, ..": as read last. */
static void print_socket(struct ky_buf *out, const struct ky_trace *trace,
			 const struct ky_poll *poll)
{
	const struct ky_trace_socket_wait *wait = ky_socket_wait_in(trace, poll);

	if (!wait)
		return;
	ky_out_format(out, "  after %.1f s of it, in ",
		      (double)(wait->time_ns - poll->start_ns) / 1e9);
	ky_socket_call_text(out, trace, wait);
	ky_out_text(out, "\n");
}

/* What the kernel's counters say of a poll, windows do not say again: preemption that they saw in a
 * part of the time. */
static bool is_counted(const struct ky_trace *trace, const struct ky_stack_profile_poll *worst)
{
	struct ky_poll_parts parts;

	return ky_poll_parts(trace, &worst->poll, &parts) && parts.delay_ns != UINT64_MAX;
}

/* The row where it was off CPU for half of the time and more: not where others took its CPU, when
 * that is counted. Returns off_row_count: there is none. */
static uint32_t off_row(const struct ky_trace *trace, const struct ky_stack_profile_poll *worst)
{
	bool is_exact = is_counted(trace, worst);

	for (uint32_t i = 0; i < worst->off_row_count; i++) {
		if (is_exact && worst->off_rows[i].reason == KY_WAIT_PREEMPTED)
			continue;
		return worst->off_rows[i].ns >= worst->poll.duration_ns / 2 ? i :
									      worst->off_row_count;
	}
	return worst->off_row_count;
}

/* Where it was most of the time. */
static void print_place(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_stack_profile *profile)
{
	const struct ky_stack_profile_poll *worst = &profile->worst[0];
	uint32_t off = off_row(trace, worst);
	char text[5 * KY_PROFILE_CELL_BYTES], cell[KY_PROFILE_CELL_BYTES];
	char place[2 * KY_PROFILE_CELL_BYTES + 8];

	if (off < worst->off_row_count) {
		char duration[KY_OUT_CELL_BYTES];

		(void)snprintf(
			text, sizeof(text), "  %s of it off CPU: %s%s",
			ky_out_duration(duration, worst->off_rows[off].ns),
			ky_call_text(cell, trace, worst->off_rows[off].reason,
				     worst->off_rows[off].syscall, &worst->off_rows[off].calls,
				     worst->off_rows[off].count),
			own_place(place, sizeof(place), profile, worst->off_rows[off].stack));
	} else if (worst->cpu_row_count && !ky_stack_profile_is_withheld(profile, KY_STACK_CPU)) {
		cpu_answer(text, sizeof(text), trace, profile);
	} else {
		return;
	}
	ky_out_safe(out, text, strlen(text));
	ky_out_text(out, "\n");
}

void ky_worst_answer(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_stack_profile *profile)
{
	if (!profile->worst_count)
		return;
	print_place(out, trace, profile);
	print_parts(out, trace, &profile->worst[0].poll);
	print_socket(out, trace, &profile->worst[0].poll);
}

/* Windows watch a share of the time. */
static const char *observed(char *cell, const struct ky_stack_profile *profile)
{
	char share[KY_OUT_CELL_BYTES];

	cell[0] = '\0';
	if (profile->switches_stretch_ns &&
	    profile->switches_observed_ns < profile->switches_stretch_ns)
		(void)snprintf(
			cell, KY_PROFILE_CELL_BYTES, " (as seen in %s of the time)",
			ky_out_permille(share,
					(uint64_t)((double)profile->switches_observed_ns * 1000.0 /
						   (double)profile->switches_stretch_ns)));
	return cell;
}

static void print_title(const struct worst_view *view, const struct ky_stack_profile_poll *worst)
{
	char duration[KY_OUT_CELL_BYTES], off[KY_OUT_CELL_BYTES], cell[KY_PROFILE_CELL_BYTES];
	const struct ky_trace *trace = view->trace;

	ky_out_format(view->out, "  %s of task %" PRIu64 ": ",
		      ky_out_duration(duration, worst->poll.duration_ns),
		      trace->tasks[worst->poll.task].id);
	ky_out_format(view->out, "%s",
		      worst->cpu_count ? ky_profile_samples(cell, worst->cpu_count) : "no sample");
	if (worst->off_count)
		ky_out_format(view->out, ", %s off CPU in %s%s",
			      ky_out_duration(off, worst->off_ns),
			      worst->off_count == 1 ? "one interval" :
						      ky_out_count(cell, worst->off_count),
			      worst->off_count == 1 ? "" : " intervals");
	if (worst->preempted_ns && !is_counted(trace, worst))
		ky_out_format(view->out, ", preempted %s of %s%s",
			      ky_out_duration(off, worst->preempted_ns), duration,
			      observed(cell, view->profile));
	if (worst->fault_ns)
		ky_out_format(view->out, ", in page faults %s of %s",
			      ky_out_duration(off, worst->fault_ns), duration);
	ky_out_text(view->out, "\n");
}

static void print_rows(const struct worst_view *view, const struct ky_stack_profile_poll *worst)
{
	char cell[KY_PROFILE_CELL_BYTES];
	struct ky_table table;

	if (!worst->off_row_count && !worst->cpu_row_count)
		return;
	ky_table_begin(&table, "rlllll", "|||Where||In");
	for (uint32_t i = 0; i < worst->off_row_count; i++) {
		ky_table_duration(&table, worst->off_rows[i].ns);
		ky_profile_state_cell(&table, &worst->off_rows[i].parts,
				      (double)worst->off_rows[i].ns);
		ky_table_cell(&table,
			      ky_call_text(cell, view->trace, worst->off_rows[i].reason,
					   worst->off_rows[i].syscall, &worst->off_rows[i].calls,
					   worst->off_rows[i].count));
		ky_profile_where_cells(&table, view->profile, worst->off_rows[i].stack);
		ky_profile_leaf_cell(&table, view->profile, worst->off_rows[i].stack);
	}
	for (uint32_t i = 0; i < worst->cpu_row_count; i++) {
		ky_table_count(&table, worst->cpu_rows[i].count);
		ky_table_cell(&table, worst->cpu_rows[i].count == 1 ? "sample" : "samples");
		ky_table_cell(&table, "");
		ky_profile_where_cells(&table, view->profile, worst->cpu_rows[i].stack);
		ky_profile_leaf_cell(&table, view->profile, worst->cpu_rows[i].stack);
	}
	ky_table_end(&table, view->out, 4, false);
}

/* Do both say the same: the same places and reasons, in tasks of one name? */
static bool is_alike(const struct ky_trace *trace, const struct ky_stack_profile_poll *one,
		     const struct ky_stack_profile_poll *other)
{
	if (trace->tasks[one->poll.task].name != trace->tasks[other->poll.task].name ||
	    one->off_row_count != other->off_row_count ||
	    one->cpu_row_count != other->cpu_row_count)
		return false;
	for (uint32_t i = 0; i < one->off_row_count; i++)
		if (one->off_rows[i].stack != other->off_rows[i].stack ||
		    one->off_rows[i].reason != other->off_rows[i].reason ||
		    one->off_rows[i].syscall != other->off_rows[i].syscall)
			return false;
	for (uint32_t i = 0; i < one->cpu_row_count; i++)
		if (one->cpu_rows[i].stack != other->cpu_rows[i].stack)
			return false;
	return true;
}

static bool is_empty(const struct ky_stack_profile_poll *poll)
{
	return !poll->cpu_count && !poll->off_count;
}

static bool is_reported_before(const struct worst_view *view, uint32_t number)
{
	const struct ky_stack_profile_poll *worst = view->profile->worst;

	for (uint32_t i = 0; i < number; i++)
		if (is_alike(view->trace, &worst[i], &worst[number]))
			return true;
	return false;
}

/* "and 5 more like it, of 120 ms to 121 ms" */
static void print_more(const struct worst_view *view, uint32_t number)
{
	const struct ky_stack_profile_poll *worst = view->profile->worst;
	char most[KY_OUT_CELL_BYTES] = "", least[KY_OUT_CELL_BYTES] = "";
	uint32_t more = 0;

	for (uint32_t i = number + 1; i < view->profile->worst_count; i++) {
		if (is_empty(&worst[i]) || !is_alike(view->trace, &worst[number], &worst[i]))
			continue;
		(void)ky_out_duration(more++ ? least : most, worst[i].poll.duration_ns);
	}
	if (more == 1)
		ky_out_format(view->out, "    and one more like it, of %s\n", most);
	else if (more && strcmp(most, least) == 0)
		ky_out_format(view->out, "    and %u more like it, of %s\n", more, most);
	else if (more)
		ky_out_format(view->out, "    and %u more like it, of %s to %s\n", more, least,
			      most);
}

void ky_worst_text(struct ky_buf *out, const struct ky_trace *trace,
		   const struct ky_stack_profile *profile, bool is_coloured)
{
	const struct worst_view view = {out, trace, profile};
	uint32_t empty = 0;

	if (!profile->worst_count || (!profile->cpu.all.count && !profile->wait_total))
		return;
	ky_out_heading(out, is_coloured, "Inside the worst polls");
	for (uint32_t i = 0; i < profile->worst_count; i++) {
		empty += is_empty(&profile->worst[i]);
		if (i && (is_empty(&profile->worst[i]) || is_reported_before(&view, i)))
			continue;
		print_title(&view, &profile->worst[i]);
		print_rows(&view, &profile->worst[i]);
		if (!is_empty(&profile->worst[i]))
			print_more(&view, i);
	}
	if (empty > 1)
		ky_out_format(out, "  nothing fell in %u of the %u worst\n", empty,
			      profile->worst_count);
	ky_out_text(out, "\n");
}
