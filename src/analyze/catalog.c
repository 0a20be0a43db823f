/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/catalog.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <kymo/base.h>
#include <read/frame_reader.h>
#include <string.h>

#define NO_SHAPE UINT32_MAX

int ky_catalog_init(struct ky_catalog *catalog)
{
	memset(catalog, 0, sizeof(*catalog));
	catalog->chains = ky_alloc(KY_SHAPE_CHAINS * sizeof(*catalog->chains));
	catalog->cache = ky_alloc(KY_SHAPE_CACHE * sizeof(*catalog->cache));
	if (!catalog->chains || !catalog->cache)
		return -ENOMEM;
	memset(catalog->chains, 0xff, KY_SHAPE_CHAINS * sizeof(*catalog->chains));
	return 0;
}

static void release_shape(struct ky_shape *shape)
{
	ky_free((void *)(uintptr_t)shape->name);
	ky_free((void *)(uintptr_t)shape->body);
	ky_buf_release(&shape->annotations);
	ky_json_keys_release(&shape->keys);
}

void ky_catalog_release(struct ky_catalog *catalog)
{
	for (uint32_t i = 0; i < catalog->count; i++)
		release_shape(&catalog->shapes[i]);
	ky_free(catalog->shapes);
	ky_free(catalog->chains);
	ky_free(catalog->cache);
	memset(catalog, 0, sizeof(*catalog));
}

const char *ky_shape_field(const char *at, uint8_t *type, const char **name, size_t *name_bytes)
{
	uint16_t count;

	*type = (uint8_t)at[0];
	memcpy(&count, at + 1, sizeof(count));
	*name = at + 3;
	*name_bytes = count;
	return at + 3 + count;
}

const char *ky_shape_key(const struct ky_shape *shape, const struct ky_schema *schema,
			 uint16_t field, size_t *bytes)
{
	if (shape && field < shape->keys.count)
		return ky_json_keys_get(&shape->keys, field, bytes);
	*bytes = schema->fields[field].name.count;
	return (const char *)schema->fields[field].name.bytes;
}

/* Nearly every schema names each field once, and then there is nothing to keep. */
static int make_keys(struct ky_json_keys *keys, const struct ky_schema *schema)
{
	int result;

	for (uint16_t i = 0; i < schema->field_count; i++)
		ky_json_keys_add(keys, (const char *)schema->fields[i].name.bytes,
				 schema->fields[i].name.count);
	result = ky_json_keys_finish(keys);
	if (!result)
		ky_json_keys_release(keys);
	return result < 0 ? result : 0;
}

static uint64_t hash_of(const struct ky_schema *schema)
{
	uint64_t hash = ky_hash_bytes(KY_HASH_START, schema->name.bytes, schema->name.count);

	hash = ky_hash_bytes(hash, &schema->has_timestamp, 1);
	for (uint16_t i = 0; i < schema->field_count; i++) {
		hash = ky_hash_bytes(hash, &schema->fields[i].type, 1);
		hash = ky_hash_bytes(hash, schema->fields[i].name.bytes,
				     schema->fields[i].name.count);
	}
	return hash ^ (hash >> 29);
}

static bool is_same(const struct ky_shape *shape, const struct ky_schema *schema)
{
	const char *at = shape->body;

	if (shape->field_count != schema->field_count ||
	    shape->has_timestamp != (schema->has_timestamp != 0) ||
	    shape->name_bytes != schema->name.count ||
	    memcmp(shape->name, schema->name.bytes, shape->name_bytes) != 0)
		return false;
	for (uint16_t i = 0; i < schema->field_count; i++) {
		const char *name;
		size_t name_bytes;
		uint8_t type;

		at = ky_shape_field(at, &type, &name, &name_bytes);
		if (type != schema->fields[i].type || name_bytes != schema->fields[i].name.count ||
		    memcmp(name, schema->fields[i].name.bytes, name_bytes) != 0)
			return false;
	}
	return true;
}

static uint32_t find_symbol(const struct ky_catalog *catalog, const struct ky_schema *schema,
			    uint64_t hash)
{
	uint32_t at = catalog->chains[hash % KY_SHAPE_CHAINS];

	while (at != NO_SHAPE &&
	       (catalog->shapes[at].hash != hash || !is_same(&catalog->shapes[at], schema)))
		at = catalog->shapes[at].next;
	return at;
}

