/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The events that make up nearly all of a trace, read without types and values. What is in any way
 * out of the ordinary is left to ky_trc_dec_next().
 */
#include <wire/trc_state.h>

#define HEAD_BYTES 6u

/* The order of the fields is written out below. */
_Static_assert(KY_F_POLL_START_worker_id == 0 && KY_F_POLL_START_local_queue == 1 &&
		       KY_F_POLL_START_task_id == 2 && KY_F_POLL_START_spawn_loc == 3,
	       "PollStartEvent");
_Static_assert(KY_F_POLL_END_worker_id == 0 && KY_F_POLL_END_COUNT == 1, "PollEndEvent");
_Static_assert(KY_F_WAKE_waker_task_id == 0 && KY_F_WAKE_woken_task_id == 1 &&
		       KY_F_WAKE_target_worker == 2 && KY_F_WAKE_origin == 3 &&
		       KY_F_WAKE_callchain == 4 && KY_F_WAKE_tid == 5 && KY_F_WAKE_COUNT == 6,
	       "WakeEventEvent");

/* Returns what stands after the fields; NULL: a number does not fit. */
static inline const uint8_t *read_fields(const uint8_t *at, struct ky_hot_event *event)
{
	uint64_t tid;

	switch (event->schema->event) {
	case KY_EV_POLL_END:
		return ky_fast_varint(at, &event->worker_id);
	case KY_EV_POLL_START:
		at = ky_fast_varint(at, &event->worker_id);
		if (!at)
			return NULL;
		event->local_queue = *at;
		at = ky_fast_varint(at + 1, &event->task_id);
		if (!at)
			return NULL;
		event->spawn_loc_id = ky_get_u32(at);
		return at + 4;
	default: /* WAKE */
		at = ky_fast_varint(at, &event->waker_id);
		at = at ? ky_fast_varint(at, &event->task_id) : NULL;
		if (!at)
			return NULL;
		event->worker_id = at[0];
		event->origin = at[1];
		event->stack_id = ky_get_u32(at + 2);
		at = ky_fast_varint(at + 6, &tid);
		if (!at || tid > UINT32_MAX)
			return NULL;
		event->tid = (uint32_t)tid;
		return at;
	}
}

uint32_t ky_trc_dec_hot(struct ky_trc_dec *dec, const uint8_t *window, size_t window_bytes,
			struct ky_hot_event *events, uint32_t capacity, size_t *used)
{
	const uint8_t *at = window, *end = window + window_bytes;
	uint64_t base_ns = dec->base_ns;
	uint32_t count = 0;

	*used = 0;
	if (dec->failed || !dec->has_header)
		return 0;
	for (; count < capacity; count++) {
		struct ky_hot_event *event = &events[count];
		const struct ky_schema_entry *entry;
		const uint8_t *after;

		if (end - at < (ptrdiff_t)HEAD_BYTES || *at != KY_TAG_EVENT)
			break;
		entry = dec->schemas.by_type[ky_get_u16(at + 1)];
		if (!entry || !entry->is_hot ||
		    (uint64_t)(end - at) - HEAD_BYTES < entry->fast_bytes_max)
			break;
		event->schema = &entry->schema;
		event->timestamp_ns = base_ns + (ky_get_u32(at + 2) >> 8);
		after = read_fields(at + HEAD_BYTES, event);
		if (event->timestamp_ns < base_ns || !after ||
		    (uint64_t)(after - at) > dec->limits.frame_bytes_max)
			break;
		base_ns = event->timestamp_ns;
		at = after;
	}
	if (count == 0)
		return 0;
	*used = (size_t)(at - window);
	dec->base_ns = base_ns;
	dec->empty_count = 0;
	dec->offset += *used;
	return count;
}

struct ky_slice ky_trc_dec_stack(const struct ky_trc_dec *dec, uint32_t id)
{
	const struct ky_id_entry *entry = ky_id_table_find(&dec->stacks, id);
	struct ky_slice frames = {entry ? entry->bytes : NULL, entry ? entry->count : 0};

	return frames;
}

struct ky_slice ky_trc_dec_string(const struct ky_trc_dec *dec, uint32_t id)
{
	const struct ky_id_entry *entry = ky_id_table_find(&dec->strings, id);
	struct ky_slice text = {entry ? entry->bytes : NULL, entry ? entry->count : 0};

	return text;
}
