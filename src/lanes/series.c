/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/series.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

static void value_row(const void *ctx, uint32_t row, uint64_t *start_ns, uint64_t *length_ns)
{
	const struct ky_series *series = ctx;

	*start_ns = series->times_ns[row];
	*length_ns = series->values[row];
}

static int finish(struct ky_series *series)
{
	int result;

	ky_forest_init(&series->forest, value_row, series);
	result = ky_forest_add(&series->forest, series->times_ns, series->values, series->count);
	for (uint32_t i = 0; i < series->count; i++)
		if (series->values[i] > series->max)
			series->max = series->values[i];
	return result ? result : ky_forest_finish(&series->forest);
}

static bool has_room(struct ky_series *series, size_t count)
{
	memset(series, 0, sizeof(*series));
	series->times_ns = ky_alloc((count + 1) * sizeof(uint64_t));
	series->values = ky_alloc((count + 1) * sizeof(uint64_t));
	return series->times_ns && series->values;
}

/* ---- alive ---- */

static bool is_less(const void *one, const void *other, const void *ctx)
{
	(void)ctx;
	return *(const uint64_t *)one < *(const uint64_t *)other;
}

static uint32_t count_ends(uint64_t *ends, const struct ky_trace *trace)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < trace->task_count; i++)
		if (ky_trace_is_task(&trace->tasks[i]) && trace->tasks[i].end_ns)
			ends[count++] = trace->tasks[i].end_ns;
	ky_sort(ends, count, sizeof(*ends), is_less, NULL);
	return count;
}

static uint32_t count_begins(uint64_t *begins, const struct ky_trace *trace)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < trace->task_count; i++)
		if (ky_trace_is_task(&trace->tasks[i]))
			begins[count++] = trace->tasks[i].first_ns;
	ky_sort(begins, count, sizeof(*begins), is_less, NULL);
	return count;
}

int ky_series_alive(struct ky_series *out, const struct ky_trace *trace)
{
	uint64_t *begins = ky_alloc((trace->task_count + 1) * sizeof(*begins));
	uint64_t *ends = ky_alloc((trace->task_count + 1) * sizeof(*ends));
	uint32_t begin = 0, end = 0, begin_count, end_count;
	int result = 0;

	if (!has_room(out, 2 * (size_t)trace->task_count) || !begins || !ends) {
		result = -ENOMEM;
	} else {
		begin_count = count_begins(begins, trace);
		end_count = count_ends(ends, trace);
		while (begin < begin_count || end < end_count) {
			bool is_begin = end == end_count ||
					(begin < begin_count && begins[begin] <= ends[end]);
			uint64_t time_ns = is_begin ? begins[begin] : ends[end];

			begin += is_begin;
			end += !is_begin;
			out->times_ns[out->count] = time_ns;
			out->values[out->count++] = begin > end ? (uint64_t)(begin - end) * 1000 :
								  0;
		}
		result = finish(out);
	}
	ky_free(begins);
	ky_free(ends);
	if (result)
		ky_series_release(out);
	return result;
}

/* ---- ready ---- */

struct ready_sums {
	uint64_t from_ns, width_ns;
	uint64_t *partial_ns;   /* in buckets that a delay begins or ends in */
	int32_t *steps;         /* of how many delays cover whole buckets, from this one on */
	uint64_t near, near_ns; /* the bucket that a delay ended in last, and where it begins */
};

/* A worker's delays end in ascending order, and mostly begin where they end: millions of them need
 * few divisions. */
static uint64_t bucket_of(struct ready_sums *sums, uint64_t time_ns)
{
	return time_ns - sums->near_ns < sums->width_ns ? sums->near : time_ns / sums->width_ns;
}

