/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sample_case.h - samples with stacks, written into a read_case. */
#ifndef KY_TEST_SAMPLE_CASE_H
#define KY_TEST_SAMPLE_CASE_H

#include "read_case.h"

#define CASE_STACK(c, ...)                                                                         \
	ky_trc_enc_stack(&(c)->enc, (const uint64_t[]){__VA_ARGS__},                               \
			 sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

#define CASE_FIELD(name, kind)                                                                     \
	{                                                                                          \
		name, sizeof(name) - 1, KY_TYPE_##kind                                             \
	}
#define CASE_EVENT(c, id, name, ns, ...)                                                           \
	do {                                                                                       \
		static const struct ky_trc_field_def case_fields[] = {__VA_ARGS__};                \
                                                                                                   \
		ky_trc_enc_schema(&(c)->enc, id, name, sizeof(name) - 1, true, case_fields,        \
				  sizeof(case_fields) / sizeof(case_fields[0]));                   \
		ky_trc_enc_raw_event(&(c)->enc, id, true, ns);                                     \
	} while (0)

/* With worker, task and poll, as the drain of kymo writes it. Schemas of their own: fields may be
 * added to ours. */
static inline void case_cpu(struct read_case *c, uint64_t ns, uint32_t worker, uint32_t tid,
			    uint32_t stack, uint64_t weight_ns, uint64_t task, uint64_t poll_ns)
{
	CASE_EVENT(c, 900, "CpuSampleEvent", ns, CASE_FIELD("worker_id", VARINT),
		   CASE_FIELD("tid", U32), CASE_FIELD("source", U8),
		   CASE_FIELD("callchain", POOLED_STACK), CASE_FIELD("weight_ns", VARINT),
		   CASE_FIELD("task_id", VARINT), CASE_FIELD("poll_start_ns", VARINT));
	ky_trc_enc_varint(&c->enc, worker);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_u32(&c->enc, stack);
	ky_trc_enc_varint(&c->enc, weight_ns);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_varint(&c->enc, poll_ns);
}

static inline void case_off_cpu(struct read_case *c, uint64_t end_ns, uint64_t duration_ns,
				uint64_t task, uint64_t poll_ns, uint8_t reason, uint64_t syscall,
				const uint64_t *frames, size_t frame_count)
{
	CASE_EVENT(c, 901, "OffCpuEvent", end_ns, CASE_FIELD("tid", U32),
		   CASE_FIELD("worker_id", VARINT), CASE_FIELD("task_id", VARINT),
		   CASE_FIELD("duration_ns", VARINT), CASE_FIELD("reason", U8),
		   CASE_FIELD("syscall", VARINT), CASE_FIELD("callchain", STACK),
		   CASE_FIELD("weight", F64), CASE_FIELD("poll_start_ns", VARINT));
	ky_trc_enc_u32(&c->enc, 11);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_varint(&c->enc, duration_ns);
	ky_trc_enc_u8(&c->enc, reason);
	ky_trc_enc_varint(&c->enc, syscall);
	ky_trc_enc_frames(&c->enc, frames, frame_count);
	ky_trc_enc_f64(&c->enc, 1.0);
	ky_trc_enc_varint(&c->enc, poll_ns);
}

/* With what newer ones say. */
static inline void case_off_cpu_by(struct read_case *c, uint64_t end_ns, uint64_t duration_ns,
				   uint32_t tid, uint64_t task, uint64_t poll_ns, uint8_t reason,
				   double weight, uint8_t source)
{
	CASE_EVENT(c, 905, "OffCpuEvent", end_ns, CASE_FIELD("tid", U32),
		   CASE_FIELD("worker_id", VARINT), CASE_FIELD("task_id", VARINT),
		   CASE_FIELD("duration_ns", VARINT), CASE_FIELD("reason", U8),
		   CASE_FIELD("callchain", STACK), CASE_FIELD("weight", F64),
		   CASE_FIELD("poll_start_ns", VARINT), CASE_FIELD("source", U8),
		   CASE_FIELD("clipped", U8));
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_varint(&c->enc, duration_ns);
	ky_trc_enc_u8(&c->enc, reason);
	ky_trc_enc_frames(&c->enc, NULL, 0);
	ky_trc_enc_f64(&c->enc, weight);
	ky_trc_enc_varint(&c->enc, poll_ns);
	ky_trc_enc_u8(&c->enc, source);
	ky_trc_enc_u8(&c->enc, 0);
}

/* With what is known of it. */
static inline void case_off_cpu_split(struct read_case *c, uint64_t end_ns, uint64_t duration_ns,
				      uint32_t tid, uint8_t reason, uint8_t source,
				      uint64_t runnable_min_ns, uint64_t runnable_max_ns)
{
	CASE_EVENT(c, 907, "OffCpuEvent", end_ns, CASE_FIELD("tid", U32),
		   CASE_FIELD("duration_ns", VARINT), CASE_FIELD("reason", U8),
		   CASE_FIELD("weight", F64), CASE_FIELD("source", U8),
		   CASE_FIELD("runnable_min_ns", VARINT), CASE_FIELD("runnable_max_ns", VARINT));
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, duration_ns);
	ky_trc_enc_u8(&c->enc, reason);
	ky_trc_enc_f64(&c->enc, 1.0);
	ky_trc_enc_u8(&c->enc, source);
	ky_trc_enc_varint(&c->enc, runnable_min_ns);
	ky_trc_enc_varint(&c->enc, runnable_max_ns);
}

