/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/span_tail.h>

#include <analyze/log_exp.h>
#include <analyze/span_samples.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/ascending.h>
#include <read/id_map.h>
#include <read/names.h>
#include <read/sort.h>
#include <stddef.h>
#include <string.h>

#define MILLION 1000000u
#define COUNT_OF_PARTS 7u
#define COUNT_MIN 5u          /* of a value, of both groups: what is rarer proves nothing */
#define P_MAX_PPB 10000000u   /* 1 %, of all tests of the name */
#define DIFFERENCE_PPM 50000u /* of shares, at least */
#define EXPLAINS_PPM 10000u   /* of the extra time, at least */
#define ROWS_MAX 24u          /* of a name, beside its parts */
#define STEPS_MAX (1u << 24)  /* samples in spans of a name: with more no function is compared */
#define MAP_BYTES_MAX (UINT64_C(1) << 28)

/* A closed span, in the order of its name, then duration. */
struct item {
	uint64_t duration_ns;
	uint32_t span, name;
};

struct value_count {
	uint32_t key, value;
	uint32_t slow, typical;
	uint32_t last_item; /* that was counted, + 1 */
	uint64_t slow_ns, typical_ns;
	uint8_t kind;
};

struct tail_making {
	const struct ky_trace *trace;
	const struct ky_span_split *splits;
	struct item *items;
	double *log_factorials; /* of 0 .. the number of spans */
	struct ky_span_tail *out;
	struct value_count *values;
	uint32_t value_count, value_capacity;
	struct ky_pages pages;
	struct ky_id_map value_of;
	struct ky_span_samples samples;
	uint32_t steps;
	double extra_ns; /* mean of a slow span less that of a typical one */
};

/* One name: items [first, end), slow from `slow` on, typical [low, high). */
struct group {
	uint32_t first, end, slow, low, high;
};

static bool is_item_before(const void *a, const void *b, const void *ctx)
{
	const struct item *one = a, *other = b;

	(void)ctx;
	if (one->name != other->name)
		return one->name < other->name;
	return one->duration_ns != other->duration_ns ? one->duration_ns < other->duration_ns :
							one->span < other->span;
}

/* ---- how likely ---- */

static double log_choose(const struct tail_making *making, uint32_t n, uint32_t k)
{
	return making->log_factorials[n] - making->log_factorials[k] -
	       making->log_factorials[n - k];
}

/* That at least `have` of `slow` spans have what `all_have` of all have. */
static double chance(const struct tail_making *making, uint32_t have, uint32_t slow,
		     uint32_t all_have, uint32_t all)
{
	uint32_t most = all_have < slow ? all_have : slow;
	double whole = log_choose(making, all, slow), sum = 0;

	for (uint32_t k = have; k <= most; k++) {
		if (slow - k > all - all_have)
			continue;
		sum += ky_exp(log_choose(making, all_have, k) +
			      log_choose(making, all - all_have, slow - k) - whole);
	}
	return sum < 1 ? sum : 1;
}

/* ---- rows ---- */

static struct ky_tail_row *add_row(struct tail_making *making, const struct group *group,
				   uint8_t kind)
{
	struct ky_span_tail *out = making->out;

	if (ky_grow(&out->rows, &out->capacity, out->count + 1, sizeof(*out->rows)))
		return NULL;
	out->rows[out->count] = (struct ky_tail_row){.name = making->items[group->first].name,
						     .kind = kind,
						     .key = KY_NONE,
						     .value = KY_NONE,
						     .slow_count = group->end - group->slow,
						     .typical_count = group->high - group->low};
	return &out->rows[out->count++];
}

static struct ky_span_split sum_of(const struct tail_making *making, uint32_t first, uint32_t end)
{
	struct ky_span_split sum = {0};

	for (uint32_t i = first; i < end; i++)
		ky_span_split_add(&sum, &making->splits[making->items[i].span]);
	return sum;
}

