/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <edit/index_maker.h>

#include <base/alloc.h>
#include <errno.h>
#include <string.h>
#include <wire/trc_enc.h>

#define WORKER_BLOCKING 254u /* OpenPollEvent of a run on the blocking pool */
#define WORKER_NONE 255u     /* ... of a poll on a thread that is no worker */

int ky_index_maker_init(struct ky_index_maker *maker)
{
	memset(maker, 0, sizeof(*maker));
	ky_buf_init(&maker->rows, KY_INDEX_BYTES_MAX);
	maker->lanes = ky_alloc(KY_INDEX_WORKERS_MAX * sizeof(*maker->lanes));
	maker->seen = ky_alloc(KY_INDEX_WORKERS_MAX * sizeof(*maker->seen));
	return maker->lanes && maker->seen ? 0 : -ENOMEM;
}

void ky_index_maker_release(struct ky_index_maker *maker)
{
	ky_free(maker->lanes);
	ky_free(maker->seen);
	ky_buf_release(&maker->rows);
	memset(maker, 0, sizeof(*maker));
}

static struct ky_index_lane *lane_of(struct ky_index_maker *maker, uint64_t worker)
{
	struct ky_index_lane *lane;

	if (worker >= KY_INDEX_WORKERS_MAX)
		return NULL;
	lane = &maker->lanes[worker];
	if (!lane->is_listed)
		maker->seen[maker->seen_count++] = (uint32_t)worker;
	lane->is_listed = true;
	lane->row.worker_id = (uint32_t)worker;
	return lane;
}

static void begin_poll(struct ky_index_maker *maker, uint64_t worker, uint64_t start_ns,
		       uint64_t task)
{
	struct ky_index_lane *lane = lane_of(maker, worker);

	if (!lane)
		return;
	lane->is_open = true;
	lane->open_ns = start_ns;
	lane->task = task;
}

static void end_poll(struct ky_index_maker *maker, uint64_t worker, uint64_t end_ns)
{
	struct ky_index_lane *lane = lane_of(maker, worker);
	uint64_t from_ns, length_ns;

	if (!lane || !lane->is_open || end_ns < lane->open_ns)
		return;
	from_ns = lane->open_ns > maker->first_ns ? lane->open_ns : maker->first_ns;
	length_ns = end_ns - lane->open_ns;
	lane->is_open = false;
	lane->is_touched = true;
	lane->row.busy_ns += end_ns > from_ns ? end_ns - from_ns : 0;
	lane->row.poll_count++;
	if (length_ns < lane->row.longest_ns)
		return;
	lane->row.longest_ns = length_ns;
	lane->row.longest_start_ns = lane->open_ns;
	lane->row.longest_task = lane->task;
}

/* A poll that the trace found open: one whose start was read already stays as it is. */
static void open_poll(struct ky_index_maker *maker, const struct ky_event *event)
{
	uint64_t worker = ky_event_number(event, KY_F_OPEN_POLL_worker_id, UINT64_MAX);
	struct ky_index_lane *lane = lane_of(maker, worker);

	if (!lane || lane->is_open || worker == WORKER_BLOCKING ||
	    ky_event_number(event, KY_F_OPEN_POLL_depth, 0) ||
	    ky_event_number(event, KY_F_OPEN_POLL_is_nested, worker == WORKER_NONE) ||
	    ky_event_number(event, KY_F_OPEN_POLL_is_at_exit, 0))
		return;
	begin_poll(maker, worker,
		   ky_event_number(event, KY_F_OPEN_POLL_start_ns, event->timestamp_ns),
		   ky_event_number(event, KY_F_OPEN_POLL_task_id, 0));
}

static void count_loss(struct ky_index_maker *maker, uint64_t records)
{
	maker->loss_count++;
	maker->lost_count = records > UINT64_MAX - maker->lost_count ? UINT64_MAX :
								       maker->lost_count + records;
}

void ky_index_maker_event(struct ky_index_maker *maker, const struct ky_event *event)
{
	uint64_t ns = event->timestamp_ns;

	if (!event->has_timestamp || !ns)
		return;
	if (!maker->first_ns || ns < maker->first_ns)
		maker->first_ns = ns;
	switch (event->schema->event) {
	case KY_EV_POLL_START:
		begin_poll(maker, ky_event_number(event, KY_F_POLL_START_worker_id, UINT64_MAX), ns,
			   ky_event_number(event, KY_F_POLL_START_task_id, 0));
		break;
	case KY_EV_POLL_END:
		end_poll(maker, ky_event_number(event, KY_F_POLL_END_worker_id, UINT64_MAX), ns);
		break;
	case KY_EV_OPEN_POLL:
		open_poll(maker, event);
		break;
	case KY_EV_LOSS:
		count_loss(maker, ky_event_number(event, KY_F_LOSS_record_count, 0));
		break;
	default:
		break;
	}
}

