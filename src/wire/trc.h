/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trc.h - what encoder and decoder of TRC version 1 share: tags, limits, schemas, the event table.
 * The format is docs/format.md (normative for kymo); compatible with dial9-trace-format.
 */
#ifndef KY_WIRE_TRC_H
#define KY_WIRE_TRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_TRC_HEADER_BYTES 5u
#define KY_TRC_VERSION 1u
#define KY_TRC_DELTA_MAX UINT64_C(16777215)
#define KY_TRC_FIELDS_MAX 64u          /* of an event this encoder writes */
#define KY_TRC_CONTAINER_DEPTH_MAX 32u /* as dial9's Rust decoder */
#define KY_TRC_CONTAINER_ELEMENTS_MAX 1000000u

/* Of a task's id: a root, the future of a block_on. */
#define KY_TASK_ID_ROOT (UINT64_C(1) << 39)
#define KY_TASK_ID_ROOT_OF_RUNTIME (UINT64_C(1) << 32) /* of the current thread */
/* From this bit on: which copy of the runtime's library, each of which counts its own tasks. */
#define KY_TASK_COPY_SHIFT 48

enum ky_trc_tag {
	KY_TAG_SCHEMA = 1,
	KY_TAG_EVENT = 2,
	KY_TAG_STRING_POOL = 3,
	KY_TAG_STACK_POOL = 4,
	KY_TAG_TIMESTAMP_RESET = 5,
	KY_TAG_ANNOTATIONS = 6,
	KY_TAG_HEADER = 0x54 /* 'T': a new stream begins, everything is reset */
};

enum ky_type {
	KY_TYPE_I64 = 1,
	KY_TYPE_F64 = 2,
	KY_TYPE_BOOL = 3,
	KY_TYPE_STRING = 4,
	KY_TYPE_BYTES = 5,
	KY_TYPE_POOLED_STACK = 6,
	KY_TYPE_POOLED_STRING = 7,
	KY_TYPE_STACK = 8,
	KY_TYPE_VARINT = 9,
	KY_TYPE_STRING_MAP = 10,
	KY_TYPE_U8 = 11,
	KY_TYPE_U16 = 12,
	KY_TYPE_U32 = 13,
	KY_TYPE_LIST = 14,
	KY_TYPE_MAP = 15,
	KY_TYPE_OPTIONAL = 0x80,
	KY_TYPE_OPT_I64 = KY_TYPE_OPTIONAL | KY_TYPE_I64,
	KY_TYPE_OPT_VARINT = KY_TYPE_OPTIONAL | KY_TYPE_VARINT,
	KY_TYPE_OPT_POOLED_STRING = KY_TYPE_OPTIONAL | KY_TYPE_POOLED_STRING,
	KY_TYPE_OPT_U16 = KY_TYPE_OPTIONAL | KY_TYPE_U16,
	KY_TYPE_OPT_U32 = KY_TYPE_OPTIONAL | KY_TYPE_U32
};

/* Number of every event in events.def: KY_EV_POLL_START, ... */
enum ky_event_id {
#define KY_EVENT(id, name, origin, doc) KY_EV_##id,
#define KY_FIELD(id, member, name, type, use, unit, kind, doc)
#define KY_EVENT_END(id)
#include <wire/events.def>
#undef KY_EVENT
#undef KY_FIELD
#undef KY_EVENT_END
	KY_EV_COUNT,
	KY_EV_UNKNOWN = 0xffff
};

/* Number of every field within its event: KY_F_POLL_START_worker_id = 0, ... */
/* clang-format off */
#define KY_EVENT(id, name, origin, doc) enum ky_fields_##id {
#define KY_FIELD(id, member, name, type, use, unit, kind, doc) KY_F_##id##_##member,
#define KY_EVENT_END(id) KY_F_##id##_COUNT };
/* clang-format on */
#include <wire/events.def>
#undef KY_EVENT
#undef KY_FIELD
#undef KY_EVENT_END

struct ky_field_desc {
	const char *name;
	uint8_t type;       /* enum ky_type, with KY_TYPE_OPTIONAL */
	uint8_t is_written; /* our encoder's schema has it */
	const char *unit;
	const char *kind;
	const char *doc;
};

struct ky_event_desc {
	const char *name;
	uint8_t is_dial9;
	uint8_t field_count;
	const struct ky_field_desc *fields; /* in KY_F_ order */
	const char *doc;
};

extern const struct ky_event_desc ky_event_table[KY_EV_COUNT];

/* KY_EV_ number of a wire name, KY_EV_UNKNOWN if it is not in events.def. */
uint32_t ky_event_find(const char *name, size_t name_bytes);

#endif
