/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/bucket_shelf.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <base/now.h>
#include <base/start_thread.h>
#include <base/text.h>
#include <bucket/bucket_lanes.h>
#include <bucket/map_sum.h>
#include <bucket/object_fetch.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <pthread.h>
#include <send/dump_name.h>
#include <serve/shelf_copies.h>
#include <ship/disk.h>
#include <ship/trace_file.h>
#include <ship/unnamed_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FETCH_FILES 64u
#define PIECE_BYTES ((size_t)64 << 10)

/* A row, and which objects it is made of. */
struct row_place {
	uint32_t first, count;
};

struct kept_file {
	uint64_t id, bytes, used_ns;
	int fd;
};

struct ky_bucket_shelf {
	struct ky_bucket_query query;
	uint64_t bytes_max;
	pthread_mutex_t mutex; /* of the list and its rows */
	pthread_cond_t changed;
	struct ky_object_list list;
	struct ky_listed *rows;   /* the order of the list */
	struct row_place *places; /* by row */
	uint32_t count;
	uint64_t serial; /* of the list: rows move with it */
	bool is_closing, is_started, has_asked;
	bool is_stopped; /* atomic */
	pthread_t reader;
	struct ky_shelf_copies *copies;        /* of what is read by ranges */
	struct ky_s3_client reading, fetching; /* of the reader; of who fetches */
	pthread_mutex_t fetch_mutex;           /* of `fetching`; held for long */
	pthread_mutex_t files_mutex;           /* of the files */
	struct kept_file files[KY_SHELF_FILES];
};

/* ---- rows ---- */

static void drop_rows(struct ky_listed *rows, uint32_t count)
{
	for (uint32_t i = 0; rows && i < count; i++) {
		ky_free(rows[i].path);
		ky_free(rows[i].shown);
	}
	ky_free(rows);
}

/* Segments that one trace can be made of: frames of zstd, one after the other. A dump holds times
 * that segments hold, too. */
static bool is_joined(const struct ky_bucket_query *query, const struct ky_bucket_object *a,
		      const struct ky_bucket_object *b)
{
	const char *suffix = ky_trace_file_suffix(b->key);

	return (query->from_unix_ns || query->to_unix_ns) &&
	       b->facts.number < KY_DUMP_NUMBERS_FROM && a->facts.form == KY_OBJECT_KYMO &&
	       b->facts.form == KY_OBJECT_KYMO && suffix && strcmp(suffix, ".zst") == 0 &&
	       strcmp(ky_trace_file_suffix(a->key), ".zst") == 0 && ky_object_is_of_run(a, b);
}

static void take_key(struct ky_trace_facts *facts, const struct ky_bucket_object *object)
{
	(void)snprintf(facts->service, sizeof(facts->service), "%s", object->facts.service);
	(void)snprintf(facts->host, sizeof(facts->host), "%.*s", (int)sizeof(facts->host) - 1,
		       object->facts.host);
	facts->start_unix_ns = object->facts.start_unix_ns;
}

static int make_row(const struct ky_object_list *list, const struct row_place *place,
		    struct ky_listed *row)
{
	const struct ky_bucket_object *objects = list->objects + place->first;
	char count[48] = "";
	const char *shown, *slash;

	for (uint32_t i = 0; i < place->count; i++) {
		row->id = ky_hash_bytes(i ? row->id : KY_HASH_START, objects[i].key,
					strlen(objects[i].key));
		row->id = ky_hash_bytes(row->id, objects[i].etag, strlen(objects[i].etag));
		row->bytes += objects[i].bytes;
	}
	row->path = ky_text_join(objects[0].key, "");
	if (!row->path)
		return -ENOMEM;
	slash = strrchr(row->path, '/');
	row->name = slash ? slash + 1 : row->path;
	/* Service, host and time have columns of their own. */
	shown = objects[0].facts.form == KY_OBJECT_PLAIN ? row->path : row->name;
	if (place->count > 1) {
		(void)snprintf(count, sizeof(count), ", %u segments", place->count);
		shown = objects[0].facts.run;
	}
	row->shown = ky_text_join(shown, count);
	if (!row->shown)
		return -ENOMEM;
	row->changed_ns = row->read_changed_ns = objects[0].facts.start_unix_ns;
	row->read_bytes = row->bytes;
	row->is_named = row->is_far = true;
	take_key(&row->facts, &objects[0]);
	return 0;
}

