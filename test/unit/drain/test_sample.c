/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The sample area: writers that meet, streams, cuts, loss, hostile images. */
#include "../../lib/cut_case.h"
#include "../../lib/prng.h"

#include <drain/ring_copy.h>
#include <ring/ring_view.h>
#include <pthread.h>
#include <wire/call_facts.h>
#include <wire/switch_sample.h>

static uint64_t test_frames[KY_SAMPLE_FRAMES_MAX + 10];

static bool put_sample(const struct ky_sample_ring *ring, uint32_t kind, uint32_t tid, uint64_t ns,
		       uint64_t value, uint32_t frame_count)
{
	struct ky_sample sample = {.kind = (uint8_t)kind,
				   .flags = KY_SAMPLE_STAMP_IS_NS | KY_SAMPLE_HAS_CPU,
				   .cpu = 1,
				   .syscall = -1,
				   .tid = tid,
				   .stamp = ns,
				   .value = value,
				   .other = KY_SOURCE_TIMER,
				   .frames = test_frames,
				   .frame_count = frame_count};

	for (uint32_t i = 0; i < sizeof(test_frames) / sizeof(test_frames[0]); i++)
		test_frames[i] = UINT64_C(0x7f0000000000) + value * 4096 + i;
	return ky_sample_put(ring, &sample);
}

static void open_stream(struct drain_case *c, struct test_writer *w)
{
	case_open(c, 8);
	case_start(c);
	test_writer_open(w, &c->ring, 501, T0);
	test_poll(w, T0, 7, 0);
}

static void sample__has_the_task_poll_and_worker_of_its_thread(void **state)
{
	struct ky_sample_ring cpu;
	struct drain_case c;
	struct test_writer w;
	const struct test_event *event;

	(void)state;
	open_stream(&c, &w);
	cpu = test_ring_samples(&c.ring, KY_SAMPLES_CPU);
	/* Two writers, not in the order of time. */
	assert_true(put_sample(&cpu, KY_SAMPLE_CPU, 501, T0 + 6 * MS, 200, 0));
	assert_true(put_sample(&cpu, KY_SAMPLE_CPU, 501, T0 + 2 * MS, 100, 3));
	assert_true(put_sample(&cpu, KY_SAMPLE_CPU, 999, T0 + 3 * MS, 300, 1));
	test_poll_end(&w, T0 + 4 * MS, 0);
	case_step(&c, T0 + 10 * MS);
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(COUNT(&c, CPU_SAMPLE), 3);
	event = EVENT(&c, CPU_SAMPLE, 0);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, weight_ns), 100);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, tid), 501);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, task_id), 7);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, poll_start_ns), EVENT(&c, POLL_START, 0)->ns);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, sampler), KY_SOURCE_TIMER);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, is_truncated), 0);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, worker_id),
			 NUMBER(EVENT(&c, POLL_START, 0), POLL_START, worker_id));
	assert_in_range(event->ns, T0 + 2 * MS - 1, T0 + 2 * MS + 1);
	assert_true(EVENT(&c, POLL_START, 0) < event && event < EVENT(&c, POLL_END, 0));
	/* A thread that never recorded. */
	event = EVENT(&c, CPU_SAMPLE, 1);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, worker_id), 255);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, task_id), 0);
	/* After the poll. */
	event = EVENT(&c, CPU_SAMPLE, 2);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, weight_ns), 200);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, task_id), 0);
	assert_int_equal(NUMBER(event, CPU_SAMPLE, poll_start_ns), 0);
	assert_int_equal(COUNT(&c, LOSS), 0);
	case_close(&c);
}

