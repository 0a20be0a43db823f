/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Spans by their enters, exits and closes, whichever of them the trace has. Each writer has schemas
 * of its own, one for each place in its code; what they share is names of fields. */
#include <read/spans.h>

#include <base/text.h>
#include <read/load.h>
#include <string.h>

#define EDGES_MAX (1u << 25)
#define FIELDS_MAX 16u /* of a span */
#define VALUE_BYTES_MAX 120u
#define FIELD_LIST_MAX (1u << 24)
#define FIELD_NAMES_MAX (1u << 21) /* beyond, texts that are new are left out */
#define AD_HOC (UINT64_C(1) << 63) /* of ids: dial9's spans that are entered once */

enum field {
	FIELD_ID,
	FIELD_PARENT,
	FIELD_NAME,
	FIELD_TASK,
	FIELD_WORKER,
	FIELD_START,
	FIELD_ACTIVE,
	FIELD_IDLE,
	FIELD_POLLS,
	FIELD_AT_EXIT,
	FIELD_IDLE_SINCE, /* of a request */
	FIELDS,           /* of the program's own from here on */
	FIELD_OWN = FIELDS
};

static const char *const field_names[FIELDS] = {
	"span_id",    "parent_span_id", "span_name",    "dial9.tokio.task_id",
	"worker_id",  "start_ns",       "active_ns",    "idle_ns",
	"poll_count", "at_exit",        "idle_since_ns"};

static enum field field_of(const struct ky_slice *name)
{
	for (uint32_t i = 0; i < FIELDS; i++)
		if (strlen(field_names[i]) == name->count &&
		    memcmp(field_names[i], name->bytes, name->count) == 0)
			return (enum field)i;
	return FIELD_OWN;
}

uint8_t ky_span_kind_of(const char *type)
{
	if (ky_text_begins(type, "SpanEnter:"))
		return KY_SPAN_ENTER;
	if (ky_text_begins(type, "SpanExit:"))
		return KY_SPAN_EXIT;
	if (strcmp(type, "SpanCloseEvent") == 0)
		return KY_SPAN_CLOSE;
	return strcmp(type, "OpenSpanEvent") == 0 ? KY_SPAN_OPEN : 0;
}

/* One exit ends it: it is entered once. */
static bool is_single(const char *type)
{
	return ky_text_contains(type, ":kymo::span:") || ky_text_contains(type, ":dial9_utils::") ||
	       ky_request_is_type(type);
}

uint32_t ky_span_place(struct ky_names *names, const char *type)
{
	const char *begin = type, *end = NULL, *last = NULL;

	while (*begin && *begin != ':')
		begin++;
	if (is_single(type) || !*begin)
		return KY_NONE;
	/* "SpanEnter:my_crate::my_module::name:src/lib.rs:40" */
	for (const char *at = begin + 1; *at; at++)
		if (*at == ':' && at[1] != ':' && at[-1] != ':') {
			end = last;
			last = at;
		}
	return end ? ky_names_intern(names, begin + 1, (size_t)(end - begin) - 1) : KY_NONE;
}

/* ---- loading ---- */

/* A name index has 24 bits, and each request may have an id of its own. */
static uint32_t intern(struct ky_names *names, const uint8_t *bytes, size_t count)
{
	size_t kept = count < VALUE_BYTES_MAX ? count : VALUE_BYTES_MAX;

	return names->count < FIELD_NAMES_MAX ? ky_names_intern(names, bytes, kept) :
						ky_names_find(names, bytes, kept);
}

