/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* reader.h - open a trace, iterate its events.
 *
 * Reads TRC version 1 as kymo and dial9 write it: any number of segments as one trace, including
 * events of unknown types, with all their fields. The bytes come through struct
 * kymo_source, already decompressed, so the library needs none of its own;
 * kymo_reader_open_memory() serves the simple case.
 *
 * Damage:   a torn tail costs what is torn, a damaged part everything before the next stream
 *           header; kymo_reader_notice() says which file, which byte, what is missing. Bytes are
 *           never trusted.
 * Memory:   bounded by the options, whatever the input says.
 * Threads:  one reader belongs to one thread at a time.      Signals: unsafe.
 */
#ifndef KYMO_READER_H
#define KYMO_READER_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kymo_reader;

/* Where the bytes of one segment come from. The reader never closes a source. */
struct kymo_source {
	size_t size; /* sizeof(struct kymo_source) */
	/* Up to out_bytes into out. Returns bytes read, 0 at the end, -errno or KYMO_E_*. */
	int64_t (*read)(void *ctx, uint8_t *out, size_t out_bytes);
	/* Next read starts at this offset. NULL: it can be read once, from where it stands. */
	int (*seek)(void *ctx, uint64_t offset);
	void *ctx;
	const char *name; /* for notices; NULL: "source N" */
};

enum kymo_reader_flags {
	KYMO_READER_STORED_ORDER = 1u << 0 /* as stored; else ascending by time over all sources */
};

struct kymo_reader_options {
	size_t size;                /* sizeof(struct kymo_reader_options) */
	uint32_t flags;             /* enum kymo_reader_flags */
	uint64_t raw_bytes_max;     /* read of one source; 0: 16 GiB */
	uint64_t reorder_bytes_max; /* held back to sort; 0: 256 MiB */
	char *errbuf;               /* NULL, or errbuf_bytes for one sentence when open fails */
	size_t errbuf_bytes;
};

#define KYMO_READER_OPTIONS_INIT                                                                   \
	{                                                                                          \
		sizeof(struct kymo_reader_options), 0, 0, 0, 0, 0                                  \
	}

enum kymo_field_type {
	KYMO_FIELD_ABSENT = 0, /* an optional field without a value */
	KYMO_FIELD_UINT = 1,   /* as_uint; also booleans */
	KYMO_FIELD_INT = 2,    /* as_int */
	KYMO_FIELD_DOUBLE = 3, /* as_double */
	KYMO_FIELD_TEXT = 4,   /* bytes, byte_count: UTF-8 by convention, not NUL-terminated */
	KYMO_FIELD_BYTES = 5,  /* bytes, byte_count */
	KYMO_FIELD_STACK = 6,  /* kymo_field_frame(), frame_count, leaf first */
	KYMO_FIELD_PAIRS = 7,  /* kymo_field_item(), item_count pairs */
	KYMO_FIELD_LIST = 8    /* kymo_field_item(), item_count values; key is absent */
};

/* One field of an event, or one element of a container. Pointers live until the next
 * kymo_reader_next(). */
struct kymo_field {
	const char *name; /* not NUL-terminated; NULL for elements */
	size_t name_bytes;
	const char *unit; /* "ns", "bytes", ...; NULL when the trace does not say */
	size_t unit_bytes;
	uint32_t type; /* enum kymo_field_type */
	uint32_t frame_count;
	uint32_t item_count;
	uint32_t reserved;
	uint64_t as_uint;
	int64_t as_int;
	double as_double;
	const uint8_t *bytes;
	size_t byte_count;
};

struct kymo_event {
	const char *type; /* "PollStartEvent", ...; not NUL-terminated */
	size_t type_bytes;
	uint64_t time_ns; /* CLOCK_MONOTONIC of the recorded process; 0 when it carries none */
	uint32_t source;  /* index of its source */
	uint32_t field_count;
	const struct kymo_field *fields;
	uint64_t offset; /* of the event in its source */
};

/* Opens sources as one trace, in any order.
 *
 * out      set to NULL first
 * sources  source_count, at least one; used until close
 * options  NULL: all defaults
 * Returns  0; -EINVAL; -E2BIG unknown trailing option bytes; -ENOMEM; KYMO_E_NOT_TRACE when not one
 *          source starts like a trace; the error of a source.
 * Owner    the caller closes it with kymo_reader_close().
 * Since    0.1
 */
KYMO_API int kymo_reader_open(struct kymo_reader **out, const struct kymo_source *sources,
			      size_t source_count, const struct kymo_reader_options *options);

/* The same over one array that the caller keeps alive. Since 0.1 */
KYMO_API int kymo_reader_open_memory(struct kymo_reader **out, const void *bytes, size_t byte_count,
				     const struct kymo_reader_options *options);

/* close(NULL) is fine. Since 0.1 */
KYMO_API void kymo_reader_close(struct kymo_reader *reader);

/* The next event.
 *
 * event    set when the result is 1; valid until the next call
 * Returns  1; 0 at the end; -ENOMEM; in stored order also what kymo_reader_open() would return for
 *          sources none of which is a trace.
 * Since    0.1
 */
KYMO_API int kymo_reader_next(struct kymo_reader *reader, const struct kymo_event **event);

/* Field by name, NULL when the event's type lacks it. Since 0.1 */
KYMO_API const struct kymo_field *kymo_event_field(const struct kymo_event *event,
						   const char *name);

/* Frame of a STACK field; 0 beyond the last. Since 0.1 */
KYMO_API uint64_t kymo_field_frame(const struct kymo_field *field, uint32_t index);

/* Element of a PAIRS or LIST field. Containers inside containers are given the same way.
 *
 * cursor   0 for the first element, then as this function left it
 * key      of PAIRS; may be NULL
 * Returns  1; 0 after the last; KYMO_E_CORRUPT.
 * Since    0.1
 */
KYMO_API int kymo_field_item(struct kymo_reader *reader, const struct kymo_field *field,
			     uint64_t *cursor, struct kymo_field *key, struct kymo_field *value);

/* Sentences about damage met so far, in order; NULL after the last. Since 0.1 */
KYMO_API const char *kymo_reader_notice(const struct kymo_reader *reader, uint32_t index);

#ifdef __cplusplus
}
#endif

#endif
