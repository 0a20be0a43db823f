/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Spans by their enters, exits and closes, whichever of them the trace has. */
#include <read/spans.h>

#include <read/load.h>
#include <string.h>

struct span_making {
	struct ky_trace *trace;
	uint32_t at;         /* span that is built; KY_NONE */
	uint64_t entered_ns; /* 0: it is not entered now */
	uint64_t exit_ns;    /* its last exit; 0 */
	/* Enters of it that have no exit yet: of threads, or inside it. Where exits may be lost
	 * only the last one counts. */
	uint32_t depth;
	/* Of the runs of a span that says them, maybe before its begin is known. */
	uint64_t run_ns, running_ns; /* those that are over; since when it runs, 0: it does not */
	uint32_t run_count, run_depth;
};

static void forget_runs(struct span_making *making)
{
	making->run_ns = making->running_ns = 0;
	making->run_count = making->run_depth = 0;
}

/* As an enter and an exit: one that runs on two threads at once is entered once. */
static void take_run(struct span_making *making, const struct ky_span_edge *edge)
{
	if (edge->kind == KY_SPAN_RUN) {
		making->run_count += making->run_count < UINT32_MAX;
		/* Where ends may be lost only the last begin counts. */
		if (!making->run_depth || making->trace->loss_count) {
			making->running_ns = edge->time_ns;
			making->run_depth = 0;
		}
		making->run_depth++;
		return;
	}
	making->run_depth -= making->run_depth > 0;
	if (making->run_depth)
		return;
	if (making->running_ns && edge->time_ns > making->running_ns)
		making->run_ns += edge->time_ns - making->running_ns;
	making->running_ns = 0;
}

/* What its runs say of a span that has any. */
static void settle_runs(struct span_making *making)
{
	struct ky_trace_span *span = &making->trace->spans[making->at];

	if (making->run_count) {
		span->active_ns = making->run_ns;
		span->enter_count = making->run_count;
	}
	forget_runs(making);
}

static bool begin(struct span_making *making, const struct ky_span_edge *edge, uint64_t start_ns)
{
	struct ky_trace *trace = making->trace;

	if (!ky_pages_array(&trace->pages, &trace->spans, &trace->span_capacity,
			    trace->span_count + 1, sizeof(*trace->spans)))
		return false;
	making->at = trace->span_count++;
	making->entered_ns = making->exit_ns = 0;
	making->depth = 0;
	trace->spans[making->at] = (struct ky_trace_span){
		.start_ns = start_ns,
		.id = edge->id,
		.parent_id = edge->parent_id,
		.worker_id = edge->kind == KY_SPAN_ENTER ? edge->where : UINT64_MAX,
		.idle_since_ns = edge->idle_since_ns,
		.name = edge->name,
		.task = edge->task,
		.parent = edge->number, /* until all are there */
		.field_at = edge->field_at,
		.is_open = true};
	return true;
}

static void end(struct span_making *making, uint64_t ns)
{
	struct ky_trace_span *span = &making->trace->spans[making->at];

	settle_runs(making);
	span->is_open = false;
	span->duration_ns = ns > span->start_ns ? ns - span->start_ns : 0;
	making->at = KY_NONE;
}

