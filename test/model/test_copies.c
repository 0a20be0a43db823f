/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Random scripts on a small ring, recorded as a stream and as dumps of random moments and ranges,
 * each with readings of the clock of its own. Whatever of that is read together must say what the
 * whole stream says: each poll, park, wake, task and span once, in the same order. */
#include "../lib/cmocka_all.h"
#include "../lib/drain_case.h"
#include "../lib/prng.h"

#include <drain/cut.h>
#include <read/event_stream.h>
#include <read/trace.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS 24u
#define WORKERS 3u
#define STEPS 9000u
#define DUMPS_MAX 24u
#define APART_NS 20000u /* how far two readings of the clocks may lie apart */
#define RUNTIME UINT64_C(0x7700)

struct part {
	struct test_sink sink;
	size_t byte_count; /* of it that is read */
};

struct script {
	struct test_prng prng;
	struct test_ring ring;
	struct test_writer writers[WORKERS + 1]; /* the last one serves no worker */
	uint64_t tasks[WORKERS], spans[WORKERS], next_task, next_span, dumped_hand;
	uint32_t name;
	struct part stream, dumps[DUMPS_MAX];
	uint32_t dump_count;
	struct ky_drain *drain;
	/* A second stream, left for flight mode and taken up again; NULL: there is none. */
	struct ky_drain *switched;
	struct part switching;
	bool is_in_flight, has_left; /* the last worker */
};

/* The counter is right, the time that goes with it but for a microsecond or so. */
static int noisy_anchor(void *ctx, struct ky_clock_anchor *out)
{
	struct script *s = ctx;

	test_ring_anchor(&s->ring, out);
	out->monotonic_ns += test_below(&s->prng, 1500);
	return 0;
}

static void open_script(struct script *s, uint64_t seed, const struct ky_retain_policy *retain)
{
	struct ky_drain_options options = {.anchor = noisy_anchor,
					   .anchor_ctx = s,
					   .chunk = test_sink_chunk,
					   .chunk_ctx = &s->stream.sink,
					   .retain = retain,
					   .hostname = "box"};

	memset(s, 0, sizeof(*s));
	s->prng.state = seed;
	test_ring_open(&s->ring, SLOTS);
	test_sink_open(&s->stream.sink);
	s->name = test_ring_name(&s->ring, "svc::task", 0, 0);
	test_ring_runtime(&s->ring, RUNTIME, 1, "main");
	options.image = s->ring.image;
	options.image_bytes = s->ring.image_bytes;
	assert_int_equal(ky_drain_open(&s->drain, &options), 0);
	s->ring.now_ns = T0;
	s->next_task = 100;
	for (uint32_t i = 0; i <= WORKERS; i++) {
		test_writer_open(&s->writers[i], &s->ring, 500 + i, T0);
		s->ring.now_ns += 50;
		/* Launched in another order than that of their tasks. */
		if (i < WORKERS)
			test_worker(&s->writers[i], s->ring.now_ns, 20 - i, RUNTIME, 900 + i);
	}
}

static void open_switched(struct script *s)
{
	struct ky_drain_options options = {.image = s->ring.image,
					   .image_bytes = s->ring.image_bytes,
					   .anchor = noisy_anchor,
					   .anchor_ctx = s,
					   .chunk = test_sink_chunk,
					   .chunk_ctx = &s->switching.sink,
					   .hostname = "box"};

	test_sink_open(&s->switching.sink);
	assert_int_equal(ky_drain_open(&s->switched, &options), 0);
}

static void close_script(struct script *s)
{
	ky_drain_close(s->drain);
	ky_drain_close(s->switched);
	if (s->switched)
		test_sink_close(&s->switching.sink);
	test_sink_close(&s->stream.sink);
	for (uint32_t i = 0; i < s->dump_count; i++)
		test_sink_close(&s->dumps[i].sink);
	test_ring_close(&s->ring);
}

/* ---- what happens ---- */

