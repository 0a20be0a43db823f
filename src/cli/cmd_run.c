/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kymo run: start CMD with the recorder preloaded, drain its rings, pass its end on. */
#include <argp.h>
#include <base/now.h>
#include <cli/cli.h>
#include <watch/oom_watch.h>
#include <base/out_text.h>
#include <ring/ring_keep.h>
#include <session/run_child.h>
#include <session/run_environment.h>
#include <session/run_samplers.h>
#include <cli/run_options.h>
#include <cli/sending.h>
#include <proc/run_process.h>
#include <session/run_rings.h>
#include <session/run_say.h>
#include <elf/run_target.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	EXIT_KYMO = 125,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127
};

/* How long a process that outlives CMD has for its first event. */
#define LATE_RING_NS UINT64_C(2000000000)
/* How often it is asked what became of CMD's start, and what its memory limit has killed: at first
 * as often as rings are scanned; later a kill in the last second is as good a sign as any. */
#define CHECK_NS UINT64_C(200000000)
#define CHECK_NS_MAX UINT64_C(1000000000)
#define READINGS_FIRST 20u
/* A service that cannot be recorded is named after this time, not only at its end. */
#define REPORT_NS UINT64_C(2000000000)
#define RING_BYTES_DEFAULT (UINT64_C(32) << 20)
/* What takes samples where kymo records nothing. */
#define INSTEAD " (`perf record` samples any program)"

struct session {
	struct ky_run_options options;
	struct ky_run_environment environment;
	struct ky_run_child child;
	struct ky_run_rings *rings;
	struct ky_oom_watch oom;
	struct ky_run_samplers *samplers; /* NULL: none */
	struct ky_sending sending;
	bool is_recording; /* false: CMD runs untouched */
	bool is_static;    /* no library can be preloaded into CMD */
	bool said_status;  /* the direct child's status has been printed */
	bool said_waiting;
	bool was_full; /* no room for a larger ring where the rings are */
};

static void say(const struct session *session, const char *subject, const char *text)
{
	if (!session->options.session.is_quiet)
		ky_run_say("%s %s", subject, text);
}

/* Reports early that CMD itself will not be recorded. Returns false when there is nothing to
 * record. */
static bool check_target(struct session *session)
{
	char path[1024];
	enum ky_run_reach reach;

	if (ky_run_target_resolve(session->options.command[0], path, sizeof(path)) != 0)
		return true; /* exec will say so */
	reach = ky_run_target_reach(path);
	session->is_static = reach == KY_RUN_STATIC;
	/* A static launcher may start dynamic programs; the others drop the variable. */
	if (reach == KY_RUN_REACHABLE || session->is_static)
		return true;
	say(session, path, ky_run_reach_text(reach));
	session->said_status = true; /* this is the one sentence */
	return false;
}

static void prepare(struct session *session)
{
	const struct ky_session_options *options = &session->options.session;
	struct ky_ring_keep_result kept;
	char errbuf[768] = "";
	int err;

	session->is_recording = check_target(session);
	if (!session->is_recording)
		return;
	err = ky_run_environment_open(&session->environment, options, errbuf, sizeof(errbuf));
	if (err == 0) {
		err = ky_run_rings_open(&session->rings, options,
					session->environment.ring_directory,
					session->environment.session);
		if (err != 0)
			snprintf(errbuf, sizeof(errbuf), "no memory");
	}
	if (err == 0 && ky_run_samplers_open(&session->samplers, &options->agent.sampling) == 0)
		ky_run_rings_sample(session->rings, session->samplers);
	if (err == 0) {
		(void)ky_ring_keep(
			&(const struct ky_ring_query){
				.ring_directory = session->environment.ring_directory},
			&kept);
		if (!ky_run_environment_has_room(&session->environment, KY_RING_ROOM_MIN))
			say(session, session->environment.ring_directory,
			    "has hardly any room left: what a short process records may be lost "
			    "(--ring-dir takes another place)");
		return;
	}
	ky_run_say("%s; CMD runs unrecorded", errbuf);
	session->is_recording = false;
	session->said_status = true;
}

