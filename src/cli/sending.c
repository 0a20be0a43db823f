/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/sending.h>

#include <base/now.h>
#include <base/out_text.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <session/run_say.h>
#include <stdio.h>
#include <unistd.h>

#define CHECK_NS UINT64_C(20000000)

static void say(void *ctx, const char *text)
{
	(void)ctx;
	ky_run_say("%s", text);
}

void ky_sending_begin(struct ky_sending *sending, struct ky_run_options *options)
{
	struct ky_sender_options sender = {.directory = options->session.agent.output.directory,
					   .owner_pid = (uint32_t)getpid(),
					   .say = say};
	int err;

	*sending = (struct ky_sending){.options = options, .is_quiet = options->session.is_quiet};
	if (!options->destinations.count)
		return;
	ky_destinations_make(&options->destinations, &sender);
	err = ky_send_thread_open(&sending->thread, &sender);
	if (err)
		ky_run_say("nothing is sent (%s); `kymo upload` sends it later",
			   kymo_error_text(err));
}

static void report(const struct ky_sending *sending, const struct ky_sender_totals *totals)
{
	char bytes[KY_OUT_CELL_BYTES];

	if (!sending->is_quiet)
		ky_run_say("%s: sent %" PRIu64 " segment%s, %s", totals->name, totals->taken_count,
			   totals->taken_count == 1 ? "" : "s",
			   ky_out_bytes(bytes, totals->taken_bytes));
	if (totals->waiting_count)
		ky_run_say("%s: %" PRIu64 " segment%s (%s) left, the oldest is %s%s%s; `kymo "
			   "upload` or the next run sends them",
			   totals->name, totals->waiting_count,
			   totals->waiting_count == 1 ? "" : "s",
			   ky_out_bytes(bytes, totals->waiting_bytes), totals->first_waiting,
			   totals->reason[0] ? ": " : "", totals->reason);
}

void ky_sending_end(struct ky_sending *sending, struct ky_run_child *child, uint64_t lost_count)
{
	const struct ky_destinations *destinations = &sending->options->destinations;
	const struct ky_sender *sender;

	if (!sending->thread)
		return;
	child->was_interrupted = false;
	ky_send_thread_finish(sending->thread,
			      ky_now_ns(CLOCK_MONOTONIC) + destinations->timeout_ns);
	while (!ky_send_thread_is_done(sending->thread)) {
		ky_run_child_wait(child, CHECK_NS);
		if (child->was_interrupted)
			ky_send_thread_finish(sending->thread, 0);
	}
	sender = ky_send_thread_join(sending->thread);
	for (uint32_t i = 0; i < destinations->count; i++) {
		struct ky_sender_totals totals;

		ky_sender_totals(sender, i, &totals);
		report(sending, &totals);
	}
	if (lost_count)
		ky_run_say("%" PRIu64 " segment%s lost: --total-bytes deleted %s before every "
			   "destination had %s",
			   lost_count, lost_count == 1 ? "" : "s", lost_count == 1 ? "it" : "them",
			   lost_count == 1 ? "it" : "them");
	ky_send_thread_close(sending->thread);
	sending->thread = NULL;
}