/* from: where it is likely to be. */
static const struct ky_listed *find_row(const struct ky_bucket_shelf *shelf, uint64_t id,
					uint32_t from)
{
	for (uint32_t i = from; i < shelf->count; i++)
		if (shelf->rows[i].id == id)
			return &shelf->rows[i];
	for (uint32_t i = 0; i < from && i < shelf->count; i++)
		if (shelf->rows[i].id == id)
			return &shelf->rows[i];
	return NULL;
}

/* What was read of a row before stays. list: becomes the shelf's. */
static int take_list(struct ky_bucket_shelf *shelf, struct ky_object_list *list)
{
	struct ky_listed *rows = ky_alloc(list->count * sizeof(*rows) + 1);
	struct row_place *places = ky_alloc(list->count * sizeof(*places) + 1);
	uint32_t count = 0, likely = 0;
	int err = rows && places ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < list->count; count++) {
		const struct ky_listed *old;

		places[count] = (struct row_place){i, 1};
		while (i + places[count].count < list->count &&
		       is_joined(&shelf->query, &list->objects[i],
				 &list->objects[i + places[count].count]))
			places[count].count++;
		err = make_row(list, &places[count], &rows[count]);
		old = err ? NULL : find_row(shelf, rows[count].id, likely);
		if (old) {
			rows[count].facts = old->facts;
			rows[count].state = old->state;
			likely = (uint32_t)(old - shelf->rows) + 1;
		}
		i += places[count].count;
	}
	if (err) {
		drop_rows(rows, count);
		ky_free(places);
		return err;
	}
	drop_rows(shelf->rows, shelf->count);
	ky_free(shelf->places);
	ky_object_list_release(&shelf->list);
	shelf->rows = rows;
	shelf->places = places;
	shelf->count = count;
	shelf->list = *list;
	*list = (struct ky_object_list){.objects = NULL};
	shelf->serial++;
	return 0;
}

/* ---- reading ---- */

static void take_sum(struct ky_trace_facts *facts, const struct ky_map_sum *sum)
{
	if (sum->start_ns)
		facts->start_unix_ns = sum->start_ns;
	if (sum->end_ns > facts->start_unix_ns)
		facts->duration_ns = sum->end_ns - facts->start_unix_ns;
	facts->event_count = sum->events;
	facts->poll_count = sum->polls;
	facts->lost_count = sum->lost;
	facts->worst_poll_ns = sum->longest_ns;
}

static void take_name(char out[KY_FACTS_TEXT_BYTES], const char *text)
{
	(void)snprintf(out, KY_FACTS_TEXT_BYTES, "%.*s", (int)KY_FACTS_TEXT_BYTES - 1, text);
}

static void take_names(struct ky_trace_facts *facts, const struct ky_segment_map *map)
{
	take_name(facts->pid, map->pid);
	if (!facts->service[0])
		take_name(facts->service, map->service);
	if (!facts->host[0])
		take_name(facts->host, map->host);
}

/* A copy of what a row is made of, which stays while the list changes. */
struct objects {
	struct ky_bucket_object *all;
	uint32_t count;
	uint64_t id;
};

static void drop_objects(struct objects *objects)
{
	for (uint32_t i = 0; objects->all && i < objects->count; i++)
		ky_free(objects->all[i].key);
	ky_free(objects->all);
	*objects = (struct objects){.all = NULL};
}