static char *pack_fields(const struct ky_schema *schema, size_t *bytes)
{
	char *body, *at;

	*bytes = 0;
	for (uint16_t i = 0; i < schema->field_count; i++)
		*bytes += 3 + schema->fields[i].name.count;
	body = at = ky_alloc(*bytes + 1);
	if (!body)
		return NULL;
	for (uint16_t i = 0; i < schema->field_count; i++) {
		uint16_t count = (uint16_t)schema->fields[i].name.count;

		*at++ = (char)schema->fields[i].type;
		memcpy(at, &count, sizeof(count));
		memcpy(at + 2, schema->fields[i].name.bytes, count);
		at += 2 + count;
	}
	return body;
}

static int add_shape(struct ky_catalog *catalog, const struct ky_schema *schema, uint64_t hash)
{
	struct ky_shape *shape;
	char *name;

	if (catalog->count == KY_SHAPES_MAX)
		return KYMO_E_LIMIT;
	if (ky_grow(&catalog->shapes, &catalog->capacity, catalog->count + 1, sizeof(*shape)))
		return -ENOMEM;
	shape = &catalog->shapes[catalog->count];
	memset(shape, 0, sizeof(*shape));
	ky_buf_init(&shape->annotations, KY_ANNOTATION_BYTES_MAX);
	ky_json_keys_init(&shape->keys);
	shape->body = pack_fields(schema, &shape->body_bytes);
	name = ky_alloc(schema->name.count + 1);
	if (name)
		memcpy(name, schema->name.bytes, schema->name.count);
	shape->name = name;
	if (!name || !shape->body || make_keys(&shape->keys, schema)) {
		release_shape(shape);
		return -ENOMEM;
	}
	shape->name_bytes = schema->name.count;
	shape->hash = hash;
	shape->event = schema->event;
	shape->field_count = schema->field_count;
	shape->has_timestamp = schema->has_timestamp != 0;
	shape->next = catalog->chains[hash % KY_SHAPE_CHAINS];
	catalog->chains[hash % KY_SHAPE_CHAINS] = catalog->count++;
	return 0;
}

/* Serials are small and dense within a source: a direct-mapped cache saves hashing nearly always.
 */
static struct ky_shape_cache *cache_slot(struct ky_catalog *catalog, uint32_t source,
					 uint32_t serial)
{
	return &catalog->cache[(serial ^ source * 0x9e3779b1u) % KY_SHAPE_CACHE];
}

static int find_or_add(struct ky_catalog *catalog, uint32_t source, const struct ky_schema *schema,
		       bool may_add, uint32_t *found)
{
	struct ky_shape_cache *slot = cache_slot(catalog, source, schema->serial);
	uint64_t hash;
	int result;

	if (slot->shape_plus_1 && slot->source == source && slot->serial == schema->serial) {
		*found = slot->shape_plus_1 - 1;
		return 0;
	}
	hash = hash_of(schema);
	*found = find_symbol(catalog, schema, hash);
	if (*found == NO_SHAPE && may_add) {
		result = add_shape(catalog, schema, hash);
		if (result)
			return result;
		*found = catalog->count - 1;
	}
	if (*found != NO_SHAPE)
		*slot = (struct ky_shape_cache){source, schema->serial, *found + 1};
	return 0;
}

uint32_t ky_catalog_find(struct ky_catalog *catalog, uint32_t source,
			 const struct ky_schema *schema)
{
	uint32_t found;

	if (find_or_add(catalog, source, schema, false, &found) || found == NO_SHAPE)
		return KY_SHAPES_MAX;
	return found;
}

static void add_annotation(struct ky_shape *shape, const uint8_t *entry, size_t bytes)
{
	const struct ky_buf *all = &shape->annotations;
	size_t at = 0;

	/* Each batch of a writer repeats them: keep one of a kind. */
	while (at < all->used) {
		uint16_t key_bytes;
		uint32_t value_bytes;
		size_t whole;

		memcpy(&key_bytes, all->bytes + at + 2, 2);
		memcpy(&value_bytes, all->bytes + at + 4 + key_bytes, 4);
		whole = 8 + (size_t)key_bytes + value_bytes;
		if (whole == bytes && memcmp(all->bytes + at, entry, bytes) == 0)
			return;
		at += whole;
	}
	if (shape->annotation_count < UINT16_MAX &&
	    ky_buf_append(&shape->annotations, entry, bytes) == 0)
		shape->annotation_count++;
}

