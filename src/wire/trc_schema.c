/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <errno.h>
#include <string.h>
#include <wire/trc_state.h>

#define TYPES 65536u
#define REGISTRY_BYTES_MAX (UINT64_C(64) << 20)
#define NOT_KNOWN 0xffu

int ky_schemas_open(struct ky_schema_registry *registry, uint32_t schemas_max)
{
	registry->by_type = ky_alloc(TYPES * sizeof(struct ky_schema_entry *));
	registry->bound = ky_alloc((schemas_max < TYPES ? schemas_max : TYPES) * sizeof(uint16_t));
	registry->generation = 1;
	return registry->by_type && registry->bound ? 0 : -ENOMEM;
}

void ky_schemas_close(struct ky_schema_registry *registry)
{
	for (uint32_t i = 0; i < KY_SCHEMA_CHAINS; i++) {
		struct ky_schema_entry *head = registry->chains[i];

		while (head) {
			struct ky_schema_entry *next = head->next;

			while (head) {
				struct ky_schema_entry *same = head->next_same;

				ky_free(head);
				head = same;
			}
			head = next;
		}
	}
	ky_free(registry->by_type);
	ky_free(registry->bound);
	memset(registry, 0, sizeof(*registry));
}

void ky_schemas_reset(struct ky_schema_registry *registry)
{
	for (uint32_t i = 0; i < registry->bound_count; i++)
		registry->by_type[registry->bound[i]] = NULL;
	registry->bound_count = 0;
	registry->generation++;
}

/* ---- what a known event's field may be like in another's schema ---- */

enum type_class {
	CLASS_NUMBER,
	CLASS_FLOAT,
	CLASS_TEXT,
	CLASS_BYTES,
	CLASS_STACK,
	CLASS_CONTAINER
};

static enum type_class class_of(uint8_t type)
{
	switch (type & ~KY_TYPE_OPTIONAL) {
	case KY_TYPE_F64:
		return CLASS_FLOAT;
	case KY_TYPE_STRING:
	case KY_TYPE_POOLED_STRING:
		return CLASS_TEXT;
	case KY_TYPE_BYTES:
		return CLASS_BYTES;
	case KY_TYPE_STACK:
	case KY_TYPE_POOLED_STACK:
		return CLASS_STACK;
	case KY_TYPE_STRING_MAP:
	case KY_TYPE_LIST:
	case KY_TYPE_MAP:
		return CLASS_CONTAINER;
	default:
		return CLASS_NUMBER;
	}
}

static bool is_compatible(uint8_t type, uint8_t expected)
{
	enum type_class kind = class_of(type);

	if (kind == CLASS_CONTAINER)
		return (type & ~KY_TYPE_OPTIONAL) == (expected & ~KY_TYPE_OPTIONAL);
	return kind == class_of(expected);
}

/* A name that occurs twice counts where it stands first. */
static void match_known(struct ky_schema *schema)
{
	const struct ky_event_desc *desc;

	memset(schema->slot_of, NOT_KNOWN, sizeof(schema->slot_of));
	schema->event = ky_event_find((const char *)schema->name.bytes, schema->name.count);
	if (schema->event == KY_EV_UNKNOWN)
		return;
	desc = &ky_event_table[schema->event];
	for (uint32_t i = 0; i < schema->field_count && i < NOT_KNOWN; i++) {
		struct ky_schema_field *field = &schema->fields[i];

		for (uint8_t k = 0; k < desc->field_count; k++) {
			const struct ky_field_desc *known = &desc->fields[k];

			if (schema->slot_of[k] != NOT_KNOWN ||
			    strlen(known->name) != field->name.count ||
			    memcmp(known->name, field->name.bytes, field->name.count) != 0 ||
			    !is_compatible(field->type, known->type))
				continue;
			field->known = k;
			schema->slot_of[k] = (uint8_t)i;
		}
	}
}

/* Is it one of the events in plain numbers, with just the fields that our encoder writes? */
static bool is_hot(const struct ky_schema *schema)
{
	const struct ky_event_desc *desc;
	uint32_t i = 0;

	if (schema->event != KY_EV_POLL_START && schema->event != KY_EV_POLL_END &&
	    schema->event != KY_EV_WAKE)
		return false;
	desc = &ky_event_table[schema->event];
	for (; i < desc->field_count && desc->fields[i].is_written; i++) {
		if (i >= schema->field_count || schema->fields[i].known != i ||
		    schema->fields[i].type != desc->fields[i].type)
			return false;
	}
	return schema->has_timestamp && schema->field_count == i;
}

