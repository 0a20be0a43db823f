/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/span_json.h>

#include <analyze/span_groups.h>
#include <base/alloc.h>
#include <errno.h>
#include <lanes/facts_json.h>
#include <read/sort.h>
#include <string.h>

#define PARENTS_MAX 1000u

static void put_split(struct ky_buf *out, const struct ky_span_split *split)
{
	ky_json_open(out, "split", "{");
	ky_json_number(out, "cpu", split->cpu_ns);
	ky_json_number(out, "off_cpu", split->off_cpu_ns);
	ky_json_number(out, "polled", split->polled_ns);
	ky_json_number(out, "ready", split->ready_ns);
	ky_json_number(out, "waiting", split->waiting_ns);
	ky_json_number(out, "client", split->client_ns);
	ky_json_number(out, "unknown", split->unknown_ns);
	ky_json_close(out, "}");
}

/* ---- all names ---- */

void ky_span_names_json(struct ky_buf *out, const struct ky_trace *trace, uint64_t from_ns,
			uint64_t to_ns)
{
	struct ky_span_group *groups;
	uint32_t count;

	if (ky_span_groups(trace, from_ns, to_ns, &groups, &count)) {
		out->failed = -ENOMEM;
		return;
	}
	ky_json_open(out, NULL, "[");
	for (uint32_t i = 0; i < count; i++) {
		const struct ky_quantiles *lengths = &groups[i].lengths;

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "index", groups[i].name);
		ky_facts_name(out, "name", trace, groups[i].name);
		ky_json_number(out, "count", lengths->count);
		ky_json_number(out, "counted", groups[i].counted_count);
		ky_json_number(out, "open", groups[i].open_count);
		ky_json_number(out, "total_ns", lengths->total);
		ky_json_number(out, "p50_ns", lengths->p50);
		ky_json_number(out, "p90_ns", lengths->p90);
		ky_json_number(out, "p99_ns", lengths->p99);
		ky_json_number(out, "max_ns", lengths->max);
		put_split(out, &groups[i].split);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_free(groups);
}

/* ---- one name ---- */

/* A span of the name, or of one of its fields. */
struct picked {
	uint64_t duration_ns;
	uint32_t key, value; /* or: piece of time, 0 */
	uint32_t span;
};

static bool is_picked_before(const void *a, const void *b, const void *ctx)
{
	const struct picked *one = a, *other = b;

	(void)ctx;
	if (one->key != other->key)
		return one->key < other->key;
	if (one->value != other->value)
		return one->value < other->value;
	if (one->duration_ns != other->duration_ns)
		return one->duration_ns < other->duration_ns;
	return one->span < other->span;
}

static bool is_longer(const void *a, const void *b, const void *ctx)
{
	const struct picked *one = a, *other = b;

	(void)ctx;
	if (one->duration_ns != other->duration_ns)
		return one->duration_ns > other->duration_ns;
	return one->span < other->span;
}

static bool has_field(const struct ky_span_view *view, const struct ky_trace_span *span)
{
	for (uint32_t i = 0; i < span->field_count; i++) {
		const struct ky_pair *field = &view->trace->span_fields[span->field_at + i];

		if (field->key == view->key && field->value == view->value)
			return true;
	}
	return view->key == KY_NONE;
}

static bool is_viewed(const struct ky_span_view *view, const struct ky_trace_span *span)
{
	return span->name == view->name && span->start_ns >= view->from_ns &&
	       span->start_ns < view->to_ns && !span->is_open && has_field(view, span);
}

/* Of ascending ones: the smallest that so many hundredths are not above. */
static uint64_t quantile(const struct picked *list, uint32_t count, uint32_t hundredths)
{
	return list[((uint64_t)count * hundredths + 99) / 100 - 1].duration_ns;
}

static void put_quantiles(struct ky_buf *out, const struct picked *list, uint32_t count)
{
	ky_json_number(out, "count", count);
	ky_json_number(out, "p50_ns", quantile(list, count, 50));
	ky_json_number(out, "p90_ns", quantile(list, count, 90));
	ky_json_number(out, "p99_ns", quantile(list, count, 99));
	ky_json_number(out, "max_ns", list[count - 1].duration_ns);
}

/* 2^(bin / 4) ns and more. */
static uint32_t bin_of(uint64_t ns)
{
	uint32_t high = ns ? 63u - (uint32_t)__builtin_clzll(ns) : 0;
	uint32_t rest = high >= KY_SPAN_BINS_LOG2 ? (uint32_t)(ns >> (high - KY_SPAN_BINS_LOG2)) &
							    ((1u << KY_SPAN_BINS_LOG2) - 1) :
						    0;

	return high << KY_SPAN_BINS_LOG2 | rest;
}

