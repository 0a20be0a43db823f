/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* schema.h - events of the application's own: a type with named fields is registered once, then
 * events of it are written.
 *
 *     static const struct kymo_custom_field fields[] = {
 *             {"order", KYMO_CUSTOM_U64, NULL}, {"price", KYMO_CUSTOM_F64, "EUR"}};
 *     uint32_t type = kymo_custom_register("OrderPlaced", fields, 2);
 *     struct kymo_custom event;
 *
 *     kymo_custom_begin(&event, type);
 *     kymo_custom_u64(&event, 7);
 *     kymo_custom_f64(&event, 9.5);
 *     kymo_custom_end(&event);
 *
 * The values come in the order of the fields. In the trace an event also has the thread, and the
 * task that the thread polls. Gate: KYMO_GATE_CUSTOM. event.h makes all of this from a list of
 * fields.
 * Errors:  an event that does not fit, or whose values do not match its type, is left out and
 *          counted as lost.
 * Threads: any.      Signals: unsafe.      Since 0.1
 */
#ifndef KYMO_SCHEMA_H
#define KYMO_SCHEMA_H

#include <kymo/emit.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KYMO_CUSTOM_WORDS_MAX 120u
#define KYMO_CUSTOM_FIELDS_MAX 48u

enum kymo_custom_type {
	KYMO_CUSTOM_I64 = 1,
	KYMO_CUSTOM_F64 = 2,
	KYMO_CUSTOM_BOOL = 3,
	KYMO_CUSTOM_STRING = 4,   /* in the event, at most 512 bytes: cut */
	KYMO_CUSTOM_INTERNED = 7, /* of kymo_string_intern(): for texts that repeat */
	KYMO_CUSTOM_U64 = 9,
	KYMO_CUSTOM_LIST = 14,      /* values of one type */
	KYMO_CUSTOM_MAP = 15,       /* pairs; keys are neither lists nor maps */
	KYMO_CUSTOM_OPTIONAL = 0x80 /* added to a field's type: the value may be absent */
};
#define KYMO_CUSTOM_STRING_BYTES_MAX 512u
#define KYMO_CUSTOM_DEPTH_MAX 4u /* lists and maps inside each other */

struct kymo_custom_field {
	const char *name; /* UTF-8, at most 127 bytes */
	uint32_t type;    /* enum kymo_custom_type */
	const char *unit; /* NULL, or "ns", "bytes", ...: at most 31 bytes */
};

/* Equal types have equal ids. name: UTF-8, at most 127 bytes.
 *
 * Returns  the id; 0: nothing is open, the directory is full, or it is not as above.
 * Threads  any; takes a lock: not on the hot path.
 */
KYMO_API uint32_t kymo_custom_register(const char *name, const struct kymo_custom_field *fields,
				       uint32_t field_count);

/* A type that registers itself, in a static of the program, which fills the first three. */
struct kymo_custom_kind {
	const char *name;
	const struct kymo_custom_field *fields;
	uint32_t field_count;
	uint32_t reserved;
	uint64_t known; /* 0 at first: what the recorder that is open calls it */
};

/* The id of the type for the recorder that is open now, registered when it is asked for first.
 *
 * Returns  as kymo_custom_register()
 * Threads  any; takes a lock the first time.      Cost: two loads after that.
 */
KYMO_API uint32_t kymo_custom_id(struct kymo_custom_kind *kind);

/* An event that is being written; on the stack. */
struct kymo_custom {
	uint32_t count;
	bool is_too_long;
	uint64_t words[KYMO_CUSTOM_WORDS_MAX];
};

/* words[0]: the type; what follows: kymo_custom_*(). Cost: as of any record, and a copy. */
KYMO_API void kymo_custom_write(const uint64_t *words, uint32_t count);

static inline void kymo_custom_u64(struct kymo_custom *event, uint64_t value)
{
	if (event->count < KYMO_CUSTOM_WORDS_MAX)
		event->words[event->count++] = value;
	else
		event->is_too_long = true;
}

static inline void kymo_custom_begin(struct kymo_custom *event, uint32_t type)
{
	event->count = 0;
	event->is_too_long = false;
	kymo_custom_u64(event, type);
}

static inline void kymo_custom_i64(struct kymo_custom *event, int64_t value)
{
	kymo_custom_u64(event, (uint64_t)value);
}

static inline void kymo_custom_f64(struct kymo_custom *event, double value)
{
	uint64_t word;

	memcpy(&word, &value, sizeof(word));
	kymo_custom_u64(event, word);
}

static inline void kymo_custom_bool(struct kymo_custom *event, bool value)
{
	kymo_custom_u64(event, value);
}

/* string: of kymo_string_intern() */
static inline void kymo_custom_interned(struct kymo_custom *event, uint32_t string)
{
	kymo_custom_u64(event, string);
}

static inline void kymo_custom_string(struct kymo_custom *event, const char *text, size_t bytes)
{
	uint32_t words;

	bytes = bytes < KYMO_CUSTOM_STRING_BYTES_MAX ? bytes : KYMO_CUSTOM_STRING_BYTES_MAX;
	words = (uint32_t)((bytes + 7) / 8);
	kymo_custom_u64(event, bytes);
	if (words > KYMO_CUSTOM_WORDS_MAX - event->count) {
		event->is_too_long = true;
		return;
	}
	if (words) {
		event->words[event->count + words - 1] = 0;
		memcpy(&event->words[event->count], text, bytes);
	}
	event->count += words;
}

/* Before count values of this type, each as its own function puts it. */
static inline void kymo_custom_list(struct kymo_custom *event, uint32_t type, uint32_t count)
{
	kymo_custom_u64(event, (uint64_t)type << 32 | count);
}

/* Before count pairs, a key and its value each. */
static inline void kymo_custom_map(struct kymo_custom *event, uint32_t key_type,
				   uint32_t value_type, uint32_t count)
{
	kymo_custom_u64(event, (uint64_t)value_type << 40 | (uint64_t)key_type << 32 | count);
}

/* Before the value of an optional field; false: no value follows. */
static inline void kymo_custom_is_present(struct kymo_custom *event, bool is_present)
{
	kymo_custom_u64(event, is_present);
}

static inline void kymo_custom_end(const struct kymo_custom *event)
{
	if (kymo_gate_is_open(KYMO_GATE_CUSTOM))
		kymo_custom_write(event->words, event->is_too_long ? 1 : event->count);
}

#ifdef __cplusplus
}
#endif

#endif
