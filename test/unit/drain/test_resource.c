/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The resource area: streams, cuts, what is missing, hostile images. */
#include "../../lib/cut_case.h"
#include "../../lib/prng.h"

#include <ring/ring_view.h>
#include <errno.h>
#include <stdlib.h>

/* Puts a resource area after the image, before the image is read. */
static uint8_t *add_area(struct test_ring *ring)
{
	size_t at = (ring->image_bytes + KY_SLOT_BYTES - 1) / KY_SLOT_BYTES * KY_SLOT_BYTES;
	size_t bytes = at + KY_RESOURCE_AREA_BYTES;
	uint8_t *image = aligned_alloc(KY_SLOT_BYTES,
				       (bytes + KY_SLOT_BYTES - 1) / KY_SLOT_BYTES * KY_SLOT_BYTES);

	memset(image, 0, bytes);
	memcpy(image, ring->image, ring->image_bytes);
	free(ring->image);
	ring->header = (void *)image;
	ring->control = (void *)(image + ((uint8_t *)ring->control - ring->image));
	ring->side = (void *)(image + ((uint8_t *)ring->side - ring->image));
	ring->image = image;
	ring->image_bytes = bytes;
	ring->header->file_bytes = bytes;
	ring->header->resource_offset = at;
	ring->header->resource_bytes = KY_RESOURCE_AREA_BYTES;
	atomic_store(&ring->header->resource_ready, 1);
	return image + at;
}

static struct ky_resource_head *head_of(uint8_t *area)
{
	return (void *)area;
}

static void put_row(uint8_t *area, const struct ky_resource_row *row)
{
	uint64_t number = atomic_load(&head_of(area)->claim_index);
	struct ky_resource_entry *entry = (void *)(area + ky_resource_entry_offset(number));

	memcpy(&entry->row, row, sizeof(*row));
	atomic_store(&entry->serial, number + 1);
	atomic_store(&head_of(area)->claim_index, number + 1);
}

static void put_usage(uint8_t *area, uint64_t ns, uint64_t base, uint32_t without)
{
	struct ky_resource_row row = {.monotonic_ns = ns, .kind = KY_RESOURCE_USAGE};

	for (uint32_t i = 0; i < KY_RESOURCE_VALUES; i++)
		if (i != without)
			ky_resource_set(&row, i, base + i);
	put_row(area, &row);
}

static uint8_t *open_case(struct drain_case *c, struct test_writer *w)
{
	uint8_t *area;

	case_open(c, 8);
	area = add_area(&c->ring);
	c->options.image = c->ring.image;
	c->options.image_bytes = c->ring.image_bytes;
	case_start(c);
	test_writer_open(w, &c->ring, 501, T0);
	return area;
}

static void resource__stream_writes_each_row_once_in_order_of_time(void **state)
{
	const struct test_event *event;
	struct drain_case c;
	struct test_writer w;
	uint8_t *area;

	(void)state;
	area = open_case(&c, &w);
	test_poll(&w, T0, 7, 0);
	put_usage(area, T0 + 2 * MS, 1000, KY_RESOURCE_VALUES);
	put_usage(area, T0 + 3 * MS, 2000, KY_USAGE_BLOCKS_IN);
	test_poll_end(&w, T0 + 4 * MS, 0);
	case_step(&c, T0 + 10 * MS);
	case_step(&c, T0 + 20 * MS);
	case_finish(&c, T0 + 30 * MS);
	assert_int_equal(COUNT(&c, RESOURCE_USAGE), 1);
	assert_int_equal(COUNT(&c, PARTIAL_USAGE), 1);
	event = EVENT(&c, RESOURCE_USAGE, 0);
	assert_in_range(event->ns, T0 + 2 * MS - 1, T0 + 2 * MS + 1);
	assert_true(EVENT(&c, POLL_START, 0) < event && event < EVENT(&c, POLL_END, 0));
	assert_int_equal(NUMBER(event, RESOURCE_USAGE, user_cpu_ns), 1000);
	assert_int_equal(NUMBER(event, RESOURCE_USAGE, involuntary_context_switches), 1008);
	assert_int_equal(NUMBER(event, RESOURCE_USAGE, fd_limit), 1012);
	event = EVENT(&c, PARTIAL_USAGE, 0);
	assert_false(event->is_present[KY_F_PARTIAL_USAGE_block_input_ops]);
	assert_true(event->is_present[KY_F_PARTIAL_USAGE_block_output_ops]);
	assert_int_equal(NUMBER(event, PARTIAL_USAGE, block_output_ops), 2006);
	assert_int_equal(NUMBER(event, PARTIAL_USAGE, rss_bytes), 2009);
	case_close(&c);
}

