/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/dump_writer.h>

#include <errno.h>
#include <kymo/base.h>
#include <ship/disk.h>
#include <ship/out_file.h>
#include <ship/trace_sink.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_TRIES_MAX 1000u
/* A tenth of a core beside threads that want all of it: the dump still comes to its end. */
#define GIVING_WAY 10

struct work {
	struct ky_dump_job *job;
	struct ky_out_file file;
	struct ky_trace_sink *sink;
	bool has_chunk;
	int err; /* of where the bytes go */
};

static int take_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct work *work = ctx;
	struct ky_dump_job *job = work->job;

	/* The first chunk: until here it was a race with the writers. Failing is no harm. */
	if (job->gives_way && !work->has_chunk && nice(GIVING_WAY) == -1)
		errno = 0;
	work->has_chunk = true;
	work->err = ky_trace_sink_chunk(work->sink, chunk);
	if (job->between)
		job->between(job->between_ctx, ky_trace_sink_bytes(work->sink), chunk);
	return work->err;
}

static int cut(void *ctx)
{
	struct work *work = ctx;
	struct ky_dump_job *job = work->job;

	job->cut.chunk = take_chunk;
	job->cut.chunk_ctx = work;
	return ky_cut(&job->cut, &job->report);
}

/* The name of the n-th try: FILE.2.trc.zst after FILE.trc.zst. */
static int make_name(struct ky_dump_job *job, uint32_t n)
{
	size_t bytes = strlen(job->path), ending = strlen(".trc") + strlen(job->compressor.suffix);
	size_t stem = bytes > ending ? bytes - ending : bytes;
	char copy[16] = "";
	int count;

	if (n)
		(void)snprintf(copy, sizeof(copy), ".%u", n + 1);
	count = snprintf(job->written, sizeof(job->written), "%.*s%s%s", (int)stem, job->path, copy,
			 job->path + stem);
	return count >= 0 && (size_t)count < sizeof(job->written) ? 0 : -ENAMETOOLONG;
}

static int open_file(struct work *work)
{
	struct ky_dump_job *job = work->job;
	int err = -EEXIST;

	for (uint32_t n = 0; err == -EEXIST && n < NAME_TRIES_MAX; n++) {
		err = make_name(job, n);
		if (!err && job->is_active)
			err = ky_out_file_open_trace(&work->file, job->written,
						     job->taken == KY_DUMP_SET_ASIDE);
		else if (!err)
			err = ky_out_file_open(&work->file, job->written,
					       job->taken == KY_DUMP_REPLACED);
		if (job->taken != KY_DUMP_NUMBERED)
			break;
	}
	/* What was replaced has handed on its mode. */
	if (!err && !job->is_active && fchmod(work->file.fd, KY_DISK_FILE_MODE) != 0)
		err = -errno;
	return err;
}

static int open_target(struct work *work)
{
	struct ky_dump_job *job = work->job;
	int err = job->write ? 0 : open_file(work);

	if (!err)
		err = ky_trace_sink_open(&work->sink, &job->compressor,
					 job->write ? job->write : ky_out_file_write,
					 job->write ? job->write_ctx : &work->file);
	return err;
}

/* The end of the compression, which a function gets after an error, too; then the name. */
static int finish(struct work *work, int err)
{
	int end = work->sink ? ky_trace_sink_end(work->sink) : 0;

	work->job->bytes = work->sink ? ky_trace_sink_bytes(work->sink) : 0;
	if (err)
		return err;
	if (!end && !work->job->write)
		end = ky_out_file_commit(&work->file);
	/* It is whole, on disk and under its name: an error would only leave open whether the name
	 * survives a power cut. */
	if (!end && !work->job->write)
		(void)ky_disk_sync_parent(work->job->written);
	work->err = end;
	return end;
}

int ky_dump_write(struct ky_dump_job *job)
{
	struct work work = {.job = job, .file = {.fd = -1}};
	int err = work.err = open_target(&work);

	if (!err) {
		err = job->guarded ? ky_ring_guarded(job->guarded, cut, &work) : cut(&work);
		/* The drain continues where a sink refuses, and records it as a loss. */
		err = work.err ? work.err : err;
	}
	if (!err && job->needs_records && !job->report.records_read)
		err = -ENODATA;
	if (!err && !work.has_chunk)
		err = KYMO_E_AGAIN;
	err = finish(&work, err);
	job->is_file_trouble = work.err != 0;
	(void)ky_trace_sink_close(work.sink); /* has nothing left to write */
	ky_out_file_abort(&work.file);
	return err;
}

void ky_dump_utc(char out[KY_DUMP_UTC_BYTES], uint64_t unix_ns, bool is_exact)
{
	uint64_t seconds = unix_ns / 1000000000u, of_day = seconds % 86400;
	uint64_t z = seconds / 86400 + 719468, era = z / 146097, doe = z % 146097;
	uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
	uint64_t month = mp < 10 ? mp + 3 : mp - 9;
	char fraction[16] = "";

	if (is_exact)
		(void)snprintf(fraction, sizeof(fraction), ".%03u",
			       (unsigned)(unix_ns / 1000000 % 1000));
	(void)snprintf(out, KY_DUMP_UTC_BYTES, "%04u%02u%02uT%02u%02u%02u%sZ",
		       (unsigned)(yoe + era * 400 + (month <= 2)) % 10000, (unsigned)month,
		       (unsigned)(doy - (153 * mp + 2) / 5 + 1), (unsigned)(of_day / 3600),
		       (unsigned)(of_day / 60 % 60), (unsigned)(of_day % 60), fraction);
}
