/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The events of spans while a trace is loaded. Each writer has schemas of its own, one for each
 * place in its code; what they share is names of fields. */
#include <read/spans.h>

#include <base/text.h>
#include <read/load.h>
#include <string.h>

#define EDGES_MAX (1u << 25)
#define VALUE_BYTES_MAX 120u
#define FIELD_NAMES_MAX (1u << 21) /* beyond, texts that are new are left out */
#define AD_HOC (UINT64_C(1) << 63) /* of ids: dial9's spans that are entered once */
#define ROLES_MAX (1u << 20)       /* of schemas that are remembered */
#define ROLE_SHIFT 24              /* above the name of the field */

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
	if (strcmp(type, "SpanRunStartEvent") == 0)
		return KY_SPAN_RUN;
	if (strcmp(type, "SpanRunEndEvent") == 0)
		return KY_SPAN_RUN_OVER;
	if (strcmp(type, "SpanFollowsEvent") == 0)
		return KY_SPAN_FOLLOWS;
	return strcmp(type, "OpenSpanEvent") == 0 ? KY_SPAN_OPEN : 0;
}

bool ky_span_is_single(const char *type)
{
	return ky_text_contains(type, ":kymo::span:") || ky_text_contains(type, ":dial9_utils::") ||
	       ky_request_is_type(type);
}