/* A reading takes a while, and is put down when events that are younger are written. */
static void resource__row_older_than_what_is_written_comes_with_the_next_step(void **state)
{
	struct drain_case c;
	struct test_writer w;
	uint8_t *area;

	(void)state;
	area = open_case(&c, &w);
	test_poll(&w, T0, 7, 0);
	test_poll_end(&w, T0 + 8 * MS, 0);
	case_step(&c, T0 + 20 * MS);
	put_usage(area, T0 + 2 * MS, 1000, KY_RESOURCE_VALUES);
	case_step(&c, T0 + 40 * MS);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, RESOURCE_USAGE), 1);
	assert_in_range(EVENT(&c, RESOURCE_USAGE, 0)->ns, T0 + 8 * MS - 1, T0 + 20 * MS);
	case_close(&c);
}

static void resource__every_kind_is_an_event(void **state)
{
	struct ky_resource_row row = {.monotonic_ns = T0 + MS, .present = UINT32_MAX};
	const struct test_event *event;
	struct drain_case c;
	struct test_writer w;
	uint8_t *area;

	(void)state;
	area = open_case(&c, &w);
	test_poll(&w, T0, 7, 0);
	for (uint32_t i = 0; i < KY_RESOURCE_VALUES; i++)
		row.values[i] = 100 + i;
	for (uint8_t kind = 0; kind < 8; kind++) { /* 0, 6 and 7 have no meaning */
		row.kind = kind;
		row.scope = kind == KY_RESOURCE_LISTENER ? 4 : 1;
		if (kind == KY_RESOURCE_LISTENER)
			memcpy(&row.values[KY_LISTENER_ADDRESS], "\x7f\0\0\1", 4);
		put_row(area, &row);
	}
	row.kind = KY_RESOURCE_SOCKET;
	row.values[KY_SOCKET_TID] = 501; /* the thread whose poll is open */
	put_row(area, &row);
	row.kind = KY_RESOURCE_LISTENER;
	row.scope = 6;
	row.present = 0;
	row.values[KY_LISTENER_PENDING] = UINT64_MAX;
	memset(&row.values[KY_LISTENER_ADDRESS], 0, 16);
	put_row(area, &row);
	case_step(&c, T0 + 10 * MS);
	case_finish(&c, T0 + 20 * MS);
	event = EVENT(&c, CGROUP_USAGE, 0);
	assert_int_equal(NUMBER(event, CGROUP_USAGE, level), 1);
	assert_int_equal(NUMBER(event, CGROUP_USAGE, cpu_usage_ns), 100);
	assert_int_equal(NUMBER(event, CGROUP_USAGE, oom_kills), 110);
	event = EVENT(&c, PRESSURE, 0);
	assert_int_equal(NUMBER(event, PRESSURE, scope), 1);
	assert_int_equal(NUMBER(event, PRESSURE, io_full_ns), 105);
	event = EVENT(&c, LISTEN_DROPS, 0);
	assert_int_equal(NUMBER(event, LISTEN_DROPS, drop_count), 101);
	event = EVENT(&c, TCP_ACCEPT_QUEUE, 0);
	assert_int_equal(NUMBER(event, TCP_ACCEPT_QUEUE, socket_cookie), 100);
	assert_int_equal(NUMBER(event, TCP_ACCEPT_QUEUE, local_port), 102);
	assert_int_equal(NUMBER(event, TCP_ACCEPT_QUEUE, pending_connections), 103);
	assert_int_equal(NUMBER(event, TCP_ACCEPT_QUEUE, dropped_connections), 105);
	assert_memory_equal(TEXT(event, TCP_ACCEPT_QUEUE, local_addr), "127.0.0.1", 9);
	event = EVENT(&c, TCP_ACCEPT_QUEUE, 1);
	assert_int_equal(NUMBER(event, TCP_ACCEPT_QUEUE, ip_version), 6);
	assert_true(NUMBER(event, TCP_ACCEPT_QUEUE, pending_connections) == UINT32_MAX);
	assert_false(event->is_present[KY_F_TCP_ACCEPT_QUEUE_dropped_connections]);
	assert_int_equal(COUNT(&c, RESOURCE_USAGE), 1);
	event = EVENT(&c, SOCKET_WAIT, 0);
	assert_int_equal(NUMBER(event, SOCKET_WAIT, task_id), 7);
	assert_int_equal(NUMBER(event, SOCKET_WAIT, since_ns), 100 + KY_SOCKET_SINCE_NS);
	assert_int_equal(NUMBER(event, SOCKET_WAIT, read_ns), T0 + MS);
	assert_int_equal(NUMBER(event, SOCKET_WAIT, local_port), 100 + KY_SOCKET_LOCAL_PORT);
	assert_int_equal(NUMBER(event, SOCKET_WAIT, silent_ns), 100 + KY_SOCKET_SILENT_NS);
	case_close(&c);
}

