/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/lock_holders.h>

#define NEAR_ROWS 512u /* a wait for the same lock began so near by, in samples */
#define CHAIN_MAX 64u
#define EARLIER_NS                                                                                 \
	UINT64_C(1000000000) /* so long before a wait the holder may have begun its own */

/* The wait of that thread for this lock that ended last before the moment, within the wait. */
static const struct ky_stack_row *own_wait(const struct ky_trace *trace, uint32_t row, uint32_t tid,
					   uint64_t before_ns)
{
	const struct ky_samples *samples = &trace->samples;
	const struct ky_stack_row *wait = &samples->rows[row], *best = NULL;
	uint32_t from = row > NEAR_ROWS ? row - NEAR_ROWS : 0, to = row + NEAR_ROWS;

	for (uint32_t i = from; i < samples->row_count && i < to; i++) {
		const struct ky_stack_row *one = &samples->rows[i];

		if (one->kind == KY_STACK_OFF_CPU && one->lock == wait->lock && one->tid == tid &&
		    one->waker_tid && one->end_ns <= before_ns && one->end_ns > wait->time_ns &&
		    (!best || one->end_ns > best->end_ns))
			best = one;
	}
	return best;
}

bool ky_lock_holder_of(struct ky_lock_holder *out, const struct ky_trace *trace, uint32_t row)
{
	const struct ky_stack_row *wait = &trace->samples.rows[row], *last = wait, *next;

	if (!wait->waker_tid || !wait->woken_ns)
		return false;
	for (uint32_t i = 0; wait->lock && i < CHAIN_MAX; i++) {
		next = own_wait(trace, row, last->waker_tid, last->woken_ns);
		/* What it held itself is the longer part. */
		if (!next || next->end_ns - wait->time_ns < last->woken_ns - next->end_ns)
			break;
		last = next;
	}
	*out = (struct ky_lock_holder){.at_ns = last->woken_ns,
				       .tid = last->waker_tid,
				       .task = last->waker_task,
				       .kind = last->waker_kind,
				       .thread = last->waker_name};
	return true;
}

uint32_t ky_lock_holder_stacks(const struct ky_lock_holder *holder, const struct ky_trace *trace,
			       uint32_t row, uint32_t *stacks, uint32_t max)
{
	const struct ky_samples *samples = &trace->samples;
	const struct ky_stack_row *wait = &samples->rows[row];
	uint64_t from_ns = wait->time_ns > EARLIER_NS ? wait->time_ns - EARLIER_NS : 0;
	uint32_t count = 0;

	for (uint32_t i = ky_samples_from(samples, from_ns);
	     i < samples->row_count && samples->rows[i].time_ns <= holder->at_ns && count < max;
	     i++) {
		const struct ky_stack_row *one = &samples->rows[i];
		bool is_cpu = one->kind == KY_STACK_CPU && one->time_ns >= wait->time_ns;
		bool is_off = one->kind == KY_STACK_OFF_CPU && one->end_ns > wait->time_ns &&
			      one->lock != wait->lock;

		if (one->tid == holder->tid && one->task == holder->task && (is_cpu || is_off) &&
		    one->stack != KY_NONE)
			stacks[count++] = one->stack;
	}
	return count;
}
