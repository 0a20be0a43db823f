/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_record.h - the records of a sub-buffer one after the other: how long each is, and when.
 * The drain has a table of its own for the records of its hot loop.
 * Pure. Threads: any.
 */
#ifndef KY_WIRE_RING_RECORD_H
#define KY_WIRE_RING_RECORD_H

#include <kymo/emit.h>
#include <stdint.h>

static inline uint32_t ky_record_type(uint64_t header)
{
	return (uint32_t)(header >> 16) & 0xffu;
}

/* Words of the record that begins with this header word; 0: there is no such record. */
static inline uint32_t ky_record_words(uint64_t header)
{
	switch (ky_record_type(header)) {
	case KYMO_RECORD_POLL_END:
	case KYMO_RECORD_PARK:
	case KYMO_RECORD_UNPARK:
	case KYMO_RECORD_WORKER_END:
	case KYMO_RECORD_BLOCKING_END:
		return 1;
	case KYMO_RECORD_TIME:
	case KYMO_RECORD_POLL_BEGIN:
	case KYMO_RECORD_WAKE:
	case KYMO_RECORD_SPAWN:
	case KYMO_RECORD_TASK_END:
	case KYMO_RECORD_DRIVER_TURN:
	case KYMO_RECORD_RUNTIME:
	case KYMO_RECORD_BLOCKING_BEGIN:
	case KYMO_RECORD_NOTIFY:
	case KYMO_RECORD_WAKER_CLONE:
	case KYMO_RECORD_MARK:
	case KYMO_RECORD_DROPPED:
	case KYMO_RECORD_GATES:
	case KYMO_RECORD_WAIT:
	case KYMO_RECORD_ROOT_BEGIN:
	case KYMO_RECORD_ROOT_END:
	case KYMO_RECORD_FAILED_CALLS:
	case KYMO_RECORD_SPAWN_WINDOW:
	case KYMO_RECORD_CONN_UNSEEN:
	case KYMO_RECORD_PARKED_ON:
	case KYMO_RECORD_SPAN_IN:
	case KYMO_RECORD_SPAN_OUT:
	case KYMO_RECORD_POLL_DELAY:
		return 2;
	case KYMO_RECORD_SPAN_BEGIN:
	case KYMO_RECORD_SPAN_END:
	case KYMO_RECORD_SPAN_FOLLOWS:
	case KYMO_RECORD_CONN_WAIT:
		return 3;
	case KYMO_RECORD_THREAD_CHANGE:
	case KYMO_RECORD_WORKER_BEGIN:
	case KYMO_RECORD_POLL_COUNTS:
	case KYMO_RECORD_POLL_COST:
	case KYMO_RECORD_CONN_BEGIN:
	case KYMO_RECORD_CONN_END:
		return 4;
	case KYMO_RECORD_CUSTOM:
		return 1 + ((uint32_t)header & 0xffffu);
	default:
		return 0;
	}
}

/* The full stamp of a header: the nearest to `last`, never before it. */
static inline uint64_t ky_record_ticks(uint64_t last, uint64_t header)
{
	/* Both stamps in the upper 43 bits, where the difference wraps and has its sign. */
	uint64_t ahead = (header & ~UINT64_C(0xffffff)) - (last << 21);

	return (int64_t)ahead >= 0 ? last + (ahead >> 21) : last;
}

#endif