uint32_t ky_span_place(struct ky_names *names, const char *type)
{
	const char *begin = type, *end = NULL, *last = NULL;

	while (*begin && *begin != ':')
		begin++;
	if (ky_span_is_single(type) || !*begin)
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
static uint32_t intern(struct ky_load *load, const uint8_t *bytes, size_t count)
{
	size_t kept = count < VALUE_BYTES_MAX ? count : VALUE_BYTES_MAX;
	uint32_t name = ky_names_intern_below(&load->private->names, bytes, kept, FIELD_NAMES_MAX);

	if (name == KY_NONE || kept < count)
		ky_leave_out(load->private, KY_LEFT_SPAN_TEXTS);
	return name;
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

/* Most of what is no text. */
static uint32_t number_of(struct ky_load *load, uint64_t number)
{
	uint8_t digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (uint8_t)('0' + number % 10);
		number /= 10;
	} while (number);
	return intern(load, digits + at, sizeof(digits) - at);
}

/* A value as text, or as much of it as is kept. */
static uint32_t text_of(struct ky_load *load, const struct ky_value *value)
{
	struct ky_buf text;
	uint32_t name;

	if (value->type == KY_TYPE_STRING || value->type == KY_TYPE_POOLED_STRING)
		return intern(load, value->text.bytes, value->text.count);
	if (value->type == KY_TYPE_VARINT || value->type == KY_TYPE_U8 ||
	    value->type == KY_TYPE_U16 || value->type == KY_TYPE_U32)
		return number_of(load, value->as.number);
	ky_buf_init(&text, 0);
	switch (value->type) {
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
	name = text.failed || !text.used ? KY_NONE : intern(load, text.bytes, text.used);
	ky_buf_release(&text);
	return name;
}

static bool add_field(struct ky_load *load, struct ky_span_edge *edge, uint32_t key,
		      const struct ky_value *value)
{
	struct ky_trace *trace = load->trace;
	struct ky_pair *pair;

	if (edge->field_count == KY_SPAN_FIELDS_MAX ||
	    trace->span_field_count >= ky_list_max(load, KY_SPAN_FIELD_LIST_MAX))
		return ky_leave_out(load->private, KY_LEFT_SPAN_FIELDS);
	if (!ky_pages_array(&trace->pages, &trace->span_fields, &trace->span_field_capacity,
			    trace->span_field_count + 1, sizeof(*pair)))
		return false;
	pair = &trace->span_fields[trace->span_field_count];
	pair->key = key;
	pair->value = text_of(load, value);
	if (trace->pages.failed)
		return false;
	if (pair->value == KY_NONE)
		return true; /* nothing that can be said in a word */
	trace->span_field_count++;
	edge->field_count++;
	return true;
}

static bool take_field(struct ky_load *load, struct ky_span_edge *edge, uint32_t role,
		       const struct ky_value *value, bool has_fields)
{
	uint32_t field = role >> ROLE_SHIFT;

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
		if (edge->kind == KY_SPAN_ENTER)
			edge->where = value->as.number;
		return true;
	case FIELD_START:
		if (edge->kind != KY_SPAN_ENTER)
			edge->where = value->as.number;
		return true;
	case FIELD_OWN:
		return !has_fields || add_field(load, edge, role & ((1u << ROLE_SHIFT) - 1), value);
	default:
		return true;
	}
}

/* What a field is, and its name. UINT32_MAX with pages.failed set. */
static uint32_t role_of(struct ky_load *load, const struct ky_slice *name)
{
	uint32_t key = ky_names_intern(&load->private->names, name->bytes, name->count);

	return key == UINT32_MAX ? UINT32_MAX : (uint32_t)field_of(name) << ROLE_SHIFT | key;
}

/* Of all fields of the schema, remembered by it; NULL: there is no room, or pages.failed. */
static const uint32_t *roles_of(struct ky_load *load, const struct ky_schema *schema)
{
	struct ky_pages *pages = &load->trace->pages;
	uint32_t *known, count = load->span_role_count;

	if (schema->serial == UINT32_MAX || count + (uint64_t)schema->field_count > ROLES_MAX ||
	    !ky_pages_array(pages, &load->span_role_of_serial, &load->span_serial_capacity,
			    schema->serial + 1, sizeof(uint32_t)))
		return NULL;
	known = &load->span_role_of_serial[schema->serial];
	if (*known)
		return load->span_roles + *known - 1;
	if (!ky_pages_array(pages, &load->span_roles, &load->span_role_capacity,
			    count + schema->field_count + 1, sizeof(uint32_t)))
		return NULL;
	for (uint32_t i = 0; i < schema->field_count; i++)
		load->span_roles[count + i] = role_of(load, &schema->fields[i].name);
	if (pages->failed)
		return NULL;
	load->span_role_count += schema->field_count;
	*known = count + 1;
	return load->span_roles + count;
}

/* Number of a span's id, from 0; UINT32_MAX with pages.failed set. */
static uint32_t number_of_id(struct ky_trace_private *private, uint64_t id)
{
	uint32_t *slot = ky_id_map_slot(&private->span_ids, id);

	if (!slot)
		return UINT32_MAX;
	if (!*slot)
		*slot = ++private->span_id_count;
	return *slot - 1;
}

/* Pages never move: an event takes its bytes and no more. */
static struct ky_span_edge *add_edge(struct ky_load *load)
{
	struct ky_trace_private *private = load->private;
	struct ky_pages *pages = &load->trace->pages;
	uint32_t count = private->span_edge_count, page = count / KY_SPAN_PAGE;

	if (count % KY_SPAN_PAGE == 0) { /* counted once there is memory */
		if (!ky_pages_array(pages, &private->span_pages, &private->span_page_capacity,
				    page + 1, sizeof(*private->span_pages)))
			return NULL;
		private->span_pages[page] = ky_pages_alloc(
			pages, KY_SPAN_PAGE * sizeof(struct ky_span_edge));
		if (!private->span_pages[page])
			return NULL;
	}
	private->span_edge_count++;
	return &private->span_pages[page][count % KY_SPAN_PAGE];
}

bool ky_load_span(struct ky_load *load, const struct ky_frame *frame,
		  const struct ky_event_type *type)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_private *private = load->private;
	struct ky_span_edge edge = {.time_ns = frame->timestamp_ns,
				    .where = type->span_kind == KY_SPAN_ENTER ? UINT64_MAX : 0,
				    .task = KY_NONE,
				    .name = type->span_name,
				    .field_at = trace->span_field_count,
				    .kind = type->span_kind,
				    .is_single = type->is_single_span,
				    .is_request = type->is_request_span};
	struct ky_span_edge *added;
	const uint32_t *roles;
	bool has_fields;

	if (private->span_edge_count >= ky_list_max(load, EDGES_MAX))
		return ky_leave_out(private, KY_LEFT_SPAN_EVENTS);
	/* Fields stand in every event of a span; those of an exit may be new. */
	has_fields = edge.kind == KY_SPAN_ENTER || edge.kind == KY_SPAN_FOLLOWS ||
		     (edge.kind == KY_SPAN_EXIT && edge.is_single);
	roles = roles_of(load, frame->schema);
	for (uint32_t i = 0; i < frame->schema->field_count; i++) {
		uint32_t role;

		if (!frame->values[i].is_present)
			continue;
		role = roles ? roles[i] : role_of(load, &frame->schema->fields[i].name);
		if (trace->pages.failed ||
		    !take_field(load, &edge, role, &frame->values[i], has_fields))
			return false;
	}
	edge.is_single |= (edge.id & AD_HOC) != 0;
	edge.number = number_of_id(private, edge.id);
	added = edge.number == UINT32_MAX ? NULL : add_edge(load);
	if (!added)
		return false;
	private->has_closes |= edge.kind == KY_SPAN_CLOSE;
	*added = edge;
	return true;
}
