/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Chunks and segments: limits, self-containment, what a segment begins and ends with, refused
 * chunks. */
#include "../../lib/drain_case.h"

#include <errno.h>
#include <stdlib.h>
#include <wire/segment_index.h>

static uint64_t polls(struct test_writer *w, uint64_t ns, uint32_t count, uint64_t every_ns)
{
	for (uint32_t i = 0; i < count; i++) {
		test_poll(w, ns, 1 + i % 50, 0);
		test_poll_end(w, ns + every_ns / 2, 0);
		ns += every_ns;
	}
	return ns;
}

/* Each chunk alone must decode: its bytes are a whole trace. */
static size_t events_of_chunk(struct drain_case *c, size_t n, const struct test_event **first,
			      struct test_sink *out)
{
	test_sink_open(out);
	ky_buf_append(&out->bytes, c->sink.bytes.bytes + c->sink.chunks[n].offset,
		      c->sink.chunks[n].bytes);
	test_sink_decode(out);
	*first = out->event_count ? &out->events[0] : NULL;
	return out->event_count;
}

static void drain__chunks_keep_their_limits_and_stand_alone(void **state)
{
	struct drain_case c;
	struct test_writer w;
	uint64_t ns = T0, total = 0;

	(void)state;
	case_begin(&c, &w, 512);
	ns = polls(&w, ns, 30000, 1000);
	case_step(&c, ns + 10 * MS);
	ns = polls(&w, ns, 50, 100 * MS);
	case_finish(&c, ns + 10 * MS);
	assert_true(c.sink.chunk_count > 8);
	assert_true(c.sink.chunks[0].is_start);
	assert_true(c.sink.chunks[c.sink.chunk_count - 1].is_end);
	for (size_t i = 0; i < c.sink.chunk_count; i++) {
		const struct test_chunk *chunk = &c.sink.chunks[i];
		const struct test_event *first;
		struct test_sink alone;

		assert_true(chunk->bytes <= KY_CHUNK_BYTES_MAX);
		assert_true(chunk->events <= KY_CHUNK_EVENTS_MAX);
		assert_true(chunk->last_ns - chunk->first_ns <= KY_CHUNK_SPAN_MAX_NS);
		assert_int_equal(events_of_chunk(&c, i, &first, &alone), chunk->events);
		assert_int_equal(first->event, KY_EV_CLOCK_SYNC);
		assert_true(NUMBER(first, CLOCK_SYNC, realtime_ns) ==
			    first->ns + TEST_REALTIME_OFFSET);
		/* Each chunk lists what was open when it began: no end comes without that. */
		for (size_t k = 0, is_open = 0; k < alone.event_count; k++) {
			uint32_t kind = alone.events[k].event;

			assert_true(kind != KY_EV_POLL_END || is_open);
			assert_true(kind != KY_EV_POLL_START || !is_open);
			if (kind == KY_EV_OPEN_POLL || kind == KY_EV_POLL_START)
				is_open = 1;
			if (kind == KY_EV_POLL_END)
				is_open = 0;
		}
		total += chunk->events;
		test_sink_close(&alone);
	}
	assert_int_equal(total, c.sink.event_count);
	assert_int_equal(COUNT(&c, POLL_START), 30050);
	case_close(&c);
}

static bool has_pair(const struct test_event *metadata, const char *key, const char *value)
{
	const char *text = metadata->text[KY_F_SEGMENT_METADATA_entries];
	size_t count = metadata->text_bytes[KY_F_SEGMENT_METADATA_entries], key_bytes = strlen(key);

	/* length-prefixed strings: the key's bytes, u32 length, the value's bytes */
	for (size_t at = 0; at + key_bytes + 4 + strlen(value) <= count; at++) {
		if (memcmp(text + at, key, key_bytes) == 0 &&
		    memcmp(text + at + key_bytes + 4, value, strlen(value)) == 0)
			return true;
	}
	return false;
}