/* With the mutex held. */
static int copy_objects(struct objects *out, const struct ky_bucket_shelf *shelf, uint32_t row)
{
	const struct row_place *place = &shelf->places[row];

	*out = (struct objects){.all = ky_alloc(place->count * sizeof(*out->all)),
				.id = shelf->rows[row].id};
	if (!out->all)
		return -ENOMEM;
	for (; out->count < place->count; out->count++) {
		struct ky_bucket_object *object = &out->all[out->count];

		*object = shelf->list.objects[place->first + out->count];
		object->key = ky_text_join(object->key, "");
		if (!object->key)
			return -ENOMEM;
	}
	return 0;
}

/* Several objects at a time, for one row. */
struct row_work {
	struct ky_bucket_shelf *shelf;
	const struct ky_bucket_object *objects;
	struct ky_segment_map *maps; /* one each */
	int *fds;                    /* one each, -1: none yet */
};

static bool is_stopped(void *ctx)
{
	const struct row_work *work = ctx;

	return __atomic_load_n(&work->shelf->is_stopped, __ATOMIC_RELAXED);
}

static int read_map(void *ctx, struct ky_s3_client *client, uint32_t index, char *why)
{
	struct row_work *work = ctx;
	uint64_t fetched = 0;
	int err = ky_object_map(&work->maps[index], client, &work->objects[index], &fetched, why);

	return err == KYMO_E_UNSUPPORTED ? 0 : err; /* its name says when it was */
}

static int read_maps(struct ky_bucket_shelf *shelf, const struct objects *objects,
		     struct ky_segment_map *maps, char *why)
{
	struct row_work row = {.shelf = shelf, .objects = objects->all, .maps = maps};
	const struct ky_bucket_work work = {.bucket = shelf->query.place.bucket,
					    .count = objects->count,
					    .one = read_map,
					    .is_over = is_stopped,
					    .ctx = &row};

	return objects->count == 1 ? read_map(&row, &shelf->reading, 0, why) :
				     ky_bucket_lanes_run(&work, why);
}

/* The mutex is open meanwhile. */
static void read_row(struct ky_bucket_shelf *shelf, uint32_t row)
{
	char why[KY_BUCKET_WHY_BYTES] = "";
	struct ky_trace_facts facts = {.info = NULL};
	struct ky_segment_map *maps = NULL;
	struct objects objects;
	struct ky_map_sum sum = {.start_ns = 0};
	int err = copy_objects(&objects, shelf, row);

	(void)pthread_mutex_unlock(&shelf->mutex);
	if (!err) {
		take_key(&facts, &objects.all[0]);
		maps = ky_alloc(objects.count * sizeof(*maps));
		err = maps ? read_maps(shelf, &objects, maps, why) : -ENOMEM;
	}
	for (uint32_t i = 0; maps && i < objects.count; i++) {
		if (!err && maps[i].unix_ns) {
			ky_map_sum_add(&sum, &maps[i], shelf->query.from_unix_ns,
				       shelf->query.to_unix_ns);
			take_names(&facts, &maps[i]);
		}
		ky_segment_map_release(&maps[i]);
	}
	ky_free(maps);
	take_sum(&facts, &sum);
	if (err)
		(void)snprintf(facts.sentence, sizeof(facts.sentence), "%s",
			       why[0] ? why : kymo_error_text(err));
	(void)pthread_mutex_lock(&shelf->mutex);
	for (uint32_t i = 0; i < shelf->count; i++) {
		if (shelf->rows[i].id != objects.id)
			continue;
		shelf->rows[i].facts = facts;
		shelf->rows[i].state = err ? KY_LISTED_FAILED : KY_LISTED_READ;
	}
	drop_objects(&objects);
}

/* The newest that waits; the count: none does. */
static uint32_t find_waiting(const struct ky_bucket_shelf *shelf)
{
	uint32_t found = shelf->count;

	for (uint32_t i = 0; i < shelf->count; i++)
		if (shelf->rows[i].state == KY_LISTED_WAITING &&
		    (found == shelf->count ||
		     shelf->rows[i].changed_ns > shelf->rows[found].changed_ns))
			found = i;
	return found;
}