/* ---- one entry ---- */

static uint64_t hash_body(const uint8_t *at, size_t count)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ count;

	for (; count >= 8; at += 8, count -= 8) {
		hash = (hash ^ ky_get_u64(at)) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	while (count--)
		hash = (hash ^ *at++) * UINT64_C(0x100000001b3);
	return hash ^ (hash >> 29);
}

/* Most bytes one value of this type takes; 0: any number. */
static uint32_t value_bytes_max(uint8_t type)
{
	uint32_t presence = type & KY_TYPE_OPTIONAL ? 1 : 0;

	switch (type & ~KY_TYPE_OPTIONAL) {
	case KY_TYPE_I64:
	case KY_TYPE_F64:
		return presence + 8;
	case KY_TYPE_BOOL:
	case KY_TYPE_U8:
		return presence + 1;
	case KY_TYPE_U16:
		return presence + 2;
	case KY_TYPE_U32:
	case KY_TYPE_POOLED_STRING:
	case KY_TYPE_POOLED_STACK:
		return presence + 4;
	case KY_TYPE_VARINT:
		return presence + KY_VARINT_BYTES_MAX;
	default:
		return 0;
	}
}

/* Fills an entry from its own copy of a checked body. */
static void compile(struct ky_schema_entry *entry)
{
	struct ky_schema *schema = &entry->schema;
	const uint8_t *at = entry->body.bytes;
	bool is_fixed = true;
	uint64_t bytes = 8; /* whole words are loaded */

	schema->name.count = ky_get_u16(at);
	schema->name.bytes = at + 2;
	at += 2 + schema->name.count;
	schema->has_timestamp = *at != 0;
	at += 3;
	for (uint32_t i = 0; i < schema->field_count; i++) {
		struct ky_schema_field *field = &schema->fields[i];

		field->name.count = ky_get_u16(at);
		field->name.bytes = at + 2;
		at += 2 + field->name.count;
		field->type = *at++;
		field->known = NOT_KNOWN;
		entry->ops[i] = field->type;
		entry->values[i].type = (uint8_t)(field->type & ~KY_TYPE_OPTIONAL);
		entry->values[i].is_present = 1;
		entry->values[i].is_resolved = 1;
		is_fixed = is_fixed && value_bytes_max(field->type);
		bytes += value_bytes_max(field->type);
	}
	entry->fast_bytes_max = is_fixed ? bytes : 0;
	match_known(schema);
	entry->is_hot = is_hot(schema);
}

static struct ky_schema_entry *new_entry(struct ky_trc_dec *dec, const uint8_t *body,
					 size_t body_bytes, uint16_t field_count)
{
	struct ky_schema_registry *registry = &dec->schemas;
	size_t per_field = sizeof(struct ky_value) + sizeof(struct ky_schema_field) + 1;
	size_t bytes = sizeof(struct ky_schema_entry) + field_count * per_field + body_bytes;
	struct ky_schema_entry *entry;
	uint8_t *copy;

	entry = ky_alloc(bytes);
	if (!entry)
		return NULL;
	entry->values = (struct ky_value *)(void *)(entry + 1);
	entry->schema.fields = (struct ky_schema_field *)(void *)(entry->values + field_count);
	entry->schema.field_count = field_count;
	entry->ops = (uint8_t *)(entry->schema.fields + field_count);
	copy = entry->ops + field_count;
	memcpy(copy, body, body_bytes);
	entry->body.bytes = copy;
	entry->body.count = body_bytes;
	compile(entry);
	registry->bytes_used += bytes;
	registry->entry_count++;
	return entry;
}

static struct ky_schema_entry *find_body(struct ky_schema_registry *registry, uint64_t hash,
					 const uint8_t *body, size_t body_bytes)
{
	struct ky_schema_entry *entry = registry->chains[hash % KY_SCHEMA_CHAINS];

	for (; entry; entry = entry->next) {
		if (entry->hash == hash && entry->body.count == body_bytes &&
		    !memcmp(entry->body.bytes, body, body_bytes))
			return entry;
	}
	return NULL;
}

