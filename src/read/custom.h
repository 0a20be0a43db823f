/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* custom.h - events of types that the trace declares and that are neither kymo's nor dial9's: the
 * program's own, each field with its value and type.
 *
 * A type is a name with its fields: events of one name and other fields are of another type.
 * A list or a map is a text, JSON; bytes and stacks are known to be there, and what is in them only
 * the event itself says.
 * Memory:      16 bytes an event, and 8 a field and 64 fields; at most 384 MiB. Beyond: counted in
 *              left_outs, and in the type.
 */
#ifndef KY_READ_CUSTOM_H
#define KY_READ_CUSTOM_H

#include <read/trace.h>

struct ky_custom_field {
	uint32_t name, unit; /* name indexes; unit KY_NONE: none */
	uint8_t type;        /* enum ky_type, without the optional bit */
	bool is_optional;
};

struct ky_custom_type {
	uint64_t count;
	uint64_t left_out;          /* of them: they are in no row */
	uint64_t first_ns, last_ns; /* 0: none with a time */
	uint32_t name;              /* name index */
	uint32_t field_at, field_count;
};

struct ky_custom_row {
	uint64_t time_ns;  /* 0: it has none */
	uint32_t type;     /* index in custom_types */
	uint32_t value_at; /* in custom_values */
};

enum ky_custom_kind {
	KY_CUSTOM_ABSENT,
	KY_CUSTOM_NUMBER,
	KY_CUSTOM_SIGNED,
	KY_CUSTOM_REAL,
	KY_CUSTOM_FLAG,
	KY_CUSTOM_TEXT,
	KY_CUSTOM_WHOLE /* bytes or a stack: it is there */
};

struct ky_custom_value {
	uint8_t kind;  /* enum ky_custom_kind */
	uint32_t text; /* name index; KY_NONE: there was no room for it */
	union {
		uint64_t number;
		int64_t i64;
		double f64;
	} as;
};

/* A field of the row's type, from 0. */
void ky_custom_value(const struct ky_trace *trace, const struct ky_custom_row *row, uint32_t field,
		     struct ky_custom_value *out);

/* "varint", "f64", "string" ...: as docs/format.md has it. */
const char *ky_custom_type_name(uint8_t type);

#endif