/* The decoder has checked the frame to its end. */
static void take_annotations(struct ky_shape *shape, const struct ky_frame *frame)
{
	const uint8_t *at = frame->begin + 1;
	uint16_t count;

	while (*at & 0x80)
		at++;
	at++;
	memcpy(&count, at, 2);
	at += 2;
	while (count-- > 0) {
		uint16_t key_bytes;
		uint32_t value_bytes;
		size_t whole;

		memcpy(&key_bytes, at + 2, 2);
		memcpy(&value_bytes, at + 4 + key_bytes, 4);
		whole = 8 + (size_t)key_bytes + value_bytes;
		add_annotation(shape, at, whole);
		at += whole;
	}
}

static bool is_run_event(uint32_t event)
{
	return event == KY_EV_POLL_START || event == KY_EV_POLL_END || event == KY_EV_WORKER_PARK ||
	       event == KY_EV_WORKER_UNPARK || event == KY_EV_WAKE;
}

static void take_time(struct ky_catalog *catalog, const struct ky_frame *frame)
{
	uint64_t time = frame->timestamp_ns;

	if (!frame->schema->has_timestamp || !time)
		return;
	if (!catalog->any_first_ns || time < catalog->any_first_ns)
		catalog->any_first_ns = time;
	if (time > catalog->any_last_ns)
		catalog->any_last_ns = time;
	if (frame->schema->event == KY_EV_CLOCK_SYNC && !catalog->sync_realtime_ns) {
		catalog->sync_monotonic_ns = time;
		catalog->sync_realtime_ns = ky_frame_number(frame, KY_F_CLOCK_SYNC_realtime_ns, 0);
	}
	if (!is_run_event(frame->schema->event))
		return;
	if (!catalog->has_run || time < catalog->first_ns)
		catalog->first_ns = time;
	if (!catalog->has_run || time > catalog->last_ns)
		catalog->last_ns = time;
	catalog->has_run = true;
}

static int take_frame(struct ky_catalog *catalog, uint32_t source, const struct ky_frame *frame)
{
	uint32_t shape;
	int result;

	if ((frame->kind != KY_FRAME_EVENT && frame->kind != KY_FRAME_ANNOTATIONS) ||
	    !frame->schema)
		return 0;
	result = find_or_add(catalog, source, frame->schema, true, &shape);
	if (result)
		return result;
	if (frame->kind == KY_FRAME_ANNOTATIONS) {
		take_annotations(&catalog->shapes[shape], frame);
		return 0;
	}
	catalog->shapes[shape].count++;
	catalog->event_count++;
	take_time(catalog, frame);
	return 0;
}

static int ignore_notice(void *ctx, uint64_t offset, int code, const char *text)
{
	(void)ctx;
	(void)offset;
	(void)code;
	(void)text;
	return 0;
}

static int read_source(struct ky_catalog *catalog, struct ky_byte_source *source, uint32_t number)
{
	struct ky_frame_reader reader;
	struct ky_frame frame;
	uint64_t event_count = 0;
	bool is_sealed = false;
	int result = ky_frame_reader_init(&reader, source, NULL, UINT64_MAX, ignore_notice, NULL);

	while (!result) {
		result = ky_frame_reader_next(&reader, &frame);
		if (result <= 0)
			break;
		if (frame.kind == KY_FRAME_EVENT) {
			(void)ky_processes_event(&catalog->processes, reader.dec, &frame, number,
						 source->name ? source->name : "");
			event_count++;
			is_sealed |= frame.schema->event == KY_EV_SEGMENT_INDEX;
		}
		result = take_frame(catalog, number, &frame);
	}
	ky_unsealed_note(&catalog->unsealed, source->name ? source->name : "(memory)", is_sealed,
			 reader.is_torn, event_count);
	ky_frame_reader_release(&reader);
	return result;
}

int ky_catalog_read(struct ky_catalog *catalog, struct ky_byte_source *sources, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int result = read_source(catalog, &sources[i], (uint32_t)i);

		if (result)
			return result;
	}
	for (uint32_t i = 0; i < catalog->count; i++) {
		if (catalog->shapes[i].count)
			ky_unsealed_event(&catalog->unsealed, catalog->shapes[i].event);
	}
	if (!catalog->has_run) {
		catalog->first_ns = catalog->any_first_ns;
		catalog->last_ns = catalog->any_last_ns;
	}
	/* The next reader's decoders count their schemas anew. */
	memset(catalog->cache, 0, KY_SHAPE_CACHE * sizeof(*catalog->cache));
	return 0;
}
