/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/ring_dump.h>

#include <base/json_write.h>
#include <base/file_name.h>
#include <base/now.h>
#include <ship/out_file.h>
#include <base/out_text.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <ship/disk.h>
#include <symbol/ring_names.h>
#include <ship/trace_file.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_NS UINT64_C(1000000000)
#define NAME_TRIES_MAX 1000u
/* A tenth of a core beside threads that want all of it: the dump still comes to its end. */
#define GIVING_WAY 10

struct work {
	struct ky_ring_dump *dump;
	struct ky_ring_names *names;
	struct ky_out_file file;
	struct ky_stage coder;
	int file_error;
	bool has_given_way;
	uint64_t chunk_count, shown_ns;
};

static void show_progress(struct work *work, const struct ky_chunk *chunk)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	uint64_t to_go_ns = now_ns > chunk->last_ns ? now_ns - chunk->last_ns : 0;

	if (!work->dump->progress || now_ns - work->shown_ns < PROGRESS_NS)
		return;
	work->shown_ns = now_ns;
	work->dump->progress(work->file.bytes, to_go_ns);
}

static int take_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct work *work = ctx;
	int err = work->file_error;

	/* The first chunk: until here it was a race with the writers. Failing is no harm. */
	if (work->dump->gives_way && !work->has_given_way) {
		work->has_given_way = true;
		if (nice(GIVING_WAY) == -1)
			errno = 0;
	}
	if (!err)
		err = work->coder.write(work->coder.stage, chunk->bytes, chunk->byte_count,
					ky_out_file_write, &work->file);
	work->file_error = err;
	work->chunk_count += !err;
	show_progress(work, chunk);
	return err;
}

static int cut(void *ctx)
{
	struct work *work = ctx;
	struct ky_ring_dump *dump = work->dump;
	struct ky_cut_options options = dump->cut;
	int err = ky_ring_names_open(&work->names, dump->ring->image, dump->ring->image_bytes);

	if (err)
		return err;
	if (dump->ring->pid != 0)
		ky_ring_names_process(work->names, dump->ring->pid);
	options.image = dump->ring->image;
	options.image_bytes = dump->ring->image_bytes;
	options.name = ky_ring_names_text;
	options.name_ctx = work->names;
	options.chunk = take_chunk;
	options.chunk_ctx = work;
	return ky_cut(&options, &dump->report);
}

/* The name of the n-th try: FILE.2.trc.zst behind FILE.trc.zst. */
static int make_name(const struct ky_ring_dump *dump, uint32_t n, char *out, size_t out_bytes)
{
	static const char *const endings[] = {".trc.zst", ".trc.gz", ".trc"};
	size_t bytes = strlen(dump->path), stem = bytes, i;
	int count;

	for (i = 0; i < sizeof(endings) / sizeof(endings[0]) && stem == bytes; i++) {
		size_t ending = strlen(endings[i]);

		if (bytes > ending && strcmp(dump->path + bytes - ending, endings[i]) == 0)
			stem = bytes - ending;
	}
	if (n == 0)
		count = snprintf(out, out_bytes, "%s", dump->path);
	else
		count = snprintf(out, out_bytes, "%.*s.%u%s", (int)stem, dump->path, n + 1,
				 dump->path + stem);
	return count >= 0 && (size_t)count < out_bytes ? 0 : -ENAMETOOLONG;
}

static int open_file(struct work *work)
{
	struct ky_ring_dump *dump = work->dump;
	int err = -EEXIST;
	uint32_t n;

	for (n = 0; err == -EEXIST && n < NAME_TRIES_MAX; n++) {
		err = make_name(dump, n, dump->written, sizeof(dump->written));
		if (!err)
			err = ky_out_file_open(&work->file, dump->written, dump->may_replace);
		if (dump->may_replace)
			break;
	}
	if (!err && fchmod(work->file.fd, KY_DISK_FILE_MODE) != 0)
		err = -errno;
	if (!err)
		err = dump->stage.open(&dump->stage, &work->coder);
	return err;
}

/* A name is durable once its directory is. */
static int sync_directory(const char *path)
{
	const char *slash = strrchr(path, '/');
	char directory[KY_DUMP_PATH_BYTES];
	int fd, err;

	(void)snprintf(directory, sizeof(directory), "%.*s",
		       slash == path ? 1 :
		       slash == NULL ? 1 :
				       (int)(slash - path),
		       slash == NULL ? "." : path);
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = fsync(fd) != 0 && errno != EINVAL && errno != EROFS ? -errno : 0;
	close(fd);
	return err;
}

static int finish(struct work *work)
{
	int err = work->coder.finish(work->coder.stage, ky_out_file_write, &work->file);

	work->dump->file_bytes = work->file.bytes;
	if (!err)
		err = ky_out_file_commit(&work->file);
	if (!err)
		err = sync_directory(work->dump->written);
	return err;
}

