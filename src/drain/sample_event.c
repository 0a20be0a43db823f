/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Samples as events, with what their thread was doing at that moment. */
#include <drain/convert_stage.h>

#include <string.h>

#define ONE_WEIGHT UINT64_C(0x100000000) /* 1 in parts of 2^32 */

/* What the thread does now, that is at the sample's moment. */
struct doing {
	uint32_t worker;
	uint64_t task, since_ns;
	const char *name;
};

static struct doing read_one_thread(const struct ky_convert *convert,
				    const struct ky_waiting_sample *sample)
{
	const struct ky_dthread *thread = ky_thread_table_find_tid(&convert->common->threads,
								   sample->tid);
	struct doing out = {.worker = KY_WORKER_UNKNOWN, .task = sample->task};

	if (!thread)
		return out;
	out.name = thread->name;
	out.worker = thread->is_blocking ? KY_WORKER_BLOCKING_POOL : ky_worker_id(thread->worker);
	if (thread->depth) {
		out.since_ns = thread->stack[thread->depth - 1].start_ns;
		if (!out.task)
			out.task = thread->stack[thread->depth - 1].task;
	} else if (thread->is_blocking) {
		out.since_ns = thread->blocking_start_ns;
		if (!out.task)
			out.task = thread->blocking_task;
	}
	return out;
}

static double weight_of(const struct ky_waiting_sample *sample)
{
	return sample->weight ? (double)sample->weight / (double)ONE_WEIGHT : 1.0;
}

static void write_cpu(struct ky_convert *convert, const struct ky_waiting_sample *sample,
		      uint64_t ns)
{
	struct doing doing = read_one_thread(convert, sample);
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t name = 0, stack = ky_trc_enc_stack(enc, sample->frames, sample->frame_count);
	bool has_name = doing.name && doing.name[0];

	if (has_name)
		name = ky_trc_enc_string(enc, 0, doing.name, strnlen(doing.name, 32));
	ky_trc_enc_event(enc, KY_EV_CPU_SAMPLE, ns);
	ky_trc_enc_varint(enc, doing.worker);
	ky_trc_enc_u32(enc, sample->tid);
	ky_trc_enc_u8(enc, 0); /* source: CPU */
	ky_trc_enc_u8(enc, has_name);
	if (has_name)
		ky_trc_enc_u32(enc, name);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_opt_varint(enc, sample->flags & KY_SAMPLE_HAS_CPU, sample->cpu);
	ky_trc_enc_varint(enc, sample->value);
	ky_trc_enc_varint(enc, doing.task);
	ky_trc_enc_varint(enc, doing.since_ns);
	ky_trc_enc_u8(enc, sample->other < KY_SOURCE_COUNT ? (uint8_t)sample->other : 0);
	ky_trc_enc_u8(enc, (sample->flags & KY_SAMPLE_TRUNCATED) != 0);
}

/* "" where no name was reported; a recorded thread has its own record of it. */
static const char *waker_name(const struct ky_convert *convert,
			      const struct ky_waiting_sample *sample)
{
	const struct ky_dthread *thread;
	const struct ky_waker_name *waker;

	if (!sample->by_tid)
		return "";
	if (convert->common->samples.wakers) {
		waker = ky_samples_waker(&convert->common->samples, sample->by_tid);
		if (waker->tid == sample->by_tid && waker->pid == sample->by_pid)
			return waker->name;
	}
	thread = ky_thread_table_find_tid(&convert->common->threads, sample->by_tid);
	return thread ? thread->name : "";
}

void ky_call_facts_write(struct ky_trc_enc *enc, const struct ky_call_facts *call)
{
	ky_trc_enc_opt_varint(enc, call->fd >= 0, (uint64_t)call->fd);
	ky_trc_enc_u8(enc, call->fd_kind);
	ky_trc_enc_u8(enc, call->tcp_state);
	ky_trc_enc_opt_varint(enc, call->peer_port, call->peer_port);
	ky_trc_enc_opt_varint(enc, call->local_port, call->local_port);
	ky_trc_enc_opt_varint(enc, call->bytes >= 0, (uint64_t)call->bytes);
	ky_trc_enc_opt_varint(enc, call->error, call->error);
	ky_trc_enc_opt_varint(enc, call->lock, call->lock);
}

static void write_waker(struct ky_convert *convert, const struct ky_waiting_sample *sample,
			uint32_t name)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	bool is_thread = sample->by == KY_WOKEN_BY_THREAD && sample->by_tid;

	ky_trc_enc_u8(enc, sample->by);
	ky_trc_enc_opt_varint(enc, is_thread, sample->by_tid);
	ky_trc_enc_opt_varint(enc, is_thread && sample->by_pid, sample->by_pid);
	ky_trc_enc_u32(enc, name);
}

/* Of a call that blocked, or of the kernel's switches, which have no call, and of page faults alone
 * the program's stack. */
