/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/failed_text.h>

#include <analyze/failed_groups.h>
#include <errno.h>
#include <inttypes.h>
#include <report/errno_name.h>
#include <report/syscall_name.h>
#include <stdio.h>
#include <string.h>

#define LINES_MAX 5u

static const char *why(uint32_t error)
{
	switch (error) {
	case EMFILE:
		return "no descriptor is left for the process";
	case ENFILE:
		return "no descriptor is left on the machine";
	case EAGAIN:
		return "nothing to read, or no room to write: it tries without waiting";
	default:
		return "";
	}
}

static double since_start(const struct ky_trace *trace, uint64_t ns)
{
	return ns > trace->run_first_ns ? (double)(ns - trace->run_first_ns) / 1e9 : 0.0;
}

static void print_group(const struct ky_report_view *view, const struct ky_failed_group *group)
{
	const char *machine = ky_trace_metadata(view->trace, "machine.architecture");
	const char *call = ky_syscall_name(machine ? machine : "", group->syscall);
	char count[KY_OUT_CELL_BYTES], error[32], name[KY_REPORT_NAME_BYTES];

	ky_out_text(view->out, "! ");
	if (call)
		ky_out_text(view->out, call);
	else
		ky_out_format(view->out, "system call %" PRIu64, group->syscall);
	ky_out_format(view->out, " failed at least %s times%s with %s (%s), from +%.6f to +%.6f",
		      ky_out_count(count, group->count), group->error == EAGAIN ? " in a row" : "",
		      ky_errno_name(error, group->error), why(group->error),
		      since_start(view->trace, group->from_ns),
		      since_start(view->trace, group->to_ns));
	if (group->fd != UINT64_MAX)
		ky_out_format(view->out, ", on descriptor %" PRIu64, group->fd);
	if (group->name != KY_NONE) {
		const char *text = ky_report_name(name, view, group->name);

		ky_out_text(view->out, ", in ");
		ky_out_safe(view->out, text, strlen(text));
	}
	ky_out_text(view->out, "\n");
}

void ky_failed_text(const struct ky_report_view *view)
{
	struct ky_failed_group groups[KY_FAILED_GROUPS_MAX];
	uint32_t count = ky_failed_groups(groups, view->trace, view->report->from_ns,
					  view->report->to_ns + 1);

	for (uint32_t i = 0; i < count && i < LINES_MAX; i++)
		print_group(view, &groups[i]);
	if (count > LINES_MAX)
		ky_out_format(view->out, "! and %u other kinds of calls\n", count - LINES_MAX);
}
