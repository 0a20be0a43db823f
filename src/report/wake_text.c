/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/wake_text.h>

#include <analyze/short_name.h>
#include <stdio.h>
#include <string.h>

#define GROUPS_SHOWN 12u
#define NAME_COLUMNS 60u

/* "a::b at src/main.rs:40"; file and line where they are known. */
static void put_line(char *cell, size_t bytes, const struct ky_code_line *line)
{
	char name[KY_SHORT_NAME_BYTES];
	const char *file = strrchr(line->file, '/');

	(void)ky_short_name(name, line->name, NAME_COLUMNS);
	if (*line->file && line->line)
		(void)snprintf(cell, bytes, "%.80s at %.40s:%u", name, file ? file + 1 : line->file,
			       line->line);
	else
		(void)snprintf(cell, bytes, "%.80s", name);
}

static void put_thread(char *cell, size_t bytes, const struct ky_trace *trace, uint32_t tid)
{
	const char *name = ky_trace_name(trace, ky_trace_thread_name(trace, tid));

	(void)snprintf(cell, bytes, *name ? "thread %u %s" : "thread %u", tid, name);
}

/* descriptor KY_NONE: not known. */
static void put_cause(char *cell, const struct ky_report_view *view, struct ky_wake_cause cause,
		      uint32_t tid, uint32_t descriptor, const char *otherwise)
{
	char line[160] = "", thread[64] = "";

	if (descriptor != KY_NONE)
		(void)snprintf(line, sizeof(line), "%s on descriptor %u",
			       ky_wake_kind_text(cause.kind), descriptor);
	else if (cause.kind == KY_WAKE_CODE && cause.line)
		put_line(line, sizeof(line), cause.line);
	else if (cause.kind != KY_WAKE_UNKNOWN)
		(void)snprintf(line, sizeof(line), "%s", ky_wake_kind_text(cause.kind));
	else if (otherwise && !tid)
		(void)snprintf(line, sizeof(line), "%s", otherwise);
	if (tid)
		put_thread(thread, sizeof(thread), view->trace, tid);
	(void)snprintf(cell, KY_WAKE_TEXT_BYTES, "%s%s%s", line, *line && *thread ? ", " : "",
		       thread);
}

const char *ky_wake_cause_text(char *cell, const struct ky_report_view *view,
			       struct ky_wake_cause cause, uint32_t tid)
{
	put_cause(cell, view, cause, tid, KY_NONE, NULL);
	return cell;
}

const char *ky_wake_text(char *cell, const struct ky_report_view *view, const struct ky_wake *wake)
{
	struct ky_wake_cause cause = ky_wake_cause_of(view->code, wake);

	put_cause(cell, view, cause, wake->tid, ky_wake_descriptor(view->trace, wake, cause),
		  wake->waker == KY_NONE ? ky_wake_origin_text(wake) : NULL);
	return cell;
}

void ky_wake_table(const struct ky_report_view *view)
{
	struct ky_wake_causes causes;
	struct ky_table table;
	char cell[KY_WAKE_TEXT_BYTES];
	uint64_t left = 0;

	if (ky_wake_causes_make(&causes, view->trace, view->code, view->report->from_ns,
				view->report->to_ns)) {
		ky_wake_causes_release(&causes);
		return;
	}
	/* A trace that says of no wake who issued it. */
	if (causes.counts[KY_WAKE_UNKNOWN] + causes.counts[KY_WAKE_SELF] == causes.all) {
		ky_wake_causes_release(&causes);
		return;
	}
	ky_out_heading(view->out, view->is_coloured, "Wakes, by what issued them");
	ky_table_begin(&table, "rrl", "Wakes|Share|By");
	for (uint32_t i = 0; i < causes.group_count; i++) {
		const struct ky_wake_group *group = &causes.groups[i];

		if (i >= GROUPS_SHOWN) {
			left += group->count;
			continue;
		}
		ky_table_count(&table, group->count);
		ky_report_permille_cell(&table, group->count * 1000 / causes.all);
		put_cause(cell, view, group->cause, group->tid, KY_NONE, "(not known)");
		ky_table_cell(&table, cell);
	}
	if (left) {
		ky_table_count(&table, left);
		ky_report_permille_cell(&table, left * 1000 / causes.all);
		ky_table_format(&table, "%u other", causes.group_count - GROUPS_SHOWN);
	}
	ky_table_end(&table, view->out, 2, view->is_coloured);
	ky_out_text(view->out, "\n");
	ky_wake_causes_release(&causes);
}
