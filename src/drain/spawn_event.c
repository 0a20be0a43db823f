/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Ids that were given out while something ran, as events. */
#include <drain/convert_stage.h>

#include <drain/task_ready.h>
#include <kymo/emit.h>

/* What the record is about, and when it began; 0: before anything is known of the thread. False:
 * that was lost. */
static bool find_begin(struct ky_convert *convert, const struct ky_dthread *thread, uint32_t by,
		       uint64_t *task, uint64_t *begin_ns)
{
	const struct ky_drain_poll *poll;
	uint64_t ns;

	switch (by) {
	case KYMO_SPAWN_BY_POLL:
		if (!thread->depth || thread->deeper)
			return false;
		poll = &thread->stack[thread->depth - 1];
		ns = ky_timeline_ns(&convert->common->timeline, poll->begin_ticks);
		*task = poll->task;
		/* Its start is where its worker went to another thread, if it did. */
		*begin_ns = poll->begin_ticks && ns < poll->start_ns ? ns : poll->start_ns;
		return true;
	case KYMO_SPAWN_BY_RUN:
		*task = thread->blocking_task;
		*begin_ns = thread->blocking_start_ns;
		return thread->is_blocking;
	default:
		*task = thread->root_task;
		*begin_ns = thread->root_begin_ns;
		return thread->root_task != 0;
	}
}

void ky_convert_spawn_window(struct ky_convert *convert, const struct ky_dthread *thread,
			     const struct ky_rec *rec, uint64_t ns)
{
	uint32_t by = rec->arg & ((1u << KYMO_SPAWN_COPY_SHIFT) - 1);
	uint64_t copy = (rec->arg >> KYMO_SPAWN_COPY_SHIFT) & 31u, task;
	uint64_t begin_ns;
	struct ky_trc_enc *enc = &convert->chunk.enc;

	if (!find_begin(convert, thread, by, &task, &begin_ns) || convert->chunk.is_muted)
		return;
	ky_trc_enc_event(enc, KY_EV_SPAWN_WINDOW, ns);
	ky_trc_enc_u32(enc, thread->tid);
	ky_trc_enc_varint(enc, ky_worker_id(thread->worker));
	ky_trc_enc_varint(enc, task);
	ky_trc_enc_varint(enc, begin_ns < ns ? begin_ns : ns);
	ky_trc_enc_varint(enc, (rec->a >> KYMO_NAME_BITS) | copy << KY_TASK_COPY_SHIFT);
	ky_trc_enc_varint(enc, rec->a & KYMO_SPAWN_COUNT_MAX);
}