/* The mutex is open meanwhile. What cannot be listed now stays as it was. */
static void list_again(struct ky_bucket_shelf *shelf)
{
	struct ky_object_list list = {.objects = NULL};
	char why[KY_BUCKET_WHY_BYTES] = "";
	int err;

	(void)pthread_mutex_unlock(&shelf->mutex);
	err = ky_object_list_read(&list, &shelf->reading, &shelf->query, why);
	(void)pthread_mutex_lock(&shelf->mutex);
	if (!err)
		(void)take_list(shelf, &list);
	ky_object_list_release(&list);
}

static void *read_all(void *ctx)
{
	struct ky_bucket_shelf *shelf = ctx;
	uint64_t due_ns = ky_now_ns(CLOCK_MONOTONIC) + KY_SHELF_LIST_NS;

	(void)pthread_mutex_lock(&shelf->mutex);
	while (!shelf->is_closing) {
		uint32_t row = find_waiting(shelf);
		struct timespec until = {.tv_sec = (time_t)(due_ns / UINT64_C(1000000000))};

		if (ky_now_ns(CLOCK_MONOTONIC) >= due_ns && shelf->has_asked) {
			shelf->has_asked = false; /* nobody looks: nobody pays for requests */
			list_again(shelf);
			due_ns = ky_now_ns(CLOCK_MONOTONIC) + KY_SHELF_LIST_NS;
		} else if (row < shelf->count) {
			read_row(shelf, row);
		} else {
			if (ky_now_ns(CLOCK_MONOTONIC) >= due_ns)
				until.tv_sec += 86400;
			(void)pthread_cond_timedwait(&shelf->changed, &shelf->mutex, &until);
		}
	}
	(void)pthread_mutex_unlock(&shelf->mutex);
	return NULL;
}

/* ---- opening a trace ---- */

/* Into a file of its own. */
static int fetch_one(void *ctx, struct ky_s3_client *client, uint32_t index, char *why)
{
	struct row_work *work = ctx;
	const struct ky_bucket_object *object = &work->objects[index];
	const struct ky_bucket_query *query = &work->shelf->query;
	const struct ky_fetch_range range = {query->from_unix_ns, query->to_unix_ns};
	char reason[KY_BUCKET_WHY_BYTES] = "";
	struct ky_fetched fetched;
	int err;

	work->fds[index] = ky_unnamed_file_temporary();
	err = work->fds[index] < 0 ?
		      work->fds[index] :
		      ky_object_fetch(&fetched, client, object, &range, work->fds[index], reason);
	if (err)
		(void)snprintf(why, KY_BUCKET_WHY_BYTES, "%.200s: %.300s", object->key,
			       reason[0] ? reason : kymo_error_text(err));
	return err;
}

/* Behind what is there. */
static int append(int to, int from)
{
	uint8_t *piece = ky_alloc(PIECE_BYTES);
	off_t offset = 0;
	int err = piece ? 0 : -ENOMEM;

	while (!err) {
		ssize_t got = pread(from, piece, PIECE_BYTES, offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			err = got < 0 ? -errno : 0;
			break;
		}
		err = ky_disk_write_all(to, piece, (size_t)got);
		offset += got;
	}
	ky_free(piece);
	return err;
}

/* Up to FETCH_FILES objects, in their order. */
static int fetch_some(struct ky_bucket_shelf *shelf, const struct ky_bucket_object *objects,
		      uint32_t count, int fd, char *why)
{
	int fds[FETCH_FILES];
	struct row_work row = {.shelf = shelf, .objects = objects, .fds = fds};
	const struct ky_bucket_work work = {.bucket = shelf->query.place.bucket,
					    .count = count,
					    .one = fetch_one,
					    .is_over = is_stopped,
					    .ctx = &row};
	char reason[KY_BUCKET_WHY_BYTES] = "";
	int err;

	for (uint32_t i = 0; i < count; i++)
		fds[i] = -1;
	err = count == 1 ? fetch_one(&row, &shelf->fetching, 0, reason) :
			   ky_bucket_lanes_run(&work, reason);
	for (uint32_t i = 0; i < count; i++) {
		if (!err)
			err = fds[i] < 0 ? -EIO : append(fd, fds[i]);
		if (fds[i] >= 0)
			(void)close(fds[i]);
	}
	if (err)
		(void)snprintf(why, KY_SERVED_WHY_BYTES, "%s",
			       reason[0] ? reason : kymo_error_text(err));
	return err;
}

