/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Cuts of rings: whole, of a range, of a dead process; what they report and what they refuse. */
#include "../../lib/alloc_fail.h"
#include "../../lib/cut_case.h"
#include "../../lib/prng.h"

#include <errno.h>
#include <kymo/base.h>
#include <kymo/recorder.h>
#include <sys/mman.h>

#define SECOND (1000 * MS)
#define WRITERS 3u
#define TASKS 12u

/* ---- a range is the full trace filtered ---- */

struct script {
	struct test_writer writers[WRITERS];
	uint64_t stack[WRITERS][8];
	bool is_parked[WRITERS];
	uint64_t ns;
	uint64_t next_task;
	uint32_t name;
};

static void script_begin(struct cut_case *c, struct script *script)
{
	memset(script, 0, sizeof(*script));
	script->ns = T0;
	script->next_task = 100;
	script->name = test_ring_name(&c->ring, "svc::handler", 0, 0);
	test_ring_runtime(&c->ring, 0x7000, KYMO_RUNTIME_MULTI_THREAD, "main");
	for (uint32_t i = 0; i < WRITERS; i++) {
		test_writer_open(&script->writers[i], &c->ring, 501 + i, script->ns);
		test_worker(&script->writers[i], script->ns += 1000, 10 + i, 0x7000, 0x100 + i);
	}
}

/* One thing that a runtime does; all times differ. */
static void script_turn(struct script *script, struct test_prng *prng)
{
	uint32_t i = test_below(prng, WRITERS);
	struct test_writer *w = &script->writers[i];
	uint64_t ns = script->ns += 1000 + test_below(prng, 2000000);
	uint64_t task = 100 + test_below(prng, TASKS);

	if (script->is_parked[i]) {
		test_emit(w, ns, KYMO_RECORD_UNPARK, 1, 0, 0, 0, 0);
		script->is_parked[i] = false;
		return;
	}
	switch (test_below(prng, 8)) {
	case 0:
		test_emit(w, ns, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(task, 0), 0, 0);
		break;
	case 1:
		task = 1000 + script->next_task++;
		test_emit(w, ns, KYMO_RECORD_SPAWN, 0, 1, kymo_task_word(task, script->name), 0, 0);
		break;
	case 2:
		if (w->depth)
			break;
		test_emit(w, ns, KYMO_RECORD_PARK, KYMO_WAIT_EPOLL, 0, 0, 0, 0);
		script->is_parked[i] = true;
		break;
	case 3:
	case 4:
		if (w->depth < 3)
			test_poll(w, ns, task, script->name);
		break;
	default:
		if (w->depth)
			test_poll_end(w, ns, test_below(prng, 4) ? 0 : KYMO_POLL_READY);
		break;
	}
}

/* What stands for something that happened, not for the state of things. */
static bool is_happening(uint32_t event)
{
	switch (event) {
	case KY_EV_POLL_START:
	case KY_EV_POLL_END:
	case KY_EV_NESTED_POLL_START:
	case KY_EV_NESTED_POLL_END:
	case KY_EV_WAKE:
	case KY_EV_TASK_SPAWN:
	case KY_EV_TASK_FIRST_SEEN:
	case KY_EV_TASK_TERMINATE:
	case KY_EV_WORKER_PARK:
	case KY_EV_WORKER_UNPARK:
		return true;
	default:
		return false;
	}
}

static uint32_t text_field(uint32_t event)
{
	switch (event) {
	case KY_EV_POLL_START:
		return KY_F_POLL_START_spawn_loc;
	case KY_EV_NESTED_POLL_START:
		return KY_F_NESTED_POLL_START_spawn_loc;
	case KY_EV_TASK_SPAWN:
		return KY_F_TASK_SPAWN_spawn_loc;
	case KY_EV_TASK_FIRST_SEEN:
		return KY_F_TASK_FIRST_SEEN_spawn_loc;
	default:
		return TEST_FIELDS_MAX;
	}
}