/* An entry of this body that the stream does not use yet; NULL: a new one is needed. */
static struct ky_schema_entry *take_free(struct ky_schema_registry *registry,
					 struct ky_schema_entry *head)
{
	struct ky_schema_entry *entry = head->cursor;

	if (head->cursor_generation != registry->generation) {
		head->cursor_generation = registry->generation;
		entry = head;
	}
	if (entry)
		head->cursor = entry->next_same;
	return entry;
}

static int limit_of_schemas(struct ky_trc_dec *dec, struct ky_in *in, uint32_t count)
{
	if (count >= dec->limits.schemas_max)
		return ky_dec_fail(dec, in, KYMO_E_LIMIT,
				   "there are more than # different event types",
				   dec->limits.schemas_max);
	if (dec->schemas.bytes_used > REGISTRY_BYTES_MAX)
		return ky_dec_fail(dec, in, KYMO_E_LIMIT,
				   "the event types take more than the limit of # bytes",
				   REGISTRY_BYTES_MAX);
	return 0;
}

/* NULL: dec->failed says why. */
static struct ky_schema_entry *intern(struct ky_trc_dec *dec, struct ky_in *in,
				      struct ky_slice body, uint16_t field_count)
{
	struct ky_schema_registry *registry = &dec->schemas;
	uint64_t hash = hash_body(body.bytes, body.count);
	struct ky_schema_entry *head = find_body(registry, hash, body.bytes, body.count);
	struct ky_schema_entry *entry = head ? take_free(registry, head) : NULL;

	if (entry)
		return entry;
	if (limit_of_schemas(dec, in, registry->entry_count))
		return NULL;
	entry = new_entry(dec, body.bytes, body.count, field_count);
	if (!entry) {
		ky_dec_fail(dec, in, -ENOMEM, "out of memory for event types", 0);
		return NULL;
	}
	entry->hash = hash;
	if (head) {
		entry->schema.serial = head->schema.serial;
		entry->next_same = head->next_same;
		head->next_same = entry;
		return entry;
	}
	entry->schema.serial = ++registry->serial_count;
	entry->next = registry->chains[hash % KY_SCHEMA_CHAINS];
	registry->chains[hash % KY_SCHEMA_CHAINS] = entry;
	entry->cursor_generation = registry->generation;
	return entry;
}

static void forget_annotations(struct ky_schema_entry *entry)
{
	static const struct ky_slice none;

	if (!entry->has_annotations)
		return;
	entry->has_annotations = 0;
	for (uint32_t i = 0; i < entry->schema.field_count; i++) {
		entry->schema.fields[i].unit = none;
		entry->schema.fields[i].kind = none;
		entry->schema.fields[i].role = none;
	}
}

/* ---- frames ---- */

/* Checks a name (u16 length, bytes) and `more` bytes after it. */
static int skip_name(struct ky_trc_dec *dec, struct ky_in *in, uint32_t more)
{
	int err = ky_in_need(dec, in, 2);
	uint64_t count = err ? 0 : 2 + (uint64_t)ky_get_u16(in->at) + more;

	if (!err)
		err = ky_in_need(dec, in, count);
	if (!err)
		in->at += count;
	return err;
}

static int check_fields(struct ky_trc_dec *dec, struct ky_in *in, uint32_t field_count)
{
	for (uint32_t i = 0; i < field_count; i++) {
		int err = skip_name(dec, in, 1);
		uint8_t type = err ? 0 : in->at[-1] & (uint8_t)~KY_TYPE_OPTIONAL;

		if (err)
			return err;
		if (type < KY_TYPE_I64 || type > KY_TYPE_MAP) {
			in->at--;
			return ky_dec_fail(dec, in, KYMO_E_CORRUPT,
					   "a schema has a field of the unknown type #", *in->at);
		}
	}
	return 0;
}

static int bind(struct ky_trc_dec *dec, struct ky_in *in, uint16_t type_id, const uint8_t *begin,
		uint16_t field_count, struct ky_schema_entry **out)
{
	struct ky_schema_registry *registry = &dec->schemas;
	struct ky_slice body = {begin, (size_t)(in->at - begin)};
	struct ky_schema_entry *entry = registry->by_type[type_id];
	int err;

	*out = entry;
	if (entry) {
		if (entry->body.count == body.count &&
		    !memcmp(entry->body.bytes, begin, body.count))
			return 0;
		return ky_dec_fail(dec, in, KYMO_E_CORRUPT,
				   "type # gets a second, different schema in the same stream",
				   type_id);
	}
	err = limit_of_schemas(dec, in, registry->bound_count);
	if (err)
		return err;
	entry = intern(dec, in, body, field_count);
	if (!entry)
		return dec->failed;
	forget_annotations(entry);
	entry->schema.type_id = type_id;
	registry->by_type[type_id] = entry;
	registry->bound[registry->bound_count++] = type_id;
	*out = entry;
	return 0;
}