static bool add_parts(struct tail_making *making, const struct group *group)
{
	static const struct {
		const char *name;
		size_t offset;
	} parts[COUNT_OF_PARTS] = {
		{"on_cpu", offsetof(struct ky_span_split, cpu_ns)},
		{"off_cpu", offsetof(struct ky_span_split, off_cpu_ns)},
		{"polled", offsetof(struct ky_span_split, polled_ns)},
		{"ready", offsetof(struct ky_span_split, ready_ns)},
		{"waiting", offsetof(struct ky_span_split, waiting_ns)},
		{"client", offsetof(struct ky_span_split, client_ns)},
		{"unknown", offsetof(struct ky_span_split, unknown_ns)},
	};
	struct ky_span_split slow = sum_of(making, group->slow, group->end);
	struct ky_span_split typical = sum_of(making, group->low, group->high);
	uint64_t slow_count = group->end - group->slow, typical_count = group->high - group->low;
	double extra = 0, means[2][COUNT_OF_PARTS];

	for (uint32_t i = 0; i < COUNT_OF_PARTS; i++) {
		uint64_t value;

		memcpy(&value, (const char *)&slow + parts[i].offset, sizeof(value));
		means[0][i] = (double)value / (double)slow_count;
		memcpy(&value, (const char *)&typical + parts[i].offset, sizeof(value));
		means[1][i] = (double)value / (double)typical_count;
		extra += means[0][i] - means[1][i];
	}
	for (uint32_t i = 0; i < COUNT_OF_PARTS; i++) {
		double more = means[0][i] - means[1][i];
		struct ky_tail_row *row;

		if (extra <= 0 || more * MILLION < extra * EXPLAINS_PPM)
			continue;
		row = add_row(making, group, KY_TAIL_PART);
		if (!row)
			return false;
		row->part = parts[i].name;
		row->slow_ns = (uint64_t)means[0][i];
		row->typical_ns = (uint64_t)means[1][i];
		row->explains_ppm = (uint64_t)(more * MILLION / extra);
	}
	making->extra_ns = extra;
	return true;
}

static struct value_count *value_at(struct tail_making *making, uint8_t kind, uint32_t key,
				    uint32_t value)
{
	/* A name index has 24 bits. */
	uint64_t id = (uint64_t)kind << 56 | (uint64_t)(key & 0xffffffu) << 24 | value;
	uint32_t *slot = ky_id_map_slot(&making->value_of, id);

	if (!slot)
		return NULL;
	if (*slot)
		return &making->values[*slot - 1];
	if (ky_grow(&making->values, &making->value_capacity, making->value_count + 1,
		    sizeof(*making->values)))
		return NULL;
	making->values[making->value_count] = (struct value_count){
		.kind = kind, .key = key, .value = value};
	*slot = ++making->value_count;
	return &making->values[*slot - 1];
}

static void add_ns(uint64_t *sum, uint64_t ns)
{
	*sum = ns > UINT64_MAX - *sum ? UINT64_MAX : *sum + ns;
}

/* Functions of the samples in it: each counts once, and all its time. */
static bool count_samples(struct tail_making *making, uint32_t item, bool is_slow)
{
	struct ky_span_sample sample;
	struct ky_span_walk walk;

	ky_span_walk_begin(&walk, &making->samples,
			   &making->trace->spans[making->items[item].span]);
	while (making->steps < STEPS_MAX && ky_span_walk_next(&walk, &making->samples, &sample)) {
		struct value_count *count;

		making->steps++;
		if (sample.function >= KY_NAMES_MAX) /* none, or more than the map has room for */
			continue;
		count = value_at(making, sample.is_off_cpu ? KY_TAIL_OFF_CPU : KY_TAIL_CPU, KY_NONE,
				 sample.function);
		if (!count)
			return false;
		add_ns(is_slow ? &count->slow_ns : &count->typical_ns, sample.ns);
		if (count->last_item == item + 1)
			continue;
		count->last_item = item + 1;
		count->slow += is_slow;
		count->typical += !is_slow;
	}
	return true;
}

static bool count_value(struct tail_making *making, uint8_t kind, uint32_t key, uint32_t value,
			bool is_slow)
{
	struct value_count *count;

	if (value == KY_NONE)
		return true;
	count = value_at(making, kind, key, value);
	if (!count)
		return false;
	count->slow += is_slow;
	count->typical += !is_slow;
	return true;
}

static bool count_span(struct tail_making *making, uint32_t item, bool is_slow)
{
	const struct ky_trace *trace = making->trace;
	const struct ky_trace_span *span = &trace->spans[making->items[item].span];

	for (uint32_t i = 0; i < span->field_count; i++) {
		const struct ky_pair *pair = &trace->span_fields[span->field_at + i];

		if (!count_value(making, KY_TAIL_FIELD, pair->key, pair->value, is_slow))
			return false;
	}
	if (span->parent != KY_NONE &&
	    !count_value(making, KY_TAIL_PARENT, KY_NONE, trace->spans[span->parent].name, is_slow))
		return false;
	return span->task == KY_NONE || (count_value(making, KY_TAIL_SITE, KY_NONE,
						     trace->tasks[span->task].name, is_slow) &&
					 count_samples(making, item, is_slow));
}

