/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/ring_builder.h"

#include <ring/ring_status.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>

#include "../../lib/alloc_fail.h"

#define NS UINT64_C(2000000000)
#define MS UINT64_C(1000000)

static struct test_ring built;
static struct ky_ring_status *status;

static int open_ring(void **state)
{
	(void)state;
	test_ring_open(&built, 8);
	status = ky_alloc(sizeof(*status));
	return status == NULL;
}

static int close_ring(void **state)
{
	(void)state;
	ky_free(status);
	test_ring_close(&built);
	return 0;
}

static int read_as(uint32_t found_state)
{
	const struct ky_found_ring found = {.state = found_state};
	const struct ky_ring_namer no_namer = {.name = NULL};
	struct ky_open_ring ring = {.fd = -1, .image = built.image};

	ring.image_bytes = built.image_bytes;
	return ky_ring_status_read(status, &ring, &found, &no_namer);
}

static void ring_status__open_polls_of_a_dead_process_end_with_its_last_record(void **state)
{
	struct test_writer a, b;
	uint32_t job = test_ring_name(&built, "app::job", 0, 0);

	(void)state;
	test_writer_open(&a, &built, 101, NS);
	test_writer_open(&b, &built, 102, NS);
	test_poll(&a, NS, 7, job);
	test_poll(&a, NS + 10 * MS, 8, 0);
	test_poll(&b, NS + 20 * MS, 9, job);
	test_poll_end(&b, NS + 30 * MS, 0);
	test_poll(&b, NS + 40 * MS, 10, job);
	test_emit(&a, NS + 100 * MS, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(1, 0), 0, 0);
	assert_int_equal(read_as(KY_FOUND_DEAD), 0);
	assert_int_equal(status->open_poll_count, 3);
	assert_int_equal(status->listed_count, 3);
	assert_int_equal(status->polls[0].task, 7);
	assert_int_equal(status->polls[0].tid, 101);
	assert_string_equal(status->polls[0].text, "app::job");
	assert_in_range(status->polls[0].length_ns, 99 * MS, 101 * MS);
	assert_int_equal(status->polls[1].task, 8);
	assert_int_equal(status->polls[1].depth, 1);
	assert_string_equal(status->polls[1].text, "");
	assert_int_equal(status->polls[2].task, 10);
	assert_in_range(status->polls[2].length_ns, 59 * MS, 61 * MS);
	assert_int_equal(status->record_count, a.record_count + b.record_count);
	ky_ring_status_release(status);
}

static void ring_status__poll_of_a_thread_that_continues_a_sub_buffer_is_its_own(void **state)
{
	struct test_writer a, heir;

	(void)state;
	test_writer_open(&a, &built, 101, NS);
	test_poll(&a, NS, 7, 0);
	test_poll_end(&a, NS + 1, 0);
	test_writer_exit(&a, NS + 2, true);
	test_writer_open(&heir, &built, 202, NS + 3);
	test_writer_continue(&heir, &a, NS + 3);
	test_poll(&heir, NS + 4, 8, 0);
	assert_int_equal(read_as(KY_FOUND_DEAD), 0);
	assert_int_equal(status->open_poll_count, 1);
	assert_int_equal(status->polls[0].tid, 202);
	ky_ring_status_release(status);
}

static void ring_status__words_marks_and_counters_are_copied(void **state)
{
	(void)state;
	test_ring_metadata(&built, "tokio.version", "1.49.0");
	atomic_store(&built.header->dropped_count, 5);
	atomic_store(&built.header->dropped_signal_count, 2);
	atomic_store(&built.control->settings.poll_threshold_ns, 1000);
	ky_mark_put(built.side, "deploy 7", NS);
	memcpy(built.side->counters[0].name, "jobs", 5);
	atomic_store(&built.side->counters[0].value, (uint64_t)-3);
	atomic_store(&built.side->counter_count, 1);
	atomic_store(&built.side->lost.records, 12);
	atomic_store(&built.side->lost.samples, 13);
	assert_int_equal(read_as(KY_FOUND_DEAD), 0);
	assert_int_equal(status->dropped, 5);
	assert_int_equal(status->records_lost, 12);
	assert_int_equal(status->drain_samples_lost, 13);
	assert_int_equal(status->dropped_signal, 2);
	assert_true(status->has_side);
	assert_int_equal(status->mark_count, 1);
	assert_string_equal(status->marks[0].text, "deploy 7");
	assert_int_equal(status->counter_count, 1);
	assert_string_equal(status->counters[0].name, "jobs");
	assert_int_equal(status->counters[0].value, -3);
	assert_string_equal((const char *)status->metadata.bytes, "tokio.version");
	assert_string_equal((const char *)status->metadata.bytes + 14, "1.49.0");
	ky_ring_status_release(status);
}

