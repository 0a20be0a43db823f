/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/dump_file.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <ship/disk.h>
#include <ship/trace_file.h>
#include <ship/trace_sink.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 512
#define NAME_TRIES_MAX 1000u
#define ACTIVE ".active"

/* Where the bytes go; the first error ends it. */
struct target {
	const struct ky_dump_place *place;
	struct ky_trace_file *file;
	struct ky_trace_sink *sink;
	bool has_chunk;
	int err;
};

static int take_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct target *target = ctx;

	if (!target->err)
		target->err = target->file ? ky_trace_file_chunk(target->file, chunk) :
					     ky_trace_sink_chunk(target->sink, chunk);
	target->has_chunk = true;
	if (target->place->between)
		target->place->between(target->place->between_ctx);
	return target->err;
}

/* Would a ring that has begun to overwrite have to be larger to reach back so far? */
static uint64_t needed_for_age(const struct ky_ring *ring, const struct ky_cut_report *report,
			       uint64_t age_min_ns)
{
	uint64_t hand = atomic_load_explicit(&ring->header->hand, memory_order_relaxed);
	uint32_t usable = atomic_load_explicit(&ring->header->usable_count, memory_order_relaxed);
	uint64_t ratio;

	if (report->age_ns >= age_min_ns || hand <= usable || !report->age_ns ||
	    !report->ring_bytes)
		return 0;
	ratio = age_min_ns / report->age_ns + 1;
	return ratio > UINT64_MAX / report->ring_bytes ? UINT64_MAX : ratio * report->ring_bytes;
}

static int cut(struct ky_dump_request *request, const struct ky_dump_place *place,
	       const struct ky_ring *ring, struct target *target)
{
	struct kymo_dump_result *result = &request->result;
	struct ky_cut_report *report = ky_alloc(sizeof(*report)); /* 18 KiB: not for a stack */
	struct ky_cut_options options = {
		.image = ring->base,
		.image_bytes = ring->mapped_bytes,
		.from_ns = request->from_ns,
		.to_ns = request->to_ns,
		.chunk = take_chunk,
		.chunk_ctx = target,
		.pairs = request->pairs,
		.pair_count = request->pair_count,
		.stuck = request->notes,
		.stuck_count = request->note_count,
		.triggers = &request->trigger,
		.trigger_count = request->is_firing,
		.source = "C API",
	};
	uint64_t needed;
	int err;

	if (!report)
		return -ENOMEM;
	err = ky_cut(&options, report);
	if (target->err)
		err = target->err;
	if (!err && !target->has_chunk)
		err = KYMO_E_AGAIN;
	result->open_poll_count = report->open_poll_count;
	result->events_written = report->events_written;
	result->records_lost = report->records_lost;
	result->oldest_ns = report->oldest_ns;
	result->newest_ns = report->newest_ns;
	result->age_ns = report->age_ns;
	result->ring_bytes = report->ring_bytes;
	needed = needed_for_age(ring, report, place->age_min_ns);
	if (needed > report->ring_bytes_needed)
		report->ring_bytes_needed = needed;
	result->ring_bytes_needed = report->ring_bytes_needed;
	ky_free(report);
	return err;
}

static int to_function(struct ky_dump_request *request, const struct ky_dump_place *place,
		       const struct ky_ring *ring)
{
	struct target target = {.place = place};
	int err, end;

	err = ky_trace_sink_open(&target.sink, place->stage, request->write, request->write_ctx);
	if (err)
		return err;
	err = cut(request, place, ring, &target);
	end = ky_trace_sink_end(target.sink);
	request->result.bytes_written = ky_trace_sink_bytes(target.sink);
	(void)ky_trace_sink_close(target.sink); /* has nothing left to tell */
	return err ? err : end;
}

/* ---- names ---- */

/* "20261121T102233.456Z"; no tables of the C library, whose locks a forked child cannot trust. */
static void utc_text(char *out, size_t out_bytes, uint64_t unix_ns)
{
	uint64_t seconds = unix_ns / 1000000000u, of_day = seconds % 86400;
	uint64_t z = seconds / 86400 + 719468, era = z / 146097, doe = z % 146097;
	uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
	uint64_t month = mp < 10 ? mp + 3 : mp - 9;

	(void)snprintf(out, out_bytes, "%04u%02u%02uT%02u%02u%02u.%03uZ",
		       (unsigned)(yoe + era * 400 + (month <= 2)), (unsigned)month,
		       (unsigned)(doy - (153 * mp + 2) / 5 + 1), (unsigned)(of_day / 3600),
		       (unsigned)(of_day / 60 % 60), (unsigned)(of_day % 60),
		       (unsigned)(unix_ns / 1000000 % 1000));
}

