/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kymo attach, kymo detach: the recorder into a process that runs already, and out of it. */
#include <cli/cli.h>

#include <base/json_write.h>
#include <attach/attach.h>
#include <base/alloc.h>
#include <base/out_text.h>
#include <cli/shared_options.h>
#include <edit/ring_tail.h>
#include <ring/ring_drainer.h>
#include <ring/ring_view.h>
#include <ring/ring_finder.h>
#include <session/run_environment.h>
#include <session/run_samplers.h>
#include <cli/run_options.h>
#include <session/run_rings.h>
#include <agent/unwind_tables.h>
#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <kymo/emit.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct attachment {
	struct ky_run_options options;
	uint32_t pid;
	struct ky_process process;
	struct ky_attach_request request;
	struct ky_attach_answer answer;
	struct ky_run_samplers *samplers; /* NULL: none external */
	bool is_staying;                  /* this process drains or watches until the end */
	bool is_json, is_taken_over;
	char taken_directory[KY_DRAINED_PATH_BYTES]; /* where its trace is */
	char library[KY_MODULE_PATH_BYTES], ring_directory[256];
	char seen_directory[KY_FOUND_PATH_BYTES]; /* the same one, as it is reached from here */
	char why[KY_ATTACH_WHY_BYTES];
	/* of a ring that is taken over */
	struct ky_open_ring ring;
	struct ky_ring_tail tail;
	char ring_why[KY_FOUND_WHY_BYTES];
	bool samples_itself;
};

static volatile sig_atomic_t is_interrupted;

static void on_signal(int signal)
{
	(void)signal;
	is_interrupted = 1;
}

static int trouble(const struct attachment *attachment)
{
	ky_cli_error("process %u %s", attachment->pid, attachment->why);
	return KY_EXIT_TROUBLE;
}

/* What the library said, as the end of "process 12 …". */
static int report_refusal(struct attachment *attachment)
{
	char reason[384];

	switch (ky_run_status_parse(attachment->answer.text, reason, sizeof(reason))) {
	case KY_RUN_STATUS_OK:
		return KY_EXIT_OK;
	case KY_RUN_STATUS_NO_TOKIO:
		snprintf(attachment->why, sizeof(attachment->why), "does not use Tokio");
		break;
	case KY_RUN_STATUS_STRIPPED:
		snprintf(attachment->why, sizeof(attachment->why),
			 "is stripped, and Tokio's tables were not found by their shape either");
		break;
	case KY_RUN_STATUS_UNKNOWN_LAYOUT:
		snprintf(attachment->why, sizeof(attachment->why),
			 "has Tokio in a form that kymo does not know (%s)", reason);
		break;
	default:
		snprintf(attachment->why, sizeof(attachment->why), "is as it was: %s",
			 reason[0] ? reason : kymo_error_text(attachment->answer.result));
		break;
	}
	return trouble(attachment);
}

static int ask(struct attachment *attachment, uint32_t action)
{
	attachment->request.action = action;
	if (ky_attach_ask(&attachment->process, &attachment->request, &attachment->answer,
			  attachment->why) != 0)
		return trouble(attachment);
	return report_refusal(attachment);
}

static int open_process(struct attachment *attachment)
{
	int err = ky_process_open(&attachment->process, attachment->pid, attachment->why);

	if (err != 0)
		return trouble(attachment);
	if (ky_run_find_preload(attachment->library, sizeof(attachment->library)) != 0) {
		ky_cli_error("libkymo-preload.so was not found beside this program nor where it is "
			     "installed (KYMO_PRELOAD takes its path)");
		return KY_EXIT_TROUBLE;
	}
	attachment->request.library = attachment->library;
	return KY_EXIT_OK;
}

