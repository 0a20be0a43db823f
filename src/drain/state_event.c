/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What stands: threads, modules, live tasks, open polls, as events. */
#include <drain/convert_stage.h>

#include <string.h>

void ky_convert_thread(struct ky_convert *convert, struct ky_dthread *thread, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t pool;

	thread->is_announced = true;
	pool = ky_chunk_text(&convert->chunk, thread->name);
	ky_trc_enc_event(enc, KY_EV_THREAD, ns);
	ky_trc_enc_u32(enc, thread->tid);
	ky_trc_enc_u32(enc, pool);
	ky_trc_enc_varint(enc, ky_timeline_ns(&convert->common->timeline, thread->start_ticks));
	ky_trc_enc_u8(enc, thread->is_done);
}

void ky_convert_module(struct ky_convert *convert, struct ky_name_module *module, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;

	module->is_announced = true;
	ky_trc_enc_event(enc, KY_EV_PROCESS_MAP, ns);
	ky_trc_enc_text(enc, module->path, strlen(module->path));
	ky_trc_enc_bytes(enc, module->build_id, module->entry.build_id_bytes);
	ky_trc_enc_varint(enc, module->entry.start);
	ky_trc_enc_varint(enc, module->entry.end);
	ky_trc_enc_varint(enc, module->entry.load_bias);
	ky_trc_enc_varint(enc, module->entry.file_offset);
	ky_trc_enc_varint(enc,
			  ky_timeline_ns(&convert->common->timeline, module->entry.from_ticks));
	ky_trc_enc_opt_varint(enc, module->gone_ticks != 0,
			      ky_timeline_ns(&convert->common->timeline, module->gone_ticks));
}

void ky_convert_live_tasks(struct ky_convert *convert, uint32_t listed, uint64_t ns)
{
	const struct ky_task_table *tasks = &convert->tasks;
	struct ky_trc_enc *enc = &convert->chunk.enc;

	ky_trc_enc_event(enc, KY_EV_LIVE_TASKS, ns);
	ky_trc_enc_varint(enc, tasks->count + tasks->untracked_count);
	ky_trc_enc_varint(enc, listed);
	ky_trc_enc_varint(enc, tasks->untracked_count);
}

void ky_convert_live_task(struct ky_convert *convert, const struct ky_drain_task *task, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t pool = ky_name_pool(&convert->common->names, &convert->chunk, ky_task_name(task));

	ky_trc_enc_event(enc, KY_EV_LIVE_TASK, ns);
	ky_trc_enc_varint(enc, task->key & ~KY_TASK_USED);
	ky_trc_enc_u32(enc, pool);
	ky_trc_enc_varint(enc, task->last_poll_ns);
	ky_trc_enc_u8(enc, task->ready_ns != 0);
	ky_trc_enc_varint(enc, task->ready_ns);
}

static void write_open(struct ky_convert *convert, const struct ky_dthread *thread,
		       uint32_t worker_id, uint32_t depth, const struct ky_drain_poll *poll,
		       uint64_t ns, bool is_at_exit)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t pool = ky_name_pool(&convert->common->names, &convert->chunk, poll->name);

	ky_trc_enc_event(enc, KY_EV_OPEN_POLL, ns);
	ky_trc_enc_varint(enc, worker_id);
	ky_trc_enc_u32(enc, thread->tid);
	ky_trc_enc_varint(enc, depth);
	ky_trc_enc_varint(enc, poll->task);
	ky_trc_enc_u32(enc, pool);
	ky_trc_enc_varint(enc, poll->start_ns);
	ky_trc_enc_u8(enc, is_at_exit);
	ky_trc_enc_u8(enc, poll->kind == KY_POLL_NESTED || poll->kind == KY_POLL_COUNTED_NESTED);
}

void ky_convert_open_poll(struct ky_convert *convert, const struct ky_dthread *thread,
			  uint32_t depth, uint64_t ns)
{
	const struct ky_drain_poll *poll = &thread->stack[depth];

	write_open(convert, thread, ky_worker_id(poll->worker), depth, poll, ns, false);
}

void ky_convert_open_polls(struct ky_convert *convert, const struct ky_dthread *thread, uint64_t ns,
			   bool is_at_exit)
{
	for (uint32_t depth = 0; depth < thread->depth; depth++) {
		const struct ky_drain_poll *poll = &thread->stack[depth];

		if (poll->kind >= KY_POLL_COUNTED && !is_at_exit)
			continue;
		write_open(convert, thread, ky_worker_id(poll->worker), depth, poll, ns,
			   is_at_exit);
	}
	if (thread->is_blocking && (!thread->is_run_counted || is_at_exit)) {
		const struct ky_drain_poll run = {.task = thread->blocking_task,
						  .name = thread->blocking_name,
						  .start_ns = thread->blocking_start_ns};

		write_open(convert, thread, KY_WORKER_BLOCKING_POOL, 0, &run, ns, is_at_exit);
	}
}