static int name_in(char *out, const struct ky_dump_request *request,
		   const struct ky_dump_place *place, uint32_t n)
{
	const char *directory = request->path ? request->path : place->directory;
	char utc[40], copy[16] = "";
	int count;

	utc_text(utc, sizeof(utc), ky_now_ns(CLOCK_REALTIME));
	if (n)
		(void)snprintf(copy, sizeof(copy), ".%u", n + 1);
	count = snprintf(out, PATH_BYTES, "%s/%s/dump-%s-%ld-%s%s.trc%s", directory, place->service,
			 utc, (long)getpid(), request->reason, copy, place->stage->suffix);
	return count > 0 && (size_t)count + sizeof(ACTIVE ".old") < PATH_BYTES ? 0 : -ENAMETOOLONG;
}

static void sync_directory(const char *path)
{
	char directory[PATH_BYTES];
	const char *slash = strrchr(path, '/');
	int fd;

	if (slash)
		(void)snprintf(directory, sizeof(directory), "%.*s", (int)(slash - path) + 1, path);
	fd = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		(void)fsync(fd);
	ky_disk_close(&fd);
}

/* ---- files ---- */

static void note_path(struct kymo_dump_result *result, const char *path)
{
	struct stat about;

	(void)snprintf(result->path, sizeof(result->path), "%.*s", (int)sizeof(result->path) - 1,
		       path);
	if (stat(path, &about) == 0)
		result->bytes_written = (uint64_t)about.st_size;
	sync_directory(path);
}

static int write_file(struct ky_dump_request *request, const struct ky_dump_place *place,
		      const struct ky_ring *ring, const char *path,
		      const struct ky_stage_factory *stage)
{
	char active[PATH_BYTES + sizeof(ACTIVE)];
	const struct ky_trace_file_options options = {.path = active, .stage = stage};
	struct target target = {.place = place};
	int err, end;

	(void)snprintf(active, sizeof(active), "%s" ACTIVE, path);
	err = ky_trace_file_open(&target.file, &options);
	if (err)
		return err;
	err = cut(request, place, ring, &target);
	end = ky_trace_file_close(target.file);
	err = err ? err : end;
	if (!err)
		err = ky_trace_file_set_aside(path); /* it may have come meanwhile */
	if (!err && rename(active, path) != 0)
		err = -errno;
	if (err)
		(void)unlink(active);
	else
		note_path(&request->result, path);
	return err;
}

static int to_named(struct ky_dump_request *request, const struct ky_dump_place *place,
		    const struct ky_ring *ring, const char *suffix)
{
	struct ky_stage_factory stage;
	uint32_t compression = KYMO_COMPRESSION_NONE;
	const char *path = request->path;
	int err;

	if (suffix[0])
		compression = suffix[1] == 'z' ? KYMO_COMPRESSION_ZSTD : KYMO_COMPRESSION_GZIP;
	err = place->choose_stage(&stage, compression);
	if (!err && strlen(path) + sizeof(ACTIVE ".old") > PATH_BYTES)
		err = -ENAMETOOLONG;
	if (!err)
		err = ky_trace_file_check(path);
	if (err)
		return err;
	return write_file(request, place, ring, path, &stage);
}

static int to_directory(struct ky_dump_request *request, const struct ky_dump_place *place,
			const struct ky_ring *ring)
{
	char path[PATH_BYTES], active[PATH_BYTES + sizeof(ACTIVE)];
	int err = -EEXIST;

	for (uint32_t n = 0; err == -EEXIST && n < NAME_TRIES_MAX; n++) {
		err = name_in(path, request, place, n);
		if (err)
			return err;
		(void)snprintf(active, sizeof(active), "%s" ACTIVE, path);
		/* Another pid namespace may have our pid and this directory. */
		err = access(path, F_OK) == 0 || access(active, F_OK) == 0 ? -EEXIST : 0;
	}
	if (!err)
		err = write_file(request, place, ring, path, place->stage);
	return err;
}

int ky_dump_make(struct ky_dump_request *request, const struct ky_dump_place *place,
		 const struct ky_ring *ring)
{
	const char *suffix = request->path ? ky_trace_file_suffix(request->path) : NULL;
	int err;

	if (!ring)
		err = KYMO_E_AGAIN;
	else if (request->write)
		err = to_function(request, place, ring);
	else if (suffix)
		err = to_named(request, place, ring, suffix);
	else if (request->path && ky_trace_file_is_foreign(request->path) &&
		 access(request->path, F_OK) != 0)
		err = -EINVAL; /* nobody wants a directory of that name */
	else
		err = to_directory(request, place, ring);
	request->result.err = err;
	return err;
}