static void sample__every_kind_becomes_its_event(void **state)
{
	struct ky_sample sample = {.tid = 501,
				   .flags = KY_SAMPLE_STAMP_IS_NS | KY_SAMPLE_TRUNCATED,
				   .syscall = 7,
				   .frames = test_frames,
				   .frame_count = 2};
	struct ky_sample_ring ring;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_stream(&c, &w);
	sample.stamp = T0 + MS;
	sample.kind = KY_SAMPLE_OFF_CPU;
	sample.value = 250000;
	sample.more = KY_OFF_CPU_FUTEX;
	sample.weight = UINT64_C(3) << 31; /* 1.5 */
	ring = test_ring_samples(&c.ring, KY_SAMPLES_OFF_CPU);
	assert_true(ky_sample_put(&ring, &sample));
	sample.kind = KY_SAMPLE_ALLOC;
	sample.value = 4096;
	sample.more = 0xabc0;
	ring = test_ring_samples(&c.ring, KY_SAMPLES_MEMORY);
	assert_true(ky_sample_put(&ring, &sample));
	sample.kind = KY_SAMPLE_FREE;
	sample.stamp = T0 + 2 * MS;
	sample.other = T0 + MS;
	assert_true(ky_sample_put(&ring, &sample));
	test_poll_end(&w, T0 + 4 * MS, 0);
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, duration_ns), 250000);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, reason), KY_OFF_CPU_FUTEX);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, syscall_number), 7);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, task_id), 7);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, is_truncated), 1);
	assert_int_equal(NUMBER(EVENT(&c, ALLOC, 0), ALLOC, alloc_bytes), 4096);
	assert_int_equal(NUMBER(EVENT(&c, ALLOC, 0), ALLOC, addr), 0xabc0);
	assert_int_equal(NUMBER(EVENT(&c, ALLOC, 0), ALLOC, task_id), 7);
	assert_int_equal(NUMBER(EVENT(&c, FREE, 0), FREE, alloc_timestamp_ns), T0 + MS);
	case_close(&c);
}

static void sample__of_a_call_says_what_it_was_made_with(void **state)
{
	struct ky_call_facts facts = {.reason = KY_OFF_CPU_SYSCALL,
				      .fd_kind = KY_FD_TCP,
				      .tcp_state = 1,
				      .error = 110,
				      .peer_port = 5432,
				      .local_port = 40000,
				      .fd = 9,
				      .bytes = 0};
	struct ky_sample sample = {.tid = 501,
				   .kind = KY_SAMPLE_OFF_CPU,
				   .flags = KY_SAMPLE_STAMP_IS_NS,
				   .stamp = T0 + MS,
				   .value = 250000,
				   .syscall = 45};
	struct ky_sample_ring ring;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_stream(&c, &w);
	ky_call_facts_enc(&facts, &sample.more, &sample.other);
	ring = test_ring_samples(&c.ring, KY_SAMPLES_OFF_CPU);
	assert_true(ky_sample_put(&ring, &sample));
	facts = (struct ky_call_facts){
		.reason = KY_OFF_CPU_FUTEX, .fd = -1, .bytes = -1, .lock = 0x7f00abcd0010};
	ky_call_facts_enc(&facts, &sample.more, &sample.other);
	sample.stamp = T0 + 2 * MS;
	assert_true(ky_sample_put(&ring, &sample));
	test_poll_end(&w, T0 + 4 * MS, 0);
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, reason), KY_OFF_CPU_SYSCALL);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, fd), 9);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, fd_kind), KY_FD_TCP);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, tcp_state), 1);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, peer_port), 5432);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, local_port), 40000);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, moved_bytes), 0);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, error), 110);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 1), OFF_CPU, reason), KY_OFF_CPU_FUTEX);
	assert_true(NUMBER(EVENT(&c, OFF_CPU, 1), OFF_CPU, lock_addr) == 0x7f00abcd0010);
	case_close(&c);
}

/* What the area holds of a sample, as a reader finds it. */
static void sample__frames_survive_every_length(void **state)
{
	struct ky_sample_ring cpu;
	struct test_ring ring;

	(void)state;
	test_ring_open(&ring, 8);
	cpu = test_ring_samples(&ring, KY_SAMPLES_CPU);
	for (uint32_t count = 0; count <= KY_SAMPLE_FRAMES_MAX + 5; count++) {
		uint64_t claim = KY_SAMPLE_CLAIM(atomic_load(&cpu.head->claim_index)), frame;
		uint32_t kept = count < KY_SAMPLE_FRAMES_MAX ? count : KY_SAMPLE_FRAMES_MAX;
		union {
			struct ky_sample_cell first;
			struct ky_sample_more more;
			uint64_t words[KY_SAMPLE_CELL_BYTES / 8];
		} cell;

		assert_true(put_sample(&cpu, KY_SAMPLE_CPU, 1, T0, count, count));
		assert_int_equal(KY_SAMPLE_CLAIM(atomic_load(&cpu.head->claim_index)) - claim,
				 ky_sample_parts(kept));
		assert_int_equal(ky_ring_view_sample(&cpu, claim, cell.words), KY_SAMPLE_WHOLE);
		assert_int_equal(cell.first.frame_count, kept);
		assert_int_equal(cell.first.number, count);
		assert_int_equal(!!(cell.first.flags & KY_SAMPLE_TRUNCATED), kept < count);
		for (uint32_t i = 0, at = 0; i < kept; i++, at++) {
			if (i == KY_SAMPLE_FRAMES_FIRST ||
			    (i > KY_SAMPLE_FRAMES_FIRST && at == KY_SAMPLE_FRAMES_MORE)) {
				claim++;
				at = 0;
				assert_int_equal(ky_ring_view_sample(&cpu, claim, cell.words),
						 KY_SAMPLE_WHOLE);
			}
			frame = 0;
			memcpy(&frame,
			       i < KY_SAMPLE_FRAMES_FIRST ? &cell.first.frames[at * 6] :
							    &cell.more.frames[at * 6],
			       6);
			assert_int_equal(frame, test_frames[i]);
		}
	}
	test_ring_close(&ring);
}

