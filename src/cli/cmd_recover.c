/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kymo recover: traces out of the rings of dead processes. */
#include <base/json_write.h>
#include <cli/cli.h>
#include <cli/recover_into.h>
#include <ship/rest_place.h>
#include <cli/progress.h>

#include <base/alloc.h>
#include <base/now.h>
#include <ship/disk_room.h>
#include <watch/oom_watch.h>
#include <base/out_text.h>
#include <cli/progress.h>
#include <cli/shared_options.h>
#include <cli/ring_arguments.h>
#include <cli/progress.h>
#include <cli/traces.h>
#include <agent/named_dump.h>
#include <ring/ring_end.h>
#include <ring/ring_keep.h>
#include <edit/ring_tail.h>
#include <report/dump_text.h>
#include <report/end_stacks.h>
#include <report/task_places.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <ship/disk.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	KEY_KEEP = KY_OPTION_KEY_OWN,
	KEY_TASKS,
	KEY_INTO
};

#define TASKS_SHOWN_MAX 3u
#define KY_RECOVER_LEVEL 3

struct recover_arguments {
	const char *who, *output;
	const char *into; /* not NULL: only what belongs to a run there, as its next segment */
	struct ky_ring_query query;
	struct ky_compression compression;
	bool wants_all, wants_tasks, is_kept, is_json;
};

/* One ring on its way. */
struct recover_job {
	const struct recover_arguments *arguments;
	const struct ky_found_ring *found;
	struct ky_open_ring ring;
	struct ky_ring_ending ending;
	struct ky_ring_tail tail;
	struct ky_rest_place place;
	uint32_t rest_plus_1; /* the segment of an earlier recovery, + 1, then of this one */
	struct ky_dump_job dump;
	struct ky_dump_clock clock;
	char path[KY_DUMP_PATH_BYTES], run[KY_DRAINED_PATH_BYTES], ending_text[KY_END_TEXT_BYTES];
	struct ky_cut_pair pairs[4];
	struct ky_end_stacks end;
	struct ky_task_places places;
	bool is_recovered;
};

struct totals {
	uint32_t recovered, empty, trouble;
	uint32_t held; /* by another kymo, who makes a trace of it */
};

static bool is_none(const struct totals *totals)
{
	return totals->recovered + totals->empty + totals->trouble + totals->held == 0;
}

