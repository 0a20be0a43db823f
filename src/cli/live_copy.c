/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/live_copy.h>

#include <base/buf.h>
#include <base/now.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>

static int append(void *ctx, const uint8_t *bytes, size_t count)
{
	return ky_buf_append(ctx, bytes, count);
}

int ky_live_copy(struct ky_live_copy *copy, struct ky_buf *out)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	struct ky_dump_job *job = &copy->job;
	int err;

	memset(job, 0, sizeof(*job));
	job->compressor = ky_compressor_none;
	job->write = append;
	job->write_ctx = out;
	job->gives_way = copy->gives_way;
	job->cut.from_ns = now_ns > copy->last_ns ? now_ns - copy->last_ns : 1;
	job->cut.copy_bytes_max = KY_LIVE_COPY_BYTES_MAX;
	err = ky_dump_write_named(job, copy->ring);
	return err == KYMO_E_AGAIN ? -ENODATA : err;
}