static void sample__overwritten_samples_are_counted_exactly(void **state)
{
	struct ky_sample_ring cpu;
	struct ky_drain_stats stats;
	struct drain_case c;
	struct test_writer w;
	uint32_t put = 0;

	(void)state;
	open_stream(&c, &w);
	case_step(&c, T0 + 10 * MS);
	cpu = test_ring_samples(&c.ring, KY_SAMPLES_CPU);
	for (uint32_t i = 0; i < cpu.cell_count * 3; i++, put++)
		assert_true(put_sample(&cpu, KY_SAMPLE_CPU, 501, T0 + 11 * MS, i, i % 90));
	atomic_store(&cpu.head->lost_count, 5); /* its source said so */
	case_step(&c, T0 + 20 * MS);
	assert_true(put_sample(&cpu, KY_SAMPLE_CPU, 501, T0 + 21 * MS, 1, 1));
	put++;
	test_poll_end(&w, T0 + 24 * MS, 0);
	case_finish(&c, T0 + 40 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_true(COUNT(&c, CPU_SAMPLE) > cpu.cell_count / 4);
	assert_int_equal(stats.samples_written, COUNT(&c, CPU_SAMPLE));
	assert_int_equal(stats.samples_written + stats.samples_lost, put + 5);
	assert_int_equal(COUNT(&c, LOSS), 1);
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, record_count), stats.samples_lost);
	assert_int_equal(NUMBER(EVENT(&c, LOSS, 0), LOSS, is_exact), 1);
	assert_string_equal(TEXT(EVENT(&c, LOSS, 0), LOSS, cause), "cpu-samples");
	assert_int_equal(stats.records_lost, 0);
	case_close(&c);
}

static void sample__cell_of_another_writer_is_given_up(void **state)
{
	struct ky_sample_ring cpu;
	struct ky_drain_stats stats;
	struct drain_case c;
	struct test_writer w;
	uint64_t words[2] = {0};
	_Atomic uint64_t *taken;

	(void)state;
	open_stream(&c, &w);
	case_step(&c, T0 + 5 * MS);
	cpu = test_ring_samples(&c.ring, KY_SAMPLES_CPU);
	/* Held up since the round before; its words must not be mixed with ours. */
	taken = ky_sample_serial(&cpu, 1);
	atomic_store(taken, 3);
	assert_false(put_sample(&cpu, KY_SAMPLE_CPU, 501, T0 + 6 * MS, 1, 60)); /* 0, 1 */
	assert_true(put_sample(&cpu, KY_SAMPLE_CPU, 501, T0 + 7 * MS, 2, 1));   /* 2 */
	assert_int_equal(atomic_load(taken), 3);
	case_step(&c, T0 + 50 * MS);
	case_step(&c, T0 + 100 * MS);
	test_poll_end(&w, T0 + 101 * MS, 0);
	case_finish(&c, T0 + 200 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.samples_written, 1);
	assert_int_equal(stats.samples_lost, 1);
	/* However often it is passed by: it may be held up still. */
	atomic_store(&cpu.head->claim_index, (uint64_t)cpu.cell_count * 100000 + 1);
	assert_false(put_sample(&cpu, KY_SAMPLE_CPU, 501, T0 + 6 * MS, 1, 1));
	assert_int_equal(atomic_load(taken), 3);
	/* Done at last, what it wrote is too old for any reader, and the cell the next one's. */
	ky_sample_fill(&cpu, 1, words, 2);
	atomic_store(&cpu.head->claim_index, (uint64_t)cpu.cell_count * 100001 + 1);
	assert_true(put_sample(&cpu, KY_SAMPLE_CPU, 501, T0 + 6 * MS, 1, 1));
	case_close(&c);
}