static void work(struct script *s, uint32_t at, uint64_t ns)
{
	struct test_writer *writer = &s->writers[at];
	uint32_t what = test_below(&s->prng, 20);

	if (s->has_left && at == WORKERS - 1)
		return;
	if (what < 6) {
		test_emit(writer, ns, KYMO_RECORD_WAKE, KYMO_WAKE_BY_VALUE, 1,
			  kymo_task_word(100 + test_below(&s->prng, 40), s->name), 0, 0);
	} else if (at == WORKERS) {
		return;
	} else if (what == 6) {
		test_emit(writer, ns, KYMO_RECORD_SPAWN, 0, 1,
			  kymo_task_word(s->next_task++, s->name), 0, 0);
	} else if (what == 7 && s->spans[at]) {
		test_emit(writer, ns, KYMO_RECORD_SPAN_END, 0, 2,
			  kymo_task_word(s->spans[at], s->name), test_ticks(ns - 30), 0);
		s->spans[at] = 0;
	} else if (what == 7) {
		s->spans[at] = ++s->next_span;
		test_emit(writer, ns, KYMO_RECORD_SPAN_BEGIN, 0, 2,
			  kymo_task_word(s->spans[at], s->name), 0, 0);
	} else if (writer->depth && what < 17) {
		test_poll_end(writer, ns, what == 8 ? KYMO_POLL_READY : 0);
	} else if (writer->depth < 2 && (!writer->depth || what == 17)) {
		s->tasks[at] = 100 + test_below(&s->prng, 40);
		test_poll(writer, ns, s->tasks[at], s->name);
	} else if (!writer->depth) {
		test_emit(writer, ns, KYMO_RECORD_PARK, KYMO_WAIT_FUTEX, 0, 0, 0, 0);
	}
}

static void dump(struct script *s, uint64_t from_ns, uint64_t to_ns)
{
	struct part *part = &s->dumps[s->dump_count];
	struct ky_cut_options options = {.image = s->ring.image,
					 .image_bytes = s->ring.image_bytes,
					 .from_ns = from_ns,
					 .to_ns = to_ns,
					 .anchor = noisy_anchor,
					 .anchor_ctx = s,
					 .chunk = test_sink_chunk,
					 .chunk_ctx = &part->sink,
					 .hostname = "box"};
	static struct ky_cut_report report;

	if (s->dump_count == DUMPS_MAX)
		return;
	test_sink_open(&part->sink);
	assert_int_equal(ky_cut(&options, &report), 0);
	part->byte_count = part->sink.bytes.used;
	s->dump_count++;
}

static uint64_t claim_index(const struct script *s)
{
	return atomic_load(&s->ring.header->claim_index);
}

/* A thread is stopped inside an event, stamped and not published, while a dump is made. */
static void be_late(struct script *s)
{
	struct test_writer *writer = &s->writers[test_below(&s->prng, WORKERS + 1)];
	uint64_t ns = s->ring.now_ns;

	if (!writer->sub || writer->offset + 64 > KY_SLOT_BYTES)
		return;
	test_busy(writer, true);
	s->ring.now_ns += 400;
	test_emit(&s->writers[0] == writer ? &s->writers[1] : &s->writers[0], s->ring.now_ns,
		  KYMO_RECORD_WAKE, KYMO_WAKE_BY_VALUE, 1, kymo_task_word(101, s->name), 0, 0);
	s->ring.now_ns += 400;
	dump(s, 0, 0);
	assert_int_equal(ky_drain_step(s->drain, 0), 0);
	s->ring.now_ns += 30;
	test_emit(writer, ns, KYMO_RECORD_WAKE, KYMO_WAKE_BY_VALUE, 1, kymo_task_word(102, s->name),
		  0, 0);
	s->ring.now_ns += 30;
}

/* Now and then from one mode to the other. */
static void step_switched(struct script *s)
{
	if (!s->switched)
		return;
	if (!s->is_in_flight)
		assert_int_equal(ky_drain_step(s->switched, 0), 0);
	if (test_below(&s->prng, s->is_in_flight ? 80 : 10))
		return;
	if (s->is_in_flight)
		ky_drain_resume(s->switched);
	else
		ky_drain_seal(s->switched);
	s->is_in_flight = !s->is_in_flight;
}

