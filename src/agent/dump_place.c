/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/dump_place.h>

#include <agent/dump_writer.h>
#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <ship/trace_file.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 512

/* Would a ring that has begun to overwrite have to be larger to reach back so far? */
static uint64_t needed_for_age(const struct ky_ring *ring, const struct ky_cut_report *report,
			       uint64_t age_min_ns)
{
	uint64_t claim_index = atomic_load_explicit(&ring->header->claim_index,
						    memory_order_relaxed);
	uint32_t usable = atomic_load_explicit(&ring->header->usable_count, memory_order_relaxed);
	uint64_t ratio;

	if (report->age_ns >= age_min_ns || claim_index <= usable || !report->age_ns ||
	    !report->ring_bytes)
		return 0;
	ratio = age_min_ns / report->age_ns + 1;
	return ratio > UINT64_MAX / report->ring_bytes ? UINT64_MAX : ratio * report->ring_bytes;
}

static int name_in(char *out, const struct ky_dump_request *request,
		   const struct ky_dump_place *place)
{
	const char *directory = request->path ? request->path : place->directory;
	char utc[KY_DUMP_UTC_BYTES];
	int count;

	ky_dump_utc(utc, ky_now_ns(CLOCK_REALTIME), true);
	count = snprintf(out, PATH_BYTES, "%s/%s/dump-%s-%ld-%s.trc%s", directory, place->service,
			 utc, (long)getpid(), request->reason, place->compressor->suffix);
	return count > 0 && (size_t)count + sizeof(".9999.active") < PATH_BYTES ? 0 : -ENAMETOOLONG;
}

/* Another pid namespace may have our pid and the directory: names there are numbered. */
static int choose(struct ky_dump_job *job, char *path, const struct ky_dump_request *request,
		  const struct ky_dump_place *place)
{
	const char *suffix = request->path ? ky_trace_file_suffix(request->path) : NULL;

	job->compressor = *place->compressor;
	job->is_active = true;
	job->write = request->write;
	job->write_ctx = request->write_ctx;
	job->path = path;
	if (request->write)
		return 0;
	if (!suffix) {
		if (request->path && ky_trace_file_is_foreign(request->path) &&
		    access(request->path, F_OK) != 0)
			return -EINVAL; /* no directory is meant by that name */
		return name_in(path, request, place);
	}
	if (strlen(request->path) + sizeof(".active.old") > PATH_BYTES)
		return -ENAMETOOLONG;
	job->path = request->path;
	job->taken = KY_DUMP_SET_ASIDE;
	return place->choose_compressor(&job->compressor, ky_compressor_kind(suffix));
}

static void fill_result(struct kymo_dump_result *result, const struct ky_dump_job *job,
			const struct ky_dump_place *place, const struct ky_ring *ring)
{
	const struct ky_cut_report *report = &job->report;
	uint64_t needed = needed_for_age(ring, report, place->age_min_ns);

	result->open_poll_count = report->open_poll_count;
	result->events_written = report->events_written;
	result->records_lost = report->records_lost;
	result->oldest_ns = report->oldest_ns;
	result->newest_ns = report->newest_ns;
	result->age_ns = report->age_ns;
	result->ring_bytes = report->ring_bytes;
	result->ring_bytes_needed = needed > report->ring_bytes_needed ? needed :
									 report->ring_bytes_needed;
	if (!result->err || job->write)
		result->bytes_written = job->bytes;
	if (!result->err && !job->write)
		(void)snprintf(result->path, sizeof(result->path), "%.*s",
			       (int)sizeof(result->path) - 1, job->written);
}

int ky_dump_make(struct ky_dump_request *request, const struct ky_dump_place *place,
		 const struct ky_ring *ring)
{
	struct kymo_dump_result *result = &request->result;
	struct ky_dump_job *job = ring ? ky_alloc(sizeof(*job)) : NULL; /* too large for a stack */
	char path[PATH_BYTES];

	result->err = ring ? -ENOMEM : KYMO_E_AGAIN;
	if (!job)
		return result->err;
	job->cut = (struct ky_cut_options){
		.image = ring->base,
		.image_bytes = ring->mapped_bytes,
		.source = "C API",
		.name = place->name,
		.name_ctx = place->name_ctx,
	};
	ky_dump_request_cut(request, &job->cut);
	job->between = place->between;
	job->between_ctx = place->between_ctx;
	result->err = choose(job, path, request, place);
	if (!result->err)
		result->err = ky_dump_write(job);
	fill_result(result, job, place, ring);
	ky_free(job);
	return result->err;
}
