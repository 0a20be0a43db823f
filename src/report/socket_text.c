/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/socket_text.h>

#include <analyze/socket_groups.h>
#include <inttypes.h>
#include <report/syscall_name.h>
#include <string.h>

#define LINES_MAX 5u

static void print_state(struct ky_buf *out, const struct ky_trace_socket_wait *wait)
{
	char silent[KY_OUT_CELL_BYTES];
	const char *state = ky_tcp_state_name(wait->tcp_state);

	ky_out_format(out, "socket %s", *state ? state : "of an unknown state");
	if (wait->peer_port)
		ky_out_format(out, ", peer port %u", wait->peer_port);
	if (wait->unacked)
		ky_out_format(out, ", %" PRIu64 " segment%s not acknowledged", wait->unacked,
			      wait->unacked == 1 ? "" : "s");
	if (wait->retransmits)
		ky_out_format(out, ", sent again %" PRIu64 " time%s", wait->retransmits,
			      wait->retransmits == 1 ? "" : "s");
	if (wait->silent_ns != UINT64_MAX)
		ky_out_format(out, ", no data came in for %s",
			      ky_out_duration(silent, wait->silent_ns));
}

void ky_socket_call_text(struct ky_buf *out, const struct ky_trace *trace,
			 const struct ky_trace_socket_wait *wait)
{
	const char *machine = ky_trace_metadata(trace, "machine.architecture");
	const char *call = ky_syscall_name(machine ? machine : "", wait->syscall);

	if (call)
		ky_out_text(out, call);
	else
		ky_out_format(out, "system call %" PRIu64, wait->syscall);
	ky_out_text(out, ": ");
	print_state(out, wait);
}

static void print_wait(const struct ky_report_view *view, const struct ky_trace_socket_wait *wait)
{
	const struct ky_trace *trace = view->trace;
	char length[KY_OUT_CELL_BYTES], name[KY_REPORT_NAME_BYTES];

	/* A plain thread may wait as long as it likes. */
	ky_out_text(view->out, wait->task == KY_NONE ? "" : "! ");
	ky_out_format(view->out, "Thread %u stood for at least %s, up to +%.6f, in ", wait->tid,
		      ky_out_duration(length, wait->time_ns - wait->since_ns),
		      wait->time_ns > trace->run_first_ns ?
			      (double)(wait->time_ns - trace->run_first_ns) / 1e9 :
			      0.0);
	ky_socket_call_text(view->out, trace, wait);
	if (wait->task != KY_NONE) {
		const char *text = ky_report_name(name, view, trace->tasks[wait->task].name);

		ky_out_text(view->out, ", in ");
		ky_out_safe(view->out, text, strlen(text));
	}
	ky_out_text(view->out, "\n");
}

void ky_socket_text(const struct ky_report_view *view)
{
	struct ky_socket_groups groups;
	uint32_t more;

	ky_socket_groups(&groups, view->trace, view->report->from_ns, view->report->to_ns + 1);
	for (uint32_t i = 0; i < groups.count && i < LINES_MAX; i++)
		print_wait(view, &groups.list[i]);
	more = groups.more + (groups.count > LINES_MAX ? groups.count - LINES_MAX : 0);
	if (more)
		ky_out_format(view->out,
			      "%u other calls on TCP sockets stood as long as a second\n", more);
}
