/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trc_dec.h - reads TRC version 1 from untrusted bytes.
 *
 * Push in windows of the stream, pull frames out: ky_trc_dec_next() reads [at, end) and either
 * consumes one whole frame, or says KYMO_E_TRUNCATED (give it more bytes, or it is the torn tail),
 * or KYMO_E_CORRUPT with a byte offset and a sentence. No recursion; memory bounded by the limits.
 *
 * Pools and schemas belong to the decoder and are reset by a stream header. Values point into the
 * caller's window and into the pools, and are valid until the next call.
 * Threads: owner.
 */
#ifndef KY_WIRE_TRC_DEC_H
#define KY_WIRE_TRC_DEC_H

#include <wire/trc.h>

struct ky_trc_limits {
	uint64_t pool_bytes_max;  /* strings + stacks alive in one stream; 0: 256 MiB */
	uint32_t schemas_max;     /* 0: 4,096 */
	uint64_t frame_bytes_max; /* 0: 64 MiB */
	/* frames in a row that bring nothing: resets, headers, empty pools; 0: 1 Mi */
	uint32_t empty_frames_max;
};

struct ky_slice {
	const uint8_t *bytes;
	size_t count;
};

/* One decoded value. Containers (STRING_MAP, LIST, MAP) are given raw: see ky_trc_walk_next(). */
struct ky_value {
	uint8_t type; /* enum ky_type without the optional bit */
	uint8_t is_present;
	uint8_t is_resolved; /* pooled: the id was defined */
	uint32_t pool_id;
	union {
		uint64_t number; /* VARINT, U8, U16, U32, BOOL */
		int64_t i64;
		double f64;
	} as;
	struct ky_slice text;  /* STRING, BYTES, POOLED_STRING; raw body of containers */
	const uint8_t *frames; /* STACK, POOLED_STACK: frame_count little-endian u64, unaligned */
	uint32_t frame_count;  /* or number of pairs/elements of a container */
};

struct ky_schema_field {
	struct ky_slice name;
	uint8_t type;         /* with the optional bit */
	uint8_t known;        /* KY_F_ number within the known event, 0xff: not in events.def */
	struct ky_slice unit; /* from annotations; empty if none */
	struct ky_slice kind;
	struct ky_slice role; /* dial9.role */
};

struct ky_schema {
	uint16_t type_id;
	uint8_t has_timestamp;
	uint16_t field_count;
	uint32_t event;  /* KY_EV_ number or KY_EV_UNKNOWN */
	uint32_t serial; /* differs for every distinct (name, fields) seen by this decoder */
	struct ky_slice name;
	struct ky_schema_field *fields;
	/* known field number -> index in fields, 0xff: absent */
	uint8_t slot_of[KY_TRC_FIELDS_MAX];
};

enum ky_frame_kind {
	KY_FRAME_HEADER = 1, /* a stream (re)starts */
	KY_FRAME_SCHEMA,
	KY_FRAME_EVENT,
	KY_FRAME_POOL, /* strings or stacks */
	KY_FRAME_RESET,
	KY_FRAME_ANNOTATIONS
};

struct ky_frame {
	enum ky_frame_kind kind;
	const struct ky_schema *schema; /* SCHEMA, EVENT, ANNOTATIONS (NULL: unknown type) */
	uint64_t timestamp_ns;          /* EVENT with has_timestamp */
	const struct ky_value *values;  /* EVENT: schema->field_count values */
	const uint8_t *begin;           /* the frame's own bytes in the window */
	size_t bytes;
};

struct ky_trc_dec;

/* Returns 0, -ENOMEM. limits NULL: defaults. */
int ky_trc_dec_open(struct ky_trc_dec **out, const struct ky_trc_limits *limits);
void ky_trc_dec_close(struct ky_trc_dec *dec);

/* Consumes one frame from the start of the window.
 * Returns  bytes consumed (> 0) with *frame filled; 0 for an empty window; KYMO_E_TRUNCATED: the
 *          frame does not end inside the window; KYMO_E_CORRUPT, _VERSION, _LIMIT, _NOT_TRACE,
 *          -ENOMEM: see ky_trc_dec_error(). After an error only ky_trc_dec_resync() continues.
 */
