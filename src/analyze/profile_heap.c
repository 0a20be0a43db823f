/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Memory by stack: allocated in the range, live at its end, grown in its second half. */
#include <analyze/profile_cpu.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>

struct keyed {
	uint32_t site; /* the stack; KY_NONE */
	uint32_t row;
};

static bool is_keyed_before(const void *a, const void *b, const void *ctx)
{
	const struct keyed *one = a, *other = b;

	(void)ctx;
	return one->site != other->site ? one->site < other->site : one->row < other->row;
}

static bool is_live_at(const struct ky_stack_row *row, uint64_t ns)
{
	return row->time_ns <= ns && (!(row->flags & KY_ROW_FREED) || row->end_ns > ns);
}

/* Allocated before the range ends, and not freed before it begins. */
static bool is_in(const struct ky_stack_profile *profile, const struct ky_stack_row *row)
{
	return row->kind == KY_STACK_ALLOC && row->time_ns < profile->to_ns &&
	       (row->time_ns >= profile->from_ns || is_live_at(row, profile->from_ns));
}

static uint32_t group_rows(const struct ky_stack_profile *profile, const struct ky_trace *trace,
			   struct keyed *keyed, uint32_t *groups)
{
	uint32_t count = 0;

	*groups = 0;
	for (uint32_t i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];

		if (is_in(profile, row))
			keyed[count++] = (struct keyed){
				row->stack == KY_NONE ? KY_NONE : profile->code.sites[row->stack],
				i};
	}
	ky_sort(keyed, count, sizeof(*keyed), is_keyed_before, NULL);
	for (uint32_t i = 0; i < count; i++)
		*groups += i == 0 || keyed[i].site != keyed[i - 1].site;
	return count;
}

/* Moments at which what is live is reported: the ends of equal parts of the range, as far as the
 * trace goes. */
static void choose_points(struct ky_stack_profile *profile, const struct ky_trace *trace)
{
	const struct ky_samples *samples = &trace->samples;
	uint64_t first = trace->run_first_ns, last = trace->run_last_ns;

	for (uint32_t i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];

		if (row->kind != KY_STACK_ALLOC || row->reason == KY_ALLOC_REPORTED_LIVE)
			continue;
		first = row->time_ns < first || !first ? row->time_ns : first;
		last = row->time_ns > last ? row->time_ns : last;
		last = row->flags & KY_ROW_FREED && row->end_ns > last ? row->end_ns : last;
	}
	if (first < profile->from_ns)
		first = profile->from_ns;
	if (last >= profile->to_ns)
		last = profile->to_ns - 1;
	if (last < first)
		last = first;
	for (uint32_t i = 0; i <= KY_HEAP_PARTS; i++)
		profile->heap_points[i] = first + (uint64_t)((double)(last - first) *
							     ((double)i / KY_HEAP_PARTS));
	profile->heap_points[KY_HEAP_PARTS] = last;
}

static void add_both(struct ky_total *bytes, struct ky_total *allocations,
		     const struct ky_stack_row *row)
{
	ky_total_add(bytes, row->weight, (double)row->value);
	ky_total_add(allocations, row->weight, 1.0);
}

static void add(const struct ky_stack_profile *profile, struct ky_stack_profile_heap *heap,
		const struct ky_stack_row *row)
{
	uint64_t last = profile->heap_points[KY_HEAP_PARTS];
	bool is_live = is_live_at(row, last > row->time_ns ? last : row->time_ns);
	bool was_live = is_live_at(row, profile->heap_points[KY_HEAP_PARTS / 2]);
	double bytes = (double)row->value;

	heap->count++;
	/* Of some that live the beginning was lost, of others it was before the trace. */
	if (row->time_ns >= profile->from_ns &&
	    (row->reason != KY_ALLOC_REPORTED_LIVE || row->time_ns >= profile->heap_points[0]))
		add_both(&heap->bytes, &heap->allocations, row);
	if (is_live)
		add_both(&heap->live_bytes, &heap->live_allocations, row);
	if (is_live != was_live)
		ky_total_add(&heap->growth, row->weight, is_live ? bytes : -bytes);
	for (uint32_t i = 0; i <= KY_HEAP_PARTS; i++)
		if (is_live_at(row, profile->heap_points[i]))
			heap->live_at[i] += row->weight * bytes;
}

static bool is_heap_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_stack_profile_heap *one = a, *other = b;

	(void)ctx;
	if (one->live_bytes.sum > other->live_bytes.sum ||
	    one->live_bytes.sum < other->live_bytes.sum)
		return one->live_bytes.sum > other->live_bytes.sum;
	if (one->bytes.sum > other->bytes.sum || one->bytes.sum < other->bytes.sum)
		return one->bytes.sum > other->bytes.sum;
	return one->stack < other->stack;
}

int ky_stack_profile_heap(struct ky_stack_profile *profile, const struct ky_trace *trace)
{
	size_t rows = trace->samples.counts[KY_STACK_ALLOC];
	struct keyed *keyed = ky_alloc((rows + 1) * sizeof(*keyed));
	uint32_t count = 0, groups = 0, at = 0;

	if (!keyed)
		return -ENOMEM;
	count = group_rows(profile, trace, keyed, &groups);
	profile->heap = ky_alloc((groups + 1u) * sizeof(*profile->heap));
	if (!profile->heap) {
		ky_free(keyed);
		return -ENOMEM;
	}
	choose_points(profile, trace);
	profile->is_heap_weighted = true;
	for (uint32_t i = 0; i < count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[keyed[i].row];

		at += i > 0 && keyed[i].site != keyed[i - 1].site;
		profile->heap[at].stack = keyed[i].site;
		add(profile, &profile->heap[at], row);
		add(profile, &profile->heap_all, row);
		if (row->flags & KY_ROW_UNWEIGHTED)
			profile->is_heap_weighted = false;
	}
	ky_free(keyed);
	ky_sort(profile->heap, groups, sizeof(*profile->heap), is_heap_before, NULL);
	profile->heap_total = groups;
	profile->heap_count = groups < KY_STACK_PROFILE_ROWS_MAX ? groups :
								   KY_STACK_PROFILE_ROWS_MAX;
	return 0;
}
