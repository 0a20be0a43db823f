/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kymo dump: what a process recorded last, as a trace, while it runs, hangs, or is stopped. */
#include <base/json_write.h>
#include <cli/cli.h>
#include <cli/progress.h>

#include <base/now.h>
#include <base/quantity.h>
#include <ship/disk_room.h>
#include <ship/unfinished_file.h>
#include <base/out_text.h>
#include <cli/progress.h>
#include <cli/shared_options.h>
#include <cli/upload_run.h>
#include <cli/ring_arguments.h>
#include <cli/traces.h>
#include <ring/ring_drainer.h>
#include <agent/named_dump.h>
#include <ring/ring_settings.h>
#include <ring/ring_progress.h>
#include <report/dump_text.h>
#include <report/task_places.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	KEY_AFTER = KY_OPTION_KEY_OWN,
	KEY_REASON,
	KEY_LABEL,
	KEY_STOP,
	KEY_TASKS,
	KEY_UPLOAD
};

#define AFTER_NS_MAX UINT64_C(86400000000000)
#define TASKS_SHOWN_MAX 3u
#define CHECK_NS UINT64_C(100000000)

struct dump_arguments {
	const char *who, *output, *reason, *label;
	struct ky_ring_query query;
	struct ky_compression compression;
	struct ky_pairs metadata;
	struct ky_destinations destinations;
	struct ky_cut_pair pairs[KY_OPTION_PAIRS_MAX + 3];
	struct ky_time_range range;
	uint64_t after_ns;
	bool is_json, wants_tasks, is_last;
};

struct dump_job {
	struct dump_arguments *arguments;
	struct ky_found_ring found;
	struct ky_open_ring ring;
	struct ky_dump_job dump;
	struct ky_dump_clock clock;
	uint64_t end_ns; /* now, or where the ring of a dead process ends */
	char path[KY_DUMP_PATH_BYTES];
	const char *directory; /* of a file that was not asked for */
	bool is_drained;       /* a recorder process writes it to disk */
	bool is_stopped;       /* by us */
	struct ky_ring_tail tail;
};

static const struct argp_option options[] = {
	{"after", KEY_AFTER, "DURATION", 0,
	 "Wait and take DURATION more; less when the process ends (at most 24h)", 0},
	{"output", 'o', "FILE|DIR", 0,
	 "Write to FILE (.trc.zst, .trc.gz or .trc), or to a file in DIR (default: the current "
	 "directory)",
	 0},
	{"reason", KEY_REASON, "TEXT", 0, "Why, for the trace (metadata kymo.dump.reason)", 0},
	{"label", KEY_LABEL, "TEXT", 0,
	 "What it belongs to, for the trace (metadata kymo.dump.label)", 0},
	{"stop", KEY_STOP, 0, 0,
	 "Record no more from then on, so that the ring keeps what it holds; `kymo set PID "
	 "recording=on` records again",
	 0},
	{"tasks", KEY_TASKS, 0, 0,
	 "Print where every task waits, instead of writing a file (with --output: as well)", 0},
	{"upload", KEY_UPLOAD, "URL", 0,
	 "Send the dump to s3://BUCKET/PREFIX, as `kymo upload` does; may be repeated", 0},
	{0},
};

static void check(const struct dump_arguments *arguments)
{
	if (arguments->who == NULL)
		ky_option_error("whose ring? Give a pid or a service (`kymo ps` lists them)");
	if (arguments->after_ns != 0 && arguments->range.to.kind != KY_MOMENT_NONE)
		ky_option_error("--after and --to exclude each other; give one");
	if (arguments->destinations.count && arguments->wants_tasks && !arguments->output)
		ky_option_error("--tasks leaves no file to send; give --output, too");
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct dump_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->compression;
		state->child_inputs[1] = &arguments->query;
		state->child_inputs[2] = &arguments->range;
		state->child_inputs[3] = &arguments->metadata;
		state->child_inputs[4] = &arguments->is_json;
		state->child_inputs[5] = &arguments->destinations;
		arguments->destinations.to_option = "--upload";
		return 0;
	case KEY_AFTER:
		if (!ky_quantity_in(ky_quantity_ns, text, 1, AFTER_NS_MAX, &arguments->after_ns))
			ky_option_error("--after is a duration such as 500ms or 30s, at most 24h, "
					"not '%s'",
					text);
		return 0;
	case 'o':
		arguments->output = text;
		if (text[0] == '\0' || strcmp(text, "-") == 0)
			ky_option_error("--output is a file or a directory, not '%s'", text);
		return 0;
	case KEY_REASON:
		arguments->reason = text;
		return 0;
	case KEY_LABEL:
		arguments->label = text;
		return 0;
	case KEY_STOP:
		arguments->is_last = true;
		return 0;
	case KEY_UPLOAD:
		ky_destinations_add(&arguments->destinations, text, false);
		return 0;
	case KEY_TASKS:
		arguments->wants_tasks = true;
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->who != NULL)
			ky_option_error("one process at a time: '%s' and '%s'", arguments->who,
					text);
		arguments->who = text;
		return 0;
	case ARGP_KEY_END:
		check(arguments);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void wait_ns(uint64_t ns)
{
	struct timespec rest = {.tv_sec = (time_t)(ns / 1000000000),
				.tv_nsec = (long)(ns % 1000000000)};

	while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
		;
}