static void assert_same(const struct test_event *a, const struct test_event *b)
{
	uint32_t pooled = text_field(a->event);

	assert_int_equal(a->event, b->event);
	assert_int_equal(a->ns, b->ns);
	for (uint32_t i = 0; i < TEST_FIELDS_MAX; i++) {
		assert_int_equal(a->is_present[i], b->is_present[i]);
		if (i != pooled) /* its number is the pool's */
			assert_int_equal(a->number[i], b->number[i]);
		else
			assert_string_equal(a->text[i] ? a->text[i] : "",
					    b->text[i] ? b->text[i] : "");
	}
}

/* The next thing that happened in [from, to], from *at on. */
static const struct test_event *next_in(const struct test_sink *sink, size_t *at, uint64_t from,
					uint64_t to)
{
	while (*at < sink->event_count) {
		const struct test_event *event = &sink->events[(*at)++];

		if (is_happening(event->event) && event->ns >= from && event->ns <= to)
			return event;
	}
	return NULL;
}

static void assert_range(const struct test_sink *full, const struct test_sink *part, uint64_t from,
			 uint64_t to)
{
	size_t at_full = 0, at_part = 0;

	for (;;) {
		const struct test_event *a = next_in(full, &at_full, from, to);
		const struct test_event *b = next_in(part, &at_part, 0, UINT64_MAX);

		assert_true((a == NULL) == (b == NULL));
		if (!a)
			return;
		assert_same(a, b);
	}
}

/* Outer polls open just before `ns`, by the full trace: start by worker, 0 none. */
static void open_before(const struct test_sink *full, uint64_t ns, uint64_t *starts)
{
	memset(starts, 0, 8 * sizeof(*starts));
	for (size_t i = 0; i < full->event_count; i++) {
		const struct test_event *event = &full->events[i];

		if (event->ns >= ns || !is_happening(event->event))
			continue;
		if (event->event == KY_EV_POLL_START)
			starts[NUMBER(event, POLL_START, worker_id)] = event->ns;
		if (event->event == KY_EV_POLL_END)
			starts[NUMBER(event, POLL_END, worker_id)] = 0;
	}
}

static void assert_open(const struct test_sink *part, uint64_t chunk, const uint64_t *starts)
{
	uint64_t reported[8] = {0};

	for (size_t i = 0; i < part->event_count; i++) {
		const struct test_event *event = &part->events[i];

		if (event->event != KY_EV_OPEN_POLL || event->chunk != chunk ||
		    NUMBER(event, OPEN_POLL, depth))
			continue;
		assert_int_equal(NUMBER(event, OPEN_POLL, is_at_exit), 0);
		reported[NUMBER(event, OPEN_POLL, worker_id)] = NUMBER(event, OPEN_POLL, start_ns);
	}
	assert_memory_equal(reported, starts, sizeof(reported));
}

#define IDS 8192u

/* Tasks written, by spawn or first sight, and not ended before `ns`. */
static size_t alive_before(const struct test_sink *full, uint64_t ns, bool *is_alive)
{
	size_t count = 0;

	memset(is_alive, 0, IDS);
	for (size_t i = 0; i < full->event_count; i++) {
		const struct test_event *event = &full->events[i];

		if (event->ns >= ns || event->number[0] >= IDS)
			continue;
		if (event->event == KY_EV_TASK_SPAWN || event->event == KY_EV_TASK_FIRST_SEEN)
			is_alive[event->number[0]] = true;
		else if (event->event == KY_EV_TASK_TERMINATE)
			is_alive[event->number[0]] = false;
	}
	for (size_t i = 0; i < IDS; i++)
		count += is_alive[i];
	return count;
}

