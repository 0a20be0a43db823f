/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/shelf_copies.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/out_text.h>
#include <bucket/sparse_copy.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct shelf_copy {
	struct ky_shelf_copies *owner;
	struct ky_sparse_copy bytes;
	struct ky_served_part *parts;
	uint64_t id, used_ns;
	uint64_t held_bytes; /* on disk */
	uint32_t users;      /* the place among the kept is one */
};

struct ky_shelf_copies {
	struct ky_s3_client client;
	char bucket[256];
	bool is_stopped; /* atomic */
	uint64_t bytes_max;
	pthread_mutex_t fetch_mutex; /* of the client and what is fetched; held for long */
	pthread_mutex_t mutex;       /* of the rest; the inner one */
	struct shelf_copy *kept[KY_SHELF_COPIES];
};

static void drop(struct shelf_copy *copy)
{
	ky_sparse_copy_release(&copy->bytes);
	ky_free(copy->parts);
	ky_free(copy);
}

/* With the mutex held. */
static void leave(struct shelf_copy *copy)
{
	if (--copy->users == 0)
		drop(copy);
}

/* The place whose copy was not used for longest; an empty one first. With the mutex held. */
static struct shelf_copy **find_oldest(struct ky_shelf_copies *copies,
				       const struct shelf_copy *spared)
{
	struct shelf_copy **oldest = NULL;

	for (uint32_t i = 0; i < KY_SHELF_COPIES; i++) {
		struct shelf_copy **one = &copies->kept[i];

		if (!spared && !*one)
			return one;
		if (*one && *one != spared && (!oldest || (*one)->used_ns < (*oldest)->used_ns))
			oldest = one;
	}
	return oldest;
}

/* So that the kept ones have no more than bytes_max, but for this one. With the mutex held. */
static void make_room(struct ky_shelf_copies *copies, const struct shelf_copy *spared)
{
	for (;;) {
		struct shelf_copy **oldest = find_oldest(copies, spared);
		uint64_t held = 0;

		for (uint32_t i = 0; i < KY_SHELF_COPIES; i++)
			held += copies->kept[i] ? copies->kept[i]->held_bytes : 0;
		if (held <= copies->bytes_max || !oldest)
			return;
		leave(*oldest);
		*oldest = NULL;
	}
}

/* After a fetch, whatever came of it. */
static void count_held(struct ky_shelf_copies *copies, struct shelf_copy *copy)
{
	(void)pthread_mutex_lock(&copies->mutex);
	copy->used_ns = ky_now_ns(CLOCK_MONOTONIC);
	copy->held_bytes = copy->bytes.spans.bytes;
	make_room(copies, copy);
	(void)pthread_mutex_unlock(&copies->mutex);
}

static int say_too_much(const struct ky_shelf_copies *copies, uint64_t count, char *why)
{
	char wanted[KY_OUT_CELL_BYTES], most[KY_OUT_CELL_BYTES];

	(void)snprintf(why, KY_SERVED_WHY_BYTES,
		       "this takes %s at once, and kymo serve fetches at most %s; start it with a "
		       "larger --max-fetch",
		       ky_out_bytes(wanted, count), ky_out_bytes(most, copies->bytes_max));
	return -EFBIG;
}

static int fetch(void *ctx, uint64_t from, uint64_t count, char *why)
{
	struct shelf_copy *copy = ctx;
	struct ky_shelf_copies *copies = copy->owner;
	char reason[KY_BUCKET_WHY_BYTES] = "";
	uint32_t index = 0;
	int err;

	if (count > copies->bytes_max)
		return say_too_much(copies, count, why);
	(void)pthread_mutex_lock(&copies->fetch_mutex);
	err = ky_sparse_copy_need(&copy->bytes, &copies->client, from, from + count, &index,
				  reason);
	count_held(copies, copy);
	(void)pthread_mutex_unlock(&copies->fetch_mutex);
	if (err)
		(void)snprintf(why, KY_SERVED_WHY_BYTES, "%.200s: %.500s",
			       copy->bytes.objects[index].key,
			       reason[0] ? reason : kymo_error_text(err));
	return err;
}

static bool is_stopped(void *ctx)
{
	const struct ky_shelf_copies *copies = ctx;

	return __atomic_load_n(&copies->is_stopped, __ATOMIC_RELAXED);
}

/* A server that gives no ranges is asked for each object once, by fetch(). */
static void gather(void *ctx, const struct ky_byte_span *spans, uint32_t count)
{
	struct shelf_copy *copy = ctx;
	struct ky_shelf_copies *copies = copy->owner;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++)
		bytes += spans[i].to - spans[i].from;
	if (bytes > copies->bytes_max)
		return;
	(void)pthread_mutex_lock(&copies->fetch_mutex);
	if (!copies->client.gives_no_ranges)
		ky_sparse_copy_gather(&copy->bytes, copies->bucket, spans, count, is_stopped,
				      copies);
	count_held(copies, copy);
	(void)pthread_mutex_unlock(&copies->fetch_mutex);
}