static inline void add_delay(struct ready_sums *sums, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t first, last;

	if (from_ns < sums->from_ns)
		from_ns = sums->from_ns;
	if (to_ns <= from_ns)
		return;
	from_ns -= sums->from_ns;
	to_ns -= sums->from_ns;
	last = sums->near = bucket_of(sums, to_ns);
	sums->near_ns = last * sums->width_ns;
	first = bucket_of(sums, from_ns);
	if (last >= KY_READY_BUCKETS || first > last)
		return;
	if (first == last) {
		sums->partial_ns[first] += to_ns - from_ns;
		return;
	}
	sums->partial_ns[first] += (first + 1) * sums->width_ns - from_ns;
	sums->partial_ns[last] += to_ns - last * sums->width_ns;
	sums->steps[first + 1]++;
	sums->steps[last]--;
}

/* The rest of the cursor's block. Not inlined: see walk_batch() in read/delay.c. */
__attribute__((noinline)) static void add_block(struct ready_sums *sums,
						const struct ky_trace *trace, uint32_t worker,
						struct ky_cursor *cursor)
{
	struct ky_poll poll;

	for (uint32_t left = cursor->left + 1; left > 0; left--) {
		ky_trace_poll_at(trace, worker, cursor, &poll);
		if (!poll.delay_state && poll.delay_ns <= poll.start_ns)
			add_delay(sums, poll.start_ns - poll.delay_ns, poll.start_ns);
		if (left > 1)
			ky_cursor_next(cursor);
	}
}

static void add_polls(struct ready_sums *sums, const struct ky_trace *trace, uint32_t worker)
{
	struct ky_cursor cursor;
	bool is_going;

	for (is_going = ky_cursor_begin(&cursor, &trace->workers[worker].polls, 0); is_going;
	     is_going = ky_cursor_next(&cursor))
		add_block(sums, trace, worker, &cursor);
}

int ky_series_ready(struct ky_series *out, const struct ky_trace *trace)
{
	struct ready_sums sums = {
		.from_ns = trace->run_first_ns,
		.width_ns = (trace->run_last_ns - trace->run_first_ns) / KY_READY_BUCKETS + 1,
		.partial_ns = ky_alloc(KY_READY_BUCKETS * sizeof(uint64_t)),
		.steps = ky_alloc(KY_READY_BUCKETS * sizeof(int32_t)),
	};
	int64_t whole = 0;
	int result = -ENOMEM;

	if (has_room(out, KY_READY_BUCKETS) && sums.partial_ns && sums.steps) {
		for (uint32_t i = 0; i < trace->worker_count; i++)
			add_polls(&sums, trace, i);
		for (uint32_t i = 0; i < KY_READY_BUCKETS; i++) {
			uint64_t partial_ns = sums.partial_ns[i];

			whole += sums.steps[i];
			out->times_ns[i] = sums.from_ns + i * sums.width_ns;
			out->values[i] = (uint64_t)whole * 1000 +
					 (partial_ns > UINT64_MAX / 1000 ?
						  partial_ns / sums.width_ns * 1000 :
						  partial_ns * 1000 / sums.width_ns);
		}
		out->count = KY_READY_BUCKETS;
		result = finish(out);
	}
	ky_free(sums.partial_ns);
	ky_free(sums.steps);
	if (result)
		ky_series_release(out);
	return result;
}

void ky_series_release(struct ky_series *series)
{
	ky_forest_release(&series->forest);
	ky_free(series->times_ns);
	ky_free(series->values);
	memset(series, 0, sizeof(*series));
}

/* What holds where the pixel begins: a step at that very moment replaces what was before. */
static uint64_t value_at(const struct ky_series *series, uint32_t first, uint64_t edge_ns)
{
	if (!first || (first < series->count && series->times_ns[first] == edge_ns))
		return 0;
	return series->values[first - 1];
}

void ky_series_values(uint32_t *out, const struct ky_series *series, const struct ky_view *view)
{
	uint32_t first = ky_forest_find(&series->forest, view->from_ns);

	for (uint32_t i = 0; i < view->pixels; i++) {
		uint32_t end = ky_forest_find_from(&series->forest, ky_view_edge(view, i + 1),
						   first);
		uint64_t value = value_at(series, first, ky_view_edge(view, i));
		struct ky_forest_node rows = ky_forest_range(&series->forest, first, end);

		if (rows.longest != UINT32_MAX && rows.longest_ns > value)
			value = rows.longest_ns;
		out[i] = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
		first = end;
	}
}