/* Does a process still write into the ring that is open here? */
static bool is_recording(const struct dump_job *job)
{
	struct ky_ring_query query = job->arguments->query;
	struct ky_found_rings rings;
	bool is_alive = false;
	uint32_t i;

	query.pid = job->found.pid;
	if (query.pid == 0 || ky_ring_find(&rings, &query) < 0)
		return false;
	for (i = 0; i < rings.count; i++)
		if (rings.rings[i].inode == job->found.inode &&
		    rings.rings[i].device == job->found.device)
			is_alive = rings.rings[i].state == KY_FOUND_ALIVE;
	ky_found_rings_release(&rings);
	return is_alive;
}

static void wait_for_more(struct dump_job *job)
{
	uint64_t start_ns = ky_now_ns(CLOCK_MONOTONIC), gone_ns = 0;
	uint64_t after_ns = job->arguments->after_ns;

	while (gone_ns < after_ns && is_recording(job)) {
		uint64_t rest_ns = after_ns - gone_ns;

		wait_ns(rest_ns < CHECK_NS ? rest_ns : CHECK_NS);
		gone_ns = ky_now_ns(CLOCK_MONOTONIC) - start_ns;
	}
}

/* Returns an exit code. */
static int resolve(const struct dump_job *job, const char *name, const struct ky_moment *moment,
		   uint64_t *out)
{
	if (moment->kind == KY_MOMENT_NONE ||
	    ky_moment_resolve(moment, job->found.made_ns, job->clock.monotonic_ns,
			      job->clock.unix_ns, out) == 0)
		return KY_EXIT_OK;
	ky_cli_error("--%s: no such moment in this recording; give one relative to its start, such "
		     "as 90s",
		     name);
	return KY_EXIT_USAGE;
}

/* Where a ring that is not written any more ends: a pass over it that gives out nothing. */
static int find_end(void *ctx)
{
	struct dump_job *job = ctx;
	struct ky_cut_options pass = {
		.image = job->ring.image, .image_bytes = job->ring.image_bytes, .is_dead = true};
	int err = ky_cut(&pass, &job->dump.report);

	job->end_ns = err ? 0 : job->dump.report.newest_ns;
	return err;
}

/* Returns an exit code. */
static int refuse_range(const struct dump_job *job, const char *what, uint64_t ns)
{
	char utc[KY_OUT_CELL_BYTES];

	ky_out_utc(utc, job->clock.unix_ns + (ns - job->clock.monotonic_ns));
	ky_cli_error("%s, %s UTC: no event lies in that range; there is no file", what, utc);
	return KY_EXIT_TROUBLE;
}

/* What cannot hold an event makes no trace, which would read as if nothing had happened. */
static int check_range(const struct dump_job *job)
{
	const struct dump_arguments *arguments = job->arguments;
	const struct ky_cut_options *cut = &job->dump.cut;

	if (arguments->range.from.kind != KY_MOMENT_NONE &&
	    arguments->range.to.kind != KY_MOMENT_NONE && cut->from_ns > cut->to_ns) {
		ky_cli_error("--to lies at or before --from");
		return KY_EXIT_USAGE;
	}
	if (arguments->range.to.kind != KY_MOMENT_NONE && cut->to_ns < job->found.made_ns)
		return refuse_range(job, "--to lies before the recording began",
				    job->found.made_ns);
	if (arguments->range.from.kind == KY_MOMENT_NONE || cut->from_ns <= job->end_ns)
		return KY_EXIT_OK;
	return refuse_range(job,
			    cut->is_dead ? "--from lies after the last event" :
					   "--from lies in the future; it is now",
			    job->end_ns);
}