static void assert_snapshot(const struct test_sink *full, const struct test_sink *part,
			    uint64_t from)
{
	static bool is_alive[IDS];
	size_t count = alive_before(full, from, is_alive);
	size_t reported = test_sink_count(part, KY_EV_LIVE_TASK);

	assert_int_equal(reported, count);
	assert_int_equal(NUMBER(test_sink_find(part, KY_EV_LIVE_TASKS, 0), LIVE_TASKS, alive_count),
			 count);
	for (size_t i = 0; i < reported; i++)
		assert_true(is_alive[NUMBER(test_sink_find(part, KY_EV_LIVE_TASK, i), LIVE_TASK,
					    task_id)]);
	assert_int_equal(test_sink_count(part, KY_EV_WORKER), WRITERS);
	assert_int_equal(test_sink_count(part, KY_EV_THREAD), WRITERS);
	assert_int_equal(test_sink_count(part, KY_EV_RUNTIME), 1);
}

static uint64_t last_chunk(const struct test_sink *sink)
{
	return sink->events[sink->event_count - 1].chunk;
}

static void cut__range_is_the_full_trace_filtered_with_a_true_snapshot(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct test_prng prng = {seed};
		static struct cut_case full, part;
		struct script script;
		uint64_t from, to, starts[8];

		cut_open(&full, 64);
		script_begin(&full, &script);
		for (int i = 0; i < 3000; i++)
			script_turn(&script, &prng);
		cut_take(&full, script.ns + MS);
		part = full;
		test_sink_open(&part.sink);
		from = T0 + SECOND / 20 + test_random(&prng) % (script.ns - T0 - SECOND / 10);
		to = from + test_random(&prng) % (script.ns - from);
		part.options.chunk_ctx = &part.sink;
		part.options.from_ns = from;
		part.options.to_ns = to;
		cut_take(&part, script.ns + MS);
		assert_range(&full.sink, &part.sink, from, to);
		assert_snapshot(&full.sink, &part.sink, from);
		open_before(&full.sink, from, starts);
		assert_open(&part.sink, 0, starts);
		open_before(&full.sink, to + 1, starts);
		assert_open(&part.sink, last_chunk(&part.sink), starts);
		assert_int_equal(part.report.records_lost, 0);
		assert_true(part.report.oldest_ns >= from);
		assert_true(part.report.newest_ns <= to);
		test_sink_close(&part.sink);
		cut_close(&full);
	}
}

static void cut__whole_ring_equals_its_drain(void **state)
{
	struct test_prng prng = {99};
	struct drain_case drained;
	static struct cut_case c;
	struct script script;
	size_t at_drain = 0, at_cut = 0;

	(void)state;
	cut_open(&c, 64);
	script_begin(&c, &script);
	for (int i = 0; i < 3000; i++)
		script_turn(&script, &prng);
	cut_take(&c, script.ns + MS);
	memset(&drained, 0, sizeof(drained));
	drained.ring = c.ring;
	test_sink_open(&drained.sink);
	drained.options = (struct ky_drain_options){.image = c.ring.image,
						    .image_bytes = c.ring.image_bytes,
						    .anchor = test_ring_anchor,
						    .anchor_ctx = &drained.ring,
						    .chunk = test_sink_chunk,
						    .chunk_ctx = &drained.sink};
	case_start(&drained);
	case_finish(&drained, script.ns + MS);
	for (;;) {
		const struct test_event *a = next_in(&drained.sink, &at_drain, 0, UINT64_MAX);
		const struct test_event *b = next_in(&c.sink, &at_cut, 0, UINT64_MAX);

		assert_true((a == NULL) == (b == NULL));
		if (!a)
			break;
		assert_same(a, b);
	}
	assert_true(at_cut > 2000);
	ky_drain_close(drained.drain);
	test_sink_close(&drained.sink);
	cut_close(&c);
}

/* A stream wrote the first poll and the begin of the second; what that record brings along, here
 * its task's first sight, is not written again. */