/* Split exactly, by whom it was woken; tid 0: not known. */
static inline void case_off_cpu_woken(struct read_case *c, uint64_t end_ns, uint64_t duration_ns,
				      uint32_t tid, uint8_t by, uint32_t waker_tid,
				      uint32_t waker_pid, const char *waker_name)
{
	uint32_t name = case_text(c, waker_name);

	CASE_EVENT(c, 908, "OffCpuEvent", end_ns, CASE_FIELD("tid", U32),
		   CASE_FIELD("duration_ns", VARINT), CASE_FIELD("reason", U8),
		   CASE_FIELD("weight", F64), CASE_FIELD("source", U8),
		   CASE_FIELD("runnable_min_ns", VARINT), CASE_FIELD("runnable_max_ns", VARINT),
		   CASE_FIELD("woken_by", U8), CASE_FIELD("waker_tid", VARINT),
		   CASE_FIELD("waker_pid", VARINT), CASE_FIELD("waker_name", POOLED_STRING));
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, duration_ns);
	ky_trc_enc_u8(&c->enc, 1);
	ky_trc_enc_f64(&c->enc, 2.0);
	ky_trc_enc_u8(&c->enc, KY_OFF_CPU_BY_SWITCHES);
	ky_trc_enc_varint(&c->enc, 1000);
	ky_trc_enc_varint(&c->enc, 1000);
	ky_trc_enc_u8(&c->enc, by);
	ky_trc_enc_varint(&c->enc, waker_tid);
	ky_trc_enc_varint(&c->enc, waker_pid);
	ky_trc_enc_u32(&c->enc, name);
}

/* A call of this task: what it was made with, and how it ended. */
static inline void case_off_cpu_call(struct read_case *c, uint64_t end_ns, uint64_t duration_ns,
				     uint64_t syscall, uint8_t fd_kind, uint16_t peer_port,
				     uint16_t local_port, uint64_t bytes, uint16_t error)
{
	CASE_EVENT(c, 909, "OffCpuEvent", end_ns, CASE_FIELD("tid", U32),
		   CASE_FIELD("duration_ns", VARINT), CASE_FIELD("reason", U8),
		   CASE_FIELD("syscall", VARINT), CASE_FIELD("weight", F64),
		   CASE_FIELD("source", U8), CASE_FIELD("fd", VARINT), CASE_FIELD("fd_kind", U8),
		   CASE_FIELD("peer_port", VARINT), CASE_FIELD("local_port", VARINT),
		   CASE_FIELD("bytes", VARINT), CASE_FIELD("errno", VARINT));
	ky_trc_enc_u32(&c->enc, 11);
	ky_trc_enc_varint(&c->enc, duration_ns);
	ky_trc_enc_u8(&c->enc, 1);
	ky_trc_enc_varint(&c->enc, syscall);
	ky_trc_enc_f64(&c->enc, 1.0);
	ky_trc_enc_u8(&c->enc, KY_OFF_CPU_BY_CALL);
	ky_trc_enc_varint(&c->enc, 7);
	ky_trc_enc_u8(&c->enc, fd_kind);
	ky_trc_enc_varint(&c->enc, peer_port);
	ky_trc_enc_varint(&c->enc, local_port);
	ky_trc_enc_varint(&c->enc, bytes);
	ky_trc_enc_varint(&c->enc, error);
}