/* Returns an exit code. */
static int choose_range(struct dump_job *job, uint64_t asked_at_ns)
{
	const struct dump_arguments *arguments = job->arguments;
	struct ky_cut_options *cut = &job->dump.cut;
	uint64_t last_from_ns = asked_at_ns;
	int code = resolve(job, "from", &arguments->range.from, &cut->from_ns), err;

	if (!code)
		code = resolve(job, "to", &arguments->range.to, &cut->to_ns);
	if (!code && cut->to_ns)
		cut->to_ns--; /* ours is the last moment that belongs to it */
	job->end_ns = ky_now_ns(CLOCK_MONOTONIC);
	if (cut->is_dead &&
	    (arguments->range.last_ns || arguments->range.from.kind != KY_MOMENT_NONE)) {
		err = ky_ring_guarded(&job->ring, find_end, job);
		if (err) {
			ky_cli_error("%s: %s", job->found.path, kymo_error_text(err));
			return KY_EXIT_TROUBLE;
		}
		last_from_ns = job->end_ns; /* the last of what it did, not of what it did not */
	}
	if (!code)
		code = check_range(job);
	if (arguments->range.last_ns != 0 && last_from_ns > arguments->range.last_ns)
		cut->from_ns = last_from_ns - arguments->range.last_ns;
	if (arguments->after_ns != 0 && !cut->is_dead)
		cut->to_ns = asked_at_ns + arguments->after_ns;
	return code;
}

static bool is_directory(const char *path)
{
	struct stat about;

	return path[strlen(path) - 1] == '/' || (stat(path, &about) == 0 && S_ISDIR(about.st_mode));
}

/* Returns an exit code. */
static int choose_file(struct dump_job *job)
{
	struct dump_arguments *arguments = job->arguments;
	const char *output = arguments->output;
	uint32_t pid = ky_found_pid(&job->found);
	int err = 0;

	if (output == NULL)
		output = job->directory;
	/* What is cut off would name another place. */
	if (output != NULL && strlen(output) >= sizeof(job->path) - KY_DUMP_NAME_BYTES) {
		ky_cli_error("-o: the name has %zu bytes, and may have %zu", strlen(output),
			     sizeof(job->path) - KY_DUMP_NAME_BYTES - 1);
		return KY_EXIT_USAGE;
	}
	if (output == NULL || is_directory(output)) {
		ky_dump_name(job->path, sizeof(job->path), output != NULL ? output : "",
			     job->found.service, pid, ky_now_ns(CLOCK_REALTIME),
			     &arguments->compression.compressor);
	} else {
		err = ky_dump_choose_compressor(output, arguments->compression.is_chosen,
						&arguments->compression.compressor);
		(void)snprintf(job->path, sizeof(job->path), "%s", output);
		job->dump.taken = KY_DUMP_REPLACED;
	}
	if (err != 0) {
		ky_cli_error("-o %s: a trace's name ends in .trc.zst, .trc.gz or .trc and agrees "
			     "with --compress; or name a directory",
			     output);
		return KY_EXIT_USAGE;
	}
	job->dump.path = job->path;
	job->dump.compressor = arguments->compression.compressor;
	return KY_EXIT_OK;
}

static int read_tail(void *ctx)
{
	struct dump_job *job = ctx;

	ky_ring_progress_read(&job->tail, &job->ring);
	return 0;
}

/* Stream mode is what the ring is to have: the process that drained it may have been killed. */
static void find_drain(struct dump_job *job)
{
	job->is_drained = job->found.mode == KY_RING_MODE_STREAM &&
			  ky_ring_is_drained(&job->found, &job->ring);
	(void)ky_ring_guarded(&job->ring, read_tail, job);
}

static void say_drain(struct ky_buf *out, const struct dump_job *job)
{
	if (job->found.mode != KY_RING_MODE_STREAM)
		return;
	if (job->is_drained) {
		ky_out_text(out, ky_dump_has_all(&job->dump.report) ?
					 "; it is also in the trace that is written all the time" :
					 "; what is older is in the trace that is written all the "
					 "time");
		return;
	}
	ky_out_text(out, "; this ring is not drained now");
	if (job->tail.path[0] == '\0')
		return;
	ky_out_text(out, ", what was drained before is in ");
	ky_out_safe(out, job->tail.path, strlen(job->tail.path));
}

