/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/turns.h>

#include <read/load.h>

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
	row->ready_count = saturate(ky_frame_number(frame, KY_F_DRIVER_TURN_ready_count, 0));
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

int ky_turns_finish(struct ky_trace *trace)
{
	int result = ky_column_sort(&trace->notifies);

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
	out->ready_count = turn->ready_count;
}

uint64_t ky_trace_moved_before(const struct ky_trace *trace, uint32_t worker, uint64_t ns)
{
	const struct ky_trace_private *private = trace->private;
	uint32_t low = 0, high = private->served_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct ky_served *served = &private->served[middle];

		if (served->worker < worker || (served->worker == worker && served->from_ns < ns))
			low = middle + 1;
		else
			high = middle;
	}
	/* The first thread of a worker is where it began. */
	if (low < 2 || private->served[low - 1].worker != worker ||
	    private->served[low - 2].worker != worker)
		return 0;
	return private->served[low - 1].from_ns;
}