/* Polls that continue count as busy up to the chunk's end. Returns the number of worker rows. */
static uint32_t close_lanes(struct ky_index_maker *maker, uint64_t last_ns)
{
	uint32_t i, count = 0;

	for (i = 0; i < maker->seen_count; i++) {
		struct ky_index_lane *lane = &maker->lanes[maker->seen[i]];
		uint64_t from_ns = lane->open_ns > maker->first_ns ? lane->open_ns :
								     maker->first_ns;

		if (lane->is_open && last_ns > from_ns) {
			lane->row.busy_ns += last_ns - from_ns;
			lane->is_touched = true;
		}
		count += lane->is_touched;
	}
	return count;
}

void ky_index_maker_chunk(struct ky_index_maker *maker, const struct ky_chunk *chunk)
{
	struct ky_index_chunk row = {
		.raw_offset = maker->offset,
		.first_ns = chunk->first_ns,
		.last_ns = chunk->last_ns,
		.lost_count = maker->lost_count,
		.raw_bytes = (uint32_t)chunk->byte_count,
		.event_count = (uint32_t)chunk->event_count,
		.loss_count = maker->loss_count,
		.worker_count = close_lanes(maker, chunk->last_ns),
	};
	uint32_t i;

	(void)ky_buf_append(&maker->rows, &row, sizeof(row));
	for (i = 0; i < maker->seen_count; i++) {
		struct ky_index_lane *lane = &maker->lanes[maker->seen[i]];

		if (lane->is_touched)
			(void)ky_buf_append(&maker->rows, &lane->row, sizeof(lane->row));
		lane->is_touched = false;
		memset(&lane->row, 0, sizeof(lane->row));
		lane->row.worker_id = maker->seen[i];
	}
	maker->chunk_count++;
	maker->offset += chunk->byte_count;
	maker->last_ns = chunk->last_ns > maker->last_ns ? chunk->last_ns : maker->last_ns;
	maker->lost_count = maker->loss_count = 0;
	maker->first_ns = 0;
}

void ky_index_maker_untimed(struct ky_index_maker *maker, const struct ky_chunk *chunk)
{
	const struct ky_index_chunk row = {.raw_offset = maker->offset,
					   .raw_bytes = (uint32_t)chunk->byte_count,
					   .event_count = (uint32_t)chunk->event_count};

	(void)ky_buf_append(&maker->rows, &row, sizeof(row));
	maker->chunk_count++;
	maker->offset += chunk->byte_count;
}

void ky_index_maker_skip(struct ky_index_maker *maker, uint64_t bytes)
{
	maker->offset += bytes;
}

void ky_index_maker_forget(struct ky_index_maker *maker)
{
	for (uint32_t i = 0; i < maker->seen_count; i++)
		maker->lanes[maker->seen[i]].is_open = false;
}

void ky_index_maker_finish(struct ky_index_maker *maker, struct ky_buf *out)
{
	struct ky_index_head head = {KY_INDEX_VERSION, maker->chunk_count};
	struct ky_index_tail tail = {0, KY_INDEX_MAGIC};
	struct ky_trc_enc enc;
	struct ky_buf whole;

	if (maker->rows.failed)
		return;
	tail.index_bytes = (uint32_t)(sizeof(head) + maker->rows.used + sizeof(tail));
	ky_buf_init(&whole, 0);
	(void)ky_buf_append(&whole, &head, sizeof(head));
	(void)ky_buf_append(&whole, maker->rows.bytes, maker->rows.used);
	(void)ky_buf_append(&whole, &tail, sizeof(tail));
	if (whole.failed || ky_trc_enc_init(&enc, out)) {
		out->failed = -ENOMEM;
		ky_buf_release(&whole);
		return;
	}
	ky_trc_enc_begin(&enc);
	ky_trc_enc_event(&enc, KY_EV_SEGMENT_INDEX, maker->last_ns);
	ky_trc_enc_bytes(&enc, whole.bytes, whole.used);
	ky_trc_enc_release(&enc);
	ky_buf_release(&whole);
}
