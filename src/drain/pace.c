/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/pace.h>

#define MS_NS UINT64_C(1000000)
#define PACE_MIN_NS (5 * MS_NS)
/* A program's first steps: its rate is not known yet, and it may be over soon. */
#define PACE_START_NS (20 * MS_NS)

static uint64_t claim_index_of(const struct ky_ring_view *view)
{
	return atomic_load_explicit(&view->header->claim_index, memory_order_relaxed);
}

/* Stacks have cells of their own, and fewer of them. */
static uint64_t sample_claim_index(const struct ky_ring_view *view, uint32_t which,
				   uint64_t *cell_count)
{
	struct ky_sample_ring ring;

	*cell_count = 0;
	if (!ky_ring_view_samples(view, which, &ring))
		return 0;
	*cell_count = ring.cell_count;
	return KY_SAMPLE_CLAIM(atomic_load_explicit(&ring.head->claim_index, memory_order_relaxed));
}

void ky_drain_pace_begin(struct ky_drain_pace *pace, uint64_t now_ns)
{
	*pace = (struct ky_drain_pace){.found_ns = now_ns, .stepped_ns = now_ns};
}

static bool is_filling(const struct ky_drain_pace *pace, const struct ky_ring_view *view)
{
	if (claim_index_of(view) - pace->claim_index > ky_ring_view_usable(view) / 4)
		return true;
	for (uint32_t which = 0; which < KY_SAMPLE_CLASSES; which++) {
		uint64_t cell_count;
		uint64_t claim_index = sample_claim_index(view, which, &cell_count);

		if (claim_index - pace->sample_claim_indexes[which] > cell_count / 4)
			return true;
	}
	return false;
}

bool ky_drain_pace_is_empty(const struct ky_drain_pace *pace, const struct ky_ring_view *view)
{
	return claim_index_of(view) == pace->claim_index;
}

uint64_t ky_drain_pace_slack(const struct ky_drain_pace *pace)
{
	return pace->due_ns > pace->stepped_ns ? (pace->due_ns - pace->stepped_ns) / 8 : 0;
}

bool ky_drain_pace_is_due(const struct ky_drain_pace *pace, const struct ky_ring_view *view,
			  uint64_t now_ns)
{
	return now_ns >= pace->due_ns || is_filling(pace, view);
}

void ky_drain_pace_step(struct ky_drain_pace *pace, const struct ky_ring_view *view,
			uint64_t now_ns, uint64_t longest_ns)
{
	uint64_t claim_index = claim_index_of(view), claims = claim_index - pace->claim_index;
	uint64_t quarter = ky_ring_view_usable(view) / 4u + 1u;
	uint64_t rest_ns = now_ns > pace->found_ns ? (now_ns - pace->found_ns) / 2 : 0, cell_count;

	if (rest_ns < PACE_START_NS)
		rest_ns = PACE_START_NS;
	if (rest_ns > longest_ns)
		rest_ns = longest_ns;
	/* How long a quarter of the ring takes to fill at the rate since the last step. */
	if (claims > 0 && now_ns > pace->stepped_ns &&
	    quarter * (now_ns - pace->stepped_ns) / claims < rest_ns)
		rest_ns = quarter * (now_ns - pace->stepped_ns) / claims;
	if (rest_ns < PACE_MIN_NS)
		rest_ns = PACE_MIN_NS;
	pace->due_ns = now_ns + rest_ns;
	pace->stepped_ns = now_ns;
	pace->claim_index = claim_index;
	for (uint32_t which = 0; which < KY_SAMPLE_CLASSES; which++)
		pace->sample_claim_indexes[which] = sample_claim_index(view, which, &cell_count);
}

uint64_t ky_drain_pace_rest(const struct ky_drain_pace *pace, uint64_t now_ns, uint64_t check_ns)
{
	uint64_t rest_ns = pace->due_ns > now_ns ? pace->due_ns - now_ns : 0;

	return rest_ns < check_ns ? rest_ns : check_ns;
}
