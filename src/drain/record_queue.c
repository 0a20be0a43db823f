/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/record_queue.h>

#include <base/alloc.h>
#include <errno.h>
#include <string.h>

int ky_queue_reserve(struct ky_queue *queue, struct ky_queue_sums *sums, uint32_t count)
{
	uint32_t waiting = queue->tail - queue->head;
	uint32_t capacity = queue->capacity ? queue->capacity * 2 : 64;
	struct ky_rec *recs;

	if (queue->capacity - queue->tail >= count)
		return 0;
	while (capacity - queue->tail < count)
		capacity *= 2;
	if (queue->head && waiting < queue->capacity / 2 && queue->capacity - waiting >= count) {
		memmove(queue->recs, queue->recs + queue->head, waiting * sizeof(*recs));
		queue->head = 0;
		queue->tail = waiting;
		return 0;
	}
	recs = ky_realloc(queue->recs, (size_t)capacity * sizeof(*recs));
	if (!recs)
		return -ENOMEM;
	sums->bytes += (uint64_t)(capacity - queue->capacity) * sizeof(*recs);
	queue->recs = recs;
	queue->capacity = capacity;
	return 0;
}

int ky_queue_push(struct ky_queue *queue, struct ky_queue_sums *sums, const struct ky_rec *rec)
{
	if (ky_queue_reserve(queue, sums, 1) != 0)
		return -ENOMEM;
	queue->recs[queue->tail++] = *rec;
	sums->waiting++;
	return 0;
}

void ky_queue_give_back(struct ky_queue *queue, struct ky_queue_sums *sums)
{
	sums->bytes -= (uint64_t)queue->capacity * sizeof(*queue->recs);
	ky_free(queue->recs);
	*queue = (struct ky_queue){.recs = NULL};
}