/* To a millionth, without a C library; nothing where that does not say it. */
static void put_f64(struct ky_buf *text, double number)
{
	double positive = number < 0 ? -number : number;
	uint64_t whole, millionths;

	if (!(positive < 1e15) || (positive > 0 && positive < 1e-6))
		return;
	whole = (uint64_t)positive;
	millionths = (uint64_t)((positive - (double)whole) * 1e6 + 0.5);
	whole += millionths / 1000000;
	millionths %= 1000000;
	ky_text(text, number < 0 ? "-" : "");
	ky_text_u64(text, whole);
	for (uint64_t unit = 100000; millionths; millionths %= unit, unit /= 10) {
		ky_text(text, unit == 100000 ? "." : "");
		ky_text_u64(text, millionths / unit);
	}
}

/* A value as text, or as much of it as is kept. */
static uint32_t text_of(struct ky_load *load, const struct ky_value *value)
{
	struct ky_names *names = &load->private->names;
	struct ky_buf text;
	uint32_t name;

	if (value->type == KY_TYPE_STRING || value->type == KY_TYPE_POOLED_STRING)
		return intern(names, value->text.bytes, value->text.count);
	ky_buf_init(&text, 0);
	switch (value->type) {
	case KY_TYPE_VARINT:
	case KY_TYPE_U8:
	case KY_TYPE_U16:
	case KY_TYPE_U32:
		ky_text_u64(&text, value->as.number);
		break;
	case KY_TYPE_BOOL:
		ky_text(&text, value->as.number ? "true" : "false");
		break;
	case KY_TYPE_I64:
		ky_text(&text, value->as.i64 < 0 ? "-" : "");
		ky_text_u64(&text, value->as.i64 < 0 ? 0 - (uint64_t)value->as.i64 :
						       (uint64_t)value->as.i64);
		break;
	case KY_TYPE_F64:
		put_f64(&text, value->as.f64);
		break;
	default:
		break;
	}
	name = text.failed || !text.used ? KY_NONE : intern(names, text.bytes, text.used);
	ky_buf_release(&text);
	return name;
}

static bool add_field(struct ky_load *load, struct ky_span_edge *edge, const struct ky_slice *key,
		      const struct ky_value *value)
{
	struct ky_trace *trace = load->trace;
	struct ky_pair *pair;

	if (edge->field_count == FIELDS_MAX || trace->span_field_count == FIELD_LIST_MAX)
		return true;
	if (!ky_pages_array(&trace->pages, &trace->span_fields, &trace->span_field_capacity,
			    trace->span_field_count + 1, sizeof(*pair)))
		return false;
	pair = &trace->span_fields[trace->span_field_count];
	pair->key = ky_names_intern(&load->private->names, key->bytes, key->count);
	pair->value = text_of(load, value);
	if (trace->pages.failed)
		return false;
	if (pair->value == KY_NONE)
		return true; /* nothing that can be said in a word */
	trace->span_field_count++;
	edge->field_count++;
	return true;
}

static bool take_field(struct ky_load *load, struct ky_span_edge *edge, const struct ky_slice *name,
		       const struct ky_value *value, bool has_fields)
{
	enum field field = field_of(name);

	if (field == FIELD_IDLE_SINCE && !edge->is_request)
		field = FIELD_OWN;
	switch (field) {
	case FIELD_IDLE_SINCE:
		edge->idle_since_ns = value->as.number;
		return true;
	case FIELD_ID:
		edge->id = value->as.number;
		return true;
	case FIELD_PARENT:
		edge->parent_id = value->as.number;
		return true;
	case FIELD_NAME:
		if (edge->name == KY_NONE && value->text.count)
			edge->name = ky_names_intern(&load->private->names, value->text.bytes,
						     value->text.count);
		return !load->trace->pages.failed;
	case FIELD_TASK:
		edge->task = value->as.number ?
				     ky_load_task(load, value->as.number, edge->time_ns) :
				     KY_NONE;
		return !load->trace->pages.failed;
	case FIELD_WORKER:
		edge->worker_id = value->as.number;
		return true;
	case FIELD_START:
		edge->start_ns = value->as.number;
		return true;
	case FIELD_OWN:
		return !has_fields || add_field(load, edge, name, value);
	default:
		return true;
	}
}

