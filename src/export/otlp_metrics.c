/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <export/otlp.h>

#include <analyze/findings/finding.h>
#include <analyze/wait_ahead.h>
#include <base/alloc.h>
#include <errno.h>
#include <export/exp_histogram.h>
#include <export/proto.h>
#include <read/handovers.h>
#include <read/sort.h>
#include <string.h>

/* opentelemetry/proto/metrics/v1 */
enum metric_field {
	SCOPE_METRICS = 2,
	METRIC_NAME = 1,
	METRIC_DESCRIPTION = 2,
	METRIC_UNIT = 3,
	METRIC_SUM = 7,
	METRIC_EXPONENTIAL_HISTOGRAM = 10,
	DATA_POINTS = 1,
	DATA_TEMPORALITY = 2,
	SUM_IS_MONOTONIC = 3,
	POINT_START = 2, /* of both kinds of points, and the next one */
	POINT_TIME = 3,
	NUMBER_INT = 6,
	NUMBER_ATTRIBUTES = 7,
	EXP_ATTRIBUTES = 1,
	EXP_COUNT = 4,
	EXP_SUM = 5,
	EXP_SCALE = 6,
	EXP_ZERO_COUNT = 7,
	EXP_POSITIVE = 8,
	EXP_MIN = 12,
	EXP_MAX = 13,
	BUCKETS_OFFSET = 1,
	BUCKETS_COUNTS = 2
};
#define DELTA 1u

#define KIND_COUNT 2u /* durations, delays */

struct metric_site {
	uint32_t name; /* KY_NONE: unnamed */
	uint64_t busy_ns, slow_count;
	struct ky_exp_histogram histograms[KIND_COUNT];
};

struct metrics {
	struct ky_otlp *otlp;
	const struct ky_trace *trace;
	struct ky_otlp_writer writer;
	struct ky_exp_bounds bounds;
	struct metric_site *sites; /* the last one: all others */
	uint32_t *site_of_name;    /* by name index + 1; 0: unnamed */
	uint32_t site_count;       /* without the last one */
	struct ky_histogram joined;
	uint64_t start_ns, end_ns; /* of the wall clock */
};

/* ---- which sites ---- */

struct site_candidate {
	uint64_t busy_ns;
	uint32_t name;
	const char *text;
};

static bool is_candidate_before(const void *first, const void *second, const void *ctx)
{
	const struct site_candidate *a = first, *b = second;

	(void)ctx;
	if (a->busy_ns != b->busy_ns)
		return a->busy_ns > b->busy_ns;
	return strcmp(a->text, b->text) < 0;
}

static bool is_in_range(const struct metrics *metrics, uint64_t ns)
{
	return ns >= metrics->otlp->from_ns && (!metrics->otlp->to_ns || ns < metrics->otlp->to_ns);
}

static void add_up(const struct metrics *metrics, struct site_candidate *of_names)
{
	const struct ky_trace *trace = metrics->trace;

	for (uint32_t lane = 0; lane < trace->worker_count; lane++) {
		struct ky_cursor cursor;
		struct ky_poll poll;
		bool is_going = ky_cursor_begin(&cursor, &trace->workers[lane].polls,
						ky_column_find(&trace->workers[lane].polls,
							       metrics->otlp->from_ns));

		for (; is_going && is_in_range(metrics, cursor.time_ns);
		     is_going = ky_cursor_next(&cursor)) {
			ky_trace_poll_at(trace, lane, &cursor, &poll);
			/* Also of those that only have a delay. */
			of_names[poll.name == KY_NONE ? 0 : poll.name + 1].busy_ns +=
				1 + poll.duration_ns;
		}
	}
	for (uint32_t i = 0; i < trace->histogram_count; i++) {
		const struct ky_trace_histogram *counted = &trace->histograms[i];

		if (is_in_range(metrics, counted->from_ns) &&
		    (counted->kind == KY_COUNTED_POLL || counted->kind == KY_COUNTED_DELAY))
			of_names[counted->name == KY_NONE ? 0 : counted->name + 1].busy_ns +=
				1 + (counted->kind == KY_COUNTED_POLL ? counted->sum : 0);
	}
}

