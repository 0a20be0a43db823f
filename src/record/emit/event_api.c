/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Events of the application: their types in the directory, their values in the ring. */
#include <record/emit/emit_engine.h>

#include <errno.h>
#include <kymo/runtime.h>
#include <kymo/schema.h>
#include <stddef.h>
#include <string.h>
#include <wire/event_schema.h>

struct writer {
	char bytes[KY_SCHEMA_BYTES_MAX];
	size_t used;
	bool is_bad;
};

static void put_text(struct writer *out, const char *text, size_t bytes_max, bool may_be_empty)
{
	size_t bytes = text ? strlen(text) : 0;

	if (bytes > bytes_max || (bytes == 0 && !may_be_empty) ||
	    bytes + 1 > sizeof(out->bytes) - out->used) {
		out->is_bad = true;
		return;
	}
	if (bytes)
		memcpy(out->bytes + out->used, text, bytes);
	out->bytes[out->used + bytes] = '\0';
	out->used += bytes + 1;
}

static bool is_type(uint32_t type)
{
	switch (type & ~(uint32_t)KYMO_CUSTOM_OPTIONAL) {
	case KYMO_CUSTOM_I64:
	case KYMO_CUSTOM_F64:
	case KYMO_CUSTOM_BOOL:
	case KYMO_CUSTOM_STRING:
	case KYMO_CUSTOM_INTERNED:
	case KYMO_CUSTOM_U64:
	case KYMO_CUSTOM_LIST:
	case KYMO_CUSTOM_MAP:
		return type <= UINT8_MAX;
	default:
		return false;
	}
}

static void put_field(struct writer *out, const struct kymo_custom_field *field)
{
	if (!is_type(field->type) || out->used == sizeof(out->bytes)) {
		out->is_bad = true;
		return;
	}
	out->bytes[out->used++] = (char)field->type;
	put_text(out, field->name, KY_SCHEMA_NAME_BYTES_MAX, false);
	put_text(out, field->unit, KY_SCHEMA_UNIT_BYTES_MAX, true);
}

uint32_t kymo_custom_register(const char *name, const struct kymo_custom_field *fields,
			      uint32_t field_count)
{
	static struct writer out; /* too large for a stack; under the engine's lock */
	struct ky_directory_item item = {.kind = KY_ENTRY_SCHEMA, .fixed = out.bytes, .text = ""};
	struct ky_lock_mark mark;
	int err = errno;
	uint32_t id = 0;

	if (field_count > KYMO_CUSTOM_FIELDS_MAX || !ky_engine_lock_open(&mark))
		return 0;
	out.used = 0;
	out.is_bad = false;
	put_text(&out, name, KY_SCHEMA_NAME_BYTES_MAX, false);
	for (uint32_t i = 0; i < field_count; i++)
		put_field(&out, &fields[i]);
	item.fixed_bytes = out.used;
	if (!out.is_bad)
		id = ky_directory_intern(&ky_engine.directory, &item);
	ky_engine_unlock(mark);
	errno = err;
	return id;
}

uint32_t kymo_custom_id(struct kymo_custom_kind *kind)
{
	uint32_t serial = __atomic_load_n(&ky_engine.open_serial, __ATOMIC_RELAXED);
	uint64_t known = __atomic_load_n(&kind->known, __ATOMIC_RELAXED);
	uint32_t id;

	if (known >> 32 == serial)
		return (uint32_t)known;
	id = kymo_custom_register(kind->name, kind->fields, kind->field_count);
	if (id)
		__atomic_store_n(&kind->known, (uint64_t)serial << 32 | id, __ATOMIC_RELAXED);
	return id;
}

_Static_assert(sizeof(struct kymo_runtime_metrics) ==
		       offsetof(struct kymo_runtime_metrics, global_queue_depth) +
			       KY_RUNTIME_METRICS_COUNT * sizeof(uint64_t),
	       "its numbers are one array");

void kymo_runtime_metrics_record(const struct kymo_runtime_metrics *metrics)
{
	uint64_t words[2 + KY_RUNTIME_METRICS_COUNT] = {KY_SCHEMA_RUNTIME_METRICS};

	if (metrics->size != sizeof(*metrics) || !kymo_gate_is_open(KYMO_GATE_CUSTOM))
		return;
	if (metrics->name && metrics->name[0])
		words[1] = kymo_string_intern(metrics->name, strlen(metrics->name));
	memcpy(&words[2], &metrics->global_queue_depth,
	       KY_RUNTIME_METRICS_COUNT * sizeof(words[0]));
	kymo_custom_write(words, 2 + KY_RUNTIME_METRICS_COUNT);
}

void kymo_custom_write(const uint64_t *words, uint32_t count)
{
	int err = errno;

	if (count && count <= KYMO_CUSTOM_WORDS_MAX)
		ky_emit_words(KYMO_RECORD_CUSTOM, count, count, words);
	errno = err;
}