static void cut__after_a_stream_repeats_nothing(void **state)
{
	static struct cut_case c;
	struct test_writer w;

	(void)state;
	cut_begin(&c, &w, 16);
	test_poll(&w, T0 + 10000, 1, 0);
	test_poll_end(&w, T0 + 15000, 0);
	test_poll(&w, T0 + 20000, 2, 0);
	test_poll_end(&w, T0 + 25000, 0);
	c.options.from_ticks = test_ticks(T0 + 20000);
	c.options.from_ties = 1;
	cut_take(&c, T0 + MS);
	assert_int_equal(COUNT(&c, POLL_START), 0);
	assert_int_equal(COUNT(&c, POLL_END), 1);
	c.options.from_ties = 0;
	cut_take(&c, T0 + MS);
	assert_int_equal(COUNT(&c, POLL_START), 1);
	cut_close(&c);
}

/* ---- the horizon ---- */

static void cut__overwritten_records_are_a_horizon_and_no_loss(void **state)
{
	static struct cut_case c;
	struct test_writer w, other;
	const struct ky_sub_buffer *sub;
	const struct test_event *loss;
	uint64_t ns, age;

	(void)state;
	cut_begin(&c, &w, 16);
	test_writer_open(&other, &c.ring, 502, T0);
	ns = cut_polls(&other, &c.ring, T0, 1000);
	ns = cut_polls(&w, &c.ring, ns, 10000);
	/* Its open sub-buffer is never overwritten; once closed it is, five claims later. */
	while (atomic_load(&c.ring.header->claim_index) % 16 != (other.slot + 11) % 16)
		ns = cut_polls(&w, &c.ring, ns, 10);
	for (sub = other.sub; other.sub == sub;)
		ns = cut_polls(&other, &c.ring, ns, 10);
	ns = cut_polls(&w, &c.ring, ns, 2200);
	c.options.from_ns = T0 + 1;
	cut_take(&c, ns + MS);
	assert_int_equal(c.report.records_lost, 0);
	/* One thread is there from the first on; the other's first sub-buffers are gone. */
	assert_int_equal(COUNT(&c, LOSS), 1);
	loss = EVENT(&c, LOSS, 0);
	assert_string_equal(TEXT(loss, LOSS, cause), "horizon");
	assert_int_equal(NUMBER(loss, LOSS, tid), 502);
	assert_int_equal(NUMBER(loss, LOSS, record_count), 0);
	assert_int_equal(NUMBER(loss, LOSS, is_exact), 0);
	/* 16 sub-buffers of some 330 polls, 10 us each. */
	age = c.report.age_ns;
	assert_in_range(age, 35 * MS, 60 * MS);
	assert_int_equal(c.report.ring_bytes, 16 * KY_SLOT_BYTES);
	assert_int_equal(c.report.ring_bytes_used, c.report.ring_bytes);
	/* Asked for three times as much: less than one MiB, but whole ones. */
	assert_int_equal(c.report.ring_bytes_needed, 1 << 20);
	assert_int_equal(strtoull(cut_metadata(&c, "flight.age_ns"), NULL, 10), age);
	c.options.from_ns = ns - 10 * MS;
	cut_take(&c, ns + MS);
	assert_int_equal(c.report.ring_bytes_needed, 0);
	assert_int_equal(COUNT(&c, LOSS), 0);
	cut_close(&c);
}