static void write_off_cpu(struct ky_convert *convert, const struct ky_waiting_sample *sample,
			  uint64_t ns, bool is_switch)
{
	struct doing doing = read_one_thread(convert, sample);
	struct ky_trc_enc *enc = &convert->chunk.enc;
	struct ky_call_facts call = {.fd = -1, .bytes = -1};
	bool is_split = is_switch &&
			(sample->runnable_min_ns || sample->runnable_max_ns < sample->value);
	uint32_t waker = ky_chunk_text(&convert->chunk, waker_name(convert, sample));

	if (is_switch)
		call.reason = (uint8_t)sample->more;
	else
		ky_call_facts_dec(&call, sample->more, sample->other);
	ky_trc_enc_event(enc, KY_EV_OFF_CPU, ns);
	ky_trc_enc_u32(enc, sample->tid);
	ky_trc_enc_varint(enc, doing.worker);
	ky_trc_enc_varint(enc, doing.task);
	ky_trc_enc_varint(enc, sample->value);
	ky_trc_enc_u8(enc, call.reason <= KY_OFF_CPU_PREEMPTED ? call.reason : 0);
	ky_trc_enc_opt_varint(enc, !is_switch && sample->syscall >= 0, (uint64_t)sample->syscall);
	ky_trc_enc_frames(enc, sample->frames, sample->frame_count);
	ky_trc_enc_f64(enc, weight_of(sample));
	ky_trc_enc_varint(enc, doing.since_ns);
	ky_trc_enc_u8(enc, is_switch ? sample->is_truncated :
				       (sample->flags & KY_SAMPLE_TRUNCATED) != 0);
	ky_trc_enc_u8(enc, is_switch ? KY_SOURCE_SWITCHES : KY_SOURCE_CALLS);
	ky_trc_enc_u8(enc, is_switch ? sample->flags : 0);
	ky_trc_enc_opt_varint(enc, is_split, sample->runnable_min_ns);
	ky_trc_enc_opt_varint(enc, is_split, sample->runnable_max_ns);
	write_waker(convert, sample, waker);
	ky_call_facts_write(enc, &call);
}

static void write_window(struct ky_convert *convert, const struct ky_waiting_sample *sample,
			 uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;

	ky_trc_enc_event(enc, KY_EV_OFF_CPU_WINDOW, ns);
	ky_trc_enc_varint(enc, sample->value);
	ky_trc_enc_varint(enc, sample->more);
	ky_trc_enc_varint(enc, sample->other & UINT32_MAX);
	ky_trc_enc_varint(enc, sample->other >> 32);
}

static void write_memory(struct ky_convert *convert, const struct ky_waiting_sample *sample,
			 uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t stack;

	if (sample->kind == KY_SAMPLE_FREE) {
		ky_trc_enc_event(enc, KY_EV_FREE, ns);
		ky_trc_enc_u32(enc, sample->tid);
		ky_trc_enc_varint(enc, sample->more);
		ky_trc_enc_varint(enc, sample->value);
		ky_trc_enc_varint(enc, sample->other);
		return;
	}
	stack = ky_trc_enc_stack(enc, sample->frames, sample->frame_count);
	ky_trc_enc_event(enc, KY_EV_ALLOC, ns);
	ky_trc_enc_u32(enc, sample->tid);
	ky_trc_enc_varint(enc, sample->value);
	ky_trc_enc_varint(enc, sample->more);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_f64(enc, weight_of(sample));
	ky_trc_enc_varint(enc, read_one_thread(convert, sample).task);
	ky_trc_enc_u8(enc, (sample->flags & KY_SAMPLE_TRUNCATED) != 0);
	ky_trc_enc_varint(enc, 0);
}

/* A thread that is switched out mostly has nothing to do. */
static bool is_of_interest(const struct ky_convert *convert, const struct ky_waiting_sample *sample)
{
	const struct ky_dthread *thread;

	if (sample->kind != KY_SAMPLE_SWITCHES || !sample->tid)
		return true;
	thread = ky_thread_table_find_tid(&convert->common->threads, sample->tid);
	return thread && thread->depth;
}

void ky_convert_sample(struct ky_convert *convert, uint64_t index, uint64_t ns)
{
	struct ky_sample_list *samples = &convert->common->samples;
	struct ky_waiting_sample *sample = samples->waiting[index];

	if (!convert->chunk.is_muted && is_of_interest(convert, sample)) {
		switch (sample->kind) {
		case KY_SAMPLE_OFF_CPU:
			write_off_cpu(convert, sample, ns, false);
			break;
		case KY_SAMPLE_SWITCHES:
			if (sample->tid)
				write_off_cpu(convert, sample, ns, true);
			else
				write_window(convert, sample, ns);
			break;
		case KY_SAMPLE_ALLOC:
		case KY_SAMPLE_FREE:
			write_memory(convert, sample, ns);
			break;
		default:
			write_cpu(convert, sample, ns);
			break;
		}
		convert->common->stats.samples_written++;
	}
	ky_samples_remove(samples, index);
}