int ky_ring_dump(struct ky_ring_dump *dump, bool *is_file_trouble)
{
	struct work work = {.dump = dump, .shown_ns = ky_now_ns(CLOCK_MONOTONIC)};
	int err;

	work.file.fd = -1;
	err = work.file_error = open_file(&work);
	if (!err) {
		err = ky_ring_guarded(dump->ring, cut, &work);
		/* The drain goes on where a sink refuses, and tells it as a loss. */
		err = work.file_error ? work.file_error : err;
	}
	if (!err && dump->report.records_read == 0)
		err = -ENODATA;
	if (!err)
		err = work.file_error = finish(&work);
	*is_file_trouble = work.file_error != 0;
	ky_out_file_abort(&work.file);
	if (work.coder.close)
		work.coder.close(work.coder.stage);
	ky_ring_names_close(work.names);
	return err;
}

/* ---- names ---- */

void ky_dump_name(char *out, size_t out_bytes, const char *directory, const char *service,
		  uint32_t pid, uint64_t unix_ns, const struct ky_stage_factory *stage)
{
	bool needs_slash = directory[0] != '\0' && directory[strlen(directory) - 1] != '/';
	time_t seconds = (time_t)(unix_ns / 1000000000);
	char name[65], utc[24] = "";
	struct tm tm;

	(void)snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1,
		       service[0] != '\0' ? service : "unnamed");
	ky_file_name_clean(name);
	if (gmtime_r(&seconds, &tm) != NULL)
		(void)strftime(utc, sizeof(utc), "%Y%m%dT%H%M%SZ", &tm);
	(void)snprintf(out, out_bytes, "%s%s%s-%u-%s.trc%s", directory, needs_slash ? "/" : "",
		       name, pid, utc, stage->suffix);
}

int ky_dump_choose_stage(const char *path, bool has_stage, struct ky_stage_factory *stage)
{
	const char *suffix = ky_trace_file_suffix(path);

	if (suffix == NULL)
		return -EINVAL;
	if (has_stage)
		return strcmp(suffix, stage->suffix) == 0 ? 0 : -EINVAL;
	if (strcmp(suffix, ".zst") == 0)
		ky_stage_zstd(stage, 1);
	else if (strcmp(suffix, ".gz") == 0)
		ky_stage_gzip(stage, 1);
	else
		*stage = ky_stage_none;
	return 0;
}

/* ---- what it says ---- */

void ky_dump_clock(struct ky_dump_clock *out, const struct ky_found_ring *found)
{
	out->monotonic_ns = found->made_ns;
	out->unix_ns = found->made_unix_ns;
	if (found->is_other_boot)
		return;
	out->monotonic_ns = ky_now_ns(CLOCK_MONOTONIC);
	out->unix_ns = ky_realtime_at_ns(out->monotonic_ns);
}

static uint64_t unix_ns_of(const struct ky_dump_clock *clock, uint64_t monotonic_ns)
{
	return clock->unix_ns + (monotonic_ns - clock->monotonic_ns);
}

static void losses(struct ky_buf *out, const struct ky_cut_report *report)
{
	char count[KY_OUT_CELL_BYTES];

	if (report->records_lost == 0)
		ky_out_text(out, "nothing lost");
	else
		ky_out_format(out, "%s records lost", ky_out_count(count, report->records_lost));
	if (report->slots_overwritten != 0)
		ky_out_format(out, " (%s sub-buffers overwritten while they were copied)",
			      ky_out_count(count, report->slots_overwritten));
}

bool ky_dump_has_all(const struct ky_cut_report *report)
{
	return report->ring_bytes_used < report->ring_bytes && report->slots_overwritten == 0;
}

/* How far back it reaches, or that there is nothing further back. */
static void reach(struct ky_buf *out, const struct ky_cut_report *report, uint64_t asked_ns)
{
	char bytes[KY_OUT_CELL_BYTES], span[KY_OUT_CELL_BYTES];
	uint64_t permille;

	ky_out_bytes(bytes, report->ring_bytes);
	ky_out_duration(span, report->age_ns);
	if (ky_dump_has_all(report)) {
		/* A ring has at most some GiB: no overflow. */
		permille = report->ring_bytes_used * 1000 / report->ring_bytes;
		ky_out_format(out,
			      "; the ring of %s holds all %s since the start, %" PRIu64 ".%" PRIu64
			      " %% used",
			      bytes, span, permille / 10, permille % 10);
		return;
	}
	ky_out_format(out, "; the ring of %s is full and reaches %s back", bytes, span);
	if (report->ring_bytes_needed != 0 && asked_ns != 0)
		ky_out_format(out, ", %s would take one of %s", ky_out_duration(span, asked_ns),
			      ky_out_bytes(bytes, report->ring_bytes_needed));
}

