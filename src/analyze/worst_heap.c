/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/worst_heap.h>

static int compare_places(const struct ky_worst *a, const struct ky_worst *b)
{
	if (a->poll.start_ns != b->poll.start_ns)
		return a->poll.start_ns < b->poll.start_ns ? 1 : -1;
	if (a->poll.worker != b->poll.worker)
		return a->poll.worker < b->poll.worker ? 1 : -1;
	return a->row < b->row ? 1 : a->row > b->row ? -1 : 0;
}

/* Is a a lesser evil than b? Among equals the earlier one is worse. */
static bool is_lesser(const struct ky_worst *a, const struct ky_worst *b, bool by_delay)
{
	uint64_t value_a = by_delay ? ky_worst_delay_ns(a) : ky_worst_poll_ns(a);
	uint64_t value_b = by_delay ? ky_worst_delay_ns(b) : ky_worst_poll_ns(b);

	return value_a != value_b ? value_a < value_b : compare_places(a, b) < 0;
}

static void sift_worst(struct ky_worst *heap, uint32_t count, uint32_t at, bool by_delay)
{
	struct ky_worst moved = heap[at];
	uint32_t child;

	while ((child = 2 * at + 1) < count) {
		if (child + 1 < count && is_lesser(&heap[child + 1], &heap[child], by_delay))
			child++;
		if (!is_lesser(&heap[child], &moved, by_delay))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moved;
}

void ky_worst_add(struct ky_worst *heap, uint32_t *count, uint32_t max,
		  const struct ky_worst *candidate, bool by_delay)
{
	uint32_t at;

	if (*count < max) {
		at = (*count)++;
		while (at > 0 && is_lesser(candidate, &heap[(at - 1) / 2], by_delay)) {
			heap[at] = heap[(at - 1) / 2];
			at = (at - 1) / 2;
		}
		heap[at] = *candidate;
		return;
	}
	if (max == 0 || !is_lesser(&heap[0], candidate, by_delay))
		return;
	heap[0] = *candidate;
	sift_worst(heap, *count, 0, by_delay);
}

void ky_worst_order(struct ky_worst *heap, uint32_t count, bool by_delay)
{
	uint32_t left;

	for (left = count; left > 1; left--) {
		struct ky_worst least = heap[0];

		heap[0] = heap[left - 1];
		heap[left - 1] = least;
		sift_worst(heap, left - 1, 0, by_delay);
	}
}
