/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* read_case.h - a trace written event by event in a test, and opened. */
#ifndef KY_TEST_READ_CASE_H
#define KY_TEST_READ_CASE_H

#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include <base/buf.h>
#include <errno.h>
#include <kymo/base.h>
#include <read/trace.h>
#include <string.h>
#include <wire/trc_enc.h>

struct read_case {
	struct ky_buf buf;
	struct ky_trc_enc enc;
	struct ky_byte_source source;
	struct ky_trace *trace;
	char error[256];
};

static inline uint32_t case_text(struct read_case *c, const char *text)
{
	return ky_trc_enc_string(&c->enc, 0, text, strlen(text));
}

static inline void case_begin(struct read_case *c)
{
	memset(c, 0, sizeof(*c));
	ky_buf_init(&c->buf, 0);
	assert_int_equal(ky_trc_enc_init(&c->enc, &c->buf), 0);
	ky_trc_enc_begin(&c->enc);
}

static inline void case_start(struct read_case *c, uint64_t ns, uint32_t worker, uint64_t task,
			      const char *name)
{
	ky_trc_enc_poll_start(&c->enc, ns, worker, 0, task, case_text(c, name));
}

static inline void case_end(struct read_case *c, uint64_t ns, uint32_t worker)
{
	ky_trc_enc_poll_end(&c->enc, ns, worker);
}

static inline void case_poll(struct read_case *c, uint64_t from_ns, uint64_t to_ns, uint32_t worker,
			     uint64_t task)
{
	case_start(c, from_ns, worker, task, "svc::task");
	case_end(c, to_ns, worker);
}

static inline void case_wake_of(struct read_case *c, uint64_t ns, uint64_t waker, uint64_t woken,
				uint32_t worker, uint32_t origin, uint32_t tid)
{
	uint32_t stack = ky_trc_enc_stack(&c->enc, NULL, 0);

	ky_trc_enc_event(&c->enc, KY_EV_WAKE, ns);
	ky_trc_enc_varint(&c->enc, waker);
	ky_trc_enc_varint(&c->enc, woken);
	ky_trc_enc_u8(&c->enc, (uint8_t)worker);
	ky_trc_enc_u8(&c->enc, (uint8_t)origin);
	ky_trc_enc_u32(&c->enc, stack);
	ky_trc_enc_varint(&c->enc, tid);
}

static inline void case_wake(struct read_case *c, uint64_t ns, uint64_t waker, uint64_t woken,
			     uint32_t worker)
{
	case_wake_of(c, ns, waker, woken, worker, 0, 0);
}

/* A nested poll of the thread. */
static inline void case_nested(struct read_case *c, uint64_t ns, uint32_t worker, uint32_t tid,
			       uint32_t depth, uint64_t task)
{
	uint32_t name = case_text(c, "svc::task");

	ky_trc_enc_event(&c->enc, KY_EV_NESTED_POLL_START, ns);
	ky_trc_enc_varint(&c->enc, worker);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, depth);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u32(&c->enc, name);
}

static inline void case_nested_end(struct read_case *c, uint64_t ns, uint32_t worker, uint32_t tid)
{
	ky_trc_enc_event(&c->enc, KY_EV_NESTED_POLL_END, ns);
	ky_trc_enc_varint(&c->enc, worker);
	ky_trc_enc_u32(&c->enc, tid);
}

static inline void case_move(struct read_case *c, uint64_t ns, uint32_t worker, uint32_t from_tid,
			     uint32_t to_tid, uint64_t launched_ns)
{
	ky_trc_enc_event(&c->enc, KY_EV_BLOCK_IN_PLACE, ns);
	ky_trc_enc_varint(&c->enc, worker);
	ky_trc_enc_u32(&c->enc, from_tid);
	ky_trc_enc_u32(&c->enc, to_tid);
	ky_trc_enc_opt_varint(&c->enc, launched_ns != 0, launched_ns);
}

/* timeout_ms UINT32_MAX: none. */
static inline void case_park_for(struct read_case *c, uint64_t ns, uint32_t worker, uint32_t tid,
				 uint32_t wait, uint32_t timeout_ms)
{
	ky_trc_enc_event(&c->enc, KY_EV_WORKER_PARK, ns);
	ky_trc_enc_varint(&c->enc, worker);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_u8(&c->enc, (uint8_t)wait);
	ky_trc_enc_opt_varint(&c->enc, timeout_ms != UINT32_MAX, timeout_ms);
}