/* At the end: no trace came of it. */
static void report_nothing(const struct session *session, enum ky_run_status status)
{
	const char *command = session->options.command[0];
	struct ky_run_totals totals;

	ky_run_rings_totals(session->rings, &totals);
	if (totals.open_error != 0)
		say(session, command,
		    "is not recorded: kymo had too few descriptors to open its ring (`ulimit -Hn` "
		    "raises their number)");
	else if (session->is_static)
		say(session, command,
		    "is statically linked, so no library can be preloaded: nothing was "
		    "recorded" INSTEAD);
	else if (status == KY_RUN_STATUS_OK)
		say(session, command,
		    "recorded nothing: it ran no task, or could make no ring (after a "
		    "change of user, root directory or system-call filter, or under a "
		    "limit of file size, memory or descriptors)");
	else if (status == KY_RUN_STATUS_NO_TOKIO)
		say(session, command,
		    "does not use Tokio, nor does a program it started that could be recorded: "
		    "nothing was recorded" INSTEAD);
	else
		say(session, command, "ended before the recorder was loaded: nothing was recorded");
}

static enum ky_run_status status_of(const struct session *session, char *reason, size_t capacity)
{
	return ky_run_environment_status(&session->environment, session->child.pid, reason,
					 capacity);
}

/* At the end: why CMD has no trace, nor has anything that it started. */
static void report_refusal(struct session *session)
{
	const char *command = session->options.command[0];
	char reason[384] = "";
	enum ky_run_status status;

	if (session->said_status)
		return;
	status = status_of(session, reason, sizeof(reason));
	switch (status) {
	case KY_RUN_STATUS_STRIPPED:
		say(session, command,
		    "is stripped, and Tokio's tables were not found by their shape either; it is "
		    "not recorded" INSTEAD);
		break;
	case KY_RUN_STATUS_REFUSED:
		if (!session->options.session.is_quiet)
			ky_run_say("%s is not recorded: %s", command, reason);
		break;
	case KY_RUN_STATUS_OWN_RECORDER:
		say(session, command,
		    "records itself: a recorder is part of it, so its events are recorded once, by "
		    "that one, and its traces are where its configuration says (KYMO_TRACE_DIR)");
		break;
	case KY_RUN_STATUS_UNKNOWN_LAYOUT:
	case KY_RUN_STATUS_OTHER:
		if (!session->options.session.is_quiet)
			ky_run_say("%s has Tokio in a form that kymo does not know (%s); it is not "
				   "recorded",
				   command, reason);
		break;
	case KY_RUN_STATUS_OK:
	case KY_RUN_STATUS_NO_TOKIO:
	case KY_RUN_STATUS_NONE:
		report_nothing(session, status);
		break;
	}
	session->said_status = true;
}

/* What has Tokio and is not recorded starts hardly anything that is. */
static void report_refusal_early(struct session *session)
{
	char reason[384];

	switch (status_of(session, reason, sizeof(reason))) {
	case KY_RUN_STATUS_STRIPPED:
	case KY_RUN_STATUS_REFUSED:
	case KY_RUN_STATUS_OWN_RECORDER:
	case KY_RUN_STATUS_UNKNOWN_LAYOUT:
	case KY_RUN_STATUS_OTHER:
		report_refusal(session);
		break;
	case KY_RUN_STATUS_OK:
	case KY_RUN_STATUS_NO_TOKIO:
	case KY_RUN_STATUS_NONE:
		break;
	}
}

static void report_waiting(struct session *session)
{
	struct ky_run_totals totals;

	if (session->said_waiting)
		return;
	session->said_waiting = true;
	ky_run_rings_totals(session->rings, &totals);
	if (!session->options.session.is_quiet)
		ky_run_say(
			"%s ended; still recording %u process%s that it started (pid %u), Ctrl-C "
			"ends the recording",
			session->options.command[0], totals.live_count,
			totals.live_count == 1 ? "" : "es", totals.live_pid);
}