static void cut__poll_that_began_before_the_horizon_keeps_its_start(void **state)
{
	static struct cut_case c;
	struct test_writer w;
	const struct test_event *open;
	uint64_t ns;

	(void)state;
	cut_begin(&c, &w, 8);
	test_poll(&w, T0, 77, test_ring_name(&c.ring, "svc::stuck", 0, 0));
	ns = cut_polls(&w, &c.ring, T0 + MS, 9000);
	cut_take(&c, ns + 5 * SECOND);
	open = EVENT(&c, OPEN_POLL, 0);
	assert_int_equal(NUMBER(open, OPEN_POLL, task_id), 77);
	assert_in_range(NUMBER(open, OPEN_POLL, start_ns), T0 - 1, T0 + 1);
	/* Nothing in the trace lies before the ring's own records. */
	assert_true(c.report.oldest_ns > T0 + 10 * MS);
	assert_int_equal(c.report.open_poll_count, 1);
	assert_int_equal(c.report.open_polls[0].task, 77);
	assert_string_equal(c.report.open_polls[0].name, "svc::stuck");
	/* A living process: it is open until the clock was read. */
	assert_in_range(c.report.newest_ns, ns + 5 * SECOND - 10, ns + 5 * SECOND + 10);
	cut_close(&c);
}

static void cut__workers_are_known_although_the_ring_has_overwritten_their_begin(void **state)
{
	static struct cut_case c;
	struct test_writer w[3];
	uint64_t ns = T0;

	(void)state;
	cut_open(&c, 16);
	test_ring_runtime(&c.ring, 0x7000, KYMO_RUNTIME_MULTI_THREAD, "main");
	for (uint32_t i = 0; i < 3; i++) {
		test_writer_open(&w[i], &c.ring, 501 + i, ns);
		/* The runtime's third worker is the first to begin. */
		test_worker(&w[i], ns += 1000, 12 - i, 0x7000, 0x100 + i);
	}
	for (uint32_t n = 0; n < 3000; n++)
		ns = cut_polls(&w[n % 3], &c.ring, ns, 5);
	cut_take(&c, ns + MS);
	assert_int_equal(COUNT(&c, RUNTIME), 1);
	assert_int_equal(COUNT(&c, WORKER), 3);
	for (size_t i = 0; i < 3; i++) {
		const struct test_event *worker = EVENT(&c, WORKER, i);

		assert_true(worker->is_present[KY_F_WORKER_runtime_id]);
		assert_int_equal(NUMBER(worker, WORKER, worker_index),
				 2 - (NUMBER(worker, WORKER, tid) - 501));
		assert_int_equal(NUMBER(worker, WORKER, is_exact), 1);
	}
	cut_close(&c);
}

/* ---- the dead ---- */

static int no_clock(void *ctx, struct ky_clock_anchor *out)
{
	(void)ctx;
	(void)out;
	fail_msg("a dead ring has nothing to do with this machine's clocks");
	return -1;
}

static void cut__dead_ring_is_timed_by_its_own_clock_readings(void **state)
{
	static struct cut_case c;
	struct test_writer w, stuck, pool; /* the last runs a worker's whole life */
	uint64_t ns;
	uint32_t launch;

	(void)state;
	cut_open(&c, 64);
	c.ring.header->ticks_per_second = 2600000000u; /* 4 % wrong */
	test_writer_open(&pool, &c.ring, 503, T0);
	launch = test_ring_name(&c.ring, "tokio::worker::Launch::launch::{{closure}}", 0, 0);
	test_emit(&pool, T0, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(3, launch), 0, 0);
	test_writer_open(&w, &c.ring, 501, T0);
	test_writer_open(&stuck, &c.ring, 502, T0);
	test_poll(&stuck, T0, 7, test_ring_name(&c.ring, "svc::hangs", 0, 0));
	ns = cut_polls(&w, &c.ring, T0 + MS, 12000);
	test_poll(&w, ns, 8, 0);
	/* Its last record comes an hour after the last reading of the clock. */
	test_emit(&w, ns + 3600 * SECOND, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(1, 0), 0, 0);
	c.options.is_dead = true;
	c.options.anchor = no_clock;
	cut_take(&c, 1);
	assert_in_range(EVENT(&c, POLL_START, 0)->ns, T0 - 1, T0 + 1);
	assert_in_range(EVENT(&c, POLL_START, COUNT(&c, POLL_START) - 1)->ns, ns - 50, ns + 50);
	assert_in_range(EVENT(&c, WAKE, 0)->ns, ns + 3600 * SECOND - MS, ns + 3600 * SECOND + MS);
	assert_int_equal(c.report.open_poll_count, 3);
	assert_int_equal(c.report.open_polls[0].task, 7);
	assert_int_equal(c.report.open_polls[0].tid, 502);
	assert_string_equal(c.report.open_polls[0].name, "svc::hangs");
	assert_int_equal(c.report.open_polls[1].task, 8);
	assert_int_equal(c.report.open_polls[2].task, 3); /* older, and no finding */
	assert_int_equal(c.report.newest_ns, EVENT(&c, WAKE, 0)->ns);
	assert_string_equal(cut_metadata(&c, "process.end"), "unknown");
	for (size_t i = COUNT(&c, OPEN_POLL) - 3; i < COUNT(&c, OPEN_POLL); i++) {
		const struct test_event *open = EVENT(&c, OPEN_POLL, i);

		assert_int_equal(NUMBER(open, OPEN_POLL, is_at_exit), 1);
		assert_int_equal(open->ns, c.report.newest_ns);
	}
	cut_close(&c);
}