static void sample__cut_takes_the_whole_ring_and_reports_no_loss(void **state)
{
	struct ky_sample_ring cpu, off;
	struct test_writer w;
	static struct cut_case c;

	(void)state;
	cut_begin(&c, &w, 8);
	test_poll(&w, T0, 7, 0);
	cpu = test_ring_samples(&c.ring, KY_SAMPLES_CPU);
	off = test_ring_samples(&c.ring, KY_SAMPLES_OFF_CPU);
	for (uint32_t i = 0; i < cpu.cell_count + 40; i++)
		assert_true(put_sample(&cpu, KY_SAMPLE_CPU, 501, T0 + MS + i, i, 20));
	assert_true(put_sample(&off, KY_SAMPLE_OFF_CPU, 501, T0 + 3 * MS, 1000, 300));
	/* One in the making. */
	atomic_store(ky_sample_serial(&cpu, 50), 1 | (50 + 1 + cpu.cell_count) * 2);
	cut_take(&c, T0 + 10 * MS);
	assert_int_equal(COUNT(&c, CPU_SAMPLE), cpu.cell_count - 1);
	assert_int_equal(NUMBER(EVENT(&c, CPU_SAMPLE, 0), CPU_SAMPLE, weight_ns), 40);
	assert_int_equal(NUMBER(EVENT(&c, CPU_SAMPLE, 0), CPU_SAMPLE, task_id), 7);
	assert_int_equal(COUNT(&c, OFF_CPU), 1);
	assert_int_equal(NUMBER(EVENT(&c, OFF_CPU, 0), OFF_CPU, is_truncated), 1);
	assert_int_equal(COUNT(&c, LOSS), 0);
	/* Only the last ones: what is older is not in the range. */
	c.options.from_ns = T0 + 2 * MS;
	cut_take(&c, T0 + 10 * MS);
	assert_int_equal(COUNT(&c, CPU_SAMPLE), 0);
	assert_int_equal(COUNT(&c, OFF_CPU), 1);
	cut_close(&c);
}

/* The copy is laid out anew: it must not say where the source had its samples. */
static void sample__copy_has_its_area_after_its_sub_buffers(void **state)
{
	const struct ky_ring_header *header;
	struct ky_ring_copy_options how;
	struct ky_sample_ring cpu;
	struct ky_ring_copy copy;
	struct test_ring ring;

	(void)state;
	test_ring_open(&ring, 8);
	cpu = test_ring_samples(&ring, KY_SAMPLES_CPU);
	assert_true(put_sample(&cpu, KY_SAMPLE_CPU, 501, T0, 1, 3));
	how = (struct ky_ring_copy_options){.image = ring.image, .image_bytes = ring.image_bytes};
	assert_int_equal(ky_ring_copy_take(&copy, &how), 0);
	header = (const struct ky_ring_header *)(const void *)copy.image;
	assert_int_equal(header->sample_bytes, TEST_SAMPLE_BYTES);
	assert_true(header->sample_offset >=
		    header->slots_offset + (uint64_t)header->slot_count * KY_SLOT_BYTES);
	assert_true(header->sample_offset + header->sample_bytes <= copy.image_bytes);
	assert_int_equal(header->sample_classes, 1u << KY_SAMPLES_CPU);
	ky_ring_copy_release(&copy);
	test_ring_close(&ring);
}

static void sample__area_without_a_sampler_is_not_read(void **state)
{
	struct ky_sample_ring cpu;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_stream(&c, &w);
	cpu = test_ring_samples(&c.ring, KY_SAMPLES_CPU);
	assert_true(put_sample(&cpu, KY_SAMPLE_CPU, 501, T0 + MS, 1, 1));
	atomic_store(&c.ring.header->sample_classes, 0);
	case_step(&c, T0 + 10 * MS);
	test_poll_end(&w, T0 + 11 * MS, 0);
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(COUNT(&c, CPU_SAMPLE), 0);
	case_close(&c);
}