/* While rings are there: it decides what to advise after a loss. */
static void note_room(struct session *session)
{
	uint64_t ring_bytes = session->options.session.ring_bytes;

	session->was_full |= !ky_run_environment_has_room(
		&session->environment, ring_bytes ? ring_bytes : RING_BYTES_DEFAULT);
}

static uint64_t rest_ns(uint64_t age_ns)
{
	uint64_t ns = age_ns / 8;

	return ns < CHECK_NS ? CHECK_NS : ns < CHECK_NS_MAX ? ns : CHECK_NS_MAX;
}

/* For the next step of the rings. */
static void rest(struct session *session, uint64_t pace_ns)
{
	struct pollfd polled[KY_RUN_RINGS_POLLED_MAX + 1];
	uint32_t count = ky_run_rings_poll(session->rings, polled);

	ky_run_child_wait_with(&session->child, pace_ns, polled, count);
	ky_run_rings_polled(session->rings, polled, count);
}

/* No process of it runs any more. */
static bool is_session_over(const struct session *session, uint64_t start_ns)
{
	uint64_t age_ns = ky_now_ns(CLOCK_MONOTONIC) - start_ns;
	uint32_t first = ky_run_process_first((uint32_t)session->child.pid, age_ns);

	return !ky_run_process_of_session_exists(session->environment.session, first);
}

static void record_until_the_end(struct session *session)
{
	struct ky_run_totals totals;
	uint64_t pace_ns = 0, waited_ns = 0, check_ns = 0;
	uint64_t start_ns = ky_now_ns(CLOCK_MONOTONIC), report_ns = start_ns + REPORT_NS;
	uint32_t readings = 0;
	bool is_alone = false;

	ky_oom_watch_child(&session->oom, (uint32_t)session->child.pid);
	ky_run_rings_child(session->rings, (uint32_t)session->child.pid);
	session->child.has_ended = ky_run_rings_child_ending;
	session->child.ctx = session->rings;
	while (!session->child.has_exited) {
		uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

		pace_ns = ky_run_rings_step(session->rings);
		if (now_ns >= report_ns) {
			report_refusal_early(session);
			report_ns = UINT64_MAX;
		}
		if (now_ns >= check_ns) {
			ky_oom_watch_check(&session->oom);
			note_room(session);
			check_ns = ++readings < READINGS_FIRST ?
					   0 :
					   now_ns + rest_ns(now_ns - start_ns);
		}
		rest(session, pace_ns);
	}
	ky_run_rings_child_ended(session->rings, session->child.wait_status,
				 ky_oom_watch_judge(&session->oom, session->child.wait_status));
	/* Daemons and other children may outlive CMD, and may not have made their ring yet. */
	while (!session->child.was_interrupted) {
		pace_ns = ky_run_rings_step(session->rings);
		ky_run_rings_totals(session->rings, &totals);
		if (totals.live_count > 0)
			report_waiting(session);
		else if (waited_ns >= LATE_RING_NS ||
			 (is_alone = is_session_over(session, start_ns)))
			break;
		else
			waited_ns += pace_ns;
		rest(session, pace_ns);
	}
	note_room(session);
	ky_run_rings_finish(session->rings, is_alone);
}

/* What is lost on the way to the disk is not mended by a larger ring. */
static void format_lost(const struct session *session, const struct ky_run_totals *totals,
			char *out, size_t out_bytes)
{
	size_t used = (size_t)snprintf(out, out_bytes,
				       "%" PRIu64 " records lost, %" PRIu64 " dropped",
				       totals->lost_count, totals->dropped_count);

	if (totals->sample_lost_count)
		used += (size_t)snprintf(out + used, out_bytes - used, ", %" PRIu64 " samples lost",
					 totals->sample_lost_count);
	if (totals->lost_count == 0 && totals->dropped_count == 0)
		return;
	if (totals->is_full)
		snprintf(out + used, out_bytes - used, " (--total-bytes was reached)");
	else if (totals->write_error != 0)
		snprintf(out + used, out_bytes - used, " (the trace could not be written: %s)",
			 kymo_error_text(totals->write_error));
	else if (session->was_full)
		snprintf(out + used, out_bytes - used,
			 " (%s has no room for a larger ring: --ring-dir takes another place)",
			 session->environment.ring_directory);
	else if (!session->options.session.agent.is_flight)
		snprintf(out + used, out_bytes - used, " (--ring-bytes gives more room)");
}