static int fetch_all(struct ky_bucket_shelf *shelf, const struct objects *objects, int fd,
		     char *why)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < objects->count; i += FETCH_FILES) {
		uint32_t rest = objects->count - i;

		err = fetch_some(shelf, objects->all + i, rest < FETCH_FILES ? rest : FETCH_FILES,
				 fd, why);
	}
	return err;
}

/* Returns a descriptor, *bytes: what is there; or an error with why. */
static int fetch(struct ky_bucket_shelf *shelf, const struct objects *objects, uint64_t *bytes,
		 char *why)
{
	uint64_t all = 0;
	off_t end;
	int fd, err;

	for (uint32_t i = 0; i < objects->count; i++)
		all += objects->all[i].bytes;
	if (all > shelf->bytes_max) {
		(void)snprintf(why, KY_SERVED_WHY_BYTES,
			       "this trace has %" PRIu64
			       " MB, more than kymo serve fetches; start it "
			       "with a narrower --from and --to",
			       all / 1000000);
		return -EFBIG;
	}
	fd = ky_unnamed_file_temporary();
	if (fd < 0) {
		(void)snprintf(why, KY_SERVED_WHY_BYTES,
			       "no temporary file can be made where TMPDIR says: %s",
			       kymo_error_text(fd));
		return fd;
	}
	err = fetch_all(shelf, objects, fd, why);
	end = err ? 0 : lseek(fd, 0, SEEK_END);
	if (!err && end <= 0) {
		(void)snprintf(why, KY_SERVED_WHY_BYTES, "nothing of this trace is in that time");
		err = -ENODATA;
	}
	*bytes = (uint64_t)end;
	if (err)
		(void)close(fd);
	return err ? err : fd;
}

/* Takes the descriptor in place of the one that was not used for longest. */
static void keep(struct ky_bucket_shelf *shelf, const struct kept_file *file)
{
	struct kept_file *oldest = &shelf->files[0];

	for (uint32_t i = 1; i < KY_SHELF_FILES; i++)
		if (shelf->files[i].used_ns < oldest->used_ns)
			oldest = &shelf->files[i];
	if (oldest->fd >= 0)
		(void)close(oldest->fd);
	*oldest = *file;
}

/* Returns a descriptor of the caller's; -ENOENT: it is not kept. */
static int open_kept(struct ky_bucket_shelf *shelf, uint64_t id, uint64_t *bytes)
{
	int fd = -ENOENT;

	(void)pthread_mutex_lock(&shelf->files_mutex);
	for (uint32_t i = 0; i < KY_SHELF_FILES; i++) {
		struct kept_file *file = &shelf->files[i];

		if (file->fd < 0 || file->id != id)
			continue;
		file->used_ns = ky_now_ns(CLOCK_MONOTONIC);
		*bytes = file->bytes;
		fd = dup(file->fd);
	}
	(void)pthread_mutex_unlock(&shelf->files_mutex);
	return fd;
}

/* Fetched by whoever asks first; the others wait for that. */
static int open_fetched(struct ky_bucket_shelf *shelf, const struct objects *objects,
			uint64_t *bytes, char *why)
{
	int fd;

	(void)pthread_mutex_lock(&shelf->fetch_mutex);
	fd = open_kept(shelf, objects->id, bytes);
	if (fd < 0)
		fd = fetch(shelf, objects, bytes, why);
	else
		objects = NULL;
	if (fd >= 0 && objects) {
		const struct kept_file file = {.id = objects->id,
					       .bytes = *bytes,
					       .used_ns = ky_now_ns(CLOCK_MONOTONIC),
					       .fd = fd};

		(void)pthread_mutex_lock(&shelf->files_mutex);
		keep(shelf, &file);
		fd = dup(fd);
		(void)pthread_mutex_unlock(&shelf->files_mutex);
	}
	(void)pthread_mutex_unlock(&shelf->fetch_mutex);
	return fd;
}