/* Whatever the bytes say: an end, within the trace, in bounded memory. */
static void sample__hostile_areas_do_no_harm(void **state)
{
	struct test_prng prng = {7};

	(void)state;
	for (int round = 0; round < 60; round++) {
		static struct drain_case c;
		struct test_writer w;
		uint8_t *area;

		open_stream(&c, &w);
		case_step(&c, T0 + 5 * MS);
		for (uint32_t which = 0; which < KY_SAMPLE_CLASSES; which++) {
			struct ky_sample_ring ring = test_ring_samples(&c.ring, which);

			for (uint32_t i = 0; i < ring.cell_count; i++)
				put_sample(&ring, 1 + i % 6, 501, test_random(&prng), i, i % 200);
		}
		area = c.ring.image + c.ring.header->sample_offset;
		for (int i = 0; i < 3000; i++)
			area[test_random(&prng) % TEST_SAMPLE_BYTES] = (uint8_t)test_random(&prng);
		if (round % 3 == 0)
			c.ring.header->sample_bytes = test_random(&prng);
		case_step(&c, T0 + 50 * MS);
		test_poll_end(&w, T0 + 60 * MS, 0);
		case_finish(&c, T0 + 100 * MS);
		assert_true(COUNT(&c, CPU_SAMPLE) <= TEST_SAMPLE_BYTES / KY_SAMPLE_CELL_BYTES);
		case_close(&c);
	}
}

#define RACE_THREADS 4u
#define RACE_SAMPLES 20000u

static void *race(void *ctx)
{
	const struct ky_sample_ring *ring = ctx;
	uint64_t frames[80];

	for (uint32_t i = 0; i < RACE_SAMPLES; i++) {
		struct ky_sample sample = {.kind = KY_SAMPLE_CPU,
					   .flags = KY_SAMPLE_STAMP_IS_NS,
					   .frames = frames,
					   .frame_count = i % 80,
					   .value = i,
					   .more = i ^ 0x5555,
					   .stamp = T0};

		for (uint32_t k = 0; k < 80; k++)
			frames[k] = i;
		(void)ky_sample_put(ring, &sample);
	}
	return NULL;
}

/* More writers than cells they can keep apart, and a reader: every cell that is believed is one
 * writer's. */
static void sample__no_cell_holds_words_of_two_writers(void **state)
{
	pthread_t threads[RACE_THREADS];
	struct ky_sample_ring ring;
	struct test_ring image;
	uint64_t whole = 0;

	(void)state;
	test_ring_open(&image, 8);
	ring = test_ring_samples(&image, KY_SAMPLES_PLACE);
	ring.cell_count = 8;
	for (uint32_t i = 0; i < RACE_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, race, &ring), 0);
	for (uint32_t round = 0; round < 200000; round++) {
		uint64_t claim = KY_SAMPLE_CLAIM(atomic_load(&ring.head->claim_index)), frame = 0;
		union {
			struct ky_sample_cell first;
			uint64_t words[KY_SAMPLE_CELL_BYTES / 8];
		} cell;

		if (claim < 4 || ky_ring_view_sample(&ring, claim - 1 - round % 4, cell.words) !=
					 KY_SAMPLE_WHOLE)
			continue;
		if (cell.first.part || cell.first.kind != KY_SAMPLE_CPU)
			continue;
		whole++;
		assert_int_equal(cell.first.value ^ 0x5555, cell.first.more);
		assert_int_equal(cell.first.frame_count, cell.first.value % 80);
		if (!cell.first.frame_count)
			continue;
		memcpy(&frame, cell.first.frames, 6);
		assert_int_equal(frame, cell.first.value);
	}
	for (uint32_t i = 0; i < RACE_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&ring.head->claim_index) >> KY_SAMPLE_CLAIM_BITS,
			 RACE_THREADS * RACE_SAMPLES);
	(void)whole;
	test_ring_close(&image);
}

static void sample__layout_lies_within_its_area(void **state)
{
	(void)state;
	for (uint64_t bytes = 0; bytes <= 2 * KY_SAMPLE_BYTES_DEFAULT; bytes += 4096) {
		uint64_t end = KY_SAMPLE_PAGE_BYTES, offset;

		for (uint32_t which = 0; which < KY_SAMPLE_CLASSES; which++) {
			uint32_t count = ky_sample_range(bytes, which, &offset);

			assert_int_equal(count != 0, bytes >= KY_SAMPLE_BYTES_MIN);
			if (!count)
				continue;
			assert_true(offset >= end && offset % KY_SAMPLE_PAGE_BYTES == 0);
			end = offset + (uint64_t)count * KY_SAMPLE_CELL_BYTES;
			assert_true(end <= bytes && end % KY_SAMPLE_PAGE_BYTES == 0);
		}
	}
}