static inline void case_off_window(struct read_case *c, uint64_t end_ns, uint64_t observed_ns,
				   uint64_t stretch_ns)
{
	CASE_EVENT(c, 906, "OffCpuWindowEvent", end_ns, CASE_FIELD("observed_ns", VARINT),
		   CASE_FIELD("stretch_ns", VARINT), CASE_FIELD("records", VARINT),
		   CASE_FIELD("lost", VARINT));
	ky_trc_enc_varint(&c->enc, observed_ns);
	ky_trc_enc_varint(&c->enc, stretch_ns);
	ky_trc_enc_varint(&c->enc, 100);
	ky_trc_enc_varint(&c->enc, 0);
}

static inline void case_place(struct read_case *c, uint64_t ns, uint64_t task, uint32_t stack,
			      double probability)
{
	CASE_EVENT(c, 902, "AwaitPlaceEvent", ns, CASE_FIELD("task_id", VARINT),
		   CASE_FIELD("callchain", POOLED_STACK), CASE_FIELD("inclusion_probability", F64));
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u32(&c->enc, stack);
	ky_trc_enc_f64(&c->enc, probability);
}

static inline void case_module(struct read_case *c, uint64_t ns, uint64_t start, uint64_t end,
			       uint64_t from_ns, uint64_t to_ns)
{
	CASE_EVENT(c, 906, "ProcessMapEvent", ns, CASE_FIELD("start", VARINT),
		   CASE_FIELD("end", VARINT), CASE_FIELD("from_ns", VARINT),
		   CASE_FIELD("to_ns", VARINT));
	ky_trc_enc_varint(&c->enc, start);
	ky_trc_enc_varint(&c->enc, end);
	ky_trc_enc_varint(&c->enc, from_ns);
	ky_trc_enc_varint(&c->enc, to_ns);
}

/* Of a dump: the last known place of a live task. */
static inline void case_listed_place(struct read_case *c, uint64_t ns, uint64_t task,
				     uint32_t stack, uint64_t since_ns, uint8_t state)
{
	CASE_EVENT(c, 905, "AwaitPlaceEvent", ns, CASE_FIELD("task_id", VARINT),
		   CASE_FIELD("callchain", POOLED_STACK), CASE_FIELD("inclusion_probability", F64),
		   CASE_FIELD("since_ns", VARINT), CASE_FIELD("state", U8));
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u32(&c->enc, stack);
	ky_trc_enc_f64(&c->enc, 1.0);
	ky_trc_enc_varint(&c->enc, since_ns);
	ky_trc_enc_u8(&c->enc, state);
}

/* A wait that ended, or 0: one that lasts; at its point of this number. */
static inline void case_wait(struct read_case *c, uint64_t ns, uint64_t task, uint32_t stack,
			     uint64_t since_ns, uint64_t polled_ns, uint64_t wait_ns, uint8_t point)
{
	CASE_EVENT(c, 907, "AwaitPlaceEvent", ns, CASE_FIELD("task_id", VARINT),
		   CASE_FIELD("callchain", POOLED_STACK), CASE_FIELD("inclusion_probability", F64),
		   CASE_FIELD("since_ns", VARINT), CASE_FIELD("polled_ns", VARINT),
		   CASE_FIELD("wait_ns", VARINT), CASE_FIELD("point", U8));
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u32(&c->enc, stack);
	ky_trc_enc_f64(&c->enc, 1.0);
	ky_trc_enc_varint(&c->enc, since_ns);
	ky_trc_enc_varint(&c->enc, polled_ns);
	ky_trc_enc_varint(&c->enc, wait_ns);
	ky_trc_enc_u8(&c->enc, point);
}