static const struct ky_listed *find(void *ctx, const char *id)
{
	const struct ky_bucket_shelf *shelf = ctx;
	char *end;
	uint64_t number = strtoull(id, &end, 16);

	return strlen(id) == KY_LISTED_ID_BYTES - 1 && !*end ? find_row(shelf, number, 0) : NULL;
}

/* What a row is made of. Returns 0; -ENOENT, -ENOMEM; drop the objects in any case. */
static int find_objects(struct objects *objects, struct ky_bucket_shelf *shelf, const char *id,
			char name[NAME_MAX + 1])
{
	const struct ky_listed *row;
	int err = -ENOENT;

	*objects = (struct objects){.all = NULL};
	(void)pthread_mutex_lock(&shelf->mutex);
	row = find(shelf, id);
	if (row) {
		(void)snprintf(name, NAME_MAX + 1, "%s", row->name);
		err = copy_objects(objects, shelf, (uint32_t)(row - shelf->rows));
	}
	(void)pthread_mutex_unlock(&shelf->mutex);
	return err;
}

/* All of an object is what the page reads then, and it can have ranges of that. */
static bool is_as_stored(const struct ky_bucket_shelf *shelf)
{
	return !shelf->query.from_unix_ns && !shelf->query.to_unix_ns;
}

static int open_made(struct ky_bucket_shelf *shelf, const struct objects *objects,
		     struct ky_served_file *out, char *why)
{
	out->fd = open_kept(shelf, objects->id, &out->bytes);
	if (out->fd < 0)
		out->fd = open_fetched(shelf, objects, &out->bytes, why);
	(void)snprintf(out->etag, sizeof(out->etag), "\"%016" PRIx64 "-%" PRIx64 "-0\"",
		       objects->id, out->bytes);
	return out->fd < 0 ? out->fd : 0;
}

static int open_file(void *ctx, const char *id, struct ky_served_file *out, char *why)
{
	struct ky_bucket_shelf *shelf = ctx;
	char name[NAME_MAX + 1] = "";
	struct objects objects;
	int err = find_objects(&objects, shelf, id, name);

	*out = (struct ky_served_file){.fd = -1};
	if (!err && is_as_stored(shelf))
		err = ky_shelf_copies_take(shelf->copies, objects.id, objects.all, objects.count,
					   out, why);
	else if (!err)
		err = open_made(shelf, &objects, out, why);
	memcpy(out->name, name, sizeof(name));
	drop_objects(&objects);
	return err;
}

static int open_segments(void *ctx, const char *id, struct ky_served_file *out, char *why)
{
	struct ky_bucket_shelf *shelf = ctx;
	char name[NAME_MAX + 1] = "";
	struct objects objects;
	int err = find_objects(&objects, shelf, id, name);

	*out = (struct ky_served_file){.fd = -1};
	for (uint32_t i = 0; !err && i < objects.count; i++)
		if (!ky_object_may_have_map(&objects.all[i]))
			err = KYMO_E_UNSUPPORTED;
	if (!err)
		err = ky_shelf_copies_take(shelf->copies, objects.id, objects.all, objects.count,
					   out, why);
	drop_objects(&objects);
	return err;
}

/* ---- the shelf ---- */

static const struct ky_listed *begin(void *ctx, size_t *count, size_t *waiting_count, bool *is_cut)
{
	struct ky_bucket_shelf *shelf = ctx;

	(void)pthread_mutex_lock(&shelf->mutex);
	shelf->has_asked = true;
	(void)pthread_cond_signal(&shelf->changed);
	*count = shelf->count;
	*is_cut = shelf->list.is_cut;
	*waiting_count = 0;
	for (uint32_t i = 0; i < shelf->count; i++)
		*waiting_count += shelf->rows[i].state == KY_LISTED_WAITING;
	return shelf->rows;
}

