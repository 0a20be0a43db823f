/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/lock_wakes.h>

#include <read/id_map.h>
#include <read/sort.h>
#include <read/turns.h>

#define TARGET_MASK ((UINT64_C(1) << 56) - 1) /* a notification keeps so much of an address */

static bool is_open_question(const struct ky_stack_row *row)
{
	return row->kind == KY_STACK_OFF_CPU && row->reason == KY_WAIT_FUTEX && row->lock &&
	       !row->woken_by;
}

static bool ends_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_stack_row *rows = ctx;
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	if (rows[one].end_ns != rows[other].end_ns)
		return rows[one].end_ns < rows[other].end_ns;
	return one < other;
}

static void take(const struct ky_trace *trace, struct ky_stack_row *row,
		 const struct ky_notify *notify)
{
	if (notify->time_ns < row->time_ns || notify->tid == row->tid)
		return;
	row->woken_by = KY_ROW_WOKEN_BY_THREAD;
	row->woken_ns = notify->time_ns;
	row->waker_tid = notify->tid;
	row->waker_pid = ky_trace_pid(trace);
	row->waker_name = ky_trace_thread_name(trace, notify->tid);
}

/* waits: indices of rows, by their ends. */
static void sweep(struct ky_trace *trace, const uint32_t *waits, uint32_t count,
		  struct ky_id_map *last)
{
	struct ky_notify notify;
	uint64_t next = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct ky_stack_row *row = &trace->samples.rows[waits[i]];
		uint32_t found;

		for (; next < trace->notifies.row_count; next++) {
			uint32_t *slot;

			ky_trace_notify(trace, next, &notify);
			if (notify.time_ns > row->end_ns)
				break;
			if (notify.via != KY_NOTIFY_FUTEX)
				continue;
			slot = ky_id_map_slot(last, notify.target);
			if (!slot)
				return;
			*slot = (uint32_t)next + 1;
		}
		found = ky_id_map_find(last, row->lock & TARGET_MASK);
		if (found == UINT32_MAX)
			continue;
		ky_trace_notify(trace, found, &notify);
		take(trace, row, &notify);
	}
}

int ky_lock_wakes_find(struct ky_trace *trace)
{
	struct ky_samples *samples = &trace->samples;
	struct ky_id_map last;
	uint32_t count = 0, i, at = 0, *waits;

	for (i = 0; i < samples->row_count; i++)
		count += is_open_question(&samples->rows[i]);
	if (!count || !trace->notifies.row_count)
		return 0;
	waits = ky_pages_alloc(&trace->pages, count * sizeof(*waits));
	if (!waits)
		return trace->pages.failed;
	for (i = 0; i < samples->row_count; i++)
		if (is_open_question(&samples->rows[i]))
			waits[at++] = i;
	ky_sort(waits, count, sizeof(*waits), ends_before, samples->rows);
	ky_id_map_init(&last, &trace->pages);
	sweep(trace, waits, count, &last);
	ky_id_map_release(&last);
	ky_pages_free(&trace->pages, waits, count * sizeof(*waits));
	return trace->pages.failed;
}
