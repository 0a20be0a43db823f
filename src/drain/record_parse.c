/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/record_parse.h>

#include <drain/record_gap.h>
#include <errno.h>
#include <kymo/base.h>
#include <kymo/emit.h>
#include <wire/ring_record.h>

/* Words of records that say neither whose they are nor what time it is, and have a fixed length;
 * 0: all others, also those there are not. */
static const uint8_t plain_words[256] = {
	[KYMO_RECORD_POLL_BEGIN] = 2,     [KYMO_RECORD_POLL_END] = 1,
	[KYMO_RECORD_WAKE] = 2,           [KYMO_RECORD_SPAWN] = 2,
	[KYMO_RECORD_TASK_END] = 2,       [KYMO_RECORD_PARK] = 1,
	[KYMO_RECORD_UNPARK] = 1,         [KYMO_RECORD_DRIVER_TURN] = 2,
	[KYMO_RECORD_WORKER_END] = 1,     [KYMO_RECORD_RUNTIME] = 2,
	[KYMO_RECORD_BLOCKING_BEGIN] = 2, [KYMO_RECORD_BLOCKING_END] = 1,
	[KYMO_RECORD_NOTIFY] = 2,         [KYMO_RECORD_WAKER_CLONE] = 2,
	[KYMO_RECORD_MARK] = 2,           [KYMO_RECORD_DROPPED] = 2,
	[KYMO_RECORD_GATES] = 2,          [KYMO_RECORD_WAIT] = 2,
	[KYMO_RECORD_ROOT_BEGIN] = 2,     [KYMO_RECORD_ROOT_END] = 2,
	[KYMO_RECORD_FAILED_CALLS] = 2,   [KYMO_RECORD_SPAWN_WINDOW] = 2,
	[KYMO_RECORD_CONN_UNSEEN] = 2,    [KYMO_RECORD_PARKED_ON] = 2,
	[KYMO_RECORD_SPAN_IN] = 2,        [KYMO_RECORD_SPAN_OUT] = 2,
	[KYMO_RECORD_POLL_DELAY] = 2};

static int thread_change(struct ky_copy *copy, struct ky_slot_cursor *cursor, const uint64_t *words)
{
	struct ky_dthread *before = cursor->thread;
	struct ky_dthread *thread;
	bool has_gap;
	int err = ky_thread_table_take(&copy->common->threads, (uint32_t)(words[1] >> 32),
				       (uint32_t)words[1], &thread);

	if (err)
		return err == -ENOMEM ? err : KYMO_E_CORRUPT;
	if (before != thread) {
		before->cursor_count--;
		before->ended_closed = false;
		if (!before->exit_step) {
			before->exit_step = copy->common->step;
			before->exit_ticks = before->read_ticks;
		}
		thread->cursor_count++;
		cursor->thread = thread;
	}
	return ky_gap_account(copy, thread, words[3], words[2], &has_gap);
}

/* Two of its words after the first in each KY_REC_MORE. */
static int custom(struct ky_copy *copy, struct ky_dthread *thread, const uint64_t *words)
{
	uint32_t count = (uint32_t)words[0] & 0xffffu;
	int err = ky_copy_push(copy, thread, thread->read_ticks, KYMO_RECORD_CUSTOM, count,
			       count ? words[1] : 0);

	for (uint32_t i = 2; i <= count && !err; i += 2)
		err = ky_copy_push(copy, thread, words[i], KY_REC_MORE, 0,
				   i < count ? words[i + 1] : 0);
	return err;
}