int ky_dec_schema(struct ky_trc_dec *dec, struct ky_in *in, struct ky_frame *frame)
{
	struct ky_schema_entry *entry;
	uint16_t type_id, field_count;
	const uint8_t *body;
	int err = ky_in_need(dec, in, 3);

	if (err)
		return err;
	type_id = ky_get_u16(in->at + 1);
	in->at += 3;
	body = in->at;
	err = skip_name(dec, in, 3);
	if (err)
		return err;
	field_count = ky_get_u16(in->at - 2);
	err = check_fields(dec, in, field_count);
	if (!err)
		err = bind(dec, in, type_id, body, field_count, &entry);
	if (err)
		return err;
	frame->kind = KY_FRAME_SCHEMA;
	frame->schema = &entry->schema;
	return 0;
}

static struct ky_slice *annotation_of(struct ky_schema_field *field, const uint8_t *key,
				      size_t count)
{
	if (count == 4 && !memcmp(key, "unit", 4))
		return &field->unit;
	if (count == 4 && !memcmp(key, "kind", 4))
		return &field->kind;
	if (count == 10 && !memcmp(key, "dial9.role", 10))
		return &field->role;
	return NULL;
}

/* Takes over one checked entry; keys that this code does not ask for are dropped. */
static int annotate(struct ky_trc_dec *dec, struct ky_in *in, struct ky_schema_entry *entry)
{
	uint16_t index = ky_get_u16(in->at);
	uint16_t key_bytes = ky_get_u16(in->at + 2);
	const uint8_t *key = in->at + 4;
	uint32_t value_bytes = ky_get_u32(key + key_bytes);
	struct ky_slice *slice = NULL;
	int err = 0;

	in->at = key + key_bytes + 4;
	if (entry && index < entry->schema.field_count)
		slice = annotation_of(&entry->schema.fields[index], key, key_bytes);
	if (slice) {
		const uint8_t *copy = NULL;

		err = ky_arena_copy(&dec->arena, in->at, value_bytes, &copy);
		if (!err) {
			slice->bytes = copy;
			slice->count = value_bytes;
			entry->has_annotations = 1;
		}
	}
	in->at += value_bytes;
	return err;
}

static int check_annotations(struct ky_trc_dec *dec, struct ky_in *in, uint32_t count)
{
	int err = 0;

	while (count-- && !err) {
		err = ky_in_need(dec, in, 2);
		if (!err) {
			in->at += 2;
			err = skip_name(dec, in, 4);
		}
		if (!err)
			err = ky_in_need(dec, in, ky_get_u32(in->at - 4));
		if (!err)
			in->at += ky_get_u32(in->at - 4);
	}
	return err;
}

int ky_dec_annotations(struct ky_trc_dec *dec, struct ky_in *in, struct ky_frame *frame)
{
	struct ky_schema_entry *entry;
	struct ky_in again;
	uint64_t type_id;
	uint32_t count;
	int err, bytes;

	in->at++;
	bytes = ky_varint_get(in->at, (size_t)(in->end - in->at), &type_id);
	if (bytes < 0)
		return ky_dec_fail(dec, in, KYMO_E_CORRUPT, "a number does not fit 64 bits", 0);
	if (!bytes)
		return KYMO_E_TRUNCATED;
	in->at += bytes;
	err = ky_in_need(dec, in, 2);
	if (err)
		return err;
	count = ky_get_u16(in->at);
	in->at += 2;
	again = *in;
	err = check_annotations(dec, in, count);
	if (err)
		return err;
	entry = type_id < TYPES ? dec->schemas.by_type[type_id] : NULL;
	while (count-- && !err)
		err = annotate(dec, &again, entry);
	if (err)
		return ky_dec_fail(dec, &again, err, "annotations take too much memory", 0);
	frame->kind = KY_FRAME_ANNOTATIONS;
	frame->schema = entry ? &entry->schema : NULL;
	return 0;
}