static uint64_t ppm(uint64_t part, uint64_t whole)
{
	return part * MILLION / whole;
}

static bool is_function(uint8_t kind)
{
	return kind == KY_TAIL_CPU || kind == KY_TAIL_OFF_CPU;
}

static void say_function(const struct tail_making *making, struct ky_tail_row *row,
			 const struct value_count *value)
{
	const struct ky_code_stacks *code = making->samples.code;
	double slow_ns = (double)value->slow_ns / (double)row->slow_count;
	double typical_ns = (double)value->typical_ns / (double)row->typical_count;

	row->part = code->lines[code->function_lines[value->value]].name;
	row->has_ns = value->slow_ns || value->typical_ns;
	row->slow_ns = (uint64_t)slow_ns;
	row->typical_ns = (uint64_t)typical_ns;
	if (making->extra_ns > 0 && slow_ns > typical_ns)
		row->explains_ppm = (uint64_t)((slow_ns - typical_ns) * MILLION / making->extra_ns);
}

/* A row where more of the slow ones have it than chance makes. */
static bool add_if_it_tells(struct tail_making *making, const struct group *group,
			    const struct value_count *value, uint64_t at_least, uint32_t tests)
{
	uint32_t slow = group->end - group->slow, typical = group->high - group->low;
	uint32_t have = value->slow + value->typical;
	struct ky_tail_row *row;
	double p;

	if (have < COUNT_MIN ||
	    ppm(value->slow, slow) < ppm(value->typical, typical) + DIFFERENCE_PPM)
		return true;
	p = chance(making, value->slow, slow, have, slow + typical) * tests;
	if (p * 1e9 > P_MAX_PPB)
		return true;
	row = add_row(making, group, value->kind);
	if (!row)
		return false;
	row->key = value->key;
	row->value = value->value;
	row->at_least = at_least;
	row->slow_ppm = ppm(value->slow, slow);
	row->typical_ppm = ppm(value->typical, typical);
	row->p_ppb = (uint64_t)(p * 1e9);
	if (is_function(value->kind))
		say_function(making, row, value);
	return true;
}

/* How many are open at the begin of each: began before it, and did not end before it. spans: number
 * in the trace, which is the order of begins, and below it the place in `open`. */
static void count_open(const struct ky_trace *trace, uint64_t *spans, uint64_t *ends,
		       uint32_t count, uint64_t *open)
{
	uint32_t ended = 0, begun = 0;
	uint64_t last_ns = 0;

	ky_ascending_sort(spans, count);
	ky_ascending_sort(ends, count);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t ns = trace->spans[spans[i] >> 32].start_ns;

		if (!i || ns != last_ns)
			begun = i;
		while (ended < count && ends[ended] < ns)
			ended++;
		open[(uint32_t)spans[i]] = begun - ended;
		last_ns = ns;
	}
}

/* Others of the name that are open at its begin: more than in three of four typical ones? */
static bool add_concurrency(struct tail_making *making, const struct group *group, uint32_t tests)
{
	uint32_t count = group->end - group->first, typical = group->high - group->low;
	uint64_t *spans = ky_alloc(count * sizeof(*spans)), *ends = ky_alloc(count * sizeof(*ends));
	uint64_t *open = ky_alloc(count * sizeof(*open)), *sorted = NULL, most;
	struct value_count value = {.kind = KY_TAIL_CONCURRENCY, .key = KY_NONE, .value = KY_NONE};
	bool is_made = spans && ends && open;

	for (uint32_t i = 0; is_made && i < count; i++) {
		const struct item *item = &making->items[group->first + i];

		spans[i] = (uint64_t)item->span << 32 | i;
		ends[i] = making->trace->spans[item->span].start_ns + item->duration_ns;
	}
	if (is_made)
		count_open(making->trace, spans, ends, count, open);
	if (is_made) {
		sorted = ends; /* which are not asked any more */
		memcpy(sorted, open + (group->low - group->first), typical * sizeof(*sorted));
		ky_ascending_sort(sorted, typical);
		most = sorted[typical - 1 - typical / 4];
		for (uint32_t i = group->low; i < group->high; i++)
			value.typical += open[i - group->first] > most;
		for (uint32_t i = group->slow; i < group->end; i++)
			value.slow += open[i - group->first] > most;
		is_made = add_if_it_tells(making, group, &value, most + 1, tests);
	}
	ky_free(spans);
	ky_free(ends);
	ky_free(open);
	return is_made;
}