static void ring_status__counts_samples(void **state)
{
	struct ky_sample_ring cpu = test_ring_samples(&built, KY_SAMPLES_CPU);
	uint64_t frames[KY_SAMPLE_FRAMES_MAX] = {0};
	struct ky_sample sample = {.kind = KY_SAMPLE_CPU, .frames = frames};
	uint32_t i;

	(void)state;
	for (i = 0; i < KY_SAMPLE_FRAMES_MAX; i++) { /* of one to six slots each */
		sample.frame_count = i;
		assert_true(ky_sample_put(&cpu, &sample));
	}
	assert_int_equal(read_as(KY_FOUND_DEAD), 0);
	assert_int_equal(status->samples_min, KY_SAMPLE_FRAMES_MAX);
	ky_ring_status_release(status);
}

static void ring_status__count_of_samples_passes_its_24_bits(void **state)
{
	const uint64_t turn = KY_SAMPLE_NUMBER_MASK + UINT64_C(1);

	(void)state;
	/* 2^24 + 5 samples of six cells each, and of one each; and more than can be known. */
	assert_int_equal(ky_sample_count_min((turn + 5) * 6 | UINT64_C(5) << KY_SAMPLE_CLAIM_BITS),
			 turn + 5);
	assert_int_equal(ky_sample_count_min((turn + 5) | UINT64_C(5) << KY_SAMPLE_CLAIM_BITS),
			 turn + 5);
	assert_int_equal(ky_sample_count_min((turn * 4 + 5) | UINT64_C(5) << KY_SAMPLE_CLAIM_BITS),
			 turn + 5);
}

static void ring_status__flipped_bytes_are_survived(void **state)
{
	struct test_writer a;
	size_t at, from = built.header->slots_offset;

	(void)state;
	test_writer_open(&a, &built, 101, NS);
	test_poll(&a, NS, 7, test_ring_name(&built, "app::job", 0, 0));
	for (at = 0; at < 2 * KY_SLOT_HEADER_BYTES + sizeof(struct ky_ring_header); at++) {
		size_t byte = at < 2 * KY_SLOT_HEADER_BYTES ? from + at :
							      at - 2 * KY_SLOT_HEADER_BYTES;

		built.image[byte] ^= 0xffu;
		(void)read_as(KY_FOUND_DEAD);
		assert_in_range(status->listed_count, 0, KY_STATE_POLLS_MAX);
		ky_ring_status_release(status);
		built.image[byte] ^= 0xffu;
	}
	for (at = 0; at < atomic_load(&built.header->directory_used); at++) {
		built.image[built.header->directory_offset + at] ^= 0xffu;
		assert_int_equal(read_as(KY_FOUND_DEAD), 0);
		ky_ring_status_release(status);
		built.image[built.header->directory_offset + at] ^= 0xffu;
	}
}

static void ring_status__nth_allocation_fails_cleanly(void **state)
{
	struct test_writer a;
	uint64_t n;
	int err = -ENOMEM;

	(void)state;
	test_writer_open(&a, &built, 101, NS);
	test_poll(&a, NS, 7, test_ring_name(&built, "app::job", 0, 0));
	test_ring_metadata(&built, "k", "v");
	for (n = 0; err == -ENOMEM; n++) {
		test_alloc_fail_at(n);
		err = read_as(KY_FOUND_DEAD);
		test_alloc_normal();
		ky_ring_status_release(status);
	}
	assert_int_equal(err, 0);
	assert_true(n > 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ring, close_ring)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ring_status__open_polls_of_a_dead_process_end_with_its_last_record),
		TEST(ring_status__poll_of_a_thread_that_continues_a_sub_buffer_is_its_own),
		TEST(ring_status__words_marks_and_counters_are_copied),
		TEST(ring_status__counts_samples),
		TEST(ring_status__count_of_samples_passes_its_24_bits),
		TEST(ring_status__flipped_bytes_are_survived),
		TEST(ring_status__nth_allocation_fails_cleanly),
	};

	return cmocka_run_group_tests_name("ring_status", tests, NULL, NULL);
}