static void release(void *ctx)
{
	struct shelf_copy *copy = ctx;
	struct ky_shelf_copies *copies = copy->owner;

	(void)pthread_mutex_lock(&copies->mutex);
	leave(copy);
	(void)pthread_mutex_unlock(&copies->mutex);
}

static int make(struct shelf_copy **out, struct ky_shelf_copies *copies, uint64_t id,
		const struct ky_bucket_object *objects, uint32_t count)
{
	struct shelf_copy *copy = ky_alloc(sizeof(*copy));
	int err;

	if (!copy)
		return -ENOMEM;
	copy->owner = copies;
	copy->id = id;
	err = ky_sparse_copy_open(&copy->bytes, objects, count);
	copy->parts = ky_alloc(count * sizeof(*copy->parts) + 1);
	if (!err && !copy->parts)
		err = -ENOMEM;
	if (err) {
		drop(copy);
		return err;
	}
	for (uint32_t i = 0; i < count; i++)
		copy->parts[i] = (struct ky_served_part){copy->bytes.starts[i], objects[i].bytes,
							 objects[i].facts.start_unix_ns};
	copy->users = 1;
	*out = copy;
	return 0;
}

/* With the mutex held. */
static int find_or_make(struct shelf_copy **out, struct ky_shelf_copies *copies, uint64_t id,
			const struct ky_bucket_object *objects, uint32_t count)
{
	struct shelf_copy **place;
	int err;

	for (uint32_t i = 0; i < KY_SHELF_COPIES; i++) {
		*out = copies->kept[i];
		if (*out && (*out)->id == id)
			return 0;
	}
	err = make(out, copies, id, objects, count);
	if (err)
		return err;
	place = find_oldest(copies, NULL);
	if (*place)
		leave(*place);
	*place = *out;
	return 0;
}

int ky_shelf_copies_take(struct ky_shelf_copies *copies, uint64_t id,
			 const struct ky_bucket_object *objects, uint32_t count,
			 struct ky_served_file *out, char *why)
{
	struct shelf_copy *copy = NULL;
	int err;

	*out = (struct ky_served_file){
		.fd = -1, .fetch = fetch, .gather = gather, .release = release};
	(void)pthread_mutex_lock(&copies->mutex);
	err = find_or_make(&copy, copies, id, objects, count);
	if (!err) {
		out->fd = dup(copy->bytes.fd);
		err = out->fd < 0 ? -errno : 0;
	}
	if (!err) {
		copy->users++;
		copy->used_ns = ky_now_ns(CLOCK_MONOTONIC);
	}
	(void)pthread_mutex_unlock(&copies->mutex);
	if (err) {
		*out = (struct ky_served_file){.fd = -1};
		(void)snprintf(why, KY_SERVED_WHY_BYTES,
			       "no temporary file can be made where TMPDIR says: %s",
			       kymo_error_text(err));
		return err;
	}
	out->ctx = copy;
	out->bytes = copy->bytes.starts[copy->bytes.count];
	out->parts = copy->parts;
	out->part_count = copy->bytes.count;
	(void)snprintf(out->etag, sizeof(out->etag), "\"%016" PRIx64 "-%" PRIx64 "-0\"", id,
		       out->bytes);
	return 0;
}

int ky_shelf_copies_open(struct ky_shelf_copies **out, const char *bucket, uint64_t bytes_max,
			 char *why)
{
	struct ky_shelf_copies *copies = ky_alloc(sizeof(*copies));

	*out = copies;
	if (!copies)
		return -ENOMEM;
	copies->bytes_max = bytes_max;
	(void)snprintf(copies->bucket, sizeof(copies->bucket), "%s", bucket);
	(void)pthread_mutex_init(&copies->mutex, NULL);
	(void)pthread_mutex_init(&copies->fetch_mutex, NULL);
	return ky_bucket_connect(&copies->client, bucket, why);
}

void ky_shelf_copies_stop(struct ky_shelf_copies *copies)
{
	if (!copies)
		return;
	__atomic_store_n(&copies->is_stopped, true, __ATOMIC_RELAXED);
	ky_http_client_stop_at(copies->client.http, 0);
}

void ky_shelf_copies_close(struct ky_shelf_copies *copies)
{
	if (!copies)
		return;
	for (uint32_t i = 0; i < KY_SHELF_COPIES; i++)
		if (copies->kept[i])
			leave(copies->kept[i]);
	ky_s3_client_close(&copies->client);
	ky_free(copies);
}