bool ky_load_span(struct ky_load *load, const struct ky_frame *frame,
		  const struct ky_event_type *type)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_private *private = load->private;
	struct ky_span_edge edge = {.time_ns = frame->timestamp_ns,
				    .worker_id = UINT64_MAX,
				    .task = KY_NONE,
				    .name = type->span_name,
				    .field_at = trace->span_field_count,
				    .kind = type->span_kind,
				    .is_single = is_single(type->name),
				    .is_request = ky_request_is_type(type->name)};
	bool has_fields;

	if (private->span_edge_count == EDGES_MAX)
		return true;
	/* Fields stand in every event of a span; those of an exit may be new. */
	has_fields = edge.kind == KY_SPAN_ENTER || (edge.kind == KY_SPAN_EXIT && edge.is_single);
	for (uint32_t i = 0; i < frame->schema->field_count; i++)
		if (frame->values[i].is_present &&
		    !take_field(load, &edge, &frame->schema->fields[i].name, &frame->values[i],
				has_fields))
			return false;
	if (!ky_pages_array(&trace->pages, &private->span_edges, &private->span_edge_capacity,
			    private->span_edge_count + 1, sizeof(edge)))
		return false;
	edge.is_single |= (edge.id & AD_HOC) != 0;
	edge.serial = private->span_edge_count;
	private->has_closes |= edge.kind == KY_SPAN_CLOSE;
	private->span_edges[private->span_edge_count++] = edge;
	return true;
}

/* ---- instances ---- */

struct span_making {
	struct ky_trace *trace;
	uint32_t at;         /* span that is built; KY_NONE */
	uint64_t entered_ns; /* 0: it is not entered now */
	uint64_t exit_ns;    /* its last exit; 0 */
	/* Enters of it that have no exit yet: of threads, or inside it. Where exits may be lost
	 * only the last one counts. */
	uint32_t depth;
};

static bool begin(struct span_making *making, const struct ky_span_edge *edge, uint64_t start_ns)
{
	struct ky_trace *trace = making->trace;

	if (!ky_pages_array(&trace->pages, &trace->spans, &trace->span_capacity,
			    trace->span_count + 1, sizeof(*trace->spans)))
		return false;
	making->at = trace->span_count++;
	making->entered_ns = making->exit_ns = 0;
	making->depth = 0;
	trace->spans[making->at] = (struct ky_trace_span){.start_ns = start_ns,
							  .id = edge->id,
							  .parent_id = edge->parent_id,
							  .worker_id = edge->worker_id,
							  .idle_since_ns = edge->idle_since_ns,
							  .name = edge->name,
							  .task = edge->task,
							  .parent = KY_NONE,
							  .field_at = edge->field_at,
							  .is_open = true};
	return true;
}

static void end(struct span_making *making, uint64_t ns)
{
	struct ky_trace_span *span = &making->trace->spans[making->at];

	span->is_open = false;
	span->duration_ns = ns > span->start_ns ? ns - span->start_ns : 0;
	making->at = KY_NONE;
}

/* Fields of its begin and others of its end, one after the other. */
static bool join_fields(struct ky_trace *trace, struct ky_trace_span *span,
			const struct ky_span_edge *edge)
{
	uint32_t first = trace->span_field_count, begin_count = span->field_count;

	if (begin_count > FIELDS_MAX || begin_count + edge->field_count > FIELD_LIST_MAX - first)
		return true;
	if (!ky_pages_array(&trace->pages, &trace->span_fields, &trace->span_field_capacity,
			    first + begin_count + edge->field_count, sizeof(*trace->span_fields)))
		return false;
	for (uint32_t i = 0; i < begin_count; i++)
		trace->span_fields[first + i] = trace->span_fields[span->field_at + i];
	span->field_at = first;
	for (uint32_t i = 0; i < edge->field_count; i++) {
		struct ky_pair pair = trace->span_fields[edge->field_at + i];
		uint32_t same = 0;

		while (same < begin_count && trace->span_fields[first + same].key != pair.key)
			same++;
		if (same == begin_count)
			trace->span_fields[first + span->field_count++] = pair;
	}
	trace->span_field_count = first + span->field_count;
	return true;
}

