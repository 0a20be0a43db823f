/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* event.h - an event of the application from one list of its fields: a struct, and the function
 * that records it.
 *
 *     #define PLACE(FIELD) FIELD(country, interned, "") FIELD(zip, opt_u64, "")
 *     #define ORDER(FIELD)                                                                \
 *             FIELD(id, u64, "") FIELD(price, f64, "EUR") PLACE(FIELD)
 *     KYMO_EVENT(order_placed, "OrderPlaced", ORDER)
 *
 *     const struct order_placed event = {.id = 7, .price = 9.5, .country = "de"};
 *
 *     order_placed_record(&event);
 *
 * FIELD(name, kind, unit). A list of fields in another one lies flat in it.
 * Kinds:   u64 i64 f64 bool: as in C; string: in the event, cut at 512 bytes; interned: a text that
 *          repeats, in the trace once; opt_ before each of them: struct kymo_opt_u64 and so on, or
 *          NULL for a text; list_u64 list_i64 list_f64 list_string: struct kymo_list_u64 ..;
 *          map_u64 map_f64 map_string: texts to these, struct kymo_map_u64 ..
 *          A NULL text that is not optional is empty.
 * Owner:   texts, items and keys are the caller's, during the call.
 * Errors:  an event of more than 119 words in all (a number: 1; a text: 1 and one each 8 bytes) is
 *          left out and counted as lost.
 * Threads: any.      Signals: unsafe.      Cost: a load and a branch while nothing is recorded.
 * Since 0.1
 */
#ifndef KYMO_EVENT_H
#define KYMO_EVENT_H

#include <kymo/recorder.h>
#include <kymo/schema.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what fields are in the struct ---- */

struct kymo_opt_u64 {
	bool is_present;
	uint64_t value;
};
struct kymo_opt_i64 {
	bool is_present;
	int64_t value;
};
struct kymo_opt_f64 {
	bool is_present;
	double value;
};
struct kymo_opt_bool {
	bool is_present;
	bool value;
};
struct kymo_list_u64 {
	const uint64_t *items;
	uint32_t count;
};
struct kymo_list_i64 {
	const int64_t *items;
	uint32_t count;
};
struct kymo_list_f64 {
	const double *items;
	uint32_t count;
};
struct kymo_list_string {
	const char *const *items;
	uint32_t count;
};
struct kymo_map_u64 {
	const char *const *keys;
	const uint64_t *values;
	uint32_t count;
};
struct kymo_map_f64 {
	const char *const *keys;
	const double *values;
	uint32_t count;
};
struct kymo_map_string {
	const char *const *keys;
	const char *const *values;
	uint32_t count;
};

#define KYMO_EVENT_C_u64 uint64_t
#define KYMO_EVENT_C_i64 int64_t
#define KYMO_EVENT_C_f64 double
#define KYMO_EVENT_C_bool bool
#define KYMO_EVENT_C_string const char *
#define KYMO_EVENT_C_interned const char *
#define KYMO_EVENT_C_opt_u64 struct kymo_opt_u64
#define KYMO_EVENT_C_opt_i64 struct kymo_opt_i64
#define KYMO_EVENT_C_opt_f64 struct kymo_opt_f64
#define KYMO_EVENT_C_opt_bool struct kymo_opt_bool
#define KYMO_EVENT_C_opt_string const char *
#define KYMO_EVENT_C_opt_interned const char *
#define KYMO_EVENT_C_list_u64 struct kymo_list_u64
#define KYMO_EVENT_C_list_i64 struct kymo_list_i64
#define KYMO_EVENT_C_list_f64 struct kymo_list_f64
#define KYMO_EVENT_C_list_string struct kymo_list_string
#define KYMO_EVENT_C_map_u64 struct kymo_map_u64
#define KYMO_EVENT_C_map_f64 struct kymo_map_f64
#define KYMO_EVENT_C_map_string struct kymo_map_string

/* ---- what they are in the trace: enum kymo_custom_type ---- */