static void drain__segment_begins_with_everything_a_reader_needs(void **state)
{
	struct drain_case c;
	struct test_writer w, other;
	const struct test_event *event;

	(void)state;
	case_open(&c, 64);
	test_ring_metadata(&c.ring, "tokio.local_queue", "false");
	test_ring_runtime(&c.ring, 0x7000, 1, "main");
	test_ring_module(&c.ring, 0x1000, 0x2000, "/bin/app");
	atomic_store(&c.ring.side->unwatched.ns, 447000000);
	atomic_store(&c.ring.side->unwatched.late_count, 3);
	case_start(&c);
	assert_int_equal(ky_drain_metadata(c.drain, "stage", "prod"), 0);
	test_writer_open(&w, &c.ring, 501, T0);
	test_writer_open(&other, &c.ring, 502, T0);
	test_worker(&w, T0, 10, 0x7000, 1);
	test_poll(&w, T0 + 25 * MS, 7, 0);
	test_emit(&other, T0 + 26 * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(8, 0), 0, 0);
	test_emit(&other, T0 + 27 * MS, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(9, 0), 0,
		  0);
	case_step(&c, T0 + 60 * MS);
	assert_int_equal(ky_drain_seal(c.drain), 0);
	c.sink.bytes.used = 0; /* only the second segment */
	test_poll_end(&w, T0 + 70 * MS, 0);
	case_finish(&c, T0 + 100 * MS);
	assert_int_equal(COUNT(&c, SEGMENT_METADATA), 2);
	event = EVENT(&c, SEGMENT_METADATA, 0);
	assert_true(has_pair(event, "service", "svc"));
	assert_true(has_pair(event, "host", "box"));
	assert_true(has_pair(event, "pid", "4242"));
	assert_true(has_pair(event, "stage", "prod"));
	assert_true(has_pair(event, "tokio.local_queue", "false"));
	assert_true(has_pair(event, "cpu_time.measured", "false"));
	assert_true(has_pair(event, "kymo.gates_off", "waker_clone"));
	assert_true(has_pair(event, "runtime.main", "0"));
	assert_true(has_pair(event, "watchdog.late", "3"));
	assert_true(has_pair(event, "watchdog.unwatched_ns", "447000000"));
	assert_false(has_pair(event, "segment.complete", "false"));
	assert_true(has_pair(EVENT(&c, SEGMENT_METADATA, 1), "segment.complete", "true"));
	assert_int_equal(COUNT(&c, THREAD), 2);
	assert_int_equal(COUNT(&c, WORKER), 1);
	assert_int_equal(COUNT(&c, RUNTIME), 1);
	assert_int_equal(COUNT(&c, PROCESS_MAP), 1);
	assert_int_equal(NUMBER(EVENT(&c, LIVE_TASKS, 0), LIVE_TASKS, alive_count), 2);
	assert_int_equal(COUNT(&c, LIVE_TASK), 2);
	for (size_t i = 0; i < 2; i++) {
		event = EVENT(&c, LIVE_TASK, i);
		assert_int_equal(NUMBER(event, LIVE_TASK, is_ready),
				 NUMBER(event, LIVE_TASK, task_id) == 8);
	}
	/* The poll and the blocking run that were open; the latter again at the end. */
	for (size_t i = 0; i < 2; i++) {
		event = EVENT(&c, OPEN_POLL, i);
		assert_int_equal(NUMBER(event, OPEN_POLL, is_at_exit), 0);
		assert_int_equal(NUMBER(event, OPEN_POLL, worker_id),
				 NUMBER(event, OPEN_POLL, task_id) == 7 ? 0 : 254);
	}
	event = EVENT(&c, OPEN_POLL, COUNT(&c, OPEN_POLL) - 1);
	assert_int_equal(NUMBER(event, OPEN_POLL, is_at_exit), 1);
	assert_int_equal(NUMBER(event, OPEN_POLL, task_id), 9);
	assert_int_equal(COUNT(&c, POLL_END), 1);
	assert_int_equal(COUNT(&c, TASK_FIRST_SEEN), 0);
	assert_int_equal(COUNT(&c, RECORDER_REPORT), 1);
	case_close(&c);
}

static void drain__open_poll_says_whose_end_it_waits_for(void **state)
{
	struct test_writer a, b;
	struct drain_case c;
	uint32_t nested = 0, open;

	(void)state;
	case_open(&c, 64);
	test_ring_runtime(&c.ring, 0x7000, 1, "main");
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_writer_open(&b, &c.ring, 502, T0);
	test_worker(&a, T0, 10, 0x7000, 1);
	test_poll(&a, T0 + MS, 50, 0);
	test_worker(&b, T0 + 2 * MS, 60, 0x7000, 1); /* 50 goes on in block_in_place */
	test_poll(&b, T0 + 3 * MS, 51, 0);
	test_poll(&b, T0 + 4 * MS, 52, 0); /* inside 51 */
	case_finish(&c, T0 + 100 * MS);
	open = (uint32_t)COUNT(&c, OPEN_POLL);
	assert_true(open >= 3);
	for (uint32_t i = open - 3; i < open; i++) {
		const struct test_event *event = EVENT(&c, OPEN_POLL, i);

		assert_int_equal(NUMBER(event, OPEN_POLL, is_nested),
				 NUMBER(event, OPEN_POLL, task_id) != 51);
		nested += NUMBER(event, OPEN_POLL, is_nested) != 0;
	}
	assert_int_equal(nested, 2);
	case_close(&c);
}