static int choose_sites(struct metrics *metrics)
{
	uint32_t names = ky_trace_name_count(metrics->trace) + 1, count = 0;
	struct site_candidate *all = ky_alloc(names * sizeof(*all));

	metrics->site_of_name = ky_alloc(names * sizeof(*metrics->site_of_name));
	if (!all || !metrics->site_of_name) {
		ky_free(all);
		return -ENOMEM;
	}
	add_up(metrics, all);
	for (uint32_t i = 0; i < names; i++) {
		if (!all[i].busy_ns)
			continue;
		all[count].busy_ns = all[i].busy_ns;
		all[count].name = i ? i - 1 : KY_NONE;
		all[count].text = ky_otlp_site(metrics->otlp, all[count].name);
		count++;
	}
	ky_sort(all, count, sizeof(*all), is_candidate_before, NULL);
	metrics->site_count = count < KY_OTLP_SITES ? count : KY_OTLP_SITES;
	metrics->sites = ky_alloc((metrics->site_count + 1) * sizeof(*metrics->sites));
	for (uint32_t i = 0; i < names; i++)
		metrics->site_of_name[i] = metrics->site_count;
	for (uint32_t i = 0; metrics->sites && i < metrics->site_count; i++) {
		metrics->sites[i].name = all[i].name;
		metrics->site_of_name[all[i].name == KY_NONE ? 0 : all[i].name + 1] = i;
	}
	ky_free(all);
	return metrics->sites ? 0 : -ENOMEM;
}

static struct metric_site *site_of(struct metrics *metrics, uint32_t name)
{
	return &metrics->sites[metrics->site_of_name[name == KY_NONE ? 0 : name + 1]];
}

/* ---- what they have: the rules of report.h ---- */

static void count_poll(struct metrics *metrics, struct ky_worst *worst)
{
	const struct ky_poll *poll = &worst->poll;
	struct metric_site *site;

	if (ky_trace_is_handed_over(metrics->trace, poll))
		return;
	ky_worst_find_stops(metrics->trace, worst);
	site = site_of(metrics, poll->name);
	if (!poll->delay_state)
		ky_exp_histogram_add(&site->histograms[1], &metrics->bounds,
				     ky_worst_delay_ns(worst));
	if (poll->flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP))
		return;
	/* One that is still open ends in a later segment, and counts there. */
	if (ky_worst_poll_ns(worst) > KY_FIND_LONG_NS && ky_otlp_is_whole(poll))
		site->slow_count++;
	if (!(poll->flags & KY_POLL_OPEN))
		ky_exp_histogram_add(&site->histograms[0], &metrics->bounds,
				     ky_worst_poll_ns(worst));
}

static void count_polls(struct metrics *metrics)
{
	const struct ky_trace *trace = metrics->trace;
	struct ky_worst worst;

	memset(&worst, 0, sizeof(worst));
	for (uint32_t lane = 0; lane < trace->worker_count; lane++) {
		const struct ky_column *polls = &trace->workers[lane].polls;
		struct ky_cursor cursor;
		bool is_going = ky_cursor_begin(&cursor, polls,
						ky_column_find(polls, metrics->otlp->from_ns));

		for (; is_going && is_in_range(metrics, cursor.time_ns);
		     is_going = ky_cursor_next(&cursor)) {
			ky_trace_poll_at(trace, lane, &cursor, &worst.poll);
			count_poll(metrics, &worst);
		}
	}
}

/* What a retention policy counted in the program. */
static void count_counted(struct metrics *metrics, uint32_t at)
{
	const struct ky_trace_histogram *counted = &metrics->trace->histograms[at];
	bool is_delay = counted->kind == KY_COUNTED_DELAY;
	struct metric_site *site = site_of(metrics, counted->name);
	struct ky_exp_histogram *to = &site->histograms[is_delay ? 1 : 0];
	struct ky_histogram *joined = &metrics->joined;
	uint64_t from, last;

	joined->count = joined->total = joined->value_max = 0;
	joined->value_min = UINT64_MAX;
	memset(joined->buckets, 0, KY_HISTOGRAM_BUCKETS * sizeof(*joined->buckets));
	ky_report_join(joined, metrics->trace, at);
	for (uint32_t i = 0; i < KY_HISTOGRAM_BUCKETS; i++) {
		if (!joined->buckets[i])
			continue;
		ky_histogram_bounds(i, &from, &last);
		ky_exp_histogram_place(to, &metrics->bounds, from + (last - from) / 2,
				       joined->buckets[i]);
	}
	ky_exp_histogram_join(to, counted->sum, counted->value_min, counted->value_max);
}