enum kymo_event_kind {
	KYMO_EVENT_TYPE_u64 = KYMO_CUSTOM_U64,
	KYMO_EVENT_TYPE_i64 = KYMO_CUSTOM_I64,
	KYMO_EVENT_TYPE_f64 = KYMO_CUSTOM_F64,
	KYMO_EVENT_TYPE_bool = KYMO_CUSTOM_BOOL,
	KYMO_EVENT_TYPE_string = KYMO_CUSTOM_STRING,
	KYMO_EVENT_TYPE_interned = KYMO_CUSTOM_INTERNED,
	KYMO_EVENT_TYPE_opt_u64 = KYMO_CUSTOM_OPTIONAL + KYMO_CUSTOM_U64,
	KYMO_EVENT_TYPE_opt_i64 = KYMO_CUSTOM_OPTIONAL + KYMO_CUSTOM_I64,
	KYMO_EVENT_TYPE_opt_f64 = KYMO_CUSTOM_OPTIONAL + KYMO_CUSTOM_F64,
	KYMO_EVENT_TYPE_opt_bool = KYMO_CUSTOM_OPTIONAL + KYMO_CUSTOM_BOOL,
	KYMO_EVENT_TYPE_opt_string = KYMO_CUSTOM_OPTIONAL + KYMO_CUSTOM_STRING,
	KYMO_EVENT_TYPE_opt_interned = KYMO_CUSTOM_OPTIONAL + KYMO_CUSTOM_INTERNED,
	KYMO_EVENT_TYPE_list_u64 = KYMO_CUSTOM_LIST,
	KYMO_EVENT_TYPE_list_i64 = KYMO_CUSTOM_LIST,
	KYMO_EVENT_TYPE_list_f64 = KYMO_CUSTOM_LIST,
	KYMO_EVENT_TYPE_list_string = KYMO_CUSTOM_LIST,
	KYMO_EVENT_TYPE_map_u64 = KYMO_CUSTOM_MAP,
	KYMO_EVENT_TYPE_map_f64 = KYMO_CUSTOM_MAP,
	KYMO_EVENT_TYPE_map_string = KYMO_CUSTOM_MAP
};

/* ---- how they are written ---- */

static inline void kymo_event_put_u64(struct kymo_custom *out, uint64_t value)
{
	kymo_custom_u64(out, value);
}

static inline void kymo_event_put_i64(struct kymo_custom *out, int64_t value)
{
	kymo_custom_i64(out, value);
}

static inline void kymo_event_put_f64(struct kymo_custom *out, double value)
{
	kymo_custom_f64(out, value);
}

static inline void kymo_event_put_bool(struct kymo_custom *out, bool value)
{
	kymo_custom_bool(out, value);
}

static inline void kymo_event_put_string(struct kymo_custom *out, const char *text)
{
	kymo_custom_string(out, text ? text : "", text ? strlen(text) : 0);
}

static inline void kymo_event_put_interned(struct kymo_custom *out, const char *text)
{
	text = text ? text : "";
	kymo_custom_interned(out, kymo_string_intern(text, strlen(text)));
}

static inline void kymo_event_put_opt_u64(struct kymo_custom *out, struct kymo_opt_u64 value)
{
	kymo_custom_is_present(out, value.is_present);
	if (value.is_present)
		kymo_custom_u64(out, value.value);
}

static inline void kymo_event_put_opt_i64(struct kymo_custom *out, struct kymo_opt_i64 value)
{
	kymo_custom_is_present(out, value.is_present);
	if (value.is_present)
		kymo_custom_i64(out, value.value);
}

static inline void kymo_event_put_opt_f64(struct kymo_custom *out, struct kymo_opt_f64 value)
{
	kymo_custom_is_present(out, value.is_present);
	if (value.is_present)
		kymo_custom_f64(out, value.value);
}

static inline void kymo_event_put_opt_bool(struct kymo_custom *out, struct kymo_opt_bool value)
{
	kymo_custom_is_present(out, value.is_present);
	if (value.is_present)
		kymo_custom_bool(out, value.value);
}

static inline void kymo_event_put_opt_string(struct kymo_custom *out, const char *text)
{
	kymo_custom_is_present(out, text != NULL);
	if (text)
		kymo_event_put_string(out, text);
}

static inline void kymo_event_put_opt_interned(struct kymo_custom *out, const char *text)
{
	kymo_custom_is_present(out, text != NULL);
	if (text)
		kymo_event_put_interned(out, text);
}