static void cut__readings_that_contradict_the_others_are_left_out(void **state)
{
	static struct cut_case c;
	struct test_writer w;
	uint64_t ns;

	(void)state;
	cut_begin(&c, &w, 64);
	ns = cut_polls(&w, &c.ring, T0, 12000);
	test_ring_slot(&c.ring, 0)->anchor.monotonic_ns = UINT64_MAX / 8;
	test_ring_slot(&c.ring, 9)->anchor.monotonic_ns = 5;
	test_ring_slot(&c.ring, 20)->anchor.ticks_before += UINT64_C(1) << 50;
	test_ring_slot(&c.ring, 21)->anchor.ticks_after = 0;
	c.options.is_dead = true;
	cut_take(&c, 1);
	assert_in_range(EVENT(&c, POLL_START, 0)->ns, T0 - 50, T0 + 50);
	assert_in_range(c.report.newest_ns, ns - 5100, ns - 4900);
	assert_int_equal(COUNT(&c, POLL_START), 12000);
	cut_close(&c);
}

static void cut__process_end_is_written_as_far_as_it_is_known(void **state)
{
	static struct cut_case c;
	struct test_writer w;
	uint64_t ns;

	(void)state;
	cut_begin(&c, &w, 8);
	ns = cut_polls(&w, &c.ring, T0, 10);
	c.options.is_dead = true;
	c.ring.side->end.code = 9;
	c.ring.side->end.monotonic_ns = ns + 3 * SECOND;
	atomic_store(&c.ring.side->end.kind, KY_END_SIGNAL);
	cut_take(&c, 1);
	assert_string_equal(cut_metadata(&c, "process.end"), "signal 9 (SIGKILL)");
	assert_int_equal(c.report.newest_ns, ns + 3 * SECOND);
	c.ring.side->end.oom = KY_OOM_NAMED;
	cut_take(&c, 1);
	assert_string_equal(cut_metadata(&c, "process.end"), "signal 9 (SIGKILL), out of memory");
	c.ring.side->end.code = 40;
	c.ring.side->end.oom = KY_OOM_COUNTED;
	cut_take(&c, 1);
	assert_string_equal(cut_metadata(&c, "process.end"), "signal 40, probably out of memory");
	c.ring.side->end.oom = KY_OOM_NONE;
	c.ring.side->end.has_core = 1;
	c.ring.side->end.monotonic_ns = UINT64_MAX;
	cut_take(&c, 1);
	assert_string_equal(cut_metadata(&c, "process.end"), "signal 40, core dumped");
	assert_true(c.report.newest_ns < ns);
	c.ring.side->end.code = 1;
	atomic_store(&c.ring.side->end.kind, KY_END_EXIT);
	cut_take(&c, 1);
	assert_string_equal(cut_metadata(&c, "process.end"), "exit status 1");
	c.options.is_dead = false;
	cut_take(&c, ns + MS);
	assert_null(cut_metadata(&c, "process.end"));
	cut_close(&c);
}