static void put_intervals(const struct ky_sample_ring *ring, uint32_t tid, uint32_t count)
{
	uint64_t frames[KY_SWITCHES_MAX * KY_SWITCH_FRAMES];
	struct ky_sample sample = {.kind = KY_SAMPLE_SWITCHES,
				   .flags = KY_SAMPLE_STAMP_IS_NS,
				   .syscall = -1,
				   .tid = tid,
				   .stamp = T0 + MS,
				   .value = MS, /* T */
				   .weight = UINT64_C(4) << 32,
				   .frames = frames,
				   .frame_count = count * KY_SWITCH_FRAMES};

	for (uint32_t i = 0; i < count; i++) {
		/* At 1, 3, 5 ... ms, 0.5 ms long each, but the first: 2 ms. */
		struct ky_switch_interval interval = {.begin_ns = T0 + (2 * i + 1) * MS,
						      .end_ns = T0 + (2 * i + 1) * MS + MS / 2,
						      .reason = KY_OFF_CPU_PREEMPTED,
						      .flags = KY_SWITCH_END_UNSEEN,
						      .runnable_min_ns = MS / 8,
						      .runnable_max_ns = MS / 4};

		if (i == 0)
			interval.end_ns = T0 + 3 * MS - 1;
		ky_switch_enc(&interval, sample.stamp, frames + (size_t)i * KY_SWITCH_FRAMES);
	}
	assert_true(ky_sample_put(ring, &sample));
}

static uint64_t weight_of(const struct test_event *event)
{
	uint64_t bits = NUMBER(event, OFF_CPU, weight);
	double weight;

	memcpy(&weight, &bits, sizeof(weight));
	return (uint64_t)weight;
}

static void sample__switches_are_written_inside_polls_alone(void **state)
{
	struct ky_sample window = {.kind = KY_SAMPLE_SWITCHES,
				   .flags = KY_SAMPLE_STAMP_IS_NS,
				   .syscall = -1,
				   .stamp = T0 + 9 * MS,
				   .value = 9 * MS,
				   .more = 36 * MS,
				   .other = 1234 | UINT64_C(5) << 32};
	struct ky_sample_ring ring;
	struct drain_case c;
	struct test_writer w;
	const struct test_event *event;

	(void)state;
	open_stream(&c, &w);
	ring = test_ring_samples(&c.ring, KY_SAMPLES_OFF_CPU);
	put_intervals(&ring, 501, 4);
	put_intervals(&ring, 999, KY_SWITCHES_MAX); /* a thread that records nothing */
	assert_true(ky_sample_put(&ring, &window));
	test_poll_end(&w, T0 + 4 * MS, 0); /* the others are in no poll */
	case_finish(&c, T0 + 400 * MS);
	assert_int_equal(COUNT(&c, OFF_CPU), 2);
	event = EVENT(&c, OFF_CPU, 0);
	assert_in_range(event->ns, T0 + 3 * MS - 2, T0 + 3 * MS);
	assert_int_equal(NUMBER(event, OFF_CPU, duration_ns), 2 * MS - 1);
	assert_int_equal(NUMBER(event, OFF_CPU, reason), KY_OFF_CPU_PREEMPTED);
	assert_int_equal(NUMBER(event, OFF_CPU, task_id), 7);
	assert_int_equal(NUMBER(event, OFF_CPU, source), KY_SOURCE_SWITCHES);
	assert_int_equal(NUMBER(event, OFF_CPU, clipped), KY_SWITCH_END_UNSEEN);
	assert_int_equal(NUMBER(event, OFF_CPU, poll_start_ns), EVENT(&c, POLL_START, 0)->ns);
	assert_int_equal(weight_of(event), 4);
	assert_in_range(NUMBER(event, OFF_CPU, runnable_min_ns), MS / 8 - 2, MS / 8);
	assert_in_range(NUMBER(event, OFF_CPU, runnable_max_ns), MS / 4, MS / 4 + 2);
	/* Kept with p = 0.5 / 1 of what was seen in a quarter of the time. */
	event = EVENT(&c, OFF_CPU, 1);
	assert_int_equal(weight_of(event), 8);
	event = EVENT(&c, OFF_CPU_WINDOW, 0);
	assert_int_equal(COUNT(&c, OFF_CPU_WINDOW), 1);
	assert_int_equal(NUMBER(event, OFF_CPU_WINDOW, observed_ns), 9 * MS);
	assert_int_equal(NUMBER(event, OFF_CPU_WINDOW, stretch_ns), 36 * MS);
	assert_int_equal(NUMBER(event, OFF_CPU_WINDOW, record_count), 1234);
	assert_int_equal(NUMBER(event, OFF_CPU_WINDOW, lost_count), 5);
	case_close(&c);
}

