/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <query/row_order.h>

#include <base/alloc.h>
#include <errno.h>
#include <query/query_table.h>
#include <read/sort.h>
#include <string.h>

const struct ky_column *ky_query_lane(const struct ky_worker *worker, uint8_t rows)
{
	return rows == KY_ROWS_POLLS ? &worker->polls :
	       rows == KY_ROWS_PARKS ? &worker->parks :
				       &worker->wakes;
}

uint64_t ky_query_lane_rows(const struct ky_trace *trace, uint8_t rows)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < trace->worker_count; i++)
		count += ky_query_lane(&trace->workers[i], rows)->row_count;
	return count;
}

/* What rows are read with. */
struct keyed_rows {
	const struct ky_trace *trace;
	uint32_t *counts; /* by key; KY_NONE is the last */
	uint32_t key, key_space;
	uint8_t rows;
};

static uint32_t key_of(const struct keyed_rows *keyed, const uint8_t *at)
{
	const struct ky_trace *trace = keyed->trace;
	uint32_t task, name;

	if (keyed->rows == KY_ROWS_POLLS) {
		const struct ky_poll_row *poll = (const void *)at;

		task = poll->task;
		name = poll->site & 0xffffffu;
	} else {
		task = ((const struct ky_wake_row *)(const void *)at)->woken;
		name = 0xffffffu;
	}
	if (keyed->key == KY_KEY_TASK)
		return task < trace->task_count ? task : keyed->key_space - 1;
	if (name == 0xffffffu)
		name = task < trace->task_count ? trace->tasks[task].name : KY_NONE;
	return name < keyed->key_space - 1 ? name : keyed->key_space - 1;
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct keyed_rows *keyed = ctx;
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	if (one == KY_NONE || other == KY_NONE)
		return one == KY_NONE && other != KY_NONE;
	if (keyed->key == KY_KEY_TASK)
		return (int64_t)keyed->trace->tasks[one].id <
		       (int64_t)keyed->trace->tasks[other].id;
	return strcmp(ky_trace_name(keyed->trace, one), ky_trace_name(keyed->trace, other)) < 0;
}

static void count_rows(struct keyed_rows *keyed)
{
	for (uint32_t i = 0; i < keyed->trace->worker_count; i++) {
		struct ky_cursor cursor;
		bool is_in = ky_cursor_begin(
			&cursor, ky_query_lane(&keyed->trace->workers[i], keyed->rows), 0);

		for (; is_in; is_in = ky_cursor_next(&cursor))
			keyed->counts[key_of(keyed, cursor.at)]++;
	}
}

/* counts: by key, where its next row goes. */
static void place_rows(struct ky_row_order *out, struct keyed_rows *keyed)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < keyed->trace->worker_count; i++) {
		struct ky_cursor cursor;
		bool is_in = ky_cursor_begin(
			&cursor, ky_query_lane(&keyed->trace->workers[i], keyed->rows), 0);

		for (; is_in; is_in = ky_cursor_next(&cursor))
			out->rows[keyed->counts[key_of(keyed, cursor.at)]++] = number++;
	}
}

static void sort_keys(struct ky_row_order *out, struct keyed_rows *keyed)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < keyed->key_space; i++)
		if (keyed->counts[i])
			out->keys[out->key_count++] = i == keyed->key_space - 1 ? KY_NONE : i;
	ky_sort(out->keys, out->key_count, sizeof(*out->keys), is_before, keyed);
	for (uint32_t i = 0; i < out->key_count; i++) {
		uint32_t *count = &keyed->counts[out->keys[i] == KY_NONE ? keyed->key_space - 1 :
									   out->keys[i]];
		uint32_t rows = *count;

		out->begins[i] = at;
		*count = at;
		at += rows;
	}
	out->begins[out->key_count] = at;
}

int ky_row_order_make(struct ky_row_order *out, const struct ky_trace *trace, uint8_t rows,
		      uint32_t key)
{
	struct keyed_rows keyed = {.trace = trace, .key = key, .rows = rows};
	uint64_t count = ky_query_lane_rows(trace, rows);
	uint32_t used = 0;

	memset(out, 0, sizeof(*out));
	keyed.key_space = 1 + (key == KY_KEY_TASK ? trace->task_count : ky_trace_name_count(trace));
	keyed.counts = ky_alloc((size_t)keyed.key_space * sizeof(*keyed.counts));
	out->rows = ky_alloc((size_t)(count + 1) * sizeof(*out->rows));
	if (keyed.counts && out->rows) {
		count_rows(&keyed);
		for (uint32_t i = 0; i < keyed.key_space; i++)
			used += keyed.counts[i] > 0;
		out->keys = ky_alloc(((size_t)used + 1) * sizeof(*out->keys));
		out->begins = ky_alloc(((size_t)used + 1) * sizeof(*out->begins));
	}
	if (!keyed.counts || !out->rows || !out->keys || !out->begins) {
		ky_free(keyed.counts);
		ky_row_order_release(out);
		return -ENOMEM;
	}
	sort_keys(out, &keyed);
	place_rows(out, &keyed);
	out->row_count = (uint32_t)count;
	ky_free(keyed.counts);
	return 0;
}

void ky_row_order_release(struct ky_row_order *order)
{
	ky_free(order->rows);
	ky_free(order->keys);
	ky_free(order->begins);
	memset(order, 0, sizeof(*order));
}

/* Below 0: the key at `place` comes before what is searched. */
static int compare(const struct ky_row_order *order, const struct ky_trace *trace, uint32_t place,
		   const char *site, int64_t id)
{
	uint32_t key = order->keys[place];

	if (key == KY_NONE)
		return -1;
	if (site)
		return strcmp(ky_trace_name(trace, key), site);
	return (int64_t)trace->tasks[key].id < id ? -1 : (int64_t)trace->tasks[key].id > id;
}

static uint32_t find(const struct ky_row_order *order, const struct ky_trace *trace,
		     const char *site, int64_t id)
{
	uint32_t low = 0, high = order->key_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (compare(order, trace, middle, site, id) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < order->key_count && compare(order, trace, low, site, id) == 0 ?
		       low :
		       order->key_count;
}

uint32_t ky_row_order_site(const struct ky_row_order *order, const struct ky_trace *trace,
			   const char *site)
{
	return find(order, trace, site, 0);
}

uint32_t ky_row_order_task(const struct ky_row_order *order, const struct ky_trace *trace,
			   int64_t id)
{
	return find(order, trace, NULL, id);
}
