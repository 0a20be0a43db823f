/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/turns.h>

#include <kymo/emit.h>
#include <read/load.h>
#include <read/sort.h>

#define TARGET_MASK ((UINT64_C(1) << 56) - 1) /* as notifications keep them */

static uint32_t saturate(uint64_t value)
{
	return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

bool ky_load_turn(struct ky_load *load, const struct ky_frame *frame)
{
	uint64_t id = ky_frame_number(frame, KY_F_DRIVER_TURN_worker_id, KY_ID_UNKNOWN);
	uint32_t lane = ky_load_lane(load, id);
	struct ky_turn_row *row;

	if (lane == UINT32_MAX)
		return false;
	row = ky_column_append(&load->trace->workers[lane].turns, frame->timestamp_ns);
	if (!row)
		return false;
	row->duration_ns = saturate(ky_frame_number(frame, KY_F_DRIVER_TURN_duration_ns, 0));
	row->ready = ky_ready_pack(ky_frame_number(frame, KY_F_DRIVER_TURN_ready_count, 0),
				   ky_frame_field(frame, KY_F_DRIVER_TURN_ready_descriptor));
	return true;
}

bool ky_load_notify(struct ky_load *load, const struct ky_frame *frame)
{
	uint64_t target = ky_frame_number(frame, KY_F_WORKER_NOTIFY_target, 0);
	uint64_t via = ky_frame_number(frame, KY_F_WORKER_NOTIFY_via, 0);
	struct ky_notify_row *row = ky_column_append(&load->trace->notifies, frame->timestamp_ns);

	if (!row)
		return false;
	row->tid = (uint32_t)ky_frame_number(frame, KY_F_WORKER_NOTIFY_tid, 0);
	row->target_low = (uint32_t)target;
	row->word = ((uint32_t)(target >> 32) & 0xffffffu) | (uint32_t)via << 24;
	return true;
}

static bool add_parked_on(struct ky_load *load, uint32_t lane, uint64_t from_ns, uint8_t via,
			  uint64_t target)
{
	struct ky_trace *trace = load->trace;

	if (!ky_pages_array(&trace->pages, &trace->parked_on, &trace->parked_on_capacity,
			    trace->parked_on_count + 1, sizeof(*trace->parked_on)))
		return false;
	trace->parked_on[trace->parked_on_count++] = (struct ky_parked_on){
		.from_ns = from_ns,
		.target = target,
		.worker_id = trace->workers[lane].id,
		.via = via};
	return true;
}

/* A description that is repeated says nothing new. */
bool ky_load_parked_on(struct ky_load *load, const struct ky_frame *frame, uint32_t lane)
{
	const struct ky_value *futex = ky_frame_field(frame, KY_F_WORKER_futex);
	const struct ky_value *eventfd = ky_frame_field(frame, KY_F_WORKER_eventfd);
	struct ky_worker *worker = &load->trace->workers[lane];

	if (futex && futex->as.number && worker->futex != futex->as.number) {
		worker->futex = futex->as.number;
		if (!add_parked_on(load, lane, frame->timestamp_ns, KY_NOTIFY_FUTEX,
				   futex->as.number & TARGET_MASK))
			return false;
	}
	if (eventfd && worker->eventfd_next != eventfd->as.number + 1) {
		worker->eventfd_next = eventfd->as.number + 1;
		return add_parked_on(load, lane, frame->timestamp_ns, KY_NOTIFY_EVENTFD,
				     eventfd->as.number & TARGET_MASK);
	}
	return true;
}

static int compare(const struct ky_parked_on *one, const struct ky_parked_on *other)
{
	if (one->via != other->via)
		return one->via < other->via ? -1 : 1;
	if (one->target != other->target)
		return one->target < other->target ? -1 : 1;
	return one->from_ns < other->from_ns ? -1 : one->from_ns > other->from_ns;
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_parked_on *one = a, *other = b;
	int order = compare(one, other);

	(void)ctx;
	return order ? order < 0 : one->worker_id < other->worker_id;
}

/* How many entries are not after this one. */
static uint32_t up_to(const struct ky_trace *trace, const struct ky_parked_on *sought)
{
	uint32_t low = 0, high = trace->parked_on_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (compare(&trace->parked_on[middle], sought) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_target(const struct ky_trace *trace, uint32_t entry, uint8_t via, uint64_t target)
{
	return entry < trace->parked_on_count && trace->parked_on[entry].via == via &&
	       trace->parked_on[entry].target == target;
}

/* The address may have been another worker's before, or it is said later than it was true. */
uint32_t ky_trace_notified_worker(const struct ky_trace *trace, const struct ky_notify *notify)
{
	const struct ky_parked_on sought = {
		.from_ns = notify->time_ns, .target = notify->target, .via = notify->via};
	uint32_t at = up_to(trace, &sought);

	if (at && is_target(trace, at - 1, notify->via, notify->target))
		return trace->parked_on[at - 1].worker;
	return is_target(trace, at, notify->via, notify->target) ? trace->parked_on[at].worker :
								   KY_NONE;
}

int ky_turns_finish(struct ky_trace *trace)
{
	int result = ky_column_sort(&trace->notifies);

	if (trace->parked_on_count)
		ky_sort(trace->parked_on, trace->parked_on_count, sizeof(*trace->parked_on),
			is_before, NULL);
	for (uint32_t i = 0; i < trace->parked_on_count; i++)
		trace->parked_on[i].worker = ky_trace_worker(trace, trace->parked_on[i].worker_id);

	for (uint32_t i = 0; i < trace->worker_count && result == 0; i++)
		result = ky_column_sort(&trace->workers[i].turns);
	return result;
}

void ky_trace_notify(const struct ky_trace *trace, uint64_t row, struct ky_notify *out)
{
	const struct ky_notify_row *notify = ky_column_row(&trace->notifies, row);

	out->time_ns = ky_column_time(&trace->notifies, row);
	out->target = notify->target_low | (uint64_t)(notify->word & 0xffffffu) << 32;
	out->tid = notify->tid;
	out->via = (uint8_t)(notify->word >> 24);
}

void ky_trace_turn(const struct ky_trace *trace, uint32_t worker, uint64_t row, struct ky_turn *out)
{
	const struct ky_column *turns = &trace->workers[worker].turns;
	const struct ky_turn_row *turn = ky_column_row(turns, row);

	out->end_ns = ky_column_time(turns, row);
	out->start_ns = out->end_ns - (turn->duration_ns < out->end_ns ? turn->duration_ns : 0);
	ky_ready_take(turn->ready, &out->ready_count, &out->ready_descriptor);
}

uint32_t ky_ready_pack(uint64_t count, const struct ky_value *descriptor)
{
	if (count == 1 && descriptor && descriptor->as.number <= KYMO_READY_FD_MAX)
		return KYMO_READY_ONE | (uint32_t)descriptor->as.number;
	return count < KYMO_READY_MAX ? (uint32_t)count : KYMO_READY_MAX;
}

void ky_ready_take(uint32_t packed, uint32_t *count, uint32_t *descriptor)
{
	*count = packed & KYMO_READY_ONE ? 1 : packed;
	*descriptor = packed & KYMO_READY_ONE ? packed & KYMO_READY_MAX : KY_NONE;
}

bool ky_trace_driver_check(const struct ky_trace *trace, uint32_t worker, uint64_t ns,
			   struct ky_turn *out)
{
	const struct ky_worker *known = &trace->workers[worker];
	uint64_t row = ky_column_find(&known->turns, ns + 1);
	struct ky_park park;
	uint64_t end_ns;

	*out = (struct ky_turn){.ready_descriptor = KY_NONE};
	if (row)
		ky_trace_turn(trace, worker, row - 1, out);
	row = ky_column_find(&known->parks, ns + 1);
	if (!row)
		return out->end_ns != 0;
	ky_trace_park(trace, worker, row - 1, &park);
	end_ns = park.start_ns + park.duration_ns;
	if (park.wait == KYMO_WAIT_EPOLL && end_ns > out->end_ns)
		*out = (struct ky_turn){.start_ns = park.start_ns,
					.end_ns = end_ns,
					.ready_count = park.ready_count,
					.ready_descriptor = park.ready_descriptor};
	return out->end_ns != 0;
}

/* How many of all lie before those of this worker from then on. */
static uint32_t served_until(const struct ky_trace_private *private, uint32_t worker, uint64_t ns)
{
	uint32_t low = 0, high = private->served_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct ky_served *served = &private->served[middle];

		if (served->worker < worker || (served->worker == worker && served->from_ns < ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t ky_trace_moved_before(const struct ky_trace *trace, uint32_t worker, uint64_t ns)
{
	const struct ky_trace_private *private = trace->private;
	uint32_t at = served_until(private, worker, ns);

	/* The first thread of a worker is where it began. */
	if (at < 2 || private->served[at - 1].worker != worker ||
	    private->served[at - 2].worker != worker)
		return 0;
	return private->served[at - 1].from_ns;
}

uint32_t ky_trace_thread_at(const struct ky_trace *trace, uint32_t worker, uint64_t ns)
{
	const struct ky_trace_private *private = trace->private;
	uint32_t at;

	if (trace->workers[worker].is_thread_lane || ns == UINT64_MAX)
		return trace->workers[worker].tid;
	at = served_until(private, worker, ns + 1);
	if (at && private->served[at - 1].worker == worker)
		return private->served[at - 1].tid;
	if (at < private->served_count && private->served[at].worker == worker)
		return private->served[at].tid;
	return trace->workers[worker].tid;
}
