/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Who ended the waits of one row. */
#include <analyze/profile_cpu.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

struct woken {
	uint32_t label; /* kind of task, or name of the thread; KY_NONE */
	uint32_t pid;
	uint32_t row;
	uint8_t by;
	bool is_task;
};

/* Of wakers that read the same. */
struct found_waker {
	struct ky_stack_profile_waker waker;
	uint32_t first; /* row */
};

static bool is_woken_before(const void *a, const void *b, const void *ctx)
{
	const struct woken *one = a, *other = b;

	(void)ctx;
	if (one->by != other->by)
		return one->by < other->by;
	if (one->is_task != other->is_task)
		return one->is_task;
	if (one->label != other->label)
		return one->label < other->label;
	if (one->pid != other->pid)
		return one->pid < other->pid;
	return one->row < other->row;
}

/* Equal ones in the order of time: numbers of names say nothing. */
static bool is_found_before(const void *a, const void *b, const void *ctx)
{
	const struct found_waker *one = a, *other = b;

	(void)ctx;
	if (one->waker.ns > other->waker.ns || one->waker.ns < other->waker.ns)
		return one->waker.ns > other->waker.ns;
	return one->first < other->first;
}

static bool is_same(const struct woken *one, const struct woken *other)
{
	return one->by == other->by && one->is_task == other->is_task &&
	       one->label == other->label && one->pid == other->pid;
}

static void begin(struct found_waker *found, const struct woken *woken,
		  const struct ky_stack_row *row, uint32_t pid)
{
	*found = (struct found_waker){
		.waker = {.by = woken->by,
			  .is_task = woken->is_task,
			  .is_own = woken->is_task || (row->waker_pid && row->waker_pid == pid),
			  .kind = woken->is_task ? woken->label : KY_NONE,
			  .task = row->waker_task,
			  .thread = row->waker_name,
			  .tid = row->waker_tid,
			  .pid = row->waker_pid},
		.first = woken->row,
	};
}

static void add(struct ky_stack_profile_waker *waker, const struct ky_stack_row *row)
{
	if (waker->task != row->waker_task)
		waker->task = KY_NONE;
	if (waker->thread != row->waker_name)
		waker->thread = KY_NONE;
	if (waker->tid != row->waker_tid)
		waker->tid = 0;
	waker->count++;
	waker->ns += row->weight * (double)row->value;
}

/* Returns how many have a waker, in groups. */
static uint32_t list(struct woken *woken, const struct ky_trace *trace,
		     const struct ky_keyed_row *rows, uint32_t count)
{
	uint32_t listed = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[rows[i].row];
		bool is_task = row->waker_task != KY_NONE;

		if (row->woken_by)
			woken[listed++] = (struct woken){
				is_task ? row->waker_kind : row->waker_name,
				is_task ? 0 : row->waker_pid, rows[i].row, row->woken_by, is_task};
	}
	ky_sort(woken, listed, sizeof(*woken), is_woken_before, NULL);
	return listed;
}

int ky_stack_profile_wakers(struct ky_stack_profile_wait *wait, const struct ky_trace *trace,
			    const struct ky_keyed_row *rows, uint32_t count)
{
	struct woken *woken = ky_alloc(count * sizeof(*woken));
	struct found_waker *found = ky_alloc(count * sizeof(*found));
	uint32_t listed, i, found_count = 0, pid = ky_trace_pid(trace);

	if (!woken || !found) {
		ky_free(woken);
		ky_free(found);
		return -ENOMEM;
	}
	listed = list(woken, trace, rows, count);
	for (i = 0; i < listed; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[woken[i].row];

		if (i == 0 || !is_same(&woken[i], &woken[i - 1]))
			begin(&found[found_count++], &woken[i], row, pid);
		add(&found[found_count - 1].waker, row);
		wait->woken_count++;
		wait->woken_ns += row->weight * (double)row->value;
	}
	ky_sort(found, found_count, sizeof(*found), is_found_before, NULL);
	wait->waker_total = found_count;
	wait->waker_count = found_count < KY_STACK_PROFILE_WAKERS ? found_count :
								    KY_STACK_PROFILE_WAKERS;
	for (i = 0; i < wait->waker_count; i++)
		wait->wakers[i] = found[i].waker;
	ky_free(woken);
	ky_free(found);
	return 0;
}