static inline void case_alloc(struct read_case *c, uint64_t ns, uint64_t bytes, uint64_t address,
			      uint32_t stack, double weight)
{
	CASE_EVENT(c, 903, "AllocEvent", ns, CASE_FIELD("tid", U32), CASE_FIELD("size", VARINT),
		   CASE_FIELD("addr", VARINT), CASE_FIELD("callchain", POOLED_STACK),
		   CASE_FIELD("weight", F64), CASE_FIELD("task_id", VARINT));
	ky_trc_enc_u32(&c->enc, 11);
	ky_trc_enc_varint(&c->enc, bytes);
	ky_trc_enc_varint(&c->enc, address);
	ky_trc_enc_u32(&c->enc, stack);
	ky_trc_enc_f64(&c->enc, weight);
	ky_trc_enc_varint(&c->enc, 0);
}

/* Written at `ns` because it is live. */
static inline void case_live(struct read_case *c, uint64_t ns, uint64_t since_ns, uint64_t bytes,
			     uint64_t address, uint32_t stack)
{
	CASE_EVENT(c, 907, "AllocEvent", ns, CASE_FIELD("tid", U32), CASE_FIELD("size", VARINT),
		   CASE_FIELD("addr", VARINT), CASE_FIELD("callchain", POOLED_STACK),
		   CASE_FIELD("weight", F64), CASE_FIELD("since_ns", VARINT));
	ky_trc_enc_u32(&c->enc, 11);
	ky_trc_enc_varint(&c->enc, bytes);
	ky_trc_enc_varint(&c->enc, address);
	ky_trc_enc_u32(&c->enc, stack);
	ky_trc_enc_f64(&c->enc, 8.0);
	ky_trc_enc_varint(&c->enc, since_ns);
}

static inline void case_free(struct read_case *c, uint64_t ns, uint64_t bytes, uint64_t address)
{
	CASE_EVENT(c, 904, "FreeEvent", ns, CASE_FIELD("tid", U32), CASE_FIELD("addr", VARINT),
		   CASE_FIELD("size", VARINT));
	ky_trc_enc_u32(&c->enc, 11);
	ky_trc_enc_varint(&c->enc, address);
	ky_trc_enc_varint(&c->enc, bytes);
}

/* The outermost function at an address, and what is inlined at depth > 0. */
static inline void case_symbol_in(struct read_case *c, const char *source, uint64_t address,
				  const char *name, uint64_t depth, uint64_t line)
{
	uint32_t text = case_text(c, name), file = case_text(c, source);

	ky_trc_enc_event(&c->enc, KY_EV_SYMBOL, 0);
	ky_trc_enc_varint(&c->enc, address);
	ky_trc_enc_varint(&c->enc, 16);
	ky_trc_enc_u32(&c->enc, text);
	ky_trc_enc_varint(&c->enc, depth);
	ky_trc_enc_u32(&c->enc, file);
	ky_trc_enc_varint(&c->enc, line);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
}

static inline void case_symbol(struct read_case *c, uint64_t address, const char *name,
			       uint64_t depth, uint64_t line)
{
	case_symbol_in(c, "src/main.rs", address, name, depth, line);
}

static inline void case_lost_samples(struct read_case *c, uint64_t ns, uint64_t count,
				     const char *cause)
{
	uint32_t text = case_text(c, cause);

	ky_trc_enc_event(&c->enc, KY_EV_LOSS, ns);
	ky_trc_enc_u32(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, count);
	ky_trc_enc_u8(&c->enc, 1);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, ns);
	ky_trc_enc_u32(&c->enc, text);
}

#endif
