/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A ring of the smallest kind, its bytes written as the kernel does. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <probe/perf_event.h>
#include <probe/perf_ring.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RING_BYTES 4096u

static uint64_t room[KY_PERF_RECORD_WORDS];
static struct ky_perf_ring ring;
static uint64_t lost;

static int setup(void **state)
{
	(void)state;
	ring = (struct ky_perf_ring){.fd = -1, .bytes = RING_BYTES};
	ring.page = calloc(1, KY_PERF_PAGE_BYTES + RING_BYTES);
	lost = 0;
	return ring.page ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(ring.page);
	return 0;
}

static uint8_t *data(void)
{
	return (uint8_t *)ring.page + KY_PERF_PAGE_BYTES;
}

/* Without looking for room. */
static void put(uint32_t type, uint32_t bytes, const uint64_t *payload)
{
	const struct perf_event_header header = {type, 0, (uint16_t)bytes};
	uint64_t head = ring.page->data_head;

	for (uint32_t i = 0; i < 8; i++)
		data()[(head + i) % RING_BYTES] = ((const uint8_t *)&header)[i];
	for (uint32_t i = 8; i < bytes; i++)
		data()[(head + i) % RING_BYTES] = ((const uint8_t *)payload)[i - 8];
	ring.page->data_head = head + bytes;
}

/* Against a queue of what was put: lengths of all kinds, so that many go round the end. */
static void ring__returns_records_in_order(void **state)
{
	struct test_prng prng = {7};
	uint64_t payload[64];
	uint32_t wrapped = 0;

	(void)state;
	for (uint32_t round = 0; round < 2000; round++) {
		uint32_t count = 1 + test_below(&prng, 6);
		uint32_t lengths[6];
		uint64_t first[6];

		for (uint32_t i = 0; i < count; i++) {
			lengths[i] = 16 + 8 * test_below(&prng, 60);
			first[i] = test_random(&prng);
			for (uint32_t at = 0; at < 64; at++)
				payload[at] = first[i] + at;
			put(PERF_RECORD_SAMPLE, lengths[i], payload);
		}
		for (uint32_t i = 0; i < count; i++) {
			const struct perf_event_header *record = ky_perf_ring_begin(&ring, room,
										    &lost);
			const uint64_t *words = (const void *)record;

			assert_non_null(record);
			assert_int_equal(record->size, lengths[i]);
			for (uint32_t at = 1; at < lengths[i] / 8; at++)
				assert_int_equal(words[at], first[i] + at - 1);
			wrapped += words == room;
			ky_perf_ring_end(&ring, record);
		}
		assert_null(ky_perf_ring_begin(&ring, room, &lost));
		assert_int_equal(ring.page->data_tail, ring.page->data_head);
	}
	assert_in_range(wrapped, 100, 2000);
	assert_int_equal(lost, 0);
}

static void ring__frees_room_at_the_end_alone(void **state)
{
	const struct perf_event_header *record;
	uint64_t payload[4] = {0};

	(void)state;
	put(PERF_RECORD_SAMPLE, 40, payload);
	record = ky_perf_ring_begin(&ring, room, &lost);
	assert_int_equal(ring.page->data_tail, 0);
	ky_perf_ring_end(&ring, record);
	assert_int_equal(ring.page->data_tail, 40);
}

static void ring__counts_what_the_kernel_had_no_room_for(void **state)
{
	const uint64_t reported[] = {99, 12}; /* of which event, how many */
	const struct perf_event_header *record;

	(void)state;
	put(PERF_RECORD_LOST, 24, reported);
	put(PERF_RECORD_LOST, 16, reported); /* says nothing */
	record = ky_perf_ring_begin(&ring, room, &lost);
	assert_int_equal(record->type, PERF_RECORD_LOST);
	ky_perf_ring_end(&ring, record);
	ky_perf_ring_end(&ring, ky_perf_ring_begin(&ring, room, &lost));
	assert_int_equal(lost, 12);
}

/* Its taker left by a jump: that record is lost, the next one is met. */
static void ring__loses_a_record_that_was_not_ended(void **state)
{
	uint64_t payload[2] = {1, 0};
	const struct perf_event_header *record;

	(void)state;
	put(PERF_RECORD_SAMPLE, 16, payload);
	payload[0] = 2;
	put(PERF_RECORD_SAMPLE, 16, payload);
	(void)ky_perf_ring_begin(&ring, room, &lost);
	record = ky_perf_ring_begin(&ring, room, &lost);
	assert_int_equal(((const uint64_t *)(const void *)record)[1], 2);
	assert_int_equal(lost, 1);
	/* And where it was the last one. */
	assert_null(ky_perf_ring_begin(&ring, room, &lost));
	assert_int_equal(lost, 2);
	put(PERF_RECORD_SAMPLE, 16, payload);
	assert_non_null(ky_perf_ring_begin(&ring, room, &lost));
	assert_int_equal(lost, 2);
}

/* Lengths that cannot be: everything in it is given up, and it continues after that. */
static void ring__discards_its_content_at_an_invalid_length(void **state)
{
	const uint64_t payload[8] = {0};

	(void)state;
	put(PERF_RECORD_SAMPLE, 8, payload);
	((struct perf_event_header *)(void *)data())->size = 7;
	put(PERF_RECORD_SAMPLE, 16, payload);
	assert_null(ky_perf_ring_begin(&ring, room, &lost));
	assert_int_equal(ring.page->data_tail, ring.page->data_head);
	put(PERF_RECORD_SAMPLE, 16, payload);
	((struct perf_event_header *)(void *)(data() + 24))->size = 24; /* beyond the head */
	assert_null(ky_perf_ring_begin(&ring, room, &lost));
	assert_int_equal(ring.page->data_tail, ring.page->data_head);
	put(PERF_RECORD_SAMPLE, 16, payload);
	assert_non_null(ky_perf_ring_begin(&ring, room, &lost));
}

/* The program has closed all descriptors, and has one of its own by the number of an event. */
static void event__that_is_another_file_by_now_is_left_alone(void **state)
{
	int fd = eventfd(5, EFD_NONBLOCK);
	uint64_t word = 0;

	(void)state;
	assert_true(fd >= 0);
	assert_false(ky_perf_event_read(fd, &word, 1));
	ky_perf_event_close(fd);
	ky_perf_event_close_copy(fd);
	assert_int_equal(read(fd, &word, sizeof(word)), sizeof(word));
	assert_int_equal(word, 5);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event__that_is_another_file_by_now_is_left_alone),
		cmocka_unit_test_setup_teardown(ring__returns_records_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(ring__frees_room_at_the_end_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(ring__counts_what_the_kernel_had_no_room_for, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ring__loses_a_record_that_was_not_ended, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ring__discards_its_content_at_an_invalid_length,
						setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