static void say_done(struct dump_job *job)
{
	struct ky_dump_clock *clock = &job->clock;
	struct ky_buf out;
	char bytes[KY_OUT_CELL_BYTES];
	uint32_t pid = ky_found_pid(&job->found);

	ky_buf_init(&out, 0);
	if (job->arguments->is_json) {
		ky_json_open(&out, NULL, "{");
		ky_json_number(&out, "pid", pid);
		ky_json_text(&out, "service", job->found.service);
		ky_json_text(&out, "mode", ky_ring_mode_text(job->found.mode));
		ky_json_flag(&out, "is_drained", job->is_drained);
		ky_json_flag(&out, "is_stopped", job->is_stopped);
		ky_json_text(&out, "drained_into", job->tail.path);
		ky_dump_summary_json(&out, job->dump.written, job->dump.bytes, &job->dump.report,
				     clock);
		ky_json_close(&out, "}");
		ky_out_text(&out, "\n");
	} else if (!ky_cli_is_quiet()) {
		ky_out_safe(&out, job->dump.written, strlen(job->dump.written));
		ky_out_format(&out, " (%s): ", ky_out_bytes(bytes, job->dump.bytes));
		ky_dump_summary(&out, &job->dump.report, clock, job->arguments->range.last_ns);
		say_drain(&out, job);
		ky_dump_stopped(&out, &job->dump.report, clock);
		if (job->dump.report.stopped_ns && is_recording(job))
			ky_out_format(&out, " (`kymo set %u recording=on` resumes it)", pid);
		ky_out_text(&out, "\n");
	}
	(void)ky_cli_print(&out);
	ky_buf_release(&out);
}

/* Returns an exit code. */
static int say_trouble(const struct dump_job *job, int err)
{
	const char *path = job->dump.is_file_trouble ? job->path : job->found.path;
	char why[KY_DISK_ROOM_BYTES];

	if (err == -ENODATA)
		ky_cli_error("%s: no event lies in that range; there is no file", job->found.path);
	else
		ky_cli_error("%s: %s", path, ky_disk_room_text(why, path, err));
	return KY_EXIT_TROUBLE;
}

static void add_pairs(struct dump_job *job)
{
	struct dump_arguments *arguments = job->arguments;
	size_t count = 0;

	for (; count < arguments->metadata.count; count++)
		arguments->pairs[count] = (struct ky_cut_pair){
			arguments->metadata.pairs[count].key,
			arguments->metadata.pairs[count].value};
	arguments->pairs[count++] = (struct ky_cut_pair){
		"kymo.dump.reason", arguments->reason != NULL ? arguments->reason : "kymo dump"};
	if (arguments->label != NULL)
		arguments->pairs[count++] = (struct ky_cut_pair){"kymo.dump.label",
								 arguments->label};
	if (job->is_stopped)
		arguments->pairs[count++] = (struct ky_cut_pair){"kymo.dump.stopped", "1"};
	job->dump.cut.pairs = arguments->pairs;
	job->dump.cut.pair_count = count;
}

static int take_place(void *ctx, const struct ky_event *event)
{
	return ky_task_places_event(ctx, event);
}

/* Where the tasks wait, out of the file that was written. Returns an exit code. */
static int say_tasks(struct dump_job *job)
{
	const struct dump_arguments *arguments = job->arguments;
	struct ky_task_places_options how = {arguments->is_json, TASKS_SHOWN_MAX};
	struct ky_trace_symbols symbols = {.table = NULL};
	struct ky_task_places places = {.entries = NULL};
	struct ky_input input = {.argument_count = 0};
	char *path = job->dump.written;
	struct ky_buf out;
	int code;

	ky_buf_init(&out, 0);
	if (arguments->is_json) {
		ky_json_open(&out, NULL, "{");
		ky_json_number(&out, "pid", ky_found_pid(&job->found));
		ky_json_text(&out, "service", job->found.service);
	}
	code = ky_traces_open_named(&input, &symbols, &path, take_place, &places);
	if (!code && ky_task_places_put(&out, &places, symbols.table, &how)) {
		ky_cli_error("out of memory");
		code = KY_EXIT_TROUBLE;
	}
	ky_task_places_release(&places);
	ky_trace_symbols_close(&symbols);
	ky_traces_close(&input);
	if (arguments->is_json) {
		ky_json_close(&out, "}");
		ky_out_text(&out, "\n");
	}
	if (!code)
		(void)ky_cli_print(&out);
	ky_buf_release(&out);
	return code;
}

static int stop(void *ctx)
{
	struct dump_job *job = ctx;
	struct ky_setting_changes changes = {.count = 0};
	char why[KY_FOUND_WHY_BYTES];
	int err = ky_settings_parse(&changes, "recording=off", why);

	return err ? err : ky_settings_apply(&job->ring, &changes);
}

/* What is over already needs no end. Returns an exit code. */
static int stop_recording(struct dump_job *job)
{
	int err;

	if (!job->arguments->is_last || job->dump.cut.is_dead)
		return KY_EXIT_OK;
	err = ky_ring_guarded(&job->ring, stop, job);
	if (err) {
		ky_cli_error("%s: cannot be stopped: %s", job->found.path, kymo_error_text(err));
		return KY_EXIT_TROUBLE;
	}
	job->is_stopped = true;
	return KY_EXIT_OK;
}