/* What the event says of its span that is not known yet. */
static bool note(struct span_making *making, const struct ky_span_edge *edge)
{
	struct ky_trace_span *span = &making->trace->spans[making->at];

	if (span->name == KY_NONE)
		span->name = edge->name;
	if (span->task == KY_NONE)
		span->task = edge->task;
	if (!span->parent_id)
		span->parent_id = edge->parent_id;
	if (edge->is_request && !span->request)
		span->request = ky_request_kind_of(making->trace, edge->name);
	if (span->request && span->field_count && edge->field_count)
		return join_fields(making->trace, span, edge);
	if (!span->field_count) {
		span->field_at = edge->field_at;
		span->field_count = edge->field_count;
	} else if (edge->kind == KY_SPAN_EXIT && edge->field_count > span->field_count) {
		span->field_at = edge->field_at; /* its own, and those that came late */
		span->field_count = edge->field_count;
	}
	return true;
}

/* Its id came back, and its close was lost: it is another one's. */
static bool is_other(const struct span_making *making, const struct ky_span_edge *edge)
{
	const struct ky_trace_span *span = &making->trace->spans[making->at];

	return (edge->name != KY_NONE && span->name != KY_NONE && edge->name != span->name) ||
	       (edge->parent_id && span->parent_id && edge->parent_id != span->parent_id);
}

static void take_exit(struct span_making *making, const struct ky_span_edge *edge)
{
	making->depth -= making->depth > 0;
	making->exit_ns = edge->time_ns;
	if (!making->depth) {
		if (making->entered_ns && edge->time_ns > making->entered_ns)
			making->trace->spans[making->at].active_ns += edge->time_ns -
								      making->entered_ns;
		making->entered_ns = 0;
	}
	if (edge->is_single || !making->trace->private->has_closes)
		end(making, edge->time_ns);
}

static bool take(struct span_making *making, const struct ky_span_edge *edge)
{
	struct ky_trace_span *span;

	if (edge->kind == KY_SPAN_ENTER) {
		if (making->at != KY_NONE && is_other(making, edge))
			making->at = KY_NONE;
		if (making->at == KY_NONE && !begin(making, edge, edge->time_ns))
			return false;
		span = &making->trace->spans[making->at];
		span->enter_count += span->enter_count < UINT32_MAX;
		if (!making->depth || making->trace->loss_count) {
			making->entered_ns = edge->time_ns;
			making->depth = 0;
		}
		making->depth++;
		return note(making, edge);
	}
	/* It began before the trace, or its begin was held back. */
	if (making->at == KY_NONE && edge->start_ns && edge->start_ns <= edge->time_ns &&
	    !begin(making, edge, edge->start_ns))
		return false;
	if (making->at == KY_NONE)
		return true;
	if (!note(making, edge))
		return false;
	if (edge->kind == KY_SPAN_EXIT)
		take_exit(making, edge);
	else if (edge->kind == KY_SPAN_CLOSE) /* It may be dropped long after its end. */
		end(making, making->exit_ns ? making->exit_ns : edge->time_ns);
	return true;
}

static bool is_edge_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_span_edge *one = a, *other = b;

	(void)ctx;
	if (one->id != other->id)
		return one->id < other->id;
	return one->time_ns != other->time_ns ? one->time_ns < other->time_ns :
						one->serial < other->serial;
}

static bool is_span_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace_span *one = a, *other = b;

	(void)ctx;
	return one->start_ns != other->start_ns ? one->start_ns < other->start_ns :
						  one->id < other->id;
}

