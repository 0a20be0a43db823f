/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* drain_case.h - a ring image, a drain on it, and what came out. */
#ifndef KY_TEST_DRAIN_CASE_H
#define KY_TEST_DRAIN_CASE_H

#include "cmocka_all.h"
#include "event_list.h"
#include "ring_builder.h"

#include <drain/drain.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define T0 UINT64_C(2000000000) /* ns; the rings open at 1 s */

struct drain_case {
	struct test_ring ring;
	struct test_sink sink;
	struct ky_drain *drain;
	struct ky_drain_options options;
};

static inline void case_open(struct drain_case *c, uint32_t slots)
{
	memset(c, 0, sizeof(*c));
	test_ring_open(&c->ring, slots);
	test_sink_open(&c->sink);
	c->options = (struct ky_drain_options){.image = c->ring.image,
					       .image_bytes = c->ring.image_bytes,
					       .anchor = test_ring_anchor,
					       .anchor_ctx = &c->ring,
					       .chunk = test_sink_chunk,
					       .chunk_ctx = &c->sink,
					       .hostname = "box",
					       .source = "test"};
}

static inline void case_start(struct drain_case *c)
{
	assert_int_equal(ky_drain_open(&c->drain, &c->options), 0);
}

/* Opens and starts, with one thread that writes. */
static inline void case_begin(struct drain_case *c, struct test_writer *w, uint32_t slots)
{
	case_open(c, slots);
	case_start(c);
	test_writer_open(w, &c->ring, 501, T0);
}

static inline void case_step(struct drain_case *c, uint64_t now_ns)
{
	c->ring.now_ns = now_ns;
	assert_int_equal(ky_drain_step(c->drain, 0), 0);
}

/* Last step, seal, decode. */
static inline void case_finish(struct drain_case *c, uint64_t now_ns)
{
	c->ring.now_ns = now_ns;
	assert_int_equal(ky_drain_step(c->drain, KY_DRAIN_FINAL), 0);
	assert_int_equal(ky_drain_seal(c->drain), 0);
	test_sink_decode(&c->sink);
}

static inline void case_close(struct drain_case *c)
{
	ky_drain_close(c->drain);
	test_sink_close(&c->sink);
	test_ring_close(&c->ring);
}

#define COUNT(c, id) test_sink_count(&(c)->sink, KY_EV_##id)
#define EVENT(c, id, n) test_sink_find(&(c)->sink, KY_EV_##id, n)
#define NUMBER(event, id, field) ((event)->number[KY_F_##id##_##field])
#define TEXT(event, id, field) ((event)->text[KY_F_##id##_##field])

/* `count` polls of task 1, two records each, every 10 us. */
static inline uint64_t case_polls(struct test_writer *w, uint64_t ns, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		test_poll(w, ns, 1, 0);
		test_poll_end(w, ns + 5000, 0);
		ns += 10000;
	}
	return ns;
}

/* Records in all losses that were written. */
static inline uint64_t case_lost(struct drain_case *c)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < COUNT(c, LOSS); i++)
		sum += NUMBER(EVENT(c, LOSS, i), LOSS, record_count);
	return sum;
}

#endif