static void drain__index_is_found_from_the_end_and_agrees_with_the_chunks(void **state)
{
	struct drain_case c;
	struct test_writer w;
	struct ky_index_tail tail;
	struct ky_index_head head;
	const uint8_t *at;
	uint64_t busy = 0, poll_count = 0;

	(void)state;
	case_begin(&c, &w, 512);
	case_finish(&c, polls(&w, T0, 30000, 1000) + 10 * MS);
	memcpy(&tail, c.sink.bytes.bytes + c.sink.bytes.used - sizeof(tail), sizeof(tail));
	assert_int_equal(tail.magic, KY_INDEX_MAGIC);
	assert_true(tail.index_bytes < c.sink.bytes.used);
	at = c.sink.bytes.bytes + c.sink.bytes.used - tail.index_bytes;
	memcpy(&head, at, sizeof(head));
	at += sizeof(head);
	assert_int_equal(head.version, KY_INDEX_VERSION);
	assert_int_equal(head.chunk_count, c.sink.chunk_count - 1);
	for (uint32_t i = 0; i < head.chunk_count; i++) {
		struct ky_index_chunk row;

		memcpy(&row, at, sizeof(row));
		at += sizeof(row);
		assert_int_equal(row.raw_offset, c.sink.chunks[i].offset);
		assert_int_equal(row.raw_bytes, c.sink.chunks[i].bytes);
		assert_int_equal(row.event_count, c.sink.chunks[i].events);
		assert_int_equal(row.first_ns, c.sink.chunks[i].first_ns);
		assert_int_equal(row.last_ns, c.sink.chunks[i].last_ns);
		assert_int_equal(row.worker_count, 1);
		for (uint32_t k = 0; k < row.worker_count; k++) {
			struct ky_index_worker worker;

			memcpy(&worker, at, sizeof(worker));
			at += sizeof(worker);
			assert_true(worker.longest_ns >= 490 && worker.longest_ns <= 510);
			busy += worker.busy_ns;
			poll_count += worker.poll_count;
		}
	}
	assert_true(at + sizeof(tail) == c.sink.bytes.bytes + c.sink.bytes.used);
	assert_int_equal(poll_count, 30000);
	assert_true(busy > 30000 * 490 && busy < 30000 * 510);
	case_close(&c);
}

static void drain__refused_chunks_become_a_loss_and_a_new_segment(void **state)
{
	struct drain_case c;
	struct test_writer w;
	struct ky_drain_stats stats;
	uint64_t ns;

	(void)state;
	case_open(&c, 512);
	c.sink.refuse_from = 2;
	c.sink.refuse_count = 2;
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	ns = polls(&w, T0, 60000, 1000);
	case_finish(&c, ns + 10 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.chunks_refused, 2);
	assert_int_equal(stats.last_sink_error, -ENOSPC);
	/* Reported once, by the first chunk that got through, for both. */
	assert_int_equal(COUNT(&c, LOSS), 1);
	assert_string_equal(TEXT(EVENT(&c, LOSS, 0), LOSS, cause), "write-error");
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, record_count), stats.records_lost);
	assert_int_equal(COUNT(&c, POLL_START) + COUNT(&c, POLL_END) + stats.records_lost, 120000);
	assert_true(c.sink.chunks[2].is_start);
	case_close(&c);
}

static void drain__chunks_dropped_later_become_a_loss(void **state)
{
	struct ky_chunk_loss loss = {1, 40, 30, 2, T0, T0 + MS};
	struct drain_case c;
	struct test_writer w;
	struct ky_drain_stats before, after;

	(void)state;
	case_begin(&c, &w, 64);
	polls(&w, T0, 100, 1000);
	case_step(&c, T0 + 10 * MS);
	assert_int_equal(ky_drain_seal(c.drain), 0);
	ky_drain_stats(c.drain, &before);
	ky_drain_refused(c.drain, &loss);
	ky_drain_stats(c.drain, &after);
	assert_int_equal(after.records_lost, before.records_lost + 30);
	assert_int_equal(after.events_written, before.events_written - 40);
	polls(&w, T0 + 20 * MS, 100, 1000);
	case_finish(&c, T0 + 40 * MS);
	assert_int_equal(COUNT(&c, LOSS), 1);
	/* With the losses that the dropped chunk would have reported. */
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, record_count), 32);
	assert_string_equal(TEXT(EVENT(&c, LOSS, 0), LOSS, cause), "write-error");
	case_close(&c);
}

static uint64_t last_kept_ns(const struct drain_case *c)
{
	size_t count = COUNT(c, POLL_START);

	return count ? EVENT(c, POLL_START, count - 1)->ns : T0;
}

