/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* spans.h - spans of a program, each with its task, its parent and its fields.
 *
 * A span of a future is entered and left with each poll of it (tracing's), or once (kymo's own and
 * dial9's ad-hoc ones). In our traces runs say when threads work for one of tracing's. Ids of
 * closed spans come back, so a span is an id and a begin.
 * Memory:      112 bytes a span and 8 a field; 68 an event and 4 to 64 an id while loading.
 */
#ifndef KY_READ_SPANS_H
#define KY_READ_SPANS_H

#include <read/trace.h>

enum ky_span_kind {
	KY_SPAN_ENTER = 1,
	KY_SPAN_EXIT,
	KY_SPAN_CLOSE,
	KY_SPAN_OPEN,     /* a snapshot */
	KY_SPAN_RUN,      /* a thread works for it from here on */
	KY_SPAN_RUN_OVER, /* no longer */
	KY_SPAN_FOLLOWS   /* another one */
};

/* An event of a span; while loading. */
struct ky_span_edge {
	uint64_t time_ns, id, parent_id;
	uint64_t where; /* ENTER: its worker, UINT64_MAX; else the span's begin, as it says; 0 */
	uint64_t idle_since_ns; /* of a request; 0 */
	uint32_t task, name;
	uint32_t number; /* of the id, from 0 */
	uint32_t field_at;
	uint8_t field_count;
	uint8_t kind; /* enum ky_span_kind */
	bool is_single;
	bool is_request;
};

#define KY_SPAN_FIELDS_MAX 16u            /* of an event */
#define KY_SPAN_FIELD_LIST_MAX (1u << 24) /* of all */
#define KY_SPAN_PAGE 16384u               /* events that lie together */

/* Of a type of event; 0: of no span. */
uint8_t ky_span_kind_of(const char *type);

/* One exit ends a span of this type: it is entered once. */
bool ky_span_is_single(const char *type);

/* Name index of "module::name", where the type of event is of one place; KY_NONE: events say. */
struct ky_names;
uint32_t ky_span_place(struct ky_names *names, const char *type);

/* Value of a field by the name index of its key; NULL: it has none. */
const char *ky_span_field(const struct ky_trace *trace, const struct ky_trace_span *span,
			  uint32_t key);

#endif
