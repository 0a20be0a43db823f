/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What reached the trace without a sub-buffer, as events: marks, counters, a crash, what a watchdog
 * has seen. */
#include <drain/convert_stage.h>

#include <string.h>

#define SYSCALL_NONE (-1)

void ky_convert_counter(struct ky_convert *convert, uint32_t index, uint64_t value, uint64_t ns)
{
	const char *name = convert->common->ring.side->counters[index].name;
	char text[KY_COUNTER_NAME_BYTES];
	uint32_t pool;

	memcpy(text, name, sizeof(text));
	pool = ky_trc_enc_string(&convert->chunk.enc, 0, text, strnlen(text, sizeof(text)));
	ky_trc_enc_event(&convert->chunk.enc, KY_EV_COUNTER, ns);
	ky_trc_enc_u32(&convert->chunk.enc, pool);
	ky_trc_enc_i64(&convert->chunk.enc, (int64_t)value);
}

/* Of the worker that a thread of this kernel id serves. */
static uint32_t worker_id_of(const struct ky_convert *convert, uint32_t tid)
{
	const struct ky_dthread *thread = ky_thread_table_find_tid(&convert->common->threads, tid);

	return ky_worker_id(thread ? thread->worker : KY_NONE32);
}

static void write_mark(struct ky_convert *convert, const struct ky_note *note, uint64_t ns)
{
	uint32_t pool = ky_trc_enc_string(&convert->chunk.enc, 0, note->body, note->body_bytes);

	ky_trc_enc_event(&convert->chunk.enc, KY_EV_ANNOTATION, ns);
	ky_trc_enc_u32(&convert->chunk.enc, 0);
	ky_trc_enc_u32(&convert->chunk.enc, pool);
}

static void write_crash(struct ky_convert *convert, const struct ky_ring_crash *crash, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t registers = crash->register_count, stack = crash->stack_bytes;

	ky_trc_enc_event(enc, KY_EV_CRASH, ns);
	ky_trc_enc_u32(enc, crash->signal);
	ky_trc_enc_i64(enc, crash->code);
	ky_trc_enc_varint(enc, crash->address);
	ky_trc_enc_u32(enc, crash->tid);
	ky_trc_enc_varint(enc, worker_id_of(convert, crash->tid));
	ky_trc_enc_varint(enc, crash->pc);
	ky_trc_enc_varint(enc, crash->sp);
	ky_trc_enc_varint(enc, crash->fp);
	ky_trc_enc_frames(enc, crash->registers,
			  registers < KY_CRASH_REGISTERS ? registers : KY_CRASH_REGISTERS);
	ky_trc_enc_bytes(enc, crash->stack,
			 stack < KY_CRASH_STACK_BYTES ? stack : KY_CRASH_STACK_BYTES);
}

static void write_stuck(struct ky_convert *convert, const struct ky_stuck_note *stuck, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t wchan = ky_trc_enc_string(enc, 0, stuck->wchan,
					   strnlen(stuck->wchan, sizeof(stuck->wchan)));

	ky_trc_enc_event(enc, KY_EV_STUCK_THREAD, ns);
	ky_trc_enc_u32(enc, stuck->tid);
	ky_trc_enc_varint(enc, worker_id_of(convert, stuck->tid));
	ky_trc_enc_varint(enc, stuck->task);
	ky_trc_enc_varint(enc, stuck->begin_ns);
	ky_trc_enc_u8(enc, (uint8_t)stuck->state);
	ky_trc_enc_opt_varint(enc, stuck->syscall >= 0, (uint64_t)stuck->syscall);
	ky_trc_enc_u8(enc, stuck->syscall == SYSCALL_NONE);
	ky_trc_enc_varint(enc, stuck->pc);
	ky_trc_enc_varint(enc, stuck->sp);
	ky_trc_enc_u32(enc, wchan);
	ky_trc_enc_frames(enc, stuck->frames,
			  stuck->frame_count < KY_STUCK_FRAMES_MAX ? stuck->frame_count :
								     KY_STUCK_FRAMES_MAX);
	ky_trc_enc_u8(enc, stuck->is_truncated);
	ky_trc_enc_varint(enc, stuck->guessed_count);
	ky_trc_enc_opt_varint(enc, stuck->has_counts, stuck->cpu_ns);
	ky_trc_enc_opt_varint(enc, stuck->has_counts, stuck->run_delay_ns);
}

