/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/call_text.h>

#include <base/out_text.h>
#include <report/errno_name.h>
#include <report/syscall_name.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct cell {
	char *text;
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct cell *cell, const char *format, ...)
{
	va_list arguments;
	int bytes;

	va_start(arguments, format);
	bytes = vsnprintf(cell->text + cell->used, KY_CALL_TEXT_BYTES - cell->used, format,
			  arguments);
	va_end(arguments);
	if (bytes > 0)
		cell->used += (size_t)bytes;
	if (cell->used > KY_CALL_TEXT_BYTES - 1)
		cell->used = KY_CALL_TEXT_BYTES - 1;
}

static const char *kind_text(uint8_t kind)
{
	static const char *const texts[] = {
		"",    "a file", "a directory",   "a pipe",   "a terminal",           "a device",
		"TCP", "UDP",    "a Unix socket", "a socket", "an eventfd or its kin"};

	return texts[kind < sizeof(texts) / sizeof(texts[0]) ? kind : 0];
}

/* Of one connection both ends; of several the end that is the same in all of them. */
static void add_ports(struct cell *cell, const struct ky_stack_profile_calls *calls)
{
	const char *to = calls->peer_port_count > 1 ? " to ports " : " to port ";

	if (calls->local_port && calls->peer_port_count != 1) {
		add(cell, " at port %u", calls->local_port);
		return;
	}
	if (calls->local_port)
		add(cell, " from port %u", calls->local_port);
	for (uint32_t i = 0; i < calls->peer_port_count; i++)
		add(cell, "%s%u", i ? ", " : to, calls->peer_ports[i]);
	if (calls->has_more_peer_ports)
		add(cell, " and others");
}

static void add_errors(struct cell *cell, const struct ky_stack_profile_calls *calls,
		       uint64_t count)
{
	char failed[KY_OUT_CELL_BYTES], all[KY_OUT_CELL_BYTES], name[KY_ERRNO_NAME_BYTES];

	if (!calls->failed_count)
		return;
	if (count == 1)
		add(cell, ", failed:");
	else if (calls->failed_count >= count)
		add(cell, ", all failed:");
	else
		add(cell, ", %s of %s failed:", ky_out_count(failed, calls->failed_count),
		    ky_out_count(all, count));
	for (uint32_t i = 0; i < calls->error_count; i++)
		add(cell, "%s %s", i ? "," : "", ky_errno_name(name, calls->errors[i]));
	if (calls->has_more_errors)
		add(cell, " and others");
}

const char *ky_call_text(char *text, const struct ky_trace *trace, uint8_t reason, uint32_t syscall,
			 const struct ky_stack_profile_calls *calls, uint64_t count)
{
	const char *machine = ky_trace_metadata(trace, "machine.architecture");
	char why[KY_OFF_CPU_WHY_BYTES];
	struct cell cell = {text, 0};

	add(&cell, "%s", ky_off_cpu_why(why, reason, syscall, ky_syscall_name(machine, syscall)));
	if (calls->fd_kind) {
		add(&cell, ", %s", kind_text(calls->fd_kind));
		add_ports(&cell, calls);
	}
	add_errors(&cell, calls, count);
	return text;
}