static int dump(struct dump_job *job)
{
	uint64_t asked_at_ns = ky_now_ns(CLOCK_MONOTONIC);
	int code = choose_file(job), err;

	if (code)
		return code;
	ky_ring_clock(&job->clock, &job->found);
	wait_for_more(job);
	find_drain(job);
	if (!job->arguments->is_json)
		ky_progress_of_dump(&job->dump);
	job->dump.gives_way = true;
	job->dump.cut.is_dead = !is_recording(job);
	job->dump.cut.source = job->found.session != 0 ? "tokio preload" : NULL;
	code = choose_range(job, asked_at_ns);
	if (!code)
		code = stop_recording(job);
	if (code)
		return code;
	add_pairs(job);
	err = ky_dump_write_named(&job->dump, &job->ring);
	if (job->is_stopped && (err || (job->directory && !job->arguments->is_json)))
		ky_cli_notice("recording was stopped: the ring keeps what it holds (`kymo set %u "
			      "recording=on` resumes it)",
			      ky_found_pid(&job->found));
	if (err)
		return say_trouble(job, err);
	if (job->arguments->output != NULL || !job->arguments->wants_tasks)
		say_done(job);
	if (job->arguments->wants_tasks)
		code = say_tasks(job);
	if (!code && job->arguments->destinations.count)
		code = ky_upload_dump(&job->arguments->destinations, job->dump.written,
				      job->arguments->is_json);
	return code;
}

/* Without a requested file, one that is removed afterwards. */
static int show_tasks(struct dump_job *job)
{
	const char *base = getenv("TMPDIR");
	char directory[KY_DUMP_PATH_BYTES / 2];
	int code;

	(void)snprintf(directory, sizeof(directory), "%s/kymo-tasks-XXXXXX",
		       base && base[0] ? base : "/tmp");
	ky_unfinished_note(directory);
	if (mkdtemp(directory) == NULL) {
		ky_cli_error("%s: %s", directory, strerror(errno));
		ky_unfinished_drop(directory);
		return KY_EXIT_TROUBLE;
	}
	job->directory = directory;
	ky_unfinished_note(job->dump.written);
	code = dump(job);
	if (job->dump.written[0])
		(void)unlink(job->dump.written);
	(void)rmdir(directory);
	ky_unfinished_drop(job->dump.written);
	ky_unfinished_drop(directory);
	job->directory = NULL;
	return code;
}

int ky_cmd_dump(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&ky_compression_argp, 0, 0, 0}, {&ky_ring_argp, 0, 0, 0},
		{&ky_time_range_argp, 0, 0, 0},  {&ky_pairs_argp, 0, 0, 0},
		{&ky_json_argp, 0, 0, 0},        {&ky_destinations_but_to_argp, 0, 0, 0},
		{&ky_common_argp, 0, 0, 0},      {0}};
	static const struct argp argp = {
		options,
		parse,
		"PID|SERVICE",
		"Makes a trace of what a process recorded last, from its ring and without its "
		"help: also when it hangs, is stopped, or is gone.\v" KY_OPTION_TIME_TEXT
		" Start is that of the recording.\n\n"
		"--upload and --exec send the file when it is there; it stays, and `kymo upload "
		"FILE` sends what did not arrive.\n\n"
		"Exit status: 0 the file is there, and where it was to be sent; 1 no such process, "
		"no ring, nothing in it, or trouble with the file or with sending it; 2 wrong "
		"usage.",
		children,
		NULL,
		NULL};
	static struct dump_arguments arguments;
	static struct dump_job job;
	char why[KY_FOUND_WHY_BYTES];
	int code;

	code = ky_option_parse(&argp, argc, argv, 0, &arguments);
	if (!code)
		code = ky_upload_check_dump(&arguments.destinations, "--upload");
	if (code)
		return code;
	job.arguments = &arguments;
	job.ring.fd = -1;
	if (ky_ring_find_one(&job.found, &arguments.query, arguments.who, true, why) < 0 ||
	    ky_ring_open(&job.ring, &job.found,
			 arguments.is_last && job.found.state == KY_FOUND_ALIVE, why) < 0) {
		ky_cli_error("%s", why);
		return KY_EXIT_TROUBLE;
	}
	code = arguments.wants_tasks && arguments.output == NULL ? show_tasks(&job) : dump(&job);
	ky_ring_close(&job.ring);
	return code;
}