static void finish_switched(struct script *s)
{
	if (!s->switched)
		return;
	if (s->is_in_flight)
		ky_drain_resume(s->switched);
	assert_int_equal(ky_drain_step(s->switched, KY_DRAIN_FINAL), 0);
	assert_int_equal(ky_drain_seal(s->switched), 0);
	s->switching.byte_count = s->switching.sink.bytes.used;
}

/* is_covering: dumps follow each other before the ring comes round, so that none is between. */
static void play_on(struct script *s, uint32_t steps, bool is_covering, uint32_t dump_in)
{
	uint64_t checked = 0;

	for (uint32_t step = 0; step < steps; step++) {
		uint64_t now;

		s->ring.now_ns += 20 + test_below(&s->prng, test_below(&s->prng, 50) ? 400 : 60000);
		now = s->ring.now_ns;
		work(s, test_below(&s->prng, WORKERS + 1), now);
		if (claim_index(s) - checked > SLOTS / 4 || !test_below(&s->prng, 400)) {
			checked = claim_index(s);
			s->ring.now_ns += 30;
			assert_int_equal(ky_drain_step(s->drain, 0), 0);
			step_switched(s);
		}
		s->ring.now_ns += 30;
		if (!test_below(&s->prng, dump_in))
			be_late(s);
		if (is_covering && claim_index(s) - s->dumped_hand > SLOTS / 3) {
			s->dumped_hand = claim_index(s);
			dump(s, 0, 0);
		} else if (!test_below(&s->prng, dump_in)) {
			uint64_t back = test_below(&s->prng, 3000000);

			dump(s, now - back, back > 1000000 ? now - back / 2 : 0);
		}
	}
}

static void play_for(struct script *s, uint32_t steps, bool is_covering, uint32_t dump_in)
{
	play_on(s, steps, is_covering, dump_in);
	s->ring.now_ns += 3 * MS;
	if (is_covering)
		dump(s, 0, 0);
	assert_int_equal(ky_drain_step(s->drain, KY_DRAIN_FINAL), 0);
	assert_int_equal(ky_drain_seal(s->drain), 0);
	s->stream.byte_count = s->stream.sink.bytes.used;
	finish_switched(s);
}

static void play(struct script *s, bool is_covering, uint32_t dump_in)
{
	play_for(s, STEPS, is_covering, dump_in);
}

/* ---- what is read ---- */

struct reading {
	struct ky_byte_source sources[DUMPS_MAX + 2];
	uint32_t count;
	struct ky_trace *trace;
};

static void add(struct reading *r, const struct part *part, const char *name)
{
	assert_int_equal(ky_byte_source_memory(&r->sources[r->count++], part->sink.bytes.bytes,
					       part->byte_count, name),
			 0);
}

static void read_all(struct reading *r)
{
	struct ky_trace_options options = {.errbuf = NULL};

	assert_int_equal(ky_trace_open(&r->trace, r->sources, r->count, &options), 0);
}

static void close_reading(struct reading *r)
{
	ky_trace_close(r->trace);
	for (uint32_t i = 0; i < r->count; i++)
		if (r->sources[i].close)
			r->sources[i].close(r->sources[i].ctx);
}

static const struct ky_worker *worker_like(const struct ky_trace *trace,
					   const struct ky_worker *like)
{
	for (uint32_t i = 0; i < trace->worker_count; i++) {
		if (trace->workers[i].tid == like->tid &&
		    trace->workers[i].is_thread_lane == like->is_thread_lane &&
		    trace->workers[i].is_shared == like->is_shared &&
		    (!like->is_shared || trace->workers[i].id == like->id))
			return &trace->workers[i];
	}
	return NULL;
}

static void assert_near(uint64_t a, uint64_t b)
{
	assert_in_range(a > b ? a - b : b - a, 0, APART_NS);
}

