/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <bucket/object_fetch.h>

#include <bucket/segment_part.h>
#include <errno.h>
#include <kymo/base.h>
#include <ship/disk.h>
#include <ship/trace_file.h>
#include <stdio.h>
#include <string.h>

/* Holds the table and last chunk of a minute of a busy service; else a second request follows. */
#define TAIL_BYTES (32u << 10)
#define KEY_SLACK_NS UINT64_C(1000000) /* a name has milliseconds */

struct fetch {
	struct ky_fetched *out;
	struct ky_s3_client *client;
	const struct ky_bucket_object *object;
	struct ky_buf window, tail; /* tail: the last bytes of the object, once they were read */
	int fd;
	char *why;
};

static int say_memory(char *why)
{
	(void)snprintf(why, KY_BUCKET_WHY_BYTES, "out of memory");
	return -ENOMEM;
}

static int put(const struct fetch *fetch, const uint8_t *bytes, size_t count)
{
	int err = ky_disk_write_all(fetch->fd, bytes, count);

	if (err)
		(void)snprintf(fetch->why, KY_BUCKET_WHY_BYTES,
			       "its bytes find no room among the temporary files (TMPDIR): %s",
			       kymo_error_text(err));
	return err;
}

static int copy_range(struct fetch *fetch, uint64_t from, uint64_t to)
{
	uint64_t tail_at = fetch->object->bytes - fetch->tail.used;
	int err = 0;

	if (to > tail_at && fetch->tail.used) {
		uint64_t at = from > tail_at ? from : tail_at;

		err = from < at ? copy_range(fetch, from, at) : 0;
		return err ? err : put(fetch, fetch->tail.bytes + (at - tail_at), to - at);
	}
	while (!err && from < to) {
		uint64_t count = to - from < KY_FETCH_WINDOW_BYTES ? to - from :
								     KY_FETCH_WINDOW_BYTES;

		ky_buf_clear(&fetch->window);
		err = ky_bucket_range(
			fetch->client,
			&(const struct ky_bucket_part){fetch->object->key, fetch->object->etag,
						       fetch->object->bytes, from, count},
			&fetch->window, fetch->why);
		if (!err)
			err = put(fetch, fetch->window.bytes, fetch->window.used);
		fetch->out->fetched_bytes += count;
		from += count;
	}
	return err;
}

/* ---- the map ---- */

bool ky_object_may_have_map(const struct ky_bucket_object *object)
{
	const char *suffix = ky_trace_file_suffix(object->key);

	return suffix && strcmp(suffix, ".zst") == 0;
}

/* tail: gets the bytes that the map was read from. */
static int read_map(struct ky_segment_map *map, struct ky_s3_client *client,
		    const struct ky_bucket_object *object, struct ky_buf *tail,
		    uint64_t *fetched_bytes, char *why)
{
	uint64_t wanted = TAIL_BYTES < object->bytes ? TAIL_BYTES : object->bytes;
	int64_t result;

	if (!ky_object_may_have_map(object))
		return KYMO_E_UNSUPPORTED;
	for (uint32_t tries = 0;; tries++) {
		int err;

		ky_buf_clear(tail);
		err = ky_bucket_range(
			client,
			&(const struct ky_bucket_part){object->key, object->etag, object->bytes,
						       object->bytes - wanted, wanted},
			tail, why);
		if (err)
			return err;
		*fetched_bytes += wanted;
		result = ky_segment_map_read(map, tail->bytes, tail->used, object->bytes);
		if (result <= 0 || tries == 2 || (uint64_t)result > object->bytes ||
		    result > KY_MAP_CHUNK_BYTES_MAX)
			break;
		ky_segment_map_release(map);
		wanted = (uint64_t)result;
	}
	if (result == -ENOMEM)
		return say_memory(why);
	if (!result && !map->unix_ns) { /* written anew: its name knows, to a millisecond */
		map->clock_ns = map->chunks[0].first_ns;
		map->unix_ns = object->facts.start_unix_ns;
		map->slack_ns = KEY_SLACK_NS;
	}
	return result ? KYMO_E_UNSUPPORTED : 0;
}

int ky_object_map(struct ky_segment_map *out, struct ky_s3_client *client,
		  const struct ky_bucket_object *object, uint64_t *fetched_bytes, char *why)
{
	struct ky_buf tail;
	int err;

	ky_buf_init(&tail, 0);
	err = read_map(out, client, object, &tail, fetched_bytes, why);
	ky_buf_release(&tail);
	return err;
}

/* ---- a part ---- */

static int copy_stored(void *ctx, uint64_t from, uint64_t to)
{
	return copy_range(ctx, from, to);
}

static int put_made(void *ctx, const uint8_t *bytes, size_t count)
{
	return put(ctx, bytes, count);
}

/* KYMO_E_UNSUPPORTED: there is no map, so it has to be read whole. */
static int fetch_part(struct fetch *fetch, const struct ky_fetch_range *range)
{
	struct ky_segment_map map = {.chunks = NULL};
	const struct ky_part_range wanted = {range->from_unix_ns, range->to_unix_ns};
	const struct ky_part_out out = {copy_stored, put_made, fetch};
	struct ky_part_choice choice;
	int err = read_map(&map, fetch->client, fetch->object, &fetch->tail,
			   &fetch->out->fetched_bytes, fetch->why);

	if (!err && !map.unix_ns)
		err = KYMO_E_UNSUPPORTED;
	if (!err) {
		ky_part_choose(&choice, &map, &wanted);
		fetch->out->is_outside = !choice.end;
	}
	if (!err && choice.end) {
		err = ky_part_write(&out, &map, &choice, &fetch->out->chunk_count);
		fetch->out->chunk_total = map.count - 1;
		if (err == -ENOMEM)
			err = say_memory(fetch->why);
	}
	ky_segment_map_release(&map);
	return err;
}

int ky_object_fetch(struct ky_fetched *out, struct ky_s3_client *client,
		    const struct ky_bucket_object *object, const struct ky_fetch_range *range,
		    int fd, char *why)
{
	struct fetch fetch = {.out = out, .client = client, .object = object, .fd = fd, .why = why};
	bool is_all = !range->from_unix_ns && !range->to_unix_ns;
	int err = KYMO_E_UNSUPPORTED;

	*out = (struct ky_fetched){.fetched_bytes = 0};
	ky_buf_init(&fetch.window, 0);
	ky_buf_init(&fetch.tail, 0);
	if (!is_all)
		err = fetch_part(&fetch, range);
	if (err == KYMO_E_UNSUPPORTED)
		err = copy_range(&fetch, 0, object->bytes);
	ky_buf_release(&fetch.window);
	ky_buf_release(&fetch.tail);
	return err;
}