static inline void case_park(struct read_case *c, uint64_t ns, uint32_t worker, uint32_t tid)
{
	case_park_for(c, ns, worker, tid, 1, UINT32_MAX);
}

static inline void case_unpark(struct read_case *c, uint64_t ns, uint32_t worker, uint32_t tid)
{
	ky_trc_enc_event(&c->enc, KY_EV_WORKER_UNPARK, ns);
	ky_trc_enc_varint(&c->enc, worker);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_opt_varint(&c->enc, true, 77);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, 3);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
}

static inline void case_loss(struct read_case *c, uint32_t tid, uint64_t from_ns, uint64_t to_ns)
{
	uint32_t cause = case_text(c, "overwritten");

	ky_trc_enc_event(&c->enc, KY_EV_LOSS, to_ns);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, 42);
	ky_trc_enc_u8(&c->enc, 1);
	ky_trc_enc_varint(&c->enc, from_ns);
	ky_trc_enc_varint(&c->enc, to_ns);
	ky_trc_enc_u32(&c->enc, cause);
}

static inline void case_open_of(struct read_case *c, uint64_t ns, uint32_t worker, uint32_t tid,
				uint64_t task, uint64_t start_ns, bool is_at_exit, bool is_nested)
{
	uint32_t name = case_text(c, "svc::task");

	ky_trc_enc_event(&c->enc, KY_EV_OPEN_POLL, ns);
	ky_trc_enc_varint(&c->enc, worker);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u32(&c->enc, name);
	ky_trc_enc_varint(&c->enc, start_ns);
	ky_trc_enc_u8(&c->enc, is_at_exit);
	ky_trc_enc_u8(&c->enc, is_nested);
}

static inline void case_open_poll(struct read_case *c, uint64_t ns, uint32_t worker, uint64_t task,
				  uint64_t start_ns, bool is_at_exit)
{
	case_open_of(c, ns, worker, 100 + worker, task, start_ns, is_at_exit, false);
}

/* A closure on the blocking pool; name NULL: its end. */
static inline void case_run(struct read_case *c, uint64_t ns, uint32_t tid, uint64_t task,
			    const char *name)
{
	uint32_t text = name ? case_text(c, name) : 0;

	ky_trc_enc_event(&c->enc, name ? KY_EV_BLOCKING_START : KY_EV_BLOCKING_END, ns);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, task);
	if (name)
		ky_trc_enc_u32(&c->enc, text);
}

static inline int case_try_open(struct read_case *c, size_t bytes,
				const struct ky_trace_options *options)
{
	struct ky_trace_options settled = {0};
	int result;

	if (options)
		settled = *options;
	settled.errbuf = c->error;
	settled.errbuf_bytes = sizeof(c->error);
	result = ky_byte_source_memory(&c->source, c->buf.bytes, bytes, "case.trc");
	if (result < 0)
		return result;
	return ky_trace_open(&c->trace, &c->source, 1, &settled);
}

static inline void case_open(struct read_case *c)
{
	assert_int_equal(c->buf.failed, 0);
	assert_int_equal(case_try_open(c, c->buf.used, NULL), 0);
}

/* Closes the trace and keeps the bytes for another try. */
static inline void case_shut(struct read_case *c)
{
	ky_trace_close(c->trace);
	c->trace = NULL;
	if (c->source.close)
		c->source.close(c->source.ctx);
	memset(&c->source, 0, sizeof(c->source));
}

static inline void case_finish(struct read_case *c)
{
	case_shut(c);
	ky_trc_enc_release(&c->enc);
	ky_buf_release(&c->buf);
}

static inline struct ky_poll case_nth_poll(const struct read_case *c, uint64_t worker, uint64_t row)
{
	uint32_t lane = ky_trace_worker(c->trace, worker);
	struct ky_poll poll;

	assert_int_not_equal(lane, KY_NONE);
	assert_true(row < c->trace->workers[lane].polls.row_count);
	ky_trace_poll(c->trace, lane, row, &poll);
	return poll;
}

#endif