static void compare_polls(const struct ky_trace *a, const struct ky_worker *wa,
			  const struct ky_trace *b, const struct ky_worker *wb)
{
	/* A dump of a living process knows of no end. Where the caller does not promise that it has
	 * everything, as after the last dump of a flight, lengths are not safe although right. */
	const uint32_t not_said = KY_POLL_FROM_SNAPSHOT | KY_POLL_AT_EXIT |
				  (b->loss_count ? (uint32_t)KY_POLL_GAP : 0);

	assert_int_equal(wa->poll_count, wb->poll_count);
	for (uint64_t row = 0; row < wa->poll_count; row++) {
		struct ky_poll x, y;

		ky_trace_poll(a, (uint32_t)(wa - a->workers), row, &x);
		ky_trace_poll(b, (uint32_t)(wb - b->workers), row, &y);
		assert_int_equal(a->tasks[x.task].id, b->tasks[y.task].id);
		assert_near(x.start_ns, y.start_ns);
		/* An open one lasts until it was seen so for the last time. */
		if (!(x.flags & KY_POLL_OPEN))
			assert_near(x.duration_ns, y.duration_ns);
		assert_int_equal(x.flags & ~not_said, y.flags & ~not_said);
	}
}

static void compare_wakes(const struct ky_trace *a, const struct ky_worker *wa,
			  const struct ky_trace *b, const struct ky_worker *wb)
{
	assert_int_equal(wa->wake_count, wb->wake_count);
	for (uint64_t row = 0; row < wa->wake_count; row++) {
		struct ky_wake x, y;

		ky_trace_wake(a, (uint32_t)(wa - a->workers), row, &x);
		ky_trace_wake(b, (uint32_t)(wb - b->workers), row, &y);
		assert_int_equal(a->tasks[x.woken].id, b->tasks[y.woken].id);
		assert_near(x.time_ns, y.time_ns);
	}
}

static uint64_t events_of(const struct ky_trace *trace, uint32_t event)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < trace->type_count; i++)
		count += trace->types[i].event == event ? trace->types[i].count : 0;
	return count;
}

static void compare_tasks(const struct ky_trace *a, const struct ky_trace *b)
{
	const uint32_t mask = KY_TASK_SPAWN_SEEN | KY_TASK_ENDED | KY_TASK_CANCELLED;

	assert_int_equal(a->task_count, b->task_count);
	for (uint32_t i = 0; i < a->task_count; i++) {
		const struct ky_task *x = &a->tasks[i], *y;
		uint32_t at = ky_trace_task(b, x->id);

		assert_int_not_equal(at, KY_NONE);
		y = &b->tasks[at];
		assert_int_equal(x->flags & mask, y->flags & mask);
		assert_int_equal(x->poll_count, y->poll_count);
		assert_int_equal(x->wake_count, y->wake_count);
	}
}

static void compare(const struct ky_trace *a, const struct ky_trace *b)
{
	static const uint32_t events[] = {KY_EV_POLL_START,  KY_EV_POLL_END,   KY_EV_WAKE,
					  KY_EV_WORKER_PARK, KY_EV_TASK_SPAWN, KY_EV_TASK_TERMINATE,
					  KY_EV_SPAN_ENTER,  KY_EV_SPAN_EXIT};

	assert_int_equal(a->polls, b->polls);
	assert_int_equal(a->wakes, b->wakes);
	assert_int_equal(a->parks, b->parks);
	assert_int_equal(b->lost_records, 0);
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		assert_int_equal(events_of(a, events[i]), events_of(b, events[i]));
	for (uint32_t i = 0; i < a->worker_count; i++) {
		const struct ky_worker *mine = &a->workers[i], *other = worker_like(b, mine);

		if (!mine->poll_count && !mine->wake_count)
			continue;
		assert_non_null(other);
		compare_polls(a, mine, b, other);
		compare_wakes(a, mine, b, other);
	}
	compare_tasks(a, b);
	if (!b->loss_count)
		assert_int_equal(a->delays_measured, b->delays_measured);
}

/* The event stream leaves out the same. */
static void compare_stream(struct reading *r)
{
	struct ky_event_stream *stream;
	const struct ky_event *event;
	uint64_t polls = 0, last_ns = 0;

	assert_int_equal(ky_event_stream_open(&stream, r->sources, r->count, NULL), 0);
	while (ky_event_stream_next(stream, &event) == 1) {
		polls += event->schema->event == KY_EV_POLL_START;
		assert_true(!event->timestamp_ns || event->timestamp_ns >= last_ns);
		if (event->timestamp_ns)
			last_ns = event->timestamp_ns;
	}
	assert_int_equal(polls, events_of(r->trace, KY_EV_POLL_START));
	ky_event_stream_close(stream);
}