static const struct argp_option options[] = {
	{"all", 'a', 0, 0, "Every ring of a dead process of this user (the default)", 0},
	{"output", 'o', "DIR", 0, "Write to files in DIR (default: the current directory)", 0},
	{"into", KEY_INTO, "DIR", 0,
	 "Only rings whose recorder wrote to a run below DIR: each becomes the next segment of its "
	 "run, as `kymo upload` does it",
	 0},
	{"keep", KEY_KEEP, 0, 0, "Leave the rings where they are", 0},
	{"tasks", KEY_TASKS, 0, 0, "Print where every task waits, or waited at the end", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct recover_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->compression;
		state->child_inputs[1] = &arguments->query;
		state->child_inputs[2] = &arguments->is_json;
		return 0;
	case 'a':
		arguments->wants_all = true;
		return 0;
	case 'o':
		arguments->output = text;
		if (text[0] == '\0')
			ky_option_error("--output is a directory");
		return 0;
	case KEY_INTO:
		arguments->into = text;
		if (text[0] == '\0')
			ky_option_error("--into is a directory of traces");
		return 0;
	case KEY_KEEP:
		arguments->is_kept = true;
		return 0;
	case KEY_TASKS:
		arguments->wants_tasks = true;
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->who != NULL)
			ky_option_error("one process at a time, or --all: '%s' and '%s'",
					arguments->who, text);
		arguments->who = text;
		return 0;
	case ARGP_KEY_END:
		if (arguments->who != NULL && arguments->wants_all)
			ky_option_error("--all and '%s' exclude each other", arguments->who);
		if (arguments->output != NULL && arguments->into != NULL)
			ky_option_error("--into %s: --output says another place", arguments->into);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- one ring ---- */

/* No process waited for it; the kernel may have said why it had to go. Into the ring, too: the
 * drain reports the same. */
static void ask_kernel(struct recover_job *job)
{
	const struct ky_found_ring *found = job->found;
	struct ky_ring_end *end = job->ring.side != NULL ? &job->ring.side->end : NULL;
	uint64_t at_ns;

	if (end == NULL || job->ending.kind != KY_END_UNKNOWN || found->is_foreign ||
	    found->is_other_boot || job->ending.is_closed ||
	    !ky_oom_log_names(found->ring_pid, found->uid, found->made_ns, &at_ns))
		return;
	end->code = SIGKILL;
	end->has_core = 0;
	end->oom = KY_OOM_NAMED;
	end->monotonic_ns = 0; /* the log's clock is another one */
	atomic_store_explicit(&end->kind, KY_END_SIGNAL, memory_order_release);
	ky_ring_ending_read(&job->ending, &job->ring, found);
}

static int read_ending(void *ctx)
{
	struct recover_job *job = ctx;

	ky_ring_ending_read(&job->ending, &job->ring, job->found);
	ask_kernel(job);
	ky_ring_progress_read(&job->tail, &job->ring);
	if (job->ring.side != NULL)
		job->rest_plus_1 = atomic_load_explicit(&job->ring.side->drained.rest_plus_1,
							memory_order_acquire);
	return 0;
}

/* What an earlier recover of this ring left when it was killed. We hold the ring's lock. */
static void remove_unfinished(const char *path)
{
	char pattern[KY_DUMP_PATH_BYTES * 2];
	size_t at = 0, i;
	glob_t found;

	for (i = 0; path[i] != '\0' && at + 16 < sizeof(pattern); i++) {
		if (strchr("\\*?[", path[i]) != NULL)
			pattern[at++] = '\\';
		pattern[at++] = path[i];
	}
	(void)snprintf(pattern + at, sizeof(pattern) - at, ".[0-9]*.tmp");
	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (i = 0; i < found.gl_pathc; i++)
		(void)unlink(found.gl_pathv[i]);
	globfree(&found);
}

static int note_segment(void *ctx)
{
	const struct recover_job *job = ctx;

	if (job->ring.side != NULL)
		atomic_store_explicit(&job->ring.side->drained.rest_plus_1, job->rest_plus_1,
				      memory_order_release);
	return 0;
}

static int choose_segment(struct recover_job *job)
{
	uint32_t number;
	int err = ky_rest_place_next(&job->place, &number);

	if (err)
		return err;
	job->rest_plus_1 = number + 1;
	(void)snprintf(job->path, sizeof(job->path), "%s/%06u.trc%s", job->run, number,
		       job->dump.compressor.suffix);
	return ky_ring_guarded(&job->ring, note_segment, job);
}

/* The same ring always gets the same name: run again after a kill, recover replaces what it wrote.
 */
static int choose_file(struct recover_job *job)
{
	const struct recover_arguments *arguments = job->arguments;

	job->dump.path = job->path;
	job->dump.compressor = arguments->compression.compressor;
	if (arguments->into != NULL)
		return choose_segment(job);
	ky_dump_name(job->path, sizeof(job->path),
		     arguments->output != NULL ? arguments->output : "", job->found->service,
		     job->found->ring_pid, job->found->made_unix_ns,
		     &arguments->compression.compressor);
	remove_unfinished(job->path);
	job->dump.taken = KY_DUMP_REPLACED;
	return 0;
}

static void add_pairs(struct recover_job *job)
{
	struct ky_cut_options *cut = &job->dump.cut;

	(void)ky_ring_ending_text(&job->ending, job->ending_text, sizeof(job->ending_text));
	job->pairs[cut->pair_count++] = (struct ky_cut_pair){"kymo.dump.reason", "kymo recover"};
	if (job->tail.path[0] != '\0')
		job->pairs[cut->pair_count++] = (struct ky_cut_pair){"kymo.dump.continues",
								     job->tail.path};
	cut->pairs = job->pairs;
}

static int take(void *ctx, const struct ky_event *event)
{
	struct recover_job *job = ctx;

	ky_end_stacks_event(&job->end, event);
	return job->arguments->wants_tasks ? ky_task_places_event(&job->places, event) : 0;
}

static void take_polls(struct ky_end_stacks *end, const struct ky_cut_report *report)
{
	end->newest_ns = report->newest_ns;
	for (; end->poll_count < KY_END_POLLS_MAX && end->poll_count < report->open_poll_count;
	     end->poll_count++) {
		const struct ky_cut_poll *poll = &report->open_polls[end->poll_count];

		end->polls[end->poll_count] = (struct ky_end_poll){
			.task = poll->task, .start_ns = poll->start_ns, .tid = poll->tid};
	}
}

/* What is worth names: a crash, polls that were open, tasks that waited. */
static void say_stacks(struct ky_buf *out, struct recover_job *job)
{
	const struct ky_task_places_options how = {job->arguments->is_json, TASKS_SHOWN_MAX};
	bool wants_end = job->ending.has_crash || job->dump.report.open_poll_count;
	bool wants_tasks = job->arguments->wants_tasks;
	struct ky_trace_symbols symbols = {.table = NULL};
	struct ky_input input = {.argument_count = 0};
	char *path = job->dump.written;
	struct ky_code_names names;
	int code = KY_EXIT_OK;

	take_polls(&job->end, &job->dump.report);
	if (wants_end || wants_tasks)
		code = ky_traces_open_named(&input, &symbols, &path, take, job);
	if (code) /* not all was read: nothing is printed of it */
		job->end = (struct ky_end_stacks){.poll_count = 0};
	ky_progress_step("naming code");
	names = ky_trace_symbols_names(&symbols);
	if (wants_end || how.is_json)
		ky_end_stacks_put(out, &job->end, &names, how.is_json);
	if (wants_tasks && !code && ky_task_places_put(out, &job->places, symbols.table, &how))
		ky_cli_error("out of memory");
	ky_task_places_release(&job->places);
	ky_trace_symbols_close(&symbols);
	ky_traces_close(&input);
}

static void say_json(struct ky_buf *out, struct recover_job *job)
{
	ky_json_open(out, NULL, "{");
	ky_json_number(out, "pid", job->found->ring_pid);
	ky_json_text(out, "service", job->found->service);
	ky_json_text(out, "end", job->ending_text);
	ky_json_text(out, "continues", job->tail.path);
	ky_json_flag(out, "is_cut", job->found->is_truncated);
	ky_dump_summary_json(out, job->dump.written, job->dump.bytes, &job->dump.report,
			     &job->clock);
	say_stacks(out, job);
	ky_json_close(out, "}");
	ky_out_text(out, "\n");
}

static void say_text(struct ky_buf *out, struct recover_job *job)
{
	const struct ky_cut_report *report = &job->dump.report;
	char bytes[KY_OUT_CELL_BYTES];

	ky_out_safe(out, job->found->service, strlen(job->found->service));
	ky_out_format(out, " (pid %u) ended: ", job->found->ring_pid);
	ky_out_safe(out, job->ending_text, strlen(job->ending_text));
	ky_out_text(out, "\n");
	if (report->open_poll_count > 0) {
		ky_out_text(out, "  open at that moment:\n");
		ky_dump_polls(out, report, report->newest_ns, 4);
	}
	ky_out_text(out, "  ");
	ky_out_safe(out, job->dump.written, strlen(job->dump.written));
	ky_out_format(out, " (%s): ", ky_out_bytes(bytes, job->dump.bytes));
	ky_dump_summary(out, report, &job->clock, 0);
	ky_dump_stopped(out, report, &job->clock);
	ky_out_text(out, "\n");
	if (job->tail.path[0] != '\0') {
		ky_out_text(out, "  what came before is in ");
		ky_out_safe(out, job->tail.path, strlen(job->tail.path));
		ky_out_text(out, "\n");
	}
	if (job->found->is_truncated)
		ky_out_format(out,
			      "  the ring file ends at byte %" PRIu64
			      ", so sub-buffers are missing\n",
			      job->found->file_bytes);
	/* What is known stands there before the first name is read. */
	(void)ky_cli_print(out);
	(void)fflush(stdout);
	say_stacks(out, job);
}

static void say_done(struct recover_job *job)
{
	struct ky_buf out;

	ky_buf_init(&out, 0);
	if (job->arguments->is_json)
		say_json(&out, job);
	else
		say_text(&out, job);
	(void)ky_cli_print(&out);
	ky_buf_release(&out);
}

/* In one line, for who sends it. */
static void say_segment(const struct recover_job *job)
{
	if (!ky_cli_is_quiet())
		ky_cli_notice("%s: made from the ring of pid %u, which ended: %s", job->path,
			      job->found->ring_pid, job->ending_text);
}

/* Killed before the ring is gone, the next recover does the same: the whole chunks say where to go
 * on. */
static void trim_tail(const struct recover_job *job)
{
	int err = ky_ring_tail_trim(&job->tail);

	if (err < 0)
		ky_cli_notice("%s: ends with a part of what is in %s, too, and cannot be cut: %s",
			      job->tail.torn_path, job->path, kymo_error_text(err));
}

/* The trace has its name and is on disk: now the ring may go. */
static int remove_ring(const struct recover_job *job)
{
	int err = job->arguments->is_kept ? 0 : ky_ring_remove(job->found);

	if (err < 0)
		ky_cli_error("%s: recovered, but cannot be removed: %s", job->found->path,
			     kymo_error_text(err));
	return err;
}

/* Another recover may have been faster. */
static bool is_gone(const struct recover_job *job)
{
	struct stat st;

	return fstat(job->ring.fd, &st) != 0 || st.st_nlink == 0;
}

static int read_run(void *ctx)
{
	struct recover_job *job = ctx;

	ky_ring_progress_read(&job->tail, &job->ring);
	memcpy(job->run, job->tail.path, sizeof(job->run));
	return 0;
}

/* Before the ring is claimed: a run that has just found it would take it for another's. The run's
 * lock is held from before its files are read. */
static bool is_wanted(struct recover_job *job)
{
	return job->arguments->into == NULL ||
	       (ky_ring_guarded(&job->ring, read_run, job) == 0 &&
		ky_rest_place_open(&job->place, job->arguments->into, job->run) == 0);
}

static void recover_open(struct recover_job *job, struct totals *totals)
{
	char why[KY_DISK_ROOM_BYTES];
	const char *path;
	int err = ky_ring_guarded(&job->ring, read_ending, job);

	/* That one was killed when it was done but for the ring. */
	if (!err && job->arguments->into != NULL && job->rest_plus_1 &&
	    ky_rest_place_has(&job->place, job->rest_plus_1 - 1)) {
		totals->trouble += remove_ring(job) < 0;
		return;
	}
	if (!err) {
		ky_ring_tail_settle(&job->tail);
		err = choose_file(job);
	}
	if (!err) {
		add_pairs(job);
		ky_ring_clock(&job->clock, job->found);
		if (!job->arguments->is_json)
			ky_progress_of_dump(&job->dump);
		job->dump.cut.is_dead = true;
		job->dump.cut.from_ns = job->tail.from_ns;
		job->dump.cut.from_ticks = job->tail.from_ticks;
		job->dump.cut.from_ties = job->tail.from_ties;
		job->dump.cut.source = job->found->session != 0 ? "tokio preload" : NULL;
		err = ky_dump_write_named(&job->dump, &job->ring);
	}
	if (err == -ENODATA) {
		/* Everything was on disk already, or it was killed before its first event. */
		ky_cli_notice("%s: holds no event%s%s; %s", job->found->path,
			      job->tail.path[0] != '\0' ? " that is not in " : "", job->tail.path,
			      job->arguments->is_kept ? "kept" : "removed");
		totals->empty++;
	} else if (err) {
		path = job->dump.is_file_trouble ? job->path : job->found->path;
		ky_cli_error("%s: %s", path, ky_disk_room_text(why, path, err));
		totals->trouble++;
		return;
	} else {
		totals->recovered++;
		trim_tail(job);
		job->is_recovered = true;
	}
	if (remove_ring(job) < 0)
		totals->trouble++;
}

static void recover(const struct recover_arguments *arguments, const struct ky_found_ring *found,
		    struct totals *totals)
{
	struct recover_job *job = ky_alloc(sizeof(*job));
	char why[KY_FOUND_WHY_BYTES];
	int err;

	if (job == NULL) {
		ky_cli_error("no memory");
		totals->trouble++;
		return;
	}
	job->arguments = arguments;
	job->found = found;
	job->place = (struct ky_rest_place){-1, -1};
	err = ky_ring_open(&job->ring, found, true, why);
	if (err == -ENOENT) {
		ky_free(job);
		return; /* another recover was faster */
	}
	if (err < 0) {
		ky_cli_error("%s", why);
		totals->trouble++;
	} else if (!is_wanted(job)) {
		/* it stays for another recover */
	} else if (ky_ring_claim(job->ring.fd) != 0) {
		totals->held++;
		if (arguments->into == NULL)
			ky_cli_notice(
				"%s: another kymo (a run, or a recover) is making a trace of it; "
				"skipped",
				found->path);
	} else if (!is_gone(job)) {
		recover_open(job, totals);
	}
	ky_ring_close(&job->ring);
	ky_rest_place_close(&job->place);
	/* Names take their time: another kymo does not wait for the ring's lock meanwhile. */
	if (job->is_recovered && arguments->into != NULL)
		say_segment(job);
	else if (job->is_recovered)
		say_done(job);
	ky_free(job);
}

/* ---- which ones ---- */

static bool is_dead(const struct ky_found_ring *ring)
{
	return ring->state == KY_FOUND_DEAD ||
	       (ring->state == KY_FOUND_CLOSED && !ring->is_process_there);
}

/* Without the directory no process has recorded there, as before a service's first start. */
static void report_trouble(const struct ky_found_ring *ring, bool is_directory,
			   struct totals *totals)
{
	if (is_directory && ring->error == -ENOENT) {
		ky_cli_notice("%s; nothing is recovered", ring->why);
		totals->empty++;
		return;
	}
	ky_cli_error("%s", ring->why);
	totals->trouble++;
}

/* service: only its rings, all of them; NULL: every ring of a dead process. */
static int recover_all(const struct recover_arguments *arguments, const char *service,
		       struct totals *totals)
{
	struct ky_found_rings rings;
	int err = ky_ring_find(&rings, &arguments->query);
	uint32_t i;

	if (err < 0) {
		ky_cli_error("%s", kymo_error_text(err));
		return KY_EXIT_TROUBLE;
	}
	for (i = 0; i < rings.count; i++) {
		if (service != NULL && strcmp(rings.rings[i].service, service) != 0)
			continue;
		if (rings.rings[i].state == KY_FOUND_TROUBLE) {
			if (rings.rings[i].is_process_there)
				continue; /* there is nothing to recover yet */
			report_trouble(&rings.rings[i], rings.is_unseen, totals);
		} else if (is_dead(&rings.rings[i])) {
			recover(arguments, &rings.rings[i], totals);
		}
	}
	if (rings.is_incomplete)
		ky_cli_notice("there are more rings than one run reads: run it again");
	ky_found_rings_release(&rings);
	if (service == NULL && arguments->into == NULL && is_none(totals))
		ky_cli_notice("no dead process has left a ring");
	return KY_EXIT_OK;
}

/* A path, or the name of a ring file that stands here. */
static bool is_file(const char *who)
{
	const char *ending = strrchr(who, '.');
	struct stat about;

	return strchr(who, '/') != NULL ||
	       (ending != NULL && strcmp(ending, ".ring") == 0 && lstat(who, &about) == 0);
}

static int recover_one(const struct recover_arguments *arguments, struct totals *totals)
{
	struct ky_found_ring *found = ky_alloc(sizeof(*found));
	char why[KY_FOUND_WHY_BYTES];
	int err;

	if (found == NULL) {
		ky_cli_error("no memory");
		return KY_EXIT_TROUBLE;
	}
	if (is_file(arguments->who))
		err = ky_ring_find_file(found, arguments->who, why);
	else
		err = ky_ring_find_one(found, &arguments->query, arguments->who, true, why);
	if (err < 0)
		ky_cli_error("%s", why);
	else if (found->state == KY_FOUND_ALIVE)
		ky_cli_error(
			"process %u runs and records: `kymo dump %u` makes a trace of a living "
			"one",
			found->pid, found->pid);
	else
		recover(arguments, found, totals);
	err = err < 0 || found->state == KY_FOUND_ALIVE ? KY_EXIT_TROUBLE : KY_EXIT_OK;
	ky_free(found);
	return err;
}

/* A service may have died several times, and be running again by now. */
static int recover_service(const struct recover_arguments *arguments, struct totals *totals)
{
	int code = recover_all(arguments, arguments->who, totals);

	/* None of it is dead: that one knows why not. */
	return code == KY_EXIT_OK && is_none(totals) ? recover_one(arguments, totals) : code;
}

static int recover_wanted(const struct recover_arguments *arguments, struct totals *totals)
{
	const char *who = arguments->who;

	if (who == NULL)
		return recover_all(arguments, NULL, totals);
	if (is_file(who) || who[strspn(who, "0123456789")] == '\0')
		return recover_one(arguments, totals);
	return recover_service(arguments, totals);
}

/* Among all of them one that another kymo has claimed is no trouble: its trace is being made. Who
 * asked for that one alone has to know that nothing was done. */
static bool is_in_trouble(const struct recover_arguments *arguments, const struct totals *totals)
{
	return totals->trouble || (arguments->who != NULL && totals->held && !totals->recovered);
}

/* What stands there and is no directory is said once, not for every ring. */
static int make_output(const char *path)
{
	int err = ky_disk_make_path(path);
	struct stat st;

	if (!err && stat(path, &st) != 0)
		err = -errno;
	return err ? err : S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int ky_recover_into(const char *directory, const struct ky_ring_query *query)
{
	struct recover_arguments arguments = {.into = directory, .query = *query};
	struct totals totals = {.recovered = 0};
	int code = ky_compressor_choose(&arguments.compression.compressor, KYMO_COMPRESSION_ZSTD,
					KY_RECOVER_LEVEL);

	if (code) {
		ky_cli_error("%s", kymo_error_text(code));
		return KY_EXIT_TROUBLE;
	}
	code = recover_all(&arguments, NULL, &totals);
	return code == KY_EXIT_OK && totals.trouble ? KY_EXIT_TROUBLE : code;
}

int ky_cmd_recover(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_compression_argp, 0, 0, 0},
						     {&ky_ring_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		options,
		parse,
		"[PID|SERVICE|RINGFILE]\n--all",
		"Makes traces from the rings of processes that were killed, crashed, or lost their "
		"recorder process: says how each ended as far as can be known, and what was being "
		"polled. A ring is removed once its trace is on disk.\vExit status: 0 everything "
		"that was there is recovered, or another kymo recovers it; 1 something could not "
		"be recovered, or another kymo recovers the one that was asked for; 2 wrong usage.",
		children,
		NULL,
		NULL};
	struct ky_ring_keep_result kept;
	struct totals totals = {.recovered = 0};
	struct recover_arguments arguments;
	bool was_there;
	int code;

	memset(&arguments, 0, sizeof(arguments));
	code = ky_option_parse(&argp, argc, argv, 0, &arguments);
	if (code)
		return code;
	was_there = arguments.output == NULL || access(arguments.output, F_OK) == 0;
	if (arguments.output != NULL && (code = make_output(arguments.output)) != 0) {
		ky_cli_error("%s: %s", arguments.output, kymo_error_text(code));
		return KY_EXIT_TROUBLE;
	}
	if (arguments.into != NULL) /* it is on behalf of a sender */
		(void)setpriority(PRIO_PROCESS, 0, 10);
	code = recover_wanted(&arguments, &totals);
	(void)ky_ring_keep(&arguments.query, &kept);
	/* It fails, as it should, if anything was written there. */
	if (!was_there)
		(void)rmdir(arguments.output);
	if (code == KY_EXIT_OK && is_in_trouble(&arguments, &totals))
		code = KY_EXIT_TROUBLE;
	return code;
}