static void put_woken(const struct ky_sample_ring *ring, uint64_t at_ns, uint32_t by_pid,
		      uint32_t by_tid)
{
	const struct ky_switch_interval interval = {.begin_ns = at_ns,
						    .end_ns = at_ns + MS,
						    .reason = KY_OFF_CPU_SYSCALL,
						    .runnable_min_ns = MS / 8 + 1,
						    .runnable_max_ns = MS / 8 + 1,
						    .by_pid = by_pid,
						    .by_tid = by_tid,
						    .by = by_tid ? KY_WOKEN_BY_THREAD :
								   KY_WOKEN_BY_INTERRUPT};
	uint64_t frames[KY_SWITCH_FRAMES + 1];
	struct ky_sample sample = {.kind = KY_SAMPLE_SWITCHES,
				   .flags = KY_SAMPLE_STAMP_IS_NS | KY_SAMPLE_HAS_WAKER,
				   .syscall = -1,
				   .tid = 501,
				   .stamp = at_ns,
				   .frames = frames,
				   .frame_count = KY_SWITCH_FRAMES + 1};

	ky_switch_enc(&interval, at_ns, frames);
	frames[KY_SWITCH_FRAMES] = ky_switch_enc_waker(&interval);
	assert_true(ky_sample_put(ring, &sample));
}

static void check_waker(const struct test_event *event, uint64_t by, uint64_t pid, uint64_t tid,
			const char *name)
{
	assert_int_equal(NUMBER(event, OFF_CPU, woken_by), by);
	assert_int_equal(NUMBER(event, OFF_CPU, waker_pid), pid);
	assert_int_equal(NUMBER(event, OFF_CPU, waker_tid), tid);
	assert_string_equal(TEXT(event, OFF_CPU, waker_name), name);
	assert_int_equal(NUMBER(event, OFF_CPU, runnable_min_ns),
			 NUMBER(event, OFF_CPU, runnable_max_ns));
}

static void sample__wait_has_its_waker(void **state)
{
	uint64_t name[KY_WAKER_FRAMES];
	struct ky_sample waker = {.kind = KY_SAMPLE_WAKER,
				  .flags = KY_SAMPLE_STAMP_IS_NS,
				  .syscall = -1,
				  .tid = 9001,
				  .stamp = T0,
				  .more = 9000,
				  .frames = name,
				  .frame_count = KY_WAKER_FRAMES};
	struct ky_sample_ring ring;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_stream(&c, &w);
	ring = test_ring_samples(&c.ring, KY_SAMPLES_OFF_CPU);
	ky_waker_enc("postgres", name);
	assert_true(ky_sample_put(&ring, &waker));
	put_woken(&ring, T0 + MS, 9000, 9001);
	put_woken(&ring, T0 + 3 * MS, 0, 0);
	put_woken(&ring, T0 + 5 * MS, 8000, 9001); /* the number is another's by now */
	test_poll_end(&w, T0 + 9 * MS, 0);
	case_finish(&c, T0 + 400 * MS);
	assert_int_equal(COUNT(&c, OFF_CPU), 3);
	check_waker(EVENT(&c, OFF_CPU, 0), KY_WOKEN_BY_THREAD, 9000, 9001, "postgres");
	check_waker(EVENT(&c, OFF_CPU, 1), KY_WOKEN_BY_INTERRUPT, 0, 0, "");
	check_waker(EVENT(&c, OFF_CPU, 2), KY_WOKEN_BY_THREAD, 8000, 9001, "");
	case_close(&c);
}