static void read_whole(struct script *s, struct reading *whole)
{
	memset(whole, 0, sizeof(*whole));
	add(whole, &s->stream, "stream");
	read_all(whole);
	assert_int_equal(whole->trace->lost_records, 0);
	assert_int_equal(whole->trace->copy_count, 0);
	assert_true(whole->trace->polls > 500);
}

/* In an order of its own. */
static void add_dumps(struct script *s, struct reading *r)
{
	uint32_t first = test_below(&s->prng, s->dump_count);

	for (uint32_t i = 0; i < s->dump_count; i++)
		add(r, &s->dumps[(first + i) % s->dump_count], "dump");
}

static uint64_t seed_of(uint32_t round)
{
	return UINT64_C(0x5eed0000) + round;
}

static void copies__of_a_stream_in_dumps_count_once(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 12; round++) {
		struct reading whole, both = {.count = 0};
		static struct script s;

		open_script(&s, seed_of(round), NULL);
		play(&s, round % 2, 900);
		assert_true(s.dump_count > 2);
		read_whole(&s, &whole);
		if (round % 3)
			add(&both, &s.stream, "stream");
		add_dumps(&s, &both);
		if (!(round % 3))
			add(&both, &s.stream, "stream");
		read_all(&both);
		compare(whole.trace, both.trace);
		assert_true(both.trace->copy_count > 0);
		assert_int_equal(both.trace->unrecorded_count, 0);
		compare_stream(&both);
		close_reading(&both);
		close_reading(&whole);
		close_script(&s);
	}
}

static void copies__of_dumps_that_overlap_count_once(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 12; round++) {
		struct reading whole, dumps = {.count = 0};
		static struct script s;

		open_script(&s, seed_of(100 + round), NULL);
		play(&s, true, 1500);
		read_whole(&s, &whole);
		add_dumps(&s, &dumps);
		read_all(&dumps);
		compare(whole.trace, dumps.trace);
		assert_true(dumps.trace->copy_count > 0);
		assert_int_equal(dumps.trace->unrecorded_count, 0);
		compare_stream(&dumps);
		close_reading(&dumps);
		close_reading(&whole);
		close_script(&s);
	}
}

static void copies__of_a_stream_that_was_cut_off_end_where_it_does(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 12; round++) {
		struct reading whole, both = {.count = 0};
		static struct script s;
		size_t chunk;

		open_script(&s, seed_of(200 + round), NULL);
		play(&s, true, 1500);
		read_whole(&s, &whole);
		chunk = 1 + test_below(&s.prng, (uint32_t)s.stream.sink.chunk_count - 1);
		s.stream.byte_count = s.stream.sink.chunks[chunk].offset;
		add_dumps(&s, &both);
		add(&both, &s.stream, "stream");
		read_all(&both);
		compare(whole.trace, both.trace);
		close_reading(&both);
		close_reading(&whole);
		close_script(&s);
	}
}

static void copies__of_what_a_stream_left_to_flight_come_from_dumps(void **state)
{
	bool has_flown = false;

	(void)state;
	for (uint32_t round = 0; round < 12; round++) {
		struct reading whole, both = {.count = 0};
		struct ky_drain_stats stats;
		static struct script s;

		open_script(&s, seed_of(500 + round), NULL);
		open_switched(&s);
		play_for(&s, 6 * STEPS, true, 1u << 30); /* the ring comes round in flight */
		assert_true(s.dump_count < DUMPS_MAX);
		ky_drain_stats(s.switched, &stats);
		has_flown |= stats.records_flown > 0;
		read_whole(&s, &whole);
		add_dumps(&s, &both);
		add(&both, &s.switching, "stream");
		read_all(&both);
		compare(whole.trace, both.trace);
		close_reading(&both);
		close_reading(&whole);
		close_script(&s);
	}
	assert_true(has_flown);
}