/* Fields of its begin and others of its end, one after the other. */
static bool join_fields(struct ky_trace *trace, struct ky_trace_span *span,
			const struct ky_span_edge *edge)
{
	uint32_t first = trace->span_field_count, begin_count = span->field_count;

	if (begin_count > KY_SPAN_FIELDS_MAX ||
	    begin_count + edge->field_count > KY_SPAN_FIELD_LIST_MAX - first) {
		trace->private->left_out[KY_LEFT_SPAN_FIELDS] += edge->field_count;
		return true;
	}
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
	/* An end has the span's own, and those that came late. */
	if (!span->field_count ||
	    (edge->kind == KY_SPAN_EXIT && edge->field_count > span->field_count)) {
		span->field_at = edge->field_at;
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

	if (edge->kind == KY_SPAN_RUN || edge->kind == KY_SPAN_RUN_OVER) {
		take_run(making, edge);
		return true;
	}
	if (edge->kind == KY_SPAN_FOLLOWS)
		return making->at == KY_NONE ||
		       join_fields(making->trace, &making->trace->spans[making->at], edge);
	if (edge->kind == KY_SPAN_ENTER) {
		if (making->at != KY_NONE && is_other(making, edge)) {
			settle_runs(making);
			making->at = KY_NONE;
		}
		if (making->at == KY_NONE)
			forget_runs(making);
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
	if (making->at == KY_NONE && edge->where && edge->where <= edge->time_ns &&
	    !begin(making, edge, edge->where))
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

static const struct ky_span_edge *edge_at(const struct ky_trace_private *private, uint32_t at)
{
	return &private->span_pages[at / KY_SPAN_PAGE][at % KY_SPAN_PAGE];
}

static bool is_edge_before(const void *a, const void *b, const void *ctx)
{
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
	uint64_t one_ns = edge_at(ctx, one)->time_ns, other_ns = edge_at(ctx, other)->time_ns;

	return one_ns != other_ns ? one_ns < other_ns : one < other;
}

struct span_key {
	uint64_t start_ns, id;
	uint32_t at;
};

static bool is_span_before(const void *a, const void *b, const void *ctx)
{
	const struct span_key *one = a, *other = b;

	(void)ctx;
	if (one->start_ns != other->start_ns)
		return one->start_ns < other->start_ns;
	return one->id != other->id ? one->id < other->id : one->at < other->at;
}

/* Members of each id, one id after the other: of number n order[firsts[n] .. firsts[n + 1]). */
struct by_id {
	uint32_t *order, *firsts;
	uint32_t count, id_count;
};

static bool by_id_init(struct by_id *ids, struct ky_trace *trace, uint32_t count)
{
	uint32_t id_count = trace->private->span_id_count;

	*ids = (struct by_id){.count = count, .id_count = id_count};
	ids->order = ky_pages_alloc(&trace->pages, (count + (size_t)1) * sizeof(uint32_t));
	ids->firsts = ky_pages_alloc(&trace->pages, (id_count + (size_t)2) * sizeof(uint32_t));
	return ids->order && ids->firsts;
}

static void by_id_release(struct by_id *ids, struct ky_trace *trace)
{
	ky_pages_free(&trace->pages, ids->order, (ids->count + (size_t)1) * sizeof(uint32_t));
	ky_pages_free(&trace->pages, ids->firsts, (ids->id_count + (size_t)2) * sizeof(uint32_t));
}

/* First each member is counted at its number + 2; then firsts[n + 1] is where those of n begin, and
 * grows as they are put. */
static void by_id_add_up(struct by_id *ids)
{
	for (uint32_t i = 2; i < ids->id_count + 2; i++)
		ids->firsts[i] += ids->firsts[i - 1];
}

static void by_id_put(struct by_id *ids, uint32_t number, uint32_t member)
{
	ids->order[ids->firsts[number + 1]++] = member;
}

/* Ids come back: the last one of that id that began before it. */
static uint32_t find_parent(const struct ky_trace *trace, const struct by_id *ids,
			    const struct ky_trace_span *span)
{
	uint32_t number = ky_id_map_find(&trace->private->span_ids, span->parent_id);
	uint32_t low, high, first;

	if (number == UINT32_MAX)
		return KY_NONE;
	first = low = ids->firsts[number];
	high = ids->firsts[number + 1];
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (trace->spans[ids->order[middle]].start_ns <= span->start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low > first ? ids->order[low - 1] : KY_NONE;
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

/* By start, then id: keys, for a span has many bytes. */
static bool sort_spans(struct ky_trace *trace)
{
	struct ky_pages *pages = &trace->pages;
	uint32_t count = trace->span_count;
	struct span_key *keys = ky_pages_alloc(pages, count * sizeof(*keys));
	struct ky_trace_span *spans = ky_pages_alloc(pages, count * sizeof(*spans));

	for (uint32_t i = 0; keys && i < count; i++)
		keys[i] = (struct span_key){trace->spans[i].start_ns, trace->spans[i].id, i};
	if (keys)
		ky_sort(keys, count, sizeof(*keys), is_span_before, NULL);
	for (uint32_t i = 0; keys && spans && i < count; i++)
		spans[i] = trace->spans[keys[i].at];
	ky_pages_free(pages, keys, count * sizeof(*keys));
	if (!keys || !spans) {
		ky_pages_free(pages, spans, count * sizeof(*spans));
		return false;
	}
	ky_pages_free(pages, trace->spans, trace->span_capacity * sizeof(*spans));
	trace->spans = spans;
	trace->span_capacity = count;
	return true;
}

static bool link_spans(struct ky_trace *trace)
{
	struct by_id ids = {0};
	bool is_made = sort_spans(trace) && by_id_init(&ids, trace, trace->span_count);

	for (uint32_t i = 0; is_made && i < trace->span_count; i++)
		ids.firsts[trace->spans[i].parent + 2]++;
	if (is_made)
		by_id_add_up(&ids);
	for (uint32_t i = 0; is_made && i < trace->span_count; i++)
		by_id_put(&ids, trace->spans[i].parent, i);
	for (uint32_t i = 0; is_made && i < trace->span_count; i++) {
		struct ky_trace_span *span = &trace->spans[i];

		span->parent = span->parent_id ? find_parent(trace, &ids, span) : KY_NONE;
		if (span->parent == i)
			span->parent = KY_NONE;
		if (span->task == KY_NONE)
			span->task = task_polled(trace, span);
	}
	by_id_release(&ids, trace);
	return is_made;
}

/* Those of one id in the order of time, as they mostly come. */
static bool take_id(struct span_making *making, uint32_t *order, uint32_t count)
{
	const struct ky_trace_private *private = making->trace->private;

	making->at = KY_NONE;
	forget_runs(making);
	for (uint32_t i = 1; i < count; i++)
		if (edge_at(private, order[i])->time_ns < edge_at(private, order[i - 1])->time_ns) {
			ky_sort(order, count, sizeof(*order), is_edge_before, private);
			break;
		}
	for (uint32_t i = 0; i < count; i++)
		if (!take(making, edge_at(private, order[i])))
			return false;
	if (making->at != KY_NONE)
		settle_runs(making);
	return true;
}

static bool make_spans(struct ky_trace *trace)
{
	const struct ky_trace_private *private = trace->private;
	struct span_making making = {.trace = trace, .at = KY_NONE};
	struct by_id ids;
	bool is_made = by_id_init(&ids, trace, private->span_edge_count);

	for (uint32_t i = 0; is_made && i < ids.count; i++)
		ids.firsts[edge_at(private, i)->number + 2]++;
	if (is_made)
		by_id_add_up(&ids);
	for (uint32_t i = 0; is_made && i < ids.count; i++)
		by_id_put(&ids, edge_at(private, i)->number, i);
	for (uint32_t i = 0; is_made && i < ids.id_count; i++)
		is_made = take_id(&making, ids.order + ids.firsts[i],
				  ids.firsts[i + 1] - ids.firsts[i]);
	by_id_release(&ids, trace);
	return is_made;
}

static void release_edges(struct ky_trace *trace)
{
	struct ky_trace_private *private = trace->private;

	for (uint32_t at = 0; at < private->span_edge_count; at += KY_SPAN_PAGE)
		ky_pages_free(&trace->pages, private->span_pages[at / KY_SPAN_PAGE],
			      KY_SPAN_PAGE * sizeof(struct ky_span_edge));
	ky_pages_free(&trace->pages, private->span_pages,
		      private->span_page_capacity * sizeof(*private->span_pages));
	private->span_pages = NULL;
	private->span_edge_count = private->span_page_capacity = 0;
}

void ky_spans_release_events(struct ky_trace *trace)
{
	release_edges(trace);
	ky_id_map_release(&trace->private->span_ids);
}

int ky_spans_finish(struct ky_trace *trace)
{
	bool is_made = !trace->private->span_edge_count || make_spans(trace);

	release_edges(trace);
	if (is_made && trace->span_count)
		is_made = ky_requests_finish(trace) == 0 && link_spans(trace);
	ky_spans_release_events(trace);
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