static bool is_id_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace *trace = ctx;
	const struct ky_trace_span *one = &trace->spans[*(const uint32_t *)a];
	const struct ky_trace_span *other = &trace->spans[*(const uint32_t *)b];

	return one->id != other->id ? one->id < other->id : one->start_ns < other->start_ns;
}

/* Ids come back: the last one of that id that began before it. */
static uint32_t find_parent(const struct ky_trace *trace, const uint32_t *order,
			    const struct ky_trace_span *span)
{
	uint32_t low = 0, high = trace->span_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct ky_trace_span *one = &trace->spans[order[middle]];

		if (one->id < span->parent_id ||
		    (one->id == span->parent_id && one->start_ns <= span->start_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low && trace->spans[order[low - 1]].id == span->parent_id ? order[low - 1] : KY_NONE;
}

/* Older traces have the worker on which it was entered first. */
static uint32_t task_polled(const struct ky_trace *trace, const struct ky_trace_span *span)
{
	uint32_t worker = span->worker_id == UINT64_MAX ? KY_NONE :
							  ky_trace_worker(trace, span->worker_id);
	const struct ky_column *polls;
	struct ky_poll poll;
	uint64_t row;

	if (worker == KY_NONE)
		return KY_NONE;
	polls = &trace->workers[worker].polls;
	row = ky_column_find(polls, span->start_ns + 1);
	if (!row)
		return KY_NONE;
	ky_trace_poll(trace, worker, row - 1, &poll);
	return poll.start_ns + poll.duration_ns >= span->start_ns ? poll.task : KY_NONE;
}

static bool link_spans(struct ky_trace *trace)
{
	size_t bytes = trace->span_count * sizeof(uint32_t);
	uint32_t *order = ky_pages_alloc(&trace->pages, bytes);

	if (!order)
		return false;
	ky_sort(trace->spans, trace->span_count, sizeof(*trace->spans), is_span_before, NULL);
	for (uint32_t i = 0; i < trace->span_count; i++)
		order[i] = i;
	ky_sort(order, trace->span_count, sizeof(*order), is_id_before, trace);
	for (uint32_t i = 0; i < trace->span_count; i++) {
		struct ky_trace_span *span = &trace->spans[i];

		if (span->parent_id)
			span->parent = find_parent(trace, order, span);
		if (span->parent == i)
			span->parent = KY_NONE;
		if (span->task == KY_NONE)
			span->task = task_polled(trace, span);
	}
	ky_pages_free(&trace->pages, order, bytes);
	return true;
}

int ky_spans_finish(struct ky_trace *trace)
{
	struct ky_trace_private *private = trace->private;
	struct span_making making = {.trace = trace, .at = KY_NONE};
	bool is_made = true;

	if (!private->span_edge_count)
		return 0;
	ky_sort(private->span_edges, private->span_edge_count, sizeof(*private->span_edges),
		is_edge_before, NULL);
	for (uint32_t i = 0; i < private->span_edge_count && is_made; i++) {
		if (i && private->span_edges[i].id != private->span_edges[i - 1].id)
			making.at = KY_NONE;
		is_made = take(&making, &private->span_edges[i]);
	}
	ky_pages_free(&trace->pages, private->span_edges,
		      private->span_edge_capacity * sizeof(*private->span_edges));
	private->span_edges = NULL;
	private->span_edge_count = private->span_edge_capacity = 0;
	if (is_made && trace->span_count)
		is_made = ky_requests_finish(trace) == 0 && link_spans(trace);
	return is_made ? 0 : trace->pages.failed;
}

const char *ky_span_field(const struct ky_trace *trace, const struct ky_trace_span *span,
			  uint32_t key)
{
	for (uint32_t i = 0; i < span->field_count; i++)
		if (trace->span_fields[span->field_at + i].key == key)
			return ky_trace_name(trace, trace->span_fields[span->field_at + i].value);
	return NULL;
}