static void drain__last_word_reports_chunks_refused_to_the_end(void **state)
{
	struct drain_case c;
	struct test_writer w;
	struct ky_drain_stats stats;
	const struct test_chunk *last;
	size_t chunks;

	(void)state;
	case_open(&c, 512);
	c.sink.refuse_from = 1;
	c.sink.refuse_count = 1000000;
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	case_finish(&c, polls(&w, T0, 60000, 1000) + 10 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_true(stats.chunks_refused > 1);
	assert_int_equal(COUNT(&c, LOSS), 0);
	c.sink.refuse_count = 0;
	ky_drain_last_word(c.drain);
	test_sink_decode(&c.sink);
	assert_int_equal(COUNT(&c, LOSS), 1);
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, record_count), stats.records_lost);
	/* Since the first of them was refused, however often the drain retried its loss. */
	assert_true(NUMBER(EVENT(&c, LOSS, 0), LOSS, from_ns) <= last_kept_ns(&c) + MS);
	assert_true(NUMBER(EVENT(&c, LOSS, 0), LOSS, to_ns) >= T0 + 60000 * 1000 - MS);
	assert_int_equal(COUNT(&c, POLL_START) + COUNT(&c, POLL_END) + stats.records_lost, 120000);
	last = &c.sink.chunks[c.sink.chunk_count - 1];
	assert_true(last->is_start && last->is_end);
	assert_int_equal(COUNT(&c, SEGMENT_INDEX), 0);
	chunks = c.sink.chunk_count;
	ky_drain_last_word(c.drain);
	assert_int_equal(c.sink.chunk_count, chunks);
	case_close(&c);
}

static void drain__nothing_recorded_writes_nothing(void **state)
{
	struct drain_case c;

	(void)state;
	case_open(&c, 8);
	case_start(&c);
	case_step(&c, T0);
	case_finish(&c, T0 + 10 * MS);
	assert_int_equal(c.sink.chunk_count, 0);
	case_close(&c);
}

/* What precedes its next chunk is all of a moment, in any order of writing. */
static int assert_ties_are_whole(void *ctx, const struct ky_chunk *chunk)
{
	if (chunk->last_ticks > test_ticks(T0 + MS))
		assert_int_equal(chunk->last_ties, 3);
	return test_sink_chunk(ctx, chunk);
}

static void drain__chunks_do_not_end_between_records_of_one_stamp(void **state)
{
	struct test_writer w[3];
	struct drain_case c;
	uint64_t ns = T0;

	(void)state;
	case_open(&c, 512);
	c.options.chunk = assert_ties_are_whole;
	case_start(&c);
	for (uint32_t i = 0; i < 3; i++)
		test_writer_open(&w[i], &c.ring, 501 + i, T0);
	for (uint32_t n = 0; n < 20000; n++, ns += 1000) {
		for (uint32_t i = 0; i < 3; i++)
			test_poll(&w[i], ns, 1 + i, 0);
		for (uint32_t i = 0; i < 3; i++)
			test_poll_end(&w[i], ns + 500, 0);
	}
	case_step(&c, ns + 10 * MS);
	case_finish(&c, ns + 20 * MS);
	assert_true(c.sink.chunk_count > 6);
	assert_int_equal(COUNT(&c, POLL_END), 60000);
	case_close(&c);
}

/* Each has a worker; the metadata names 256 of them, and says how many it does not. */
static void drain__runtimes_beyond_those_named_are_counted(void **state)
{
	enum {
		RUNTIMES = 259
	};
	static struct test_writer w[RUNTIMES];
	struct drain_case c;

	(void)state;
	case_open(&c, 512);
	case_start(&c);
	for (uint32_t i = 0; i < RUNTIMES; i++) {
		test_writer_open(&w[i], &c.ring, 501 + i, T0 + i);
		test_worker(&w[i], T0 + i, 10, 0x7000 + i, 1 + i);
		test_poll(&w[i], T0 + i + 100, 7, 0);
	}
	case_step(&c, T0 + 60 * MS);
	assert_int_equal(ky_drain_seal(c.drain), 0);
	c.sink.bytes.used = 0; /* only the second segment */
	test_poll_end(&w[0], T0 + 70 * MS, 0);
	case_finish(&c, T0 + 100 * MS);
	assert_true(has_pair(EVENT(&c, SEGMENT_METADATA, 0), "runtimes.left_out", "3"));
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drain__chunks_keep_their_limits_and_stand_alone),
		cmocka_unit_test(drain__segment_begins_with_everything_a_reader_needs),
		cmocka_unit_test(drain__open_poll_says_whose_end_it_waits_for),
		cmocka_unit_test(drain__index_is_found_from_the_end_and_agrees_with_the_chunks),
		cmocka_unit_test(drain__refused_chunks_become_a_loss_and_a_new_segment),
		cmocka_unit_test(drain__chunks_dropped_later_become_a_loss),
		cmocka_unit_test(drain__last_word_reports_chunks_refused_to_the_end),
		cmocka_unit_test(drain__nothing_recorded_writes_nothing),
		cmocka_unit_test(drain__chunks_do_not_end_between_records_of_one_stamp),
		cmocka_unit_test(drain__runtimes_beyond_those_named_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