static int count_all(struct metrics *metrics)
{
	const struct ky_trace *trace = metrics->trace;

	count_polls(metrics);
	if (trace->histogram_count && ky_histogram_init(&metrics->joined))
		return -ENOMEM;
	for (uint32_t i = 0; i < trace->histogram_count; i++)
		if (is_in_range(metrics, trace->histograms[i].from_ns) &&
		    (trace->histograms[i].kind == KY_COUNTED_POLL ||
		     trace->histograms[i].kind == KY_COUNTED_DELAY))
			count_counted(metrics, i);
	return 0;
}

/* ---- what is written ---- */

static const char *site_name(const struct metrics *metrics, uint32_t i)
{
	return i < metrics->site_count ? ky_otlp_site(metrics->otlp, metrics->sites[i].name) :
					 "other";
}

static void put_times(const struct metrics *metrics, struct ky_buf *out)
{
	ky_proto_fixed64(out, POINT_START, metrics->start_ns);
	ky_proto_fixed64(out, POINT_TIME, metrics->end_ns);
}

static void put_histogram(struct metrics *metrics, const char *site,
			  const struct ky_exp_histogram *histogram)
{
	struct ky_otlp_writer *writer = &metrics->writer;
	struct ky_buf *out = &writer->inner;

	ky_otlp_text(writer, out, EXP_ATTRIBUTES, "kymo.site", site);
	put_times(metrics, out);
	ky_proto_fixed64(out, EXP_COUNT, histogram->count);
	ky_proto_double(out, EXP_SUM, (double)histogram->total_ns / 1e9);
	ky_proto_signed(out, EXP_SCALE, histogram->scale);
	ky_proto_fixed64(out, EXP_ZERO_COUNT, histogram->zero_count);
	if (histogram->bucket_count) {
		for (uint32_t i = 0; i < histogram->bucket_count; i++)
			ky_proto_varint(&writer->pair, histogram->buckets[i]);
		ky_proto_signed(&writer->value, BUCKETS_OFFSET, histogram->offset);
		ky_proto_message(&writer->value, BUCKETS_COUNTS, &writer->pair);
		ky_proto_message(out, EXP_POSITIVE, &writer->value);
	}
	if (histogram->has_range) {
		ky_proto_double(out, EXP_MIN, (double)histogram->min_ns / 1e9);
		ky_proto_double(out, EXP_MAX, (double)histogram->max_ns / 1e9);
	}
	ky_proto_message(&writer->middle, DATA_POINTS, out);
}

static void put_number(struct metrics *metrics, const char *key, const char *text, uint64_t number)
{
	struct ky_otlp_writer *writer = &metrics->writer;
	struct ky_buf *out = &writer->inner;

	if (text)
		ky_otlp_text(writer, out, NUMBER_ATTRIBUTES, key, text);
	put_times(metrics, out);
	ky_proto_fixed64(out, NUMBER_INT, number);
	ky_proto_message(&writer->middle, DATA_POINTS, out);
}

/* Ends a metric, whose points are in writer->middle. */
static void put_metric(struct metrics *metrics, const char *name, const char *unit,
		       const char *description, bool is_sum)
{
	struct ky_otlp_writer *writer = &metrics->writer;

	if (!writer->middle.used)
		return;
	ky_proto_number(&writer->middle, DATA_TEMPORALITY, DELTA);
	if (is_sum)
		ky_proto_number(&writer->middle, SUM_IS_MONOTONIC, 1);
	ky_proto_text(&writer->item, METRIC_NAME, name);
	ky_proto_text(&writer->item, METRIC_DESCRIPTION, description);
	ky_proto_text(&writer->item, METRIC_UNIT, unit);
	ky_proto_message(&writer->item, is_sum ? METRIC_SUM : METRIC_EXPONENTIAL_HISTOGRAM,
			 &writer->middle);
	ky_proto_message(&writer->scope, SCOPE_METRICS, &writer->item);
}