int64_t ky_trc_dec_next(struct ky_trc_dec *dec, const uint8_t *window, size_t window_bytes,
			struct ky_frame *frame);

/* PollStartEvent, PollEndEvent or WakeEventEvent in plain numbers. They are nearly all of a trace;
 * as values with types they take several times as long. */
struct ky_hot_event {
	const struct ky_schema *schema; /* schema->event says which */
	uint64_t timestamp_ns;
	uint64_t worker_id;    /* WAKE: target_worker */
	uint64_t task_id;      /* POLL_START; WAKE: woken_task_id */
	uint64_t waker_id;     /* WAKE */
	uint32_t tid;          /* WAKE */
	uint32_t spawn_loc_id; /* POLL_START: in the pool of strings */
	uint32_t stack_id;     /* WAKE: in the pool of stacks */
	uint8_t origin;        /* WAKE */
	uint8_t local_queue;   /* POLL_START */
};

/* Consumes such events from the start of the window, up to the first frame of another kind, schemas
 * other than our encoder's (more, fewer or other fields) included.
 * Returns  how many of events[0 .. capacity) are filled, *used the bytes consumed; their times
 *          ascend. 0: whatever comes next, ky_trc_dec_next() sees to it.
 */
uint32_t ky_trc_dec_hot(struct ky_trc_dec *dec, const uint8_t *window, size_t window_bytes,
			struct ky_hot_event *events, uint32_t capacity, size_t *used);

/* Text of the pool of strings as of the last frame; count 0 when the id is not defined. */
struct ky_slice ky_trc_dec_string(const struct ky_trc_dec *dec, uint32_t id);

/* The same of the pool of stacks: count frames of 8 bytes, little endian, not aligned. */
struct ky_slice ky_trc_dec_stack(const struct ky_trc_dec *dec, uint32_t id);

/* Sentence about the last error, and its byte offset in the stream so far. */
const char *ky_trc_dec_error(const struct ky_trc_dec *dec, uint64_t *offset);

/* Offset in the whole input of the next byte to be consumed. */
uint64_t ky_trc_dec_offset(const struct ky_trc_dec *dec);

/* Forgets an error and all state, to continue at a later stream header (offset in the input). */
void ky_trc_dec_resync(struct ky_trc_dec *dec, uint64_t offset);

/* Iterates a container value without recursion. */
struct ky_trc_walk {
	const uint8_t *at;
	const uint8_t *end;
	uint32_t left;
	uint8_t type;
};
void ky_trc_walk_begin(struct ky_trc_walk *walk, const struct ky_value *container);
/* STRING_MAP and MAP: key and value; LIST: value. Returns 1, 0 at the end, KYMO_E_CORRUPT. */
int ky_trc_walk_next(struct ky_trc_dec *dec, struct ky_trc_walk *walk, struct ky_value *key,
		     struct ky_value *value);

/* Known field of an event, NULL when this schema lacks it or it is absent. field: KY_F_ number. */
static inline const struct ky_value *ky_frame_field(const struct ky_frame *frame, uint32_t field)
{
	uint8_t slot = frame->schema->slot_of[field];

	if (slot == 0xff || !frame->values[slot].is_present)
		return NULL;
	return &frame->values[slot];
}

/* Number of a known integer field; `absent` when the schema lacks it. */
static inline uint64_t ky_frame_number(const struct ky_frame *frame, uint32_t field,
				       uint64_t absent)
{
	const struct ky_value *value = ky_frame_field(frame, field);

	return value ? value->as.number : absent;
}

/* 0: it is not there, or no number that a thread has. */
static inline uint32_t ky_frame_tid(const struct ky_frame *frame, uint32_t field)
{
	uint64_t tid = ky_frame_number(frame, field, 0);

	return tid <= UINT32_MAX ? (uint32_t)tid : 0;
}

#endif
