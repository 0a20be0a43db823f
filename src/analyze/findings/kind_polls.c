/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/kind_polls.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_kind_poll *one = a, *other = b;

	(void)ctx;
	return one->task != other->task ? one->task < other->task : one->start_ns < other->start_ns;
}

static void count_waits(struct ky_kind_polls *polls)
{
	for (uint32_t i = 1; i < polls->count; i++) {
		const struct ky_kind_poll *one = &polls->list[i], *last = one - 1;

		if (one->task != last->task || one->start_ns <= last->end_ns)
			continue;
		polls->wait_count++;
		if (one->start_ns - last->end_ns > polls->wait_max_ns)
			polls->wait_max_ns = one->start_ns - last->end_ns;
	}
}

int ky_kind_polls_make(struct ky_kind_polls *out, const struct ky_facts *facts, uint32_t name,
		       uint64_t to_ns)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_poll poll;

	*out = (struct ky_kind_polls){0};
	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		for (uint64_t row = 0; row < trace->workers[worker].polls.row_count; row++) {
			ky_trace_poll(trace, worker, row, &poll);
			if (poll.start_ns >= to_ns)
				break;
			if (trace->tasks[poll.task].name != name)
				continue;
			if (out->count == KY_KIND_POLLS_MAX) {
				out->is_cut = true;
				break;
			}
			if (ky_grow(&out->list, &out->capacity, out->count + 1, sizeof(*out->list)))
				return -ENOMEM;
			out->list[out->count++] = (struct ky_kind_poll){
				poll.start_ns, poll.start_ns + poll.duration_ns, poll.task};
		}
	ky_sort(out->list, out->count, sizeof(*out->list), is_before, NULL);
	count_waits(out);
	return 0;
}

uint64_t ky_kind_polls_waited(const struct ky_kind_polls *polls, uint32_t task, uint64_t at_ns)
{
	uint32_t low = 0, high = polls->count;

	/* The first poll that is not before it. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct ky_kind_poll *one = &polls->list[middle];

		if (one->task < task || (one->task == task && one->start_ns < at_ns))
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || polls->list[low - 1].task != task || polls->list[low - 1].end_ns >= at_ns)
		return 0;
	return at_ns - polls->list[low - 1].end_ns;
}

void ky_kind_polls_release(struct ky_kind_polls *polls)
{
	ky_free(polls->list);
	*polls = (struct ky_kind_polls){0};
}