static void put_histograms(struct metrics *metrics, uint32_t kind)
{
	for (uint32_t i = 0; i <= metrics->site_count; i++)
		if (metrics->sites[i].histograms[kind].count)
			put_histogram(metrics, site_name(metrics, i),
				      &metrics->sites[i].histograms[kind]);
}

static uint64_t count_of(const struct metrics *metrics, uint32_t kind)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i <= metrics->site_count; i++)
		count += metrics->sites[i].histograms[kind].count;
	return count;
}

/* Each cause once; without any the sum is 0, which says that nothing was lost. */
static int put_losses(struct metrics *metrics)
{
	const struct ky_trace *trace = metrics->trace;
	uint32_t names = ky_trace_name_count(trace);
	uint64_t *counts = ky_alloc((names + (size_t)1) * sizeof(*counts));
	bool is_any = false;

	if (!counts)
		return -ENOMEM;
	for (uint32_t i = 0; i < trace->loss_count; i++)
		if (trace->losses[i].cause < names)
			counts[trace->losses[i].cause] += trace->losses[i].record_count;
	for (uint32_t i = 0; i < names; i++) {
		if (!counts[i])
			continue;
		put_number(metrics, "kymo.lost.cause", ky_trace_name(trace, i), counts[i]);
		is_any = true;
	}
	if (!is_any)
		put_number(metrics, NULL, NULL, 0);
	ky_free(counts);
	put_metric(metrics, "kymo.lost.records", "{record}",
		   "Records that the trace lacks: no figure has them", true);
	return 0;
}

static int put_all(struct metrics *metrics)
{
	put_histograms(metrics, 0);
	put_metric(metrics, "kymo.task.poll.duration", "s", "How long polls of tasks lasted",
		   false);
	put_histograms(metrics, 1);
	put_metric(metrics, "kymo.task.poll.delay", "s",
		   "From the wake that made a task ready to its poll", false);
	for (uint32_t i = 0; i <= metrics->site_count; i++) {
		metrics->otlp->slow_count += metrics->sites[i].slow_count;
		if (metrics->sites[i].slow_count)
			put_number(metrics, "kymo.site", site_name(metrics, i),
				   metrics->sites[i].slow_count);
	}
	put_metric(metrics, "kymo.task.poll.slow", "{poll}", "Polls longer than 1 ms", true);
	return put_losses(metrics);
}

/* A poll that was open when the segment began lies before it, in the times of earlier points, and
 * times of deltas do not overlap: so they begin at the first reading of the clock. */
static uint64_t first_ns(const struct ky_otlp *otlp)
{
	const struct ky_trace *trace = otlp->trace;
	uint64_t from_ns = otlp->report->from_ns;

	return trace->clock_sync_count && trace->clock_syncs[0].monotonic_ns > from_ns &&
			       trace->clock_syncs[0].monotonic_ns < otlp->report->to_ns ?
		       trace->clock_syncs[0].monotonic_ns :
		       from_ns;
}

int ky_otlp_metrics(struct ky_buf *out, struct ky_otlp *otlp)
{
	struct metrics metrics = {.otlp = otlp, .trace = otlp->trace};
	int result, ended;

	metrics.start_ns = ky_trace_unix_ns(otlp->trace, first_ns(otlp));
	metrics.end_ns = ky_trace_unix_ns(otlp->trace, otlp->report->to_ns);
	ky_exp_bounds_make(&metrics.bounds);
	ky_otlp_begin(&metrics.writer, otlp);
	otlp->slow_count = 0;
	result = choose_sites(&metrics);
	if (!result)
		result = count_all(&metrics);
	if (!result)
		result = put_all(&metrics);
	if (!result) {
		otlp->poll_count = count_of(&metrics, 0);
		otlp->delay_count = count_of(&metrics, 1);
		otlp->site_count = metrics.site_count;
	}
	ended = ky_otlp_end(&metrics.writer, out, true);
	ky_histogram_release(&metrics.joined);
	ky_free(metrics.sites);
	ky_free(metrics.site_of_name);
	return result ? result : ended;
}