static void report_result(struct session *session)
{
	struct ky_run_totals totals;
	char processes[48] = "", lost[384] = "", age[KY_OUT_CELL_BYTES], last[64] = "",
	     flown[64] = "";

	ky_run_rings_totals(session->rings, &totals);
	if (totals.process_count == 0) {
		if (totals.error == 0)
			report_refusal(session);
		return;
	}
	if (session->options.session.is_quiet)
		return;
	if (totals.process_count > 1)
		snprintf(processes, sizeof(processes),
			 session->options.session.agent.output.file != NULL ?
				 " in %u files, one a process" :
				 " of %u processes",
			 totals.process_count);
	if (totals.lost_count == 0 && totals.dropped_count == 0 && totals.sample_lost_count == 0)
		snprintf(lost, sizeof(lost), "nothing lost");
	else
		format_lost(session, &totals, lost, sizeof(lost));
	if (totals.age_ns > 0 && totals.process_count == 1)
		snprintf(last, sizeof(last), ", the last %s", ky_out_duration(age, totals.age_ns));
	if (totals.flown_count > 0)
		snprintf(flown, sizeof(flown), ", %" PRIu64 " overwritten in flight",
			 totals.flown_count);
	ky_run_say("trace: %s (%" PRIu64 " events%s%s, %s%s)", totals.trace_path,
		   totals.event_count, processes, last, lost, flown);
}

static int exec_failure(const struct session *session, int error)
{
	ky_run_say("%s: %s", session->options.command[0], strerrordesc_np(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* No process or no descriptor to be had for it: CMD goes before its recording, and takes our
 * place. Returns the exit status when it cannot. */
static int become_command(struct session *session, int err)
{
	ky_run_say("no process of its own for CMD (%s); CMD runs unrecorded, in the place of kymo",
		   kymo_error_text(err));
	ky_run_rings_close(session->rings);
	ky_run_samplers_close(session->samplers);
	ky_run_environment_close(&session->environment);
	session->rings = NULL;
	session->samplers = NULL;
	ky_run_child_leave_descriptors();
	execvpe(session->options.command[0], session->options.command, environ);
	return exec_failure(session, errno);
}

static int run(struct session *session)
{
	struct ky_run_totals totals;
	struct ky_run_gate gate;
	int err, exec_error = 0;

	if (session->samplers != NULL)
		gate = ky_run_samplers_gate(session->samplers,
					    session->environment.sample_variable);
	ky_oom_watch_open(&session->oom);
	err = ky_run_child_start(&session->child, session->options.command,
				 session->is_recording ? session->environment.variables : environ,
				 session->samplers != NULL ? &gate : NULL, &exec_error);
	if (err != 0)
		return become_command(session, err);
	if (exec_error != 0)
		return exec_failure(session, exec_error);
	if (session->is_recording) {
		ky_sending_begin(&session->sending, &session->options,
				 session->environment.ring_directory);
		record_until_the_end(session);
		report_result(session);
		ky_run_rings_totals(session->rings, &totals);
		ky_sending_end(&session->sending, &session->child, totals.unsent_count);
	}
	ky_oom_watch_close(&session->oom);
	while (!session->child.has_exited)
		ky_run_child_wait(&session->child, UINT64_C(3600000000000));
	return -1;
}

int ky_cmd_run(int argc, char **argv)
{
	static struct session session; /* the child's signal state must outlive any stack frame */
	int status;

	ky_run_child_take_descriptors();
	argp_err_exit_status = EXIT_KYMO;
	if (ky_run_options_parse(&session.options, argc, argv) != KY_EXIT_OK)
		return EXIT_KYMO;
	prepare(&session);
	status = run(&session);
	ky_run_rings_close(session.rings);
	ky_run_samplers_close(session.samplers);
	ky_run_environment_close(&session.environment);
	return status >= 0 ? status : ky_run_child_pass_status_on(&session.child);
}