static void put_bins(struct ky_buf *out, const struct picked *list, uint32_t count)
{
	ky_json_open(out, "bins", "[");
	for (uint32_t i = 0, first; i < count;) {
		uint32_t bin = bin_of(list[i].duration_ns);

		for (first = i; i < count && bin_of(list[i].duration_ns) == bin; i++)
			;
		ky_json_number(out, NULL, bin);
		ky_json_number(out, NULL, i - first);
	}
	ky_json_close(out, "]");
}

static void put_pieces(struct ky_buf *out, const struct picked *list, uint32_t count)
{
	ky_json_open(out, "pieces", "[");
	for (uint32_t i = 0, first; i < count;) {
		for (first = i; i < count && list[i].key == list[first].key; i++)
			;
		ky_json_open(out, NULL, "{");
		ky_json_number(out, "piece", list[first].key);
		put_quantiles(out, &list[first], i - first);
		put_bins(out, &list[first], i - first);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static void put_one(struct ky_buf *out, const struct ky_span_view *view, uint32_t index)
{
	const struct ky_trace_span *span = &view->trace->spans[index];

	ky_json_number(out, "span", index);
	ky_facts_moment(out, "start_ns", view->trace, span->start_ns);
	ky_json_number(out, "duration_ns", span->duration_ns);
	if (span->task < view->trace->task_count)
		ky_json_number(out, "task", view->trace->tasks[span->task].id);
	put_split(out, &view->splits[index]);
}

/* Values of one key, the most frequent first: each is found by a look at all, of which there are
 * few. */
static void put_values(struct ky_buf *out, const struct ky_trace *trace, const struct picked *list,
		       uint32_t count)
{
	uint32_t after = UINT32_MAX, after_value = 0;

	for (uint32_t shown = 0; shown < KY_SPAN_VALUES; shown++) {
		uint32_t best = 0, best_count = 0;

		for (uint32_t i = 0, first; i < count;) {
			uint32_t of_value;

			for (first = i; i < count && list[i].value == list[first].value; i++)
				;
			of_value = i - first;
			if ((of_value < after ||
			     (of_value == after && list[first].value > after_value)) &&
			    of_value > best_count) {
				best = first;
				best_count = of_value;
			}
		}
		if (!best_count)
			return;
		after = best_count;
		after_value = list[best].value;
		ky_json_open(out, NULL, "{");
		ky_json_number(out, "value_index", after_value);
		ky_json_text(out, "value", ky_trace_name(trace, after_value));
		put_quantiles(out, &list[best], best_count);
		ky_json_close(out, "}");
	}
}

static void put_facets(struct ky_buf *out, const struct ky_trace *trace, const struct picked *list,
		       uint32_t count)
{
	ky_json_open(out, "facets", "[");
	for (uint32_t i = 0, first; i < count;) {
		uint32_t values = 0;

		for (first = i; i < count && list[i].key == list[first].key; i++)
			values += i == first || list[i].value != list[i - 1].value;
		ky_json_open(out, NULL, "{");
		ky_json_number(out, "key_index", list[first].key);
		ky_json_text(out, "key", ky_trace_name(trace, list[first].key));
		ky_json_number(out, "spans", i - first);
		ky_json_number(out, "values", values);
		ky_json_open(out, "most", "[");
		put_values(out, trace, &list[first], i - first);
		ky_json_close(out, "]");
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static void put_tail(struct ky_buf *out, const struct ky_span_view *view)
{
	ky_json_open(out, "tail", "[");
	for (uint32_t i = 0; i < view->tail->count; i++) {
		const struct ky_tail_row *row = &view->tail->rows[i];
		bool is_code = row->kind == KY_TAIL_CPU || row->kind == KY_TAIL_OFF_CPU;
		bool is_part = row->kind == KY_TAIL_PART;

		if (row->name != view->name)
			continue;
		ky_json_open(out, NULL, "{");
		ky_json_text(out, "kind", ky_tail_kind_key(row->kind));
		if (row->part)
			ky_json_text(out, "what", row->part);
		else if (row->kind == KY_TAIL_FIELD)
			ky_json_text(out, "what", ky_trace_name(view->trace, row->key));
		if (row->kind == KY_TAIL_CONCURRENCY)
			ky_json_number(out, "at_least", row->at_least);
		else if (!is_part && !is_code)
			ky_facts_name(out, "value", view->trace, row->value);
		ky_json_number(out, "slow_spans", row->slow_count);
		ky_json_number(out, "typical_spans", row->typical_count);
		if (is_part || row->has_ns) {
			ky_json_number(out, "slow_ns", row->slow_ns);
			ky_json_number(out, "typical_ns", row->typical_ns);
			ky_json_number(out, "explains_ppm", row->explains_ppm);
		}
		if (!is_part) {
			ky_json_number(out, "slow_ppm", row->slow_ppm);
			ky_json_number(out, "typical_ppm", row->typical_ppm);
			ky_json_number(out, "p_ppb", row->p_ppb);
		}
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

/* Spans by piece of time; returns how many there are. */
static uint32_t pick_pieces(const struct ky_span_view *view, struct picked *list,
			    struct ky_span_split *sum, uint32_t *field_count)
{
	double width = (double)(view->to_ns - view->from_ns) / view->pieces;
	uint32_t count = 0;

	for (uint32_t i = 0; i < view->trace->span_count; i++) {
		const struct ky_trace_span *span = &view->trace->spans[i];
		uint32_t piece;

		if (!is_viewed(view, span))
			continue;
		piece = (uint32_t)((double)(span->start_ns - view->from_ns) / width);
		*field_count += span->field_count;
		ky_span_split_add(sum, &view->splits[i]);
		list[count++] = (struct picked){
			span->duration_ns, piece < view->pieces ? piece : view->pieces - 1, 0, i};
	}
	return count;
}

static void pick_fields(const struct ky_span_view *view, const struct picked *spans, uint32_t count,
			struct picked *fields)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct ky_trace_span *span = &view->trace->spans[spans[i].span];

		for (uint32_t k = 0; k < span->field_count; k++) {
			const struct ky_pair *pair = &view->trace->span_fields[span->field_at + k];

			*fields++ = (struct picked){span->duration_ns, pair->key, pair->value,
						    spans[i].span};
		}
	}
}

static void put_name(struct ky_buf *out, const struct ky_span_view *view, struct picked *spans,
		     struct picked *fields, uint32_t count, uint32_t field_count)
{
	put_pieces(out, spans, count);
	put_facets(out, view->trace, fields, field_count);
	put_tail(out, view);
	ky_sort(spans, count, sizeof(*spans), is_longer, NULL);
	ky_json_open(out, "longest", "[");
	for (uint32_t i = 0; i < count && i < KY_SPAN_LISTED; i++) {
		ky_json_open(out, NULL, "{");
		put_one(out, view, spans[i].span);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

void ky_span_name_json(struct ky_buf *out, const struct ky_span_view *view)
{
	struct picked *spans = ky_alloc((view->trace->span_count + 1) * sizeof(*spans));
	struct picked *fields = NULL;
	struct ky_span_split sum = {0};
	uint32_t count = 0, field_count = 0;

	if (spans) {
		count = pick_pieces(view, spans, &sum, &field_count);
		fields = ky_alloc((field_count + 1) * sizeof(*fields));
	}
	if (!fields) {
		out->failed = -ENOMEM;
	} else {
		pick_fields(view, spans, count, fields);
		ky_sort(spans, count, sizeof(*spans), is_picked_before, NULL);
		ky_sort(fields, field_count, sizeof(*fields), is_picked_before, NULL);
		ky_json_open(out, NULL, "{");
		ky_facts_name(out, "name", view->trace, view->name);
		ky_json_number(out, "count", count);
		put_split(out, &sum);
		put_name(out, view, spans, fields, count, field_count);
		ky_json_close(out, "}");
	}
	ky_free(fields);
	ky_free(spans);
}

/* ---- one request ---- */

uint32_t ky_span_root(const struct ky_trace *trace, uint32_t span)
{
	for (uint32_t steps = 0; steps < PARENTS_MAX; steps++) {
		uint32_t parent = trace->spans[span].parent;

		if (parent >= trace->span_count || parent == span)
			break;
		span = parent;
	}
	return span;
}

/* Depth + 1 in the tree of `root`; 0: it is in another one. */
static uint32_t depth_of(const struct ky_trace *trace, uint32_t span, uint32_t root)
{
	for (uint32_t depth = 1; depth <= PARENTS_MAX; depth++) {
		if (span == root)
			return depth;
		if (trace->spans[span].parent >= trace->span_count)
			return 0;
		span = trace->spans[span].parent;
	}
	return 0;
}

void ky_span_tree_json(struct ky_buf *out, const struct ky_span_view *view, uint32_t span)
{
	const struct ky_trace *trace = view->trace;
	uint32_t root = ky_span_root(trace, span), count = 0, depth;
	uint64_t end_ns = trace->spans[root].start_ns + trace->spans[root].duration_ns;

	ky_json_open(out, "spans", "[");
	for (uint32_t i = 0; i < trace->span_count; i++) {
		const struct ky_trace_span *one = &trace->spans[i];

		if (one->start_ns > end_ns && i > root)
			break;
		depth = depth_of(trace, i, root);
		if (!depth || count++ >= KY_SPAN_TREE)
			continue;
		ky_json_open(out, NULL, "{");
		put_one(out, view, i);
		ky_facts_name(out, "name", trace, one->name);
		ky_json_number(out, "depth", depth - 1);
		ky_json_number(out, "active_ns", one->active_ns);
		ky_json_flag(out, "is_open", one->is_open);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_number(out, "span_count", count);
}
