/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What long polls cost, and how late they came where their runtime says it, as events. */
#include <drain/convert_stage.h>

#include <kymo/emit.h>

#define US UINT64_C(1000)

static void keep_counts(struct ky_dthread *thread, const struct ky_rec *rec)
{
	thread->counts[0] = rec->a;
	thread->counts[1] = rec[1].ticks;
	thread->counts[2] = rec[1].a;
	thread->nested_count = rec->arg;
	thread->has_counts = true;
}

/* The entry above those that are open still has it. NULL: its end is not in the trace. */
static const struct ky_drain_poll *last_poll(const struct ky_convert *convert,
					     const struct ky_dthread *thread)
{
	const struct ky_drain_poll *poll;

	if (thread->deeper || thread->depth >= thread->stack_capacity || convert->chunk.is_muted)
		return NULL;
	poll = &thread->stack[thread->depth];
	return poll->task && (poll->kind == KY_POLL_OUTER || poll->kind == KY_POLL_NESTED) ? poll :
											     NULL;
}

static void put_pair(struct ky_trc_enc *enc, bool is_there, uint64_t word)
{
	ky_trc_enc_opt_varint(enc, is_there, word & UINT32_MAX);
	ky_trc_enc_opt_varint(enc, is_there, word >> 32);
}

static void write_cost(struct ky_convert *convert, const struct ky_dthread *thread,
		       const struct ky_drain_poll *poll, const struct ky_rec *rec, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	bool was_on_cpu = rec->arg & KYMO_POLL_COST_ON_CPU;
	uint64_t cpu_ns = rec->a;

	if (was_on_cpu)
		cpu_ns = ky_timeline_length_ns(&convert->common->timeline, rec->a);
	ky_trc_enc_event(enc, KY_EV_POLL_COST, ns);
	ky_trc_enc_varint(enc, ky_worker_id(poll->worker));
	ky_trc_enc_u32(enc, thread->tid);
	ky_trc_enc_varint(enc, poll->task);
	ky_trc_enc_varint(enc, poll->start_ns);
	ky_trc_enc_u8(enc, was_on_cpu);
	ky_trc_enc_varint(enc, cpu_ns);
	ky_trc_enc_opt_varint(enc, was_on_cpu || rec->arg & KYMO_POLL_COST_HAS_DELAY,
			      was_on_cpu ? 0 : rec[1].ticks);
	ky_trc_enc_varint(enc, was_on_cpu ? 0 : rec[1].a);
	put_pair(enc, thread->has_counts, thread->counts[0]);
	put_pair(enc, thread->has_counts, thread->counts[1]);
	ky_trc_enc_opt_varint(enc, thread->has_counts, (thread->counts[2] >> 32) * US);
	ky_trc_enc_opt_varint(enc, thread->has_counts, thread->counts[2] & UINT32_MAX);
	ky_trc_enc_opt_varint(enc, thread->has_counts, thread->nested_count);
}

void ky_convert_poll_cost(struct ky_convert *convert, struct ky_dthread *thread,
			  const struct ky_rec *rec, uint64_t ns)
{
	const struct ky_drain_poll *poll;

	if (rec->type == KYMO_RECORD_POLL_COUNTS) {
		keep_counts(thread, rec);
		return;
	}
	poll = last_poll(convert, thread);
	if (poll)
		write_cost(convert, thread, poll, rec, ns);
	thread->has_counts = false;
}

/* Of the poll that began right before: what its runtime says, where no wake does. A policy measures
 * waits by the wakes that it holds back. */
void ky_convert_poll_delay(struct ky_convert *convert, const struct ky_dthread *thread,
			   const struct ky_rec *rec, uint64_t ns)
{
	const struct ky_drain_poll *poll;

	if (!thread->depth || thread->deeper || convert->chunk.is_muted || convert->retain.is_on)
		return;
	poll = &thread->stack[thread->depth - 1];
	/* A reader takes the difference from this event's time. */
	ky_retain_write_delay(convert, poll->worker, poll->kind == KY_POLL_OUTER ? 0 : thread->tid,
			      rec->a < ns ? ns - rec->a : 0, ns);
}