/* ---- the living ---- */

static void cut__nothing_is_written_to_the_image(void **state)
{
	static struct cut_case c;
	struct test_writer w;
	uint8_t *fixed;
	uint64_t ns;

	(void)state;
	cut_begin(&c, &w, 16);
	ns = cut_polls(&w, &c.ring, T0, 9000);
	fixed = mmap(NULL, c.ring.image_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	assert_ptr_not_equal(fixed, MAP_FAILED);
	memcpy(fixed, c.ring.image, c.ring.image_bytes);
	mprotect(fixed, c.ring.image_bytes, PROT_READ);
	c.options.image = fixed;
	cut_take(&c, ns + MS);
	assert_true(COUNT(&c, POLL_START) > 4000);
	munmap(fixed, c.ring.image_bytes);
	cut_close(&c);
}

static void cut__copies_no_more_than_its_limit(void **state)
{
	static struct cut_case c;
	struct test_writer w, idle;
	uint64_t ns;
	size_t all;

	(void)state;
	cut_open(&c, 32);
	test_writer_open(&idle, &c.ring, 502, T0);
	test_poll(&idle, T0, 9, 0);
	test_writer_open(&w, &c.ring, 501, T0);
	ns = cut_polls(&w, &c.ring, T0, 9000);
	cut_take(&c, ns + MS);
	all = COUNT(&c, POLL_START);
	c.options.copy_bytes_max = 8 * KY_SLOT_BYTES;
	cut_take(&c, ns + MS);
	assert_true(COUNT(&c, POLL_START) < all / 2);
	assert_true(c.report.bytes_copied <= 9 * KY_SLOT_BYTES);
	/* The newest, and whatever is open. */
	assert_in_range(EVENT(&c, POLL_START, COUNT(&c, POLL_START) - 1)->ns, ns - 10010,
			ns - 9990);
	assert_int_equal(c.report.open_polls[0].task, 9);
	cut_close(&c);
}

/* ---- texts and trouble ---- */

static void cut__pairs_of_the_caller_win_over_those_of_the_ring(void **state)
{
	static const struct ky_cut_pair pairs[] = {{"dump.reason", "by \xff hand"},
						   {"app.version", "2"}};
	static struct cut_case c;
	struct test_writer w;

	(void)state;
	cut_open(&c, 8);
	test_ring_metadata(&c.ring, "app.version", "1");
	test_writer_open(&w, &c.ring, 501, T0);
	cut_polls(&w, &c.ring, T0, 10);
	c.options.pairs = pairs;
	c.options.pair_count = 2;
	cut_take(&c, T0 + SECOND);
	assert_string_equal(cut_metadata(&c, "dump.reason"), "by ? hand");
	assert_string_equal(cut_metadata(&c, "app.version"), "2");
	assert_string_equal(cut_metadata(&c, "kymo.mode"), "stream");
	c.ring.header->flags |= KY_RING_FLIGHT;
	cut_take(&c, T0 + SECOND);
	assert_string_equal(cut_metadata(&c, "kymo.mode"), "flight");
	atomic_store(&c.ring.control->settings.mode, KY_RING_MODE_STREAM);
	atomic_store(&c.ring.control->settings.generation, 2);
	cut_take(&c, T0 + SECOND);
	assert_string_equal(cut_metadata(&c, "kymo.mode"), "stream");
	cut_close(&c);
}

static void cut__ring_without_a_record_gives_a_trace(void **state)
{
	static struct cut_case c;

	(void)state;
	cut_open(&c, 8);
	cut_take(&c, T0);
	assert_int_equal(COUNT(&c, SEGMENT_METADATA), 2);
	assert_int_equal(COUNT(&c, SEGMENT_INDEX), 1);
	assert_int_equal(c.report.records_read, 0);
	/* A range in which nothing happened, likewise. */
	c.options.from_ns = T0 - 2 * MS;
	c.options.to_ns = T0 - MS;
	cut_take(&c, T0);
	assert_int_equal(COUNT(&c, SEGMENT_INDEX), 1);
	assert_in_range(c.report.newest_ns, T0 - 2 * MS, T0 - MS);
	cut_close(&c);
}

static void cut__returns_why_an_image_is_no_ring(void **state)
{
	static struct cut_case c;

	(void)state;
	cut_open(&c, 8);
	c.options.image_bytes = 4;
	assert_int_equal(ky_cut(&c.options, &c.report), KYMO_E_TRUNCATED);
	c.options.image_bytes = c.ring.image_bytes;
	c.ring.header->version = 99;
	assert_int_equal(ky_cut(&c.options, &c.report), KYMO_E_VERSION);
	c.ring.header->version = KY_RING_VERSION;
	/* Cut off before its directory: the place of what is not there is never computed. */
	c.ring.header->directory_offset = UINT64_MAX - 7;
	cut_take(&c, T0);
	assert_int_equal(c.report.records_read, 0);
	atomic_store(&c.ring.header->magic, 0);
	assert_int_equal(ky_cut(&c.options, &c.report), KYMO_E_NOT_TRACE);
	cut_close(&c);
}

static int refuse(void *ctx, const struct ky_chunk *chunk)
{
	(void)ctx;
	(void)chunk;
	return -ENOSPC;
}

static void cut__returns_errors_of_the_sink_and_of_memory(void **state)
{
	static struct cut_case c;
	struct test_writer w;
	struct ky_trigger_note trigger = {.monotonic_ns = T0 + MS, .rule = "poll>1ms"};
	int err = -ENOMEM;

	(void)state;
	cut_begin(&c, &w, 8);
	cut_polls(&w, &c.ring, T0, 2000);
	c.options.triggers = &trigger;
	c.options.trigger_count = 1;
	c.options.chunk = refuse;
	assert_int_equal(ky_cut(&c.options, &c.report), -ENOSPC);
	c.options.chunk = test_sink_chunk;
	for (uint64_t n = 0; err == -ENOMEM && n < 1000; n++) {
		test_sink_close(&c.sink);
		test_sink_open(&c.sink);
		c.ring.now_ns = T0 + SECOND;
		test_alloc_fail_at(n);
		err = ky_cut(&c.options, &c.report);
		test_alloc_normal();
		assert_true(err == -ENOMEM || err == 0);
	}
	assert_int_equal(err, 0);
	cut_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut__range_is_the_full_trace_filtered_with_a_true_snapshot),
		cmocka_unit_test(cut__whole_ring_equals_its_drain),
		cmocka_unit_test(cut__after_a_stream_repeats_nothing),
		cmocka_unit_test(cut__overwritten_records_are_a_horizon_and_no_loss),
		cmocka_unit_test(cut__poll_that_began_before_the_horizon_keeps_its_start),
		cmocka_unit_test(
			cut__workers_are_known_although_the_ring_has_overwritten_their_begin),
		cmocka_unit_test(cut__dead_ring_is_timed_by_its_own_clock_readings),
		cmocka_unit_test(cut__readings_that_contradict_the_others_are_left_out),
		cmocka_unit_test(cut__process_end_is_written_as_far_as_it_is_known),
		cmocka_unit_test(cut__nothing_is_written_to_the_image),
		cmocka_unit_test(cut__copies_no_more_than_its_limit),
		cmocka_unit_test(cut__pairs_of_the_caller_win_over_those_of_the_ring),
		cmocka_unit_test(cut__ring_without_a_record_gives_a_trace),
		cmocka_unit_test(cut__returns_why_an_image_is_no_ring),
		cmocka_unit_test(cut__returns_errors_of_the_sink_and_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
