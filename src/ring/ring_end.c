/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_end.h>

#include <base/gnu.h>
#include <base/write_within.h>
#include <ring/ring_view.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void ky_ring_ending_read(struct ky_ring_ending *out, const struct ky_open_ring *ring,
			 const struct ky_found_ring *found)
{
	struct ky_ring_view view;

	memset(out, 0, sizeof(*out));
	out->is_closed = found->state == KY_FOUND_CLOSED;
	out->is_other_boot = found->is_other_boot;
	if (ky_ring_view_init(&view, ring->image, ring->image_bytes) < 0 || view.side == NULL)
		return;
	out->kind = atomic_load_explicit(&view.side->end.kind, memory_order_acquire);
	if (out->kind != KY_END_EXIT && out->kind != KY_END_SIGNAL)
		out->kind = KY_END_UNKNOWN;
	out->code = view.side->end.code;
	out->has_core = view.side->end.has_core != 0;
	out->oom = view.side->end.oom;
	out->has_crash = atomic_load_explicit(&view.side->crash.state, memory_order_acquire) == 2;
	out->crash_signal = view.side->crash.signal;
	out->crash_tid = view.side->crash.tid;
	out->crash_address = view.side->crash.address;
}

void ky_ring_ending_of(struct ky_ring_ending *out, int wait_status, uint32_t oom)
{
	memset(out, 0, sizeof(*out));
	out->kind = WIFSIGNALED(wait_status) ? KY_END_SIGNAL : KY_END_EXIT;
	out->code = (uint32_t)(WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) :
							  WEXITSTATUS(wait_status));
	out->has_core = WIFSIGNALED(wait_status) && WCOREDUMP(wait_status);
	out->oom = oom;
}

static const char *signal_name(uint32_t number)
{
	const char *name = number < NSIG ? sigabbrev_np((int)number) : NULL;

	return name != NULL ? name : "?";
}

/* As the drain writes it into process.end of a cut, and more where more is known. */
size_t ky_ring_ending_text(const struct ky_ring_ending *ending, char *out, size_t out_bytes)
{
	bool is_waited_for = ending->kind != KY_END_UNKNOWN;
	char crash[128] = "";
	int count;

	if (ending->has_crash)
		(void)snprintf(crash, sizeof(crash),
			       "%sits handler saw SIG%s in thread %u, address 0x%" PRIx64,
			       is_waited_for ? "; " : "", signal_name(ending->crash_signal),
			       ending->crash_tid, ending->crash_address);
	if (ending->kind == KY_END_EXIT)
		count = snprintf(out, out_bytes, "exit status %u%s", ending->code, crash);
	else if (ending->kind == KY_END_SIGNAL)
		count = snprintf(out, out_bytes, "signal %u (SIG%s)%s%s", ending->code,
				 signal_name(ending->code),
				 ending->oom == KY_OOM_NAMED   ? ", out of memory" :
				 ending->oom == KY_OOM_COUNTED ? ", probably out of memory" :
				 ending->has_core              ? ", core dumped" :
								 "",
				 crash);
	else if (ending->has_crash)
		count = snprintf(out, out_bytes, "%s", crash);
	else if (ending->is_closed)
		count = snprintf(out, out_bytes, "unknown, but its recorder was closed in order");
	else
		count = snprintf(out, out_bytes, "unknown, no process waited for it%s",
				 ending->is_other_boot ? "; the machine was started anew since" :
							 "");
	return count < 0 ? 0 : (size_t)count < out_bytes ? (size_t)count : out_bytes - 1;
}

bool ky_ring_ending_is_abnormal(const struct ky_ring_ending *ending)
{
	return ending->has_crash || ending->kind == KY_END_SIGNAL ||
	       (ending->kind == KY_END_EXIT && ending->code != 0);
}

/* The kind last: who reads it finds the rest written. */
int ky_ring_end_write(int fd, uint64_t side_offset, uint64_t side_bytes, int wait_status,
		      uint32_t oom, uint64_t monotonic_ns)
{
	struct ky_ring_end end = {.monotonic_ns = monotonic_ns, .oom = oom};
	uint64_t at = side_offset + offsetof(struct ky_ring_side, end);
	struct ky_ring_ending ending;
	int err;

	if (side_offset == 0 || side_bytes < sizeof(struct ky_ring_side))
		return -ENODATA;
	ky_ring_ending_of(&ending, wait_status, oom);
	end.code = ending.code;
	end.has_core = ending.has_core;
	err = ky_write_within(fd, at, &end, sizeof(end));
	return err != 0 ? err :
			  ky_write_within(fd, at + offsetof(struct ky_ring_end, kind), &ending.kind,
					  sizeof(ending.kind));
}