static void write_trigger(struct ky_convert *convert, const struct ky_trigger_note *trigger,
			  uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t rule = ky_trc_enc_string(enc, 0, trigger->rule,
					  strnlen(trigger->rule, sizeof(trigger->rule)));
	uint32_t unit = ky_trc_enc_string(enc, 0, trigger->unit,
					  strnlen(trigger->unit, sizeof(trigger->unit)));

	ky_trc_enc_event(enc, KY_EV_TRIGGER, ns);
	ky_trc_enc_u32(enc, rule);
	ky_trc_enc_varint(enc, trigger->value);
	ky_trc_enc_varint(enc, trigger->threshold);
	ky_trc_enc_u32(enc, unit);
	ky_trc_enc_u32(enc, trigger->tid);
	ky_trc_enc_varint(enc, trigger->task);
	ky_trc_enc_varint(enc, trigger->suppressed_count);
	ky_trc_enc_varint(enc, trigger->late_count);
}

/* Not of one that blocks in place: another thread has its worker, and readings of its own. */
static uint32_t owned_worker_id(const struct ky_convert *convert, uint32_t tid)
{
	const struct ky_dthread *thread = ky_thread_table_find_tid(&convert->common->threads, tid);
	uint32_t worker = thread ? thread->worker : KY_NONE32;

	if (worker != KY_NONE32 && convert->workers.list[worker].owner != thread)
		worker = KY_NONE32;
	return ky_worker_id(worker);
}

static void write_thread_cpu(struct ky_convert *convert, const struct ky_thread_cpu *cpu,
			     uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;

	ky_trc_enc_event(enc, KY_EV_THREAD_CPU, ns);
	ky_trc_enc_u32(enc, cpu->tid);
	ky_trc_enc_varint(enc, owned_worker_id(convert, cpu->tid));
	ky_trc_enc_varint(enc, cpu->cpu_ns);
	ky_trc_enc_varint(enc, cpu->run_delay_ns);
	ky_trc_enc_opt_varint(enc, cpu->has_switches, cpu->voluntary);
	ky_trc_enc_opt_varint(enc, cpu->has_switches, cpu->involuntary);
}

void ky_convert_note(struct ky_convert *convert, uint64_t index, uint64_t ns)
{
	struct ky_note *note = &convert->common->notes.list[index];

	switch (note->kind) {
	case KY_NOTE_MARK:
		write_mark(convert, note, ns);
		break;
	case KY_NOTE_MARKS_LOST:
		ky_chunk_loss(&convert->chunk,
			      &(struct ky_loss){0, KY_LOSS_OVERWRITTEN, note->value, ns, ns, true},
			      ns);
		break;
	case KY_NOTE_COUNTER:
		/* Of a stream it was news when it was read. */
		if (!convert->common->is_cut ||
		    (!convert->chunk.is_muted &&
		     ky_counter_is_news(&convert->counters, note->index, note->value)))
			ky_convert_counter(convert, note->index, note->value, ns);
		break;
	case KY_NOTE_CRASH:
		write_crash(convert, note->body, ns);
		break;
	case KY_NOTE_STUCK:
		write_stuck(convert, note->body, ns);
		break;
	case KY_NOTE_TRIGGER:
		write_trigger(convert, note->body, ns);
		break;
	case KY_NOTE_THREAD_CPU:
		write_thread_cpu(convert, note->body, ns);
		break;
	case KY_NOTE_RESOURCE:
		ky_convert_resource(convert, note->body, ns);
		break;
	default:
		break;
	}
	ky_note_remove(note);
}