static void end(void *ctx)
{
	struct ky_bucket_shelf *shelf = ctx;

	(void)pthread_mutex_unlock(&shelf->mutex);
}

struct ky_listing ky_bucket_shelf_listing(struct ky_bucket_shelf *shelf)
{
	return (struct ky_listing){.ctx = shelf,
				   .begin = begin,
				   .end = end,
				   .find = find,
				   .open_file = open_file,
				   .open_segments = open_segments,
				   .from_unix_ns = shelf->query.from_unix_ns,
				   .to_unix_ns = shelf->query.to_unix_ns,
				   .is_slow = true};
}

static int start(struct ky_bucket_shelf *shelf)
{
	pthread_condattr_t monotonic;
	int err;

	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&shelf->changed, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	err = ky_start_thread(&shelf->reader, read_all, shelf);
	shelf->is_started = !err;
	return err;
}

int ky_bucket_shelf_open(struct ky_bucket_shelf **out, const struct ky_bucket_query *query,
			 uint64_t bytes_max, char *why)
{
	struct ky_bucket_shelf *shelf = ky_alloc(sizeof(*shelf));
	struct ky_object_list list = {.objects = NULL};
	int err;

	*out = NULL;
	if (!shelf) {
		(void)snprintf(why, KY_BUCKET_WHY_BYTES, "out of memory");
		return -ENOMEM;
	}
	shelf->query = *query;
	shelf->bytes_max = bytes_max;
	(void)pthread_mutex_init(&shelf->mutex, NULL);
	(void)pthread_mutex_init(&shelf->fetch_mutex, NULL);
	(void)pthread_mutex_init(&shelf->files_mutex, NULL);
	for (uint32_t i = 0; i < KY_SHELF_FILES; i++)
		shelf->files[i].fd = -1;
	err = ky_bucket_connect(&shelf->reading, query->place.bucket, why);
	if (!err)
		err = ky_bucket_connect(&shelf->fetching, query->place.bucket, why);
	if (!err)
		err = ky_shelf_copies_open(&shelf->copies, query->place.bucket, bytes_max, why);
	if (!err)
		err = ky_object_list_read(&list, &shelf->reading, query, why);
	if (!err)
		err = take_list(shelf, &list);
	ky_object_list_release(&list);
	if (!err)
		err = start(shelf);
	if (err) {
		if (!why[0])
			(void)snprintf(why, KY_BUCKET_WHY_BYTES, "%s", kymo_error_text(err));
		ky_bucket_shelf_close(shelf);
		return err;
	}
	*out = shelf;
	return 0;
}

void ky_bucket_shelf_stop(struct ky_bucket_shelf *shelf)
{
	if (!shelf)
		return;
	__atomic_store_n(&shelf->is_stopped, true, __ATOMIC_RELAXED);
	ky_http_client_stop_at(shelf->reading.http, 0);
	ky_http_client_stop_at(shelf->fetching.http, 0);
	ky_shelf_copies_stop(shelf->copies);
}

void ky_bucket_shelf_close(struct ky_bucket_shelf *shelf)
{
	if (!shelf)
		return;
	if (shelf->is_started) {
		(void)pthread_mutex_lock(&shelf->mutex);
		shelf->is_closing = true;
		(void)pthread_cond_signal(&shelf->changed);
		(void)pthread_mutex_unlock(&shelf->mutex);
		ky_bucket_shelf_stop(shelf);
		(void)pthread_join(shelf->reader, NULL);
	}
	for (uint32_t i = 0; i < KY_SHELF_FILES; i++)
		if (shelf->files[i].fd >= 0)
			(void)close(shelf->files[i].fd);
	drop_rows(shelf->rows, shelf->count);
	ky_free(shelf->places);
	ky_object_list_release(&shelf->list);
	ky_shelf_copies_close(shelf->copies);
	ky_s3_client_close(&shelf->reading);
	ky_s3_client_close(&shelf->fetching);
	ky_free(shelf);
}