static uint8_t *open_cut(struct cut_case *c, struct test_writer *w)
{
	uint8_t *area;

	cut_open(c, 8);
	area = add_area(&c->ring);
	c->options.image = c->ring.image;
	c->options.image_bytes = c->ring.image_bytes;
	test_writer_open(w, &c->ring, 501, T0);
	return area;
}

static void resource__cut_has_the_minutes_before(void **state)
{
	static struct cut_case c;
	struct test_writer w;
	uint8_t *area;

	(void)state;
	area = open_cut(&c, &w);
	test_poll(&w, T0, 7, 0);
	test_poll_end(&w, T0 + MS, 0);
	/* Ten more than there is room for: the oldest are gone. */
	for (uint64_t i = 0; i < KY_RESOURCE_ENTRIES + 10; i++)
		put_usage(area, T0 + i * MS, i, KY_RESOURCE_VALUES);
	cut_take(&c, T0 + 3000 * MS);
	assert_int_equal(COUNT(&c, RESOURCE_USAGE), KY_RESOURCE_ENTRIES);
	assert_int_equal(NUMBER(EVENT(&c, RESOURCE_USAGE, 0), RESOURCE_USAGE, user_cpu_ns), 10);
	/* Within its range alone. */
	c.options.from_ns = T0 + 1000 * MS;
	cut_take(&c, T0 + 3000 * MS);
	assert_in_range(COUNT(&c, RESOURCE_USAGE), KY_RESOURCE_ENTRIES + 10 - 1000 - 2,
			KY_RESOURCE_ENTRIES + 10 - 1000);
	cut_close(&c);
}

static void missing__is_a_sentence_of_the_metadata(void **state)
{
	static struct cut_case c;
	struct test_writer w;
	uint8_t *area;

	(void)state;
	area = open_cut(&c, &w);
	test_poll(&w, T0, 7, 0);
	head_of(area)->interval_ns = 1000000000;
	head_of(area)->path_bytes = 4;
	memcpy(head_of(area)->path, "/a/b", 4);
	head_of(area)->missing[KY_PART_IO] = EACCES;
	head_of(area)->missing[KY_PART_CGROUP_MEMORY] = KY_WHY_NO_CONTROLLER;
	head_of(area)->missing[KY_PART_DROPS] = UINT32_MAX;
	cut_take(&c, T0 + 10 * MS);
	assert_string_equal(cut_metadata(&c, "resources.interval_ns"), "1000000000");
	assert_string_equal(cut_metadata(&c, "resources.cgroup"), "/a/b");
	assert_string_equal(cut_metadata(&c, "resources.missing"),
			    "block input and output: not permitted; cgroup memory: no cgroup "
			    "counts it; dropped connections: unknown");
	/* No readings were taken: nothing is written, and nothing of the area touched. */
	atomic_store(&c.ring.header->resource_ready, 0);
	cut_take(&c, T0 + 10 * MS);
	assert_null(cut_metadata(&c, "resources.missing"));
	cut_close(&c);
}

static void hostile__area_does_no_harm(void **state)
{
	struct test_prng prng = {4711};

	(void)state;
	for (uint32_t round = 0; round < 40; round++) {
		static struct cut_case c;
		struct test_writer w;
		uint8_t *area = open_cut(&c, &w);

		test_poll(&w, T0, 7, 0);
		for (uint32_t i = 0; i < 300; i++)
			put_usage(area, T0 + i * MS, i, KY_RESOURCE_VALUES);
		for (uint32_t i = 0; i < 200; i++)
			area[test_below(&prng, KY_RESOURCE_ENTRIES_OFFSET + 300 * 128)] = (uint8_t)
				test_random(&prng);
		if (round % 4 == 1)
			head_of(area)->claim_index = test_random(&prng);
		if (round % 4 == 2)
			c.ring.header->resource_offset = test_random(&prng) & ~UINT64_C(63);
		if (round % 4 == 3) { /* cut off within the area */
			c.options.image_bytes -= test_below(&prng, KY_RESOURCE_AREA_BYTES);
		}
		cut_take(&c, T0 + 1000 * MS);
		assert_int_equal(COUNT(&c, POLL_START), 1);
		cut_close(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resource__stream_writes_each_row_once_in_order_of_time),
		cmocka_unit_test(resource__row_older_than_what_is_written_comes_with_the_next_step),
		cmocka_unit_test(resource__every_kind_is_an_event),
		cmocka_unit_test(resource__cut_has_the_minutes_before),
		cmocka_unit_test(missing__is_a_sentence_of_the_metadata),
		cmocka_unit_test(hostile__area_does_no_harm),
	};

	return cmocka_run_group_tests_name("resource", tests, NULL, NULL);
}
