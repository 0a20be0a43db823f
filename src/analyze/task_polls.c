/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/task_polls.h>

#include <base/alloc.h>
#include <string.h>

#define BLOCKING_POOL 254u
#define UNKNOWN 255u

static struct ky_polled *find(struct ky_task_polls *polls, uint64_t place, bool is_nested)
{
	for (uint32_t i = polls->count; i-- > 0;) {
		if (polls->rows[i].place == place && polls->rows[i].is_nested == is_nested)
			return &polls->rows[i];
	}
	return NULL;
}

static void add(struct ky_task_polls *polls, uint64_t place, uint64_t task, bool is_nested)
{
	if (polls->count == KY_TASK_POLLS_MAX ||
	    ky_grow(&polls->rows, &polls->capacity, polls->count + 1, sizeof(*polls->rows)))
		return;
	polls->rows[polls->count++] = (struct ky_polled){place, task, is_nested};
}

/* Returns the task that was polled there, UINT64_MAX when that is not known. */
static uint64_t end(struct ky_task_polls *polls, uint64_t place, bool is_nested)
{
	struct ky_polled *row = find(polls, place, is_nested);
	uint64_t task = row ? row->task : UINT64_MAX;

	if (row) {
		polls->count--;
		memmove(row, row + 1, (size_t)(polls->rows + polls->count - row) * sizeof(*row));
	}
	return task;
}

/* Each chunk begins with those that are open: only the first that is read reports anything new. */
static void note_open(struct ky_task_polls *polls, const struct ky_event *event)
{
	uint64_t worker = ky_event_number(event, KY_F_OPEN_POLL_worker_id, UINT64_MAX);
	uint64_t tid = ky_event_number(event, KY_F_OPEN_POLL_tid, UINT64_MAX);
	uint64_t task = ky_event_number(event, KY_F_OPEN_POLL_task_id, UINT64_MAX);
	bool is_inner = worker == UNKNOWN || ky_event_number(event, KY_F_OPEN_POLL_depth, 1) > 0;
	bool is_nested = ky_event_number(event, KY_F_OPEN_POLL_is_nested, is_inner) != 0;
	uint64_t place = is_nested ? tid : worker;

	if (worker == BLOCKING_POOL)
		return;
	for (uint32_t i = 0; i < polls->count; i++) {
		const struct ky_polled *row = &polls->rows[i];

		if (row->place == place && row->is_nested == is_nested &&
		    (!is_nested || row->task == task))
			return;
	}
	add(polls, place, task, is_nested);
}

bool ky_task_polls_note(struct ky_task_polls *polls, const struct ky_event *event, uint64_t task)
{
	uint64_t place;

	switch (event->schema->event) {
	case KY_EV_POLL_START:
		place = ky_event_number(event, KY_F_POLL_START_worker_id, UINT64_MAX);
		(void)end(polls, place, false); /* its end was lost */
		add(polls, place, ky_event_number(event, KY_F_POLL_START_task_id, UINT64_MAX),
		    false);
		return false;
	case KY_EV_POLL_END:
		return end(polls, ky_event_number(event, KY_F_POLL_END_worker_id, UINT64_MAX),
			   false) == task;
	case KY_EV_NESTED_POLL_START:
		add(polls, ky_event_number(event, KY_F_NESTED_POLL_START_tid, UINT64_MAX),
		    ky_event_number(event, KY_F_NESTED_POLL_START_task_id, UINT64_MAX), true);
		return false;
	case KY_EV_NESTED_POLL_END:
		return end(polls, ky_event_number(event, KY_F_NESTED_POLL_END_tid, UINT64_MAX),
			   true) == task;
	case KY_EV_OPEN_POLL:
		note_open(polls, event);
		return false;
	default:
		return false;
	}
}

void ky_task_polls_release(struct ky_task_polls *polls)
{
	ky_free(polls->rows);
	memset(polls, 0, sizeof(*polls));
}