static inline void kymo_event_put_list_u64(struct kymo_custom *out, struct kymo_list_u64 list)
{
	kymo_custom_list(out, KYMO_CUSTOM_U64, list.count);
	for (uint32_t i = 0; i < list.count && !out->is_too_long; i++)
		kymo_custom_u64(out, list.items[i]);
}

static inline void kymo_event_put_list_i64(struct kymo_custom *out, struct kymo_list_i64 list)
{
	kymo_custom_list(out, KYMO_CUSTOM_I64, list.count);
	for (uint32_t i = 0; i < list.count && !out->is_too_long; i++)
		kymo_custom_i64(out, list.items[i]);
}

static inline void kymo_event_put_list_f64(struct kymo_custom *out, struct kymo_list_f64 list)
{
	kymo_custom_list(out, KYMO_CUSTOM_F64, list.count);
	for (uint32_t i = 0; i < list.count && !out->is_too_long; i++)
		kymo_custom_f64(out, list.items[i]);
}

static inline void kymo_event_put_list_string(struct kymo_custom *out, struct kymo_list_string list)
{
	kymo_custom_list(out, KYMO_CUSTOM_STRING, list.count);
	for (uint32_t i = 0; i < list.count && !out->is_too_long; i++)
		kymo_event_put_string(out, list.items[i]);
}

static inline void kymo_event_put_map_u64(struct kymo_custom *out, struct kymo_map_u64 map)
{
	kymo_custom_map(out, KYMO_CUSTOM_STRING, KYMO_CUSTOM_U64, map.count);
	for (uint32_t i = 0; i < map.count && !out->is_too_long; i++) {
		kymo_event_put_string(out, map.keys[i]);
		kymo_custom_u64(out, map.values[i]);
	}
}

static inline void kymo_event_put_map_f64(struct kymo_custom *out, struct kymo_map_f64 map)
{
	kymo_custom_map(out, KYMO_CUSTOM_STRING, KYMO_CUSTOM_F64, map.count);
	for (uint32_t i = 0; i < map.count && !out->is_too_long; i++) {
		kymo_event_put_string(out, map.keys[i]);
		kymo_custom_f64(out, map.values[i]);
	}
}

static inline void kymo_event_put_map_string(struct kymo_custom *out, struct kymo_map_string map)
{
	kymo_custom_map(out, KYMO_CUSTOM_STRING, KYMO_CUSTOM_STRING, map.count);
	for (uint32_t i = 0; i < map.count && !out->is_too_long; i++) {
		kymo_event_put_string(out, map.keys[i]);
		kymo_event_put_string(out, map.values[i]);
	}
}

/* ---- the macro ---- */

#define KYMO_EVENT_MEMBER(name, kind, unit) KYMO_EVENT_C_##kind name;
#define KYMO_EVENT_FIELD(name, kind, unit) {#name, KYMO_EVENT_TYPE_##kind, unit},
#define KYMO_EVENT_PUT(name, kind, unit) kymo_event_put_##kind(&kymo_event_out, event->name);

/* Declares struct ident and ident_record(), as above. name: in the trace. */
#define KYMO_EVENT(ident, name, fields)                                                            \
	struct ident {                                                                             \
		fields(KYMO_EVENT_MEMBER)                                                          \
	};                                                                                         \
	static inline void ident##_record(const struct ident *event)                               \
	{                                                                                          \
		static const struct kymo_custom_field kymo_event_fields[] = {                      \
			fields(KYMO_EVENT_FIELD)};                                                 \
		static struct kymo_custom_kind kymo_event_kind = {                                 \
			name, kymo_event_fields,                                                   \
			sizeof(kymo_event_fields) / sizeof(kymo_event_fields[0]), 0, 0};           \
		struct kymo_custom kymo_event_out;                                                 \
		uint32_t kymo_event_id;                                                            \
                                                                                                   \
		if (!kymo_gate_is_open(KYMO_GATE_CUSTOM))                                          \
			return;                                                                    \
		kymo_event_id = kymo_custom_id(&kymo_event_kind);                                  \
		if (!kymo_event_id)                                                                \
			return;                                                                    \
		kymo_custom_begin(&kymo_event_out, kymo_event_id);                                 \
		fields(KYMO_EVENT_PUT) kymo_custom_end(&kymo_event_out);                           \
	}

#ifdef __cplusplus
}
#endif

#endif