/* An interval with its stack after it, whatever else it has; cut off after frame_count. */
static void put_with_stack(const struct ky_sample_ring *ring, uint8_t flags, uint32_t frame_count)
{
	const struct ky_switch_interval interval = {.begin_ns = T0 + MS,
						    .end_ns = T0 + 2 * MS,
						    .reason = KY_OFF_CPU_FAULT,
						    .runnable_max_ns = MS};
	uint64_t frames[KY_SWITCH_FRAMES_MAX + 2] = {0};
	struct ky_sample sample = {.kind = KY_SAMPLE_SWITCHES,
				   .flags = flags | KY_SAMPLE_STAMP_IS_NS | KY_SAMPLE_HAS_STACK,
				   .syscall = -1,
				   .tid = 501,
				   .stamp = T0,
				   .frames = frames,
				   .frame_count = frame_count};
	uint32_t at = KY_SWITCH_FRAMES;

	ky_switch_enc(&interval, T0, frames);
	at += (flags & KY_SAMPLE_HAS_WAKER) != 0;
	frames[at] = 0x1234;
	frames[at + 1] = 0x5678;
	assert_true(ky_sample_put(ring, &sample));
}

static void sample__page_fault_has_the_stack_of_the_program(void **state)
{
	struct ky_sample_ring ring;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_stream(&c, &w);
	ring = test_ring_samples(&c.ring, KY_SAMPLES_OFF_CPU);
	put_with_stack(&ring, 0, KY_SWITCH_FRAMES + 2);
	put_with_stack(&ring, KY_SAMPLE_HAS_WAKER | KY_SAMPLE_TRUNCATED, KY_SWITCH_FRAMES_MAX + 2);
	put_with_stack(&ring, 0, KY_SWITCH_FRAMES);     /* none, after all */
	put_with_stack(&ring, 0, KY_SWITCH_FRAMES - 1); /* nothing at all */
	test_poll_end(&w, T0 + 9 * MS, 0);
	case_finish(&c, T0 + 400 * MS);
	assert_int_equal(COUNT(&c, OFF_CPU), 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct test_event *event = EVENT(&c, OFF_CPU, i);

		assert_int_equal(NUMBER(event, OFF_CPU, source), KY_SOURCE_SWITCHES);
		assert_int_equal(NUMBER(event, OFF_CPU, reason), KY_OFF_CPU_FAULT);
		assert_int_equal(NUMBER(event, OFF_CPU, clipped), 0);
		assert_int_equal(NUMBER(event, OFF_CPU, is_truncated), i == 1);
		assert_int_equal(event->frame_count[KY_F_OFF_CPU_callchain], i < 2 ? 2 : 0);
		if (i < 2)
			assert_int_equal(event->leaf[KY_F_OFF_CPU_callchain], 0x1234);
	}
	case_close(&c);
}

/* Each becomes many records that wait for their time. */
static void sample__many_switches_survive_several_steps(void **state)
{
	const uint32_t samples = 16, steps = 12; /* more in all than the drain lets wait at once */
	struct ky_sample_ring ring;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	open_stream(&c, &w);
	ring = test_ring_samples(&c.ring, KY_SAMPLES_OFF_CPU);
	for (uint64_t step = 0; step < steps; step++) {
		for (uint32_t i = 0; i < samples; i++)
			put_intervals(&ring, 501, KY_SWITCHES_MAX);
		case_step(&c, T0 + 300 * MS + step * MS);
	}
	test_poll_end(&w, T0 + 320 * MS, 0);
	case_finish(&c, T0 + 400 * MS);
	assert_int_equal(COUNT(&c, LOSS), 0);
	assert_int_equal(COUNT(&c, OFF_CPU), samples * steps * KY_SWITCHES_MAX);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sample__has_the_task_poll_and_worker_of_its_thread),
		cmocka_unit_test(sample__every_kind_becomes_its_event),
		cmocka_unit_test(sample__of_a_call_says_what_it_was_made_with),
		cmocka_unit_test(sample__frames_survive_every_length),
		cmocka_unit_test(sample__overwritten_samples_are_counted_exactly),
		cmocka_unit_test(sample__cell_of_another_writer_is_given_up),
		cmocka_unit_test(sample__cut_takes_the_whole_ring_and_reports_no_loss),
		cmocka_unit_test(sample__copy_has_its_area_after_its_sub_buffers),
		cmocka_unit_test(sample__area_without_a_sampler_is_not_read),
		cmocka_unit_test(sample__hostile_areas_do_no_harm),
		cmocka_unit_test(sample__no_cell_holds_words_of_two_writers),
		cmocka_unit_test(sample__switches_are_written_inside_polls_alone),
		cmocka_unit_test(sample__wait_has_its_waker),
		cmocka_unit_test(sample__page_fault_has_the_stack_of_the_program),
		cmocka_unit_test(sample__many_switches_survive_several_steps),
		cmocka_unit_test(sample__layout_lies_within_its_area),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