static int special(struct ky_copy *copy, struct ky_slot_cursor *cursor, const uint64_t *words,
		   uint32_t type)
{
	struct ky_dthread *thread = cursor->thread;
	struct ky_launch launch;
	int err = 0;

	if (type == KYMO_RECORD_THREAD_CHANGE) {
		err = thread_change(copy, cursor, words);
		cursor->thread->record_next++;
		copy->common->stats.records_read++;
		return err;
	}
	thread->record_next++;
	copy->common->stats.records_read++;
	if (type == KYMO_RECORD_TIME) {
		if (words[1] > thread->read_ticks)
			thread->read_ticks = words[1];
		return 0;
	}
	thread->read_ticks = ky_record_ticks(thread->read_ticks, words[0]);
	if (type == KYMO_RECORD_CUSTOM)
		return custom(copy, thread, words);
	if (type == KYMO_RECORD_SPAN_BEGIN || type == KYMO_RECORD_SPAN_END ||
	    type == KYMO_RECORD_SPAN_FOLLOWS || type == KYMO_RECORD_CONN_WAIT)
		return ky_copy_push(copy, thread, thread->read_ticks, type, 0, words[1]) ||
				       ky_copy_push(copy, thread, words[2], KY_REC_MORE, 0, 0) ?
			       -ENOMEM :
			       0;
	if (type == KYMO_RECORD_POLL_COUNTS || type == KYMO_RECORD_POLL_COST ||
	    type == KYMO_RECORD_CONN_BEGIN || type == KYMO_RECORD_CONN_END)
		return ky_copy_push(copy, thread, thread->read_ticks, type,
				    (uint32_t)words[0] & 0xffffu, words[1]) ||
				       ky_copy_push(copy, thread, words[2], KY_REC_MORE, 0,
						    words[3]) ?
			       -ENOMEM :
			       0;
	/* WORKER_BEGIN */
	launch = (struct ky_launch){words[2], words[3], words[1] >> 24, thread->read_ticks};
	if (ky_launch_note(&copy->common->launches, &launch) ||
	    ky_copy_push(copy, thread, thread->read_ticks, type, 0, words[1]) ||
	    ky_copy_push(copy, thread, words[2], KY_REC_MORE, 0, words[3]))
		err = -ENOMEM;
	return err;
}

/* Plain records straight into the queue, which has room. Returns words taken: up to the end, the
 * first special record, or the first that is none. */
static uint32_t parse_plain(struct ky_dthread *thread, const uint64_t *words, uint32_t count)
{
	struct ky_rec *to = thread->queue.recs + thread->queue.tail;
	const struct ky_rec *first = to;
	const uint64_t *at = words, *end = words + count;
	uint64_t last = thread->read_ticks;

	while (at < end) {
		uint64_t header = *at;
		uint32_t type = ky_record_type(header), length = plain_words[type];

		if (!length || (length == 2 && at + 1 == end))
			break;
		last = ky_record_ticks(last, header);
		to->ticks = last;
		to->type = type;
		to->arg = (uint32_t)header & 0xffffu;
		/* A branch, for it is predicted: added up, each step would wait for two loads. */
		if (length == 2) {
			to->a = at[1];
			at += 2;
		} else {
			to->a = 0;
			at++;
		}
		to++;
	}
	thread->queue.tail += (uint32_t)(to - first);
	thread->record_next += (uint64_t)(to - first);
	thread->read_ticks = last;
	return (uint32_t)(at - words);
}

int ky_parse_records(struct ky_copy *copy, struct ky_slot_cursor *cursor, uint32_t count)
{
	const uint64_t *words = copy->words;
	uint32_t at = 0, length, before;
	int err;

	while (at < count) {
		struct ky_dthread *thread = cursor->thread;

		if (ky_queue_reserve(&thread->queue, &copy->common->threads.queues, count - at) !=
		    0)
			return -ENOMEM;
		before = thread->queue.tail;
		at += parse_plain(thread, words + at, count - at);
		copy->common->stats.records_read += thread->queue.tail - before;
		copy->common->threads.queues.waiting += thread->queue.tail - before;
		if (at == count)
			break;
		length = ky_record_words(words[at]);
		if (!length || length > count - at)
			return KYMO_E_CORRUPT;
		err = special(copy, cursor, words + at, ky_record_type(words[at]));
		if (err)
			return err;
		at += length;
	}
	return (int)at;
}