/* The first in the order of launches: a dump that does not know of it numbers the others anew. */
static void end_worker(struct script *s)
{
	struct test_writer *writer = &s->writers[WORKERS - 1];

	while (writer->depth) {
		s->ring.now_ns += 30;
		test_poll_end(writer, s->ring.now_ns, 0);
	}
	s->ring.now_ns += 30;
	test_writer_exit(writer, s->ring.now_ns, false);
	s->has_left = true;
}

static void copies__of_workers_that_dumps_number_anew_count_for_the_same(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 6; round++) {
		struct reading whole, both = {.count = 0};
		static struct script s;
		size_t chunk;

		open_script(&s, seed_of(600 + round), NULL);
		play_on(&s, STEPS, false, 1u << 30);
		end_worker(&s);
		play_on(&s, 5 * STEPS, false, 1u << 30); /* the ring comes round */
		dump(&s, 0, 0);
		s.dumped_hand = claim_index(&s);
		chunk = s.stream.sink.chunk_count + 1; /* after the one that is open now */
		play(&s, true, 1u << 30);
		read_whole(&s, &whole);
		assert_true(chunk < s.stream.sink.chunk_count);
		chunk += test_below(&s.prng, (uint32_t)(s.stream.sink.chunk_count - chunk));
		s.stream.byte_count = s.stream.sink.chunks[chunk].offset;
		add_dumps(&s, &both);
		add(&both, &s.stream, "stream");
		read_all(&both);
		compare(whole.trace, both.trace);
		close_reading(&both);
		close_reading(&whole);
		close_script(&s);
	}
}

static void copies__leave_the_counts_of_a_policy_exact(void **state)
{
	struct ky_retain_policy policy = {.rules = {[KY_RETAIN_POLL] = {.threshold_ns = 1000},
						    [KY_RETAIN_WAKE] = {.threshold_ns = 100000}}};

	(void)state;
	for (uint32_t round = 0; round < 6; round++) {
		struct reading whole, both = {.count = 0};
		static struct script s;

		open_script(&s, seed_of(300 + round), &policy);
		play(&s, false, 700);
		read_whole(&s, &whole);
		assert_true(whole.trace->counted[KY_COUNTED_POLL] > 0);
		add_dumps(&s, &both);
		add(&both, &s.stream, "stream");
		read_all(&both);
		compare(whole.trace, both.trace);
		assert_int_equal(whole.trace->counted[KY_COUNTED_POLL],
				 both.trace->counted[KY_COUNTED_POLL]);
		assert_int_equal(whole.trace->counted[KY_COUNTED_WAKE],
				 both.trace->counted[KY_COUNTED_WAKE]);
		close_reading(&both);
		close_reading(&whole);
		close_script(&s);
	}
}

static void copies__tell_what_lies_between_two_dumps(void **state)
{
	struct reading dumps = {.count = 0};
	static struct script s;

	(void)state;
	open_script(&s, seed_of(400), NULL);
	play(&s, false, 1u << 30);
	assert_int_equal(s.dump_count, 0);
	dump(&s, 0, 0);
	for (int i = 0; i < 4; i++) /* the ring comes round */
		play(&s, false, 1u << 30);
	dump(&s, 0, 0);
	add_dumps(&s, &dumps);
	read_all(&dumps);
	assert_int_equal(dumps.trace->unrecorded_count, 1);
	assert_int_equal(dumps.trace->lost_records, 0);
	close_reading(&dumps);
	close_script(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies__of_a_stream_in_dumps_count_once),
		cmocka_unit_test(copies__of_dumps_that_overlap_count_once),
		cmocka_unit_test(copies__of_a_stream_that_was_cut_off_end_where_it_does),
		cmocka_unit_test(copies__of_what_a_stream_left_to_flight_come_from_dumps),
		cmocka_unit_test(copies__of_workers_that_dumps_number_anew_count_for_the_same),
		cmocka_unit_test(copies__leave_the_counts_of_a_policy_exact),
		cmocka_unit_test(copies__tell_what_lies_between_two_dumps),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("copies", tests, NULL, NULL);
}
