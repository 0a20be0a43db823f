/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <bucket/sparse_copy.h>

#include <base/alloc.h>
#include <base/text.h>
#include <base/write_within.h>
#include <bucket/bucket_lanes.h>
#include <bucket/object_fetch.h>
#include <errno.h>
#include <kymo/base.h>
#include <ship/unnamed_file.h>
#include <stdio.h>
#include <unistd.h>

int ky_sparse_copy_open(struct ky_sparse_copy *copy, const struct ky_bucket_object *objects,
			uint32_t count)
{
	*copy = (struct ky_sparse_copy){.fd = -1};
	copy->objects = ky_alloc(count * sizeof(*copy->objects) + 1);
	copy->starts = ky_alloc((count + 1) * sizeof(*copy->starts));
	if (!copy->objects || !copy->starts)
		return -ENOMEM;
	for (; copy->count < count; copy->count++) {
		struct ky_bucket_object *object = &copy->objects[copy->count];

		*object = objects[copy->count];
		object->key = ky_text_join(object->key, "");
		if (!object->key)
			return -ENOMEM;
		copy->starts[copy->count + 1] = copy->starts[copy->count] + object->bytes;
	}
	copy->fd = ky_unnamed_file_temporary();
	if (copy->fd < 0)
		return copy->fd;
	return ftruncate(copy->fd, (off_t)copy->starts[count]) ? -errno : 0;
}

void ky_sparse_copy_release(struct ky_sparse_copy *copy)
{
	for (uint32_t i = 0; i < copy->count; i++)
		ky_free(copy->objects[i].key);
	ky_free(copy->objects);
	ky_free(copy->starts);
	ky_byte_spans_release(&copy->spans);
	if (copy->fd >= 0)
		(void)close(copy->fd);
	*copy = (struct ky_sparse_copy){.fd = -1};
}

/* The object that this byte of the file is of. */
static uint32_t find_object(const struct ky_sparse_copy *copy, uint64_t at)
{
	uint32_t low = 0, high = copy->count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (copy->starts[middle] <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* What one request brings of a gap. */
static struct ky_byte_span choose(const struct ky_sparse_copy *copy,
				  const struct ky_s3_client *client, const struct ky_byte_span *gap,
				  uint32_t index)
{
	uint64_t begin = copy->starts[index], end = copy->starts[index + 1];
	struct ky_byte_span one = {gap->from, gap->to < end ? gap->to : end};

	if (client->gives_no_ranges && end - begin <= KY_BUCKET_WHOLE_BYTES_MAX)
		return (struct ky_byte_span){begin, end};
	if (one.to - one.from > KY_FETCH_WINDOW_BYTES)
		one.to = one.from + KY_FETCH_WINDOW_BYTES;
	return one;
}

int ky_sparse_copy_need(struct ky_sparse_copy *copy, struct ky_s3_client *client, uint64_t from,
			uint64_t to, uint32_t *index, char *why)
{
	struct ky_byte_span gap;
	struct ky_buf bytes;
	int err = 0;

	ky_buf_init(&bytes, 0);
	while (!err && ky_byte_spans_gap(&copy->spans, from, to, &gap)) {
		uint32_t i = find_object(copy, gap.from);
		struct ky_byte_span one = choose(copy, client, &gap, i);
		const struct ky_bucket_object *object = &copy->objects[i];
		const struct ky_bucket_part part = {object->key, object->etag, object->bytes,
						    one.from - copy->starts[i], one.to - one.from};

		*index = i;
		ky_buf_clear(&bytes);
		err = ky_bucket_range(client, &part, &bytes, why);
		if (err)
			break;
		err = ky_write_within(copy->fd, one.from, bytes.bytes, bytes.used);
		if (!err)
			err = ky_byte_spans_add(&copy->spans, one.from, one.to);
		if (err == -ENOMEM)
			(void)snprintf(why, KY_BUCKET_WHY_BYTES, "out of memory");
		else if (err)
			(void)snprintf(why, KY_BUCKET_WHY_BYTES,
				       "its bytes find no room among the temporary files (TMPDIR): "
				       "%s",
				       kymo_error_text(err));
	}
	ky_buf_release(&bytes);
	return err;
}

/* ---- several at a time ---- */

struct span_gathering {
	const struct ky_sparse_copy *copy;
	struct ky_byte_span *gaps;
	bool *is_there;
	bool (*is_over)(void *ctx);
	void *ctx;
};

static int gather_one(void *ctx, struct ky_s3_client *client, uint32_t index, char *why)
{
	const struct span_gathering *gathering = ctx;
	const struct ky_sparse_copy *copy = gathering->copy;
	const struct ky_byte_span *gap = &gathering->gaps[index];
	uint32_t i = find_object(copy, gap->from);
	const struct ky_bucket_object *object = &copy->objects[i];
	const struct ky_bucket_part part = {object->key, object->etag, object->bytes,
					    gap->from - copy->starts[i], gap->to - gap->from};
	struct ky_buf bytes;
	int err;

	ky_buf_init(&bytes, 0);
	err = ky_bucket_range(client, &part, &bytes, why);
	if (!err)
		err = ky_write_within(copy->fd, gap->from, bytes.bytes, bytes.used);
	ky_buf_release(&bytes);
	gathering->is_there[index] = !err;
	return err;
}

static bool is_over_of(void *ctx)
{
	const struct span_gathering *gathering = ctx;

	return gathering->is_over(gathering->ctx);
}

void ky_sparse_copy_gather(struct ky_sparse_copy *copy, const char *bucket,
			   const struct ky_byte_span *spans, uint32_t count,
			   bool (*is_over)(void *ctx), void *ctx)
{
	struct span_gathering gathering = {.copy = copy,
					   .gaps = ky_alloc(count * sizeof(*gathering.gaps) + 1),
					   .is_there = ky_alloc(count + 1),
					   .is_over = is_over,
					   .ctx = ctx};
	struct ky_bucket_work work = {
		.bucket = bucket, .one = gather_one, .is_over = is_over_of, .ctx = &gathering};
	char why[KY_BUCKET_WHY_BYTES];

	for (uint32_t i = 0; gathering.gaps && gathering.is_there && i < count; i++)
		work.count += ky_byte_spans_gap(&copy->spans, spans[i].from, spans[i].to,
						&gathering.gaps[work.count]);
	if (work.count)
		(void)ky_bucket_lanes_run(&work, why);
	/* Without memory for a row it is fetched once more. */
	for (uint32_t i = 0; i < work.count; i++)
		if (gathering.is_there[i])
			(void)ky_byte_spans_add(&copy->spans, gathering.gaps[i].from,
						gathering.gaps[i].to);
	ky_free(gathering.gaps);
	ky_free(gathering.is_there);
}