void ky_dump_summary(struct ky_buf *out, const struct ky_ring_dump *dump,
		     const struct ky_dump_clock *clock, uint64_t asked_ns)
{
	const struct ky_cut_report *report = &dump->report;
	char from[KY_OUT_CELL_BYTES], to[KY_OUT_CELL_BYTES], span[KY_OUT_CELL_BYTES];

	ky_out_format(out, "%s events, ", ky_out_count(span, report->events_written));
	ky_out_utc(from, unix_ns_of(clock, report->oldest_ns));
	ky_out_utc(to, unix_ns_of(clock, report->newest_ns));
	/* The day once, where it is the same. */
	ky_out_format(out, "%s to %s UTC (%s), ", from, strncmp(from, to, 11) == 0 ? to + 11 : to,
		      ky_out_duration(span, report->newest_ns - report->oldest_ns));
	losses(out, report);
	reach(out, report, asked_ns);
}

void ky_dump_stopped(struct ky_buf *out, const struct ky_ring_dump *dump,
		     const struct ky_dump_clock *clock)
{
	uint64_t stopped_ns = dump->report.stopped_ns;
	char at[KY_OUT_CELL_BYTES];

	if (stopped_ns)
		ky_out_format(out, "; recording was stopped at %s UTC",
			      ky_out_utc(at, unix_ns_of(clock, stopped_ns)));
}

void ky_dump_polls(struct ky_buf *out, const struct ky_cut_report *report, uint64_t at_ns,
		   uint32_t indent)
{
	uint32_t listed = report->open_poll_count < KY_CUT_POLLS_MAX ? report->open_poll_count :
								       KY_CUT_POLLS_MAX;
	char span[KY_OUT_CELL_BYTES];
	uint32_t i;

	for (i = 0; i < listed; i++) {
		const struct ky_cut_poll *poll = &report->open_polls[i];

		ky_out_format(out, "%*sworker %u (thread %u) polled task %" PRIu64 " ", (int)indent,
			      "", poll->worker_id, poll->tid, poll->task);
		if (poll->name[0] != '\0')
			ky_out_safe(out, poll->name, strnlen(poll->name, sizeof(poll->name)));
		ky_out_format(out, "%sfor %s\n", poll->name[0] != '\0' ? ", " : "",
			      ky_out_duration(span,
					      at_ns > poll->start_ns ? at_ns - poll->start_ns : 0));
	}
	if (listed < report->open_poll_count)
		ky_out_format(out, "%*s... and %u more\n", (int)indent, "",
			      report->open_poll_count - listed);
}

static void polls_json(struct ky_buf *out, const struct ky_cut_report *report)
{
	uint32_t listed = report->open_poll_count < KY_CUT_POLLS_MAX ? report->open_poll_count :
								       KY_CUT_POLLS_MAX;
	uint32_t i;

	ky_json_open(out, "open_polls", "[");
	for (i = 0; i < listed; i++) {
		const struct ky_cut_poll *poll = &report->open_polls[i];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "worker", poll->worker_id);
		ky_json_number(out, "tid", poll->tid);
		ky_json_number(out, "task", poll->task);
		ky_json_number(out, "start_ns", poll->start_ns);
		ky_json_text(out, "name", poll->name);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_number(out, "open_poll_count", report->open_poll_count);
}

void ky_dump_summary_json(struct ky_buf *out, const struct ky_ring_dump *dump,
			  const struct ky_dump_clock *clock)
{
	const struct ky_cut_report *report = &dump->report;

	ky_json_text(out, "file", dump->written);
	ky_json_number(out, "bytes", dump->file_bytes);
	ky_json_number(out, "events", report->events_written);
	ky_json_number(out, "records_read", report->records_read);
	ky_json_number(out, "records_lost", report->records_lost);
	ky_json_number(out, "oldest_ns", report->oldest_ns);
	ky_json_number(out, "newest_ns", report->newest_ns);
	ky_json_number(out, "oldest_unix_ns", unix_ns_of(clock, report->oldest_ns));
	ky_json_number(out, "newest_unix_ns", unix_ns_of(clock, report->newest_ns));
	ky_json_number(out, "age_ns", report->age_ns);
	ky_json_number_or_null(out, "stopped_unix_ns", report->stopped_ns != 0,
			       unix_ns_of(clock, report->stopped_ns));
	ky_json_number(out, "ring_bytes", report->ring_bytes);
	ky_json_number(out, "ring_bytes_used", report->ring_bytes_used);
	ky_json_number(out, "ring_bytes_needed", report->ring_bytes_needed);
	ky_json_number(out, "slots_overwritten", report->slots_overwritten);
	ky_json_number(out, "bytes_copied", report->bytes_copied);
	ky_json_number(out, "copy_cpu_ns", report->copy_cpu_ns);
	ky_json_number(out, "encode_cpu_ns", report->encode_cpu_ns);
	polls_json(out, report);
}