static bool is_row_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_tail_row *one = a, *other = b;

	(void)ctx;
	if ((one->kind == KY_TAIL_PART) != (other->kind == KY_TAIL_PART))
		return one->kind == KY_TAIL_PART;
	if (one->explains_ppm != other->explains_ppm)
		return one->explains_ppm > other->explains_ppm;
	if (one->p_ppb != other->p_ppb)
		return one->p_ppb < other->p_ppb;
	if (one->kind != other->kind)
		return one->kind < other->kind;
	return one->key != other->key ? one->key < other->key : one->value < other->value;
}

static bool add_group(struct tail_making *making, uint32_t first, uint32_t end)
{
	uint32_t count = end - first, slow = count / 100 > KY_TAIL_MIN ? count / 100 : KY_TAIL_MIN;
	struct group group = {first, end, end - slow, first + count / 4, end - count / 4};
	uint32_t row = making->out->count, tests, parts;
	bool is_made = true;

	if (count < KY_TAIL_SPANS_MIN)
		return true;
	making->value_count = making->steps = 0;
	ky_id_map_release(&making->value_of);
	ky_id_map_init(&making->value_of, &making->pages);
	for (uint32_t i = group.low; i < group.high && is_made; i++)
		is_made = count_span(making, i, false);
	for (uint32_t i = group.slow; i < group.end && is_made; i++)
		is_made = count_span(making, i, true);
	is_made = is_made && add_parts(making, &group);
	parts = making->out->count - row;
	tests = making->value_count + 1;
	for (uint32_t i = 0; i < making->value_count && is_made; i++)
		is_made = (making->steps == STEPS_MAX && is_function(making->values[i].kind)) ||
			  add_if_it_tells(making, &group, &making->values[i], 0, tests);
	is_made = is_made && add_concurrency(making, &group, tests);
	if (!is_made)
		return false;
	ky_sort(making->out->rows + row, making->out->count - row, sizeof(*making->out->rows),
		is_row_before, NULL);
	if (making->out->count - row > parts + ROWS_MAX)
		making->out->count = row + parts + ROWS_MAX;
	return true;
}

static bool make(struct tail_making *making)
{
	const struct ky_trace *trace = making->trace;
	uint32_t count = 0, first = 0;

	making->items = ky_alloc((trace->span_count + (size_t)1) * sizeof(*making->items));
	making->log_factorials = ky_alloc((trace->span_count + (size_t)1) *
					  sizeof(*making->log_factorials));
	if (!making->items || !making->log_factorials)
		return false;
	for (uint32_t i = 0; i < trace->span_count; i++) {
		making->log_factorials[i + 1] = making->log_factorials[i] + ky_log((double)i + 1);
		if (!trace->spans[i].is_open)
			making->items[count++] = (struct item){trace->spans[i].duration_ns, i,
							       trace->spans[i].name};
	}
	ky_sort(making->items, count, sizeof(*making->items), is_item_before, NULL);
	for (uint32_t i = 1; i <= count; i++) {
		if (i < count && making->items[i].name == making->items[first].name)
			continue;
		if (!add_group(making, first, i))
			return false;
		first = i;
	}
	return true;
}

int ky_span_tail_make(struct ky_span_tail *out, const struct ky_trace *trace,
		      const struct ky_code_stacks *code)
{
	struct tail_making making = {.trace = trace, .out = out};
	struct ky_span_split *splits = NULL;
	bool is_made;

	*out = (struct ky_span_tail){0};
	if (ky_span_splits(trace, &splits) || ky_span_samples_make(&making.samples, trace, code)) {
		ky_free(splits);
		return -ENOMEM;
	}
	making.splits = splits;
	ky_pages_init(&making.pages, MAP_BYTES_MAX);
	ky_id_map_init(&making.value_of, &making.pages);
	is_made = make(&making);
	ky_id_map_release(&making.value_of);
	ky_pages_release(&making.pages);
	ky_free(splits);
	ky_free(making.items);
	ky_free(making.log_factorials);
	ky_free(making.values);
	ky_span_samples_release(&making.samples);
	if (is_made)
		return 0;
	ky_span_tail_release(out);
	return -ENOMEM;
}

void ky_span_tail_release(struct ky_span_tail *tail)
{
	ky_free(tail->rows);
	*tail = (struct ky_span_tail){0};
}

const char *ky_tail_kind_key(uint32_t kind)
{
	static const char *const keys[] = {"part",        "field", "parent", "site",
					   "concurrency", "cpu",   "off_cpu"};

	return kind < sizeof(keys) / sizeof(keys[0]) ? keys[kind] : "";
}