/* kind: "mnt", "pid". */
static bool is_in_another(const struct attachment *attachment, const char *kind)
{
	struct stat ours, theirs;
	char path[64], own[32];

	snprintf(own, sizeof(own), "/proc/self/ns/%s", kind);
	snprintf(path, sizeof(path), "/proc/%u/ns/%s", attachment->pid, kind);
	return stat(own, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino != theirs.st_ino;
}

/* In a container its directory is another one than ours of the same name. */
static void find_directory(struct attachment *attachment)
{
	snprintf(attachment->seen_directory, sizeof(attachment->seen_directory), "%s",
		 attachment->ring_directory);
	if (is_in_another(attachment, "mnt"))
		snprintf(attachment->seen_directory, sizeof(attachment->seen_directory),
			 "/proc/%u/root%s", attachment->pid, attachment->ring_directory);
}

static void choose_places(struct attachment *attachment)
{
	const struct ky_session_options *options = &attachment->options.session;
	struct ky_attach_request *request = &attachment->request;

	request->service = options->agent.output.service;
	request->ring_bytes = options->ring_bytes;
	request->is_streaming = !options->agent.is_flight;
	request->ring_directory = options->ring_directory;
	if (attachment->options.profile_name)
		request->gates = (KYMO_GATES_DEFAULT | options->gates_set) & ~options->gates_clear;
	if (!attachment->is_staying)
		return;
	/* Said outright, so that both read the same place whatever its environment says. */
	if (!options->ring_directory)
		snprintf(attachment->ring_directory, sizeof(attachment->ring_directory),
			 "/dev/shm/kymo-%u", attachment->process.uid);
	else
		snprintf(attachment->ring_directory, sizeof(attachment->ring_directory), "%s",
			 options->ring_directory);
	request->ring_directory = attachment->ring_directory;
	find_directory(attachment);
	do
		if (getrandom(&request->session, sizeof(request->session), 0) !=
		    (ssize_t)sizeof(request->session))
			request->session = (uint64_t)attachment->pid << 32 | 1u;
	while (request->session == 0);
}

static void find_ring(const struct attachment *attachment, struct ky_found_ring *found)
{
	struct ky_ring_query query = {.pid = attachment->pid};
	char why[KY_FOUND_WHY_BYTES], pid[16];

	snprintf(pid, sizeof(pid), "%u", attachment->pid);
	if (ky_ring_find_one(found, &query, pid, false, why) != 0)
		found->path[0] = '\0';
}

static void print_json(struct ky_buf *out)
{
	ky_json_close(out, "}");
	ky_out_text(out, "\n");
	(void)ky_cli_print(out);
	ky_buf_release(out);
}

/* What the commands of this file have in common. */
static void begin_json(struct ky_buf *out, const struct attachment *attachment)
{
	ky_buf_init(out, 0);
	ky_json_open(out, NULL, "{");
	ky_json_number(out, "pid", attachment->pid);
	ky_json_number(out, "borrowed_ns", attachment->answer.stopped_ns);
	ky_json_number(out, "threads_stopped", attachment->answer.stop_count);
}

static void say_attached_json(const struct attachment *attachment, unsigned long tables)
{
	static struct ky_found_ring found;
	struct ky_buf out;

	find_ring(attachment, &found);
	begin_json(&out, attachment);
	ky_json_number(&out, "task_types", tables);
	ky_json_text(&out, "service", found.path[0] ? found.service : "");
	ky_json_text(&out, "mode",
		     attachment->options.session.agent.is_flight ? "flight" : "stream");
	ky_json_text(&out, "ring", found.path);
	ky_json_flag(&out, "is_staying", attachment->is_staying);
	ky_json_flag(&out, "is_taken_over", attachment->is_taken_over);
	print_json(&out);
}

static void say_attached(const struct attachment *attachment)
{
	const char *at = strstr(attachment->answer.text, "tables=");
	unsigned long tables = at ? strtoul(at + 7, NULL, 10) : 0;

	if (attachment->is_json) {
		say_attached_json(attachment, tables);
		(void)fflush(stdout); /* this process may stay for long */
	}
	if (attachment->options.session.is_quiet || attachment->is_json)
		return;
	if (attachment->is_taken_over)
		(void)printf("process %u: its ring is drained again; what came before is in %s\n",
			     attachment->pid,
			     attachment->tail.path[0] ? attachment->tail.path : "no trace");
	else
		(void)printf(
			"process %u is recorded: %lu task types; a thread was borrowed for %" PRIu64
			" us\n",
			attachment->pid, tables, attachment->answer.stopped_ns / 1000);
	if (!attachment->is_staying)
		(void)printf("`kymo dump %u` makes a trace of the last minutes, `kymo detach %u` "
			     "ends it\n",
			     attachment->pid, attachment->pid);
	(void)fflush(stdout);
}

/* ---- stacks ---- */

/* One event a thread and CPU takes many descriptors, all of them ours. */
static void take_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Before the recorder is there, so that nothing that it sees goes unsampled. Threads of another
 * namespace have other numbers here than their ring says. */
static void start_sampling(struct attachment *attachment)
{
	const struct ky_session_options *options = &attachment->options.session;
	bool is_external = attachment->is_staying && !is_in_another(attachment, "pid");
	bool is_asked = attachment->options.has_hz ||
			options->agent.sampling.source == KY_SAMPLING_TIMERS;

	take_descriptors();
	if (is_external &&
	    ky_run_samplers_open(&attachment->samplers, &options->agent.sampling) == 0 &&
	    ky_run_samplers_attach(attachment->samplers, attachment->pid) == 0)
		return;
	/* A signal handler in another's process takes an explicit request. */
	if (is_asked && options->agent.sampling.source != KY_SAMPLING_PERF)
		attachment->request.sample_hz = options->agent.sampling.hz;
}

static int make_tables(void *ctx)
{
	const struct ky_open_ring *ring = ctx;
	const struct ky_probe_moment moment = {.now_ns = ky_now_ns(CLOCK_MONOTONIC)};
	struct ky_unwind_tables tables;
	struct ky_probe probe;
	char path[64];
	int fd;

	/* What was opened to be read. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ring->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ky_unwind_tables_init(&tables, fd, (const void *)ring->image);
	tables.pid = ring->pid;
	probe = ky_unwind_tables_probe(&tables);
	(void)ky_probes_step(&probe, 1, &moment);
	ky_probes_close(&probe, 1);
	close(fd);
	return 0;
}

/* Of what is mapped now, since no process stays to see more come. Without them stacks are short,
 * and their trace says so. */
static void leave_tables(const struct attachment *attachment)
{
	struct ky_ring_query query = {.pid = attachment->pid};
	static struct ky_found_ring found;
	struct ky_open_ring ring = {.fd = -1};
	char why[KY_FOUND_WHY_BYTES], pid[16];

	snprintf(pid, sizeof(pid), "%u", attachment->pid);
	if (ky_ring_find_one(&found, &query, pid, false, why) != 0 ||
	    ky_ring_open(&ring, &found, false, why) != 0)
		return;
	ring.pid = attachment->pid;
	(void)ky_ring_guarded(&ring, make_tables, &ring);
	ky_ring_close(&ring);
}

/* ---- draining, or watching ---- */

static void rest(uint64_t ns)
{
	const struct timespec pause = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	nanosleep(&pause, NULL); /* a signal ends it early, as it should */
}

static void catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

/* It has one library more than when it was read. */
static int stop_streaming(struct attachment *attachment)
{
	int status;

	ky_process_close(&attachment->process);
	status = open_process(attachment);
	return status == KY_EXIT_OK ? ask(attachment, KYMO_ATTACH_STOP) : status;
}

static void say_trace_json(const struct attachment *attachment, const struct ky_run_totals *totals)
{
	struct ky_buf out;

	ky_buf_init(&out, 0);
	ky_json_open(&out, NULL, "{");
	ky_json_number(&out, "pid", attachment->pid);
	ky_json_text(&out, "trace", totals->trace_path);
	ky_json_number(&out, "events", totals->event_count);
	ky_json_number(&out, "records_lost", totals->lost_count);
	ky_json_number(&out, "dropped", totals->dropped_count);
	ky_json_number(&out, "samples_lost", totals->sample_lost_count);
	print_json(&out);
}

static void say_trace(const struct ky_run_totals *totals)
{
	(void)printf("trace: %s (%" PRIu64 " events, %" PRIu64 " records lost, %" PRIu64 " dropped",
		     totals->trace_path, totals->event_count, totals->lost_count,
		     totals->dropped_count);
	if (totals->sample_lost_count)
		(void)printf(", %" PRIu64 " samples lost", totals->sample_lost_count);
	(void)printf(")\n");
}

/* Until its ring is closed, by its end or by a detach. Returns the exit status. */
static int drain(struct attachment *attachment, struct ky_run_rings *rings)
{
	struct ky_run_totals totals;
	bool was_asked = false;
	int status = KY_EXIT_OK;

	for (;;) {
		uint64_t pace_ns = ky_run_rings_step(rings);

		ky_run_rings_totals(rings, &totals);
		if (totals.live_count == 0 &&
		    (totals.process_count > 0 || !ky_process_is_there(&attachment->process)))
			break;
		if (is_interrupted && !was_asked) {
			was_asked = true;
			status = stop_streaming(attachment);
			if (status != KY_EXIT_OK)
				break;
			continue;
		}
		rest(pace_ns);
	}
	ky_run_rings_finish(rings, false);
	ky_run_rings_totals(rings, &totals);
	if (attachment->is_json)
		say_trace_json(attachment, &totals);
	else if (!attachment->options.session.is_quiet)
		say_trace(&totals);
	return totals.error ? KY_EXIT_TROUBLE : status;
}

static int stay(struct attachment *attachment)
{
	struct ky_run_rings *rings;
	int status = KY_EXIT_TROUBLE;

	if (ky_run_rings_open(&rings, &attachment->options.session, attachment->seen_directory,
			      attachment->request.session) != 0) {
		ky_cli_error("no memory");
		return status;
	}
	if (attachment->samplers)
		ky_run_rings_sample(rings, attachment->samplers);
	catch_signals();
	status = ask(attachment, KYMO_ATTACH_START);
	if (status == KY_EXIT_OK) {
		say_attached(attachment);
		status = drain(attachment, rings);
	}
	ky_run_rings_close(rings);
	return status;
}

/* ---- a ring whose recorder process died ---- */

static int read_ring(void *ctx)
{
	struct attachment *attachment = ctx;
	struct ky_sample_ring samples;
	struct ky_ring_view view;

	ky_ring_progress_read(&attachment->tail, &attachment->ring);
	if (ky_ring_view_init(&view, attachment->ring.image, attachment->ring.image_bytes) == 0 &&
	    ky_ring_view_samples(&view, KY_SAMPLES_CPU, &samples))
		attachment->samples_itself = atomic_load_explicit(&samples.head->source,
								  memory_order_relaxed) >>
						     KY_SOURCE_TIMER &
					     1u;
	return 0;
}

/* Leaves why not in attachment->why. */
static bool is_abandoned(struct attachment *attachment, const struct ky_found_ring *found)
{
	struct ky_ring_drainer drainer;

	ky_ring_drainer_find(&drainer, found, &attachment->ring);
	if (drainer.is_own || drainer.is_claimed || drainer.holder) {
		snprintf(attachment->why, sizeof(attachment->why),
			 "is recorded already%s; `kymo set %u` changes how",
			 drainer.is_own ? ", by itself" : "", attachment->pid);
		return false;
	}
	if (!attachment->options.has_mode)
		attachment->options.session.agent.is_flight = found->mode == KY_RING_MODE_FLIGHT;
	attachment->is_staying = !attachment->options.session.agent.is_flight ||
				 attachment->options.session.agent.triggers.rule_count > 0;
	if (!attachment->is_staying)
		snprintf(attachment->why, sizeof(attachment->why),
			 "is recorded already, in flight mode: `kymo dump %u` makes a trace of it",
			 attachment->pid);
	return attachment->is_staying;
}

/* DIR/SERVICE/RUN, which the trace continues in, unless -o names another. */
static void find_trace(struct attachment *attachment)
{
	struct ky_output_options *output = &attachment->options.session.agent.output;
	char *directory = attachment->taken_directory, *run, *service;
	struct stat about;

	if (strcmp(output->directory, KY_RUN_DIRECTORY) != 0 ||
	    stat(attachment->tail.path, &about) != 0 || !S_ISDIR(about.st_mode))
		return;
	snprintf(directory, sizeof(attachment->taken_directory), "%s", attachment->tail.path);
	run = strrchr(directory, '/');
	*run = '\0';
	service = strrchr(directory, '/');
	if (service == NULL || service == directory)
		return;
	*service = '\0';
	output->directory = directory;
	output->service = service + 1;
}

static void settle(struct ky_ring_tail *tail)
{
	ky_ring_tail_settle(tail);
	(void)ky_ring_tail_trim(tail); /* else a part of a chunk is there twice */
}

static int drain_again(struct attachment *attachment, const struct ky_found_ring *found)
{
	struct ky_run_rings *rings;
	int status = KY_EXIT_TROUBLE;
	char *slash;

	find_trace(attachment);
	snprintf(attachment->seen_directory, sizeof(attachment->seen_directory), "%s", found->path);
	slash = strrchr(attachment->seen_directory, '/');
	if (slash)
		*slash = '\0';
	attachment->options.session.settle = settle;
	attachment->is_taken_over = true;
	ky_process_unlock(&attachment->process); /* a detach may come meanwhile */
	if (!attachment->samples_itself)
		start_sampling(attachment);
	if (ky_run_rings_open(&rings, &attachment->options.session, attachment->seen_directory,
			      found->session) != 0) {
		ky_cli_error("no memory");
		return status;
	}
	if (attachment->samplers)
		ky_run_rings_sample(rings, attachment->samplers);
	catch_signals();
	say_attached(attachment);
	status = drain(attachment, rings);
	ky_run_rings_close(rings);
	return status;
}

static int take_over(struct attachment *attachment)
{
	static struct ky_found_ring found;
	bool is_ours;

	find_ring(attachment, &found);
	attachment->ring.fd = -1;
	if (!found.path[0]) {
		snprintf(attachment->why, sizeof(attachment->why),
			 "is recorded already, into a ring that cannot be read from here");
		return trouble(attachment);
	}
	if (ky_ring_open(&attachment->ring, &found, false, attachment->ring_why) != 0) {
		ky_cli_error("%s", attachment->ring_why);
		return KY_EXIT_TROUBLE;
	}
	is_ours = is_abandoned(attachment, &found);
	if (is_ours)
		(void)ky_ring_guarded(&attachment->ring, read_ring, attachment);
	ky_ring_close(&attachment->ring);
	return is_ours ? drain_again(attachment, &found) : trouble(attachment);
}

static int attach(struct attachment *attachment)
{
	int status = open_process(attachment);

	if (status != KY_EXIT_OK)
		return status;
	if (attachment->process.has_ring)
		return take_over(attachment);
	choose_places(attachment);
	start_sampling(attachment);
	if (attachment->is_staying)
		return stay(attachment);
	status = ask(attachment, KYMO_ATTACH_START);
	if (status == KY_EXIT_OK) {
		leave_tables(attachment);
		say_attached(attachment);
	}
	return status;
}

int ky_cmd_attach(int argc, char **argv)
{
	static struct attachment attachment;
	const struct ky_session_options *options = &attachment.options.session;
	int status = ky_attach_options_parse(&attachment.options, &attachment.pid,
					     &attachment.is_json, argc, argv);

	if (status != KY_EXIT_OK)
		return status;
	attachment.is_staying = !options->agent.is_flight || options->agent.triggers.rule_count > 0;
	status = attach(&attachment);
	ky_run_samplers_close(attachment.samplers);
	ky_process_close(&attachment.process);
	return status;
}

/* ---- detach ---- */

/* The process that streams a ring reads its rest and removes it; one that was kept for a dump has
 * had its time. */
static bool remove_ring(const struct ky_found_ring *ring)
{
	int err;

	if (ring->mode != KY_RING_MODE_FLIGHT || ring->is_anonymous)
		return false;
	err = ky_ring_remove(ring);
	if (err < 0)
		ky_cli_notice("%s stays: %s", ring->path, kymo_error_text(err));
	return err >= 0;
}

static void say_detached(const struct attachment *attachment, const struct ky_found_ring *ring,
			 bool is_removed)
{
	struct ky_buf out;

	if (attachment->is_json) {
		begin_json(&out, attachment);
		ky_json_text(&out, "service", ring->path[0] ? ring->service : "");
		ky_json_text(&out, "ring", ring->path);
		ky_json_flag(&out, "is_ring_removed", is_removed);
		print_json(&out);
	} else if (!attachment->options.session.is_quiet) {
		(void)printf("process %u is as it was; a thread was borrowed for %" PRIu64 " us\n",
			     attachment->pid, attachment->answer.stopped_ns / 1000);
	}
}

static int detach(struct attachment *attachment)
{
	static struct ky_found_ring ring;
	int status = open_process(attachment);

	if (status != KY_EXIT_OK)
		return status;
	if (!attachment->process.library[0]) {
		snprintf(attachment->why, sizeof(attachment->why),
			 attachment->process.has_ring ?
				 "has its recorder linked in: only the program itself can end it" :
				 "is not recorded");
		return trouble(attachment);
	}
	find_ring(attachment, &ring);
	status = ask(attachment, KYMO_ATTACH_STOP);
	if (status == KY_EXIT_OK)
		say_detached(attachment, &ring, ring.path[0] && remove_ring(&ring));
	return status;
}

static error_t parse_detach(int key, char *text, struct argp_state *state)
{
	struct attachment *attachment = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &attachment->is_json;
		return 0;
	case ARGP_KEY_ARG:
		if (attachment->pid)
			ky_option_error("one process at a time: %u and '%s'", attachment->pid,
					text);
		if (!ky_run_parse_pid(text, &attachment->pid))
			ky_option_error("which process? A pid is a number, not '%s'", text);
		return 0;
	case ARGP_KEY_NO_ARGS:
		ky_option_error("which process? Usage: kymo detach [OPTION...] PID");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int ky_cmd_detach(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&ky_json_argp, 0, 0, 0}, {&ky_common_argp, 0, 0, 0}, {0}};
	static const struct argp argp = {
		NULL,
		parse_detach,
		"PID",
		"Ends the recording that `kymo attach` or `kymo run` began in a process: every "
		"word that was changed in it is restored and its ring is closed. In flight mode "
		"what the ring holds is gone then; `kymo dump PID` before saves it. The library "
		"stays loaded and does nothing.\v"
		"Exit status: 0 it is no longer recorded; 1 trouble, and a sentence says what; 2 "
		"wrong usage.",
		children,
		0,
		0};
	static struct attachment attachment;
	int status = ky_option_parse(&argp, argc, argv, 0, &attachment);

	if (status != KY_EXIT_OK)
		return status;
	attachment.options.session.is_quiet = ky_cli_is_quiet();
	status = detach(&attachment);
	ky_process_close(&attachment.process);
	return status;
}
