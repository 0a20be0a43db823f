/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <cli/sending.h>

#include <base/now.h>
#include <send/sent_text.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <session/run_say.h>
#include <proc/clean_spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_NS UINT64_C(20000000)

static void say(void *ctx, const char *text)
{
	(void)ctx;
	ky_run_say("%s", text);
}

/* `kymo recover --into DIR`, with the signals of a program that is started. */
static pid_t start_recovery(const char *directory, const char *ring_directory)
{
	const char *words[] = {"kymo",    "recover",    "--quiet",      "--into",
			       directory, "--ring-dir", ring_directory, NULL};
	char *arguments[sizeof(words) / sizeof(words[0])];
	posix_spawnattr_t attributes;
	pid_t pid = 0;

	memcpy(arguments, words, sizeof(words));
	if (ky_clean_spawn_init(&attributes, false))
		return 0;
	if (posix_spawn(&pid, "/proc/self/exe", NULL, &attributes, arguments, environ) != 0)
		pid = 0;
	posix_spawnattr_destroy(&attributes);
	return pid;
}

/* In the sender's thread. */
static bool has_recovered(void *ctx)
{
	struct ky_sending *sending = ctx;

	if (sending->recovery && waitpid(sending->recovery, NULL, WNOHANG) != 0)
		sending->recovery = 0;
	return !sending->recovery;
}

void ky_sending_begin(struct ky_sending *sending, struct ky_run_options *options,
		      const char *ring_directory)
{
	struct ky_sender_options sender = {.directory = options->session.agent.output.directory,
					   .owner_pid = (uint32_t)getpid(),
					   .say = say};
	int err;

	*sending = (struct ky_sending){.options = options, .is_quiet = options->session.is_quiet};
	if (!options->destinations.count)
		return;
	ky_destinations_make(&options->destinations, &sender);
	ky_dump_child_directory(sending->dumps, sizeof(sending->dumps),
				options->session.agent.triggers.dump_directory, sender.directory);
	sender.dumps = sending->dumps;
	sending->recovery = start_recovery(sender.directory, ring_directory);
	err = ky_send_thread_open(&sending->thread, &sender, has_recovered, sending);
	if (err)
		ky_run_say("nothing is sent (%s); `kymo upload` sends it later",
			   kymo_error_text(err));
}

static void report(const struct ky_sending *sending, const struct ky_sender_totals *totals)
{
	if (!sending->is_quiet)
		ky_sent_say(ky_run_say, ky_sent_text, totals);
	if (totals->waiting_count)
		ky_sent_say(ky_run_say, ky_sent_left_text, totals);
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
