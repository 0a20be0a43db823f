/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The drain against a naive model on random schedules, and against images that lie. */
#include "../../lib/alloc_fail.h"
#include "../../lib/drain_case.h"
#include "../../lib/prng.h"

#include <ring/ring_view.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdlib.h>

#define WRITERS 6u
#define RECORDS 20000u

/* ---- property: everything once, sorted by time, pairs balanced ---- */

struct model {
	uint64_t ns;
	uint64_t tag;
};

static int by_time(const void *a, const void *b)
{
	const struct model *left = a, *right = b;

	return left->ns < right->ns ? -1 : left->ns > right->ns;
}

static void run_schedule(uint64_t seed)
{
	static struct model expected[RECORDS];
	struct test_prng prng = {seed};
	struct test_writer w[WRITERS];
	uint32_t open[WRITERS] = {0};
	uint64_t ns = T0, tag = 1, count = 0, marks = 0, open_workers = 0;
	struct ky_drain_stats stats;
	struct drain_case c;

	case_open(&c, 256);
	if (test_below(&prng, 3) == 0)
		c.options.memory_bytes_max = (256u << 10) + test_below(&prng, 1u << 20);
	case_start(&c);
	for (uint32_t i = 0; i < WRITERS; i++)
		test_writer_open(&w[i], &c.ring, 501 + i, T0);
	while (count < RECORDS) {
		uint32_t i = test_below(&prng, WRITERS);

		ns += test_below(&prng, 4) ? test_below(&prng, 3000) : test_below(&prng, 300000);
		switch (test_below(&prng, 8)) {
		case 0:
			if (open[i] < 3)
				test_poll(&w[i], ns, 100 + i * 10 + open[i]++, 0);
			break;
		case 1:
			if (open[i]) {
				open[i]--;
				test_poll_end(&w[i], ns, 0);
			}
			break;
		case 2:
			if (test_below(&prng, 50) == 0)
				test_writer_claim(&w[i], ns);
			break;
		default:
			/* NOTIFY carries a word through untouched: the identity of a record. */
			test_emit(&w[i], ns, KYMO_RECORD_NOTIFY, 2, 1, tag, 0, 0);
			expected[marks++] = (struct model){ns, tag++};
			break;
		}
		count++;
		if (test_below(&prng, 300) == 0)
			case_step(&c, ns + test_below(&prng, 3000000));
		if (ns < c.ring.now_ns)
			ns = c.ring.now_ns;
		if (test_below(&prng, 4000) == 0)
			ky_drain_seal(c.drain);
	}
	case_finish(&c, ns + 10 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.records_lost, 0);
	assert_int_equal(stats.records_late, 0);
	assert_int_equal(COUNT(&c, WORKER_NOTIFY), marks);
	qsort(expected, marks, sizeof(expected[0]), by_time);
	for (size_t i = 0, n = 0; i < c.sink.event_count; i++) {
		const struct test_event *event = &c.sink.events[i];

		if (i)
			assert_true(event->ns >= c.sink.events[i - 1].ns);
		if (event->event != KY_EV_WORKER_NOTIFY)
			continue;
		assert_true(event->ns + 8 > expected[n].ns && event->ns < expected[n].ns + 8);
		expected[n++].tag ^= NUMBER(event, WORKER_NOTIFY, target);
	}
	/* Records of one stamp may swap places; none may be missing or come twice. */
	for (size_t i = 0; i < marks; i++)
		open_workers ^= expected[i].tag;
	assert_int_equal(open_workers, 0);
	case_close(&c);
}

static void drain__random_schedules_come_out_complete_and_sorted(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++)
		run_schedule(seed);
}

static void drain__pairs_balance_per_worker_under_any_loss(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct test_prng prng = {seed};
		struct test_writer w[3];
		uint32_t depth[3] = {0};
		int open[16] = {0};
		uint64_t ns = T0, written = 0, lost = 0;
		struct ky_drain_stats stats;
		struct drain_case c;

		case_open(&c, 5);
		case_start(&c);
		for (uint32_t i = 0; i < 3; i++)
			test_writer_open(&w[i], &c.ring, 501 + i, T0);
		for (uint32_t n = 0; n < 30000; n++) {
			uint32_t i = test_below(&prng, 3);

			ns += 1 + test_below(&prng, 4000);
			if (depth[i] < 6 && test_below(&prng, 2)) {
				depth[i]++;
				test_poll(&w[i], ns, 1 + n, 0);
			} else if (depth[i]) {
				depth[i]--;
				test_poll_end(&w[i], ns, test_below(&prng, 2));
			}
			if (test_below(&prng, 3000) == 0)
				case_step(&c, ns);
			if (ns < c.ring.now_ns)
				ns = c.ring.now_ns;
		}
		case_finish(&c, ns + 10 * MS);
		ky_drain_stats(c.drain, &stats);
		for (size_t i = 0; i < c.sink.event_count; i++) {
			const struct test_event *event = &c.sink.events[i];

			if (event->event == KY_EV_POLL_START)
				open[NUMBER(event, POLL_START, worker_id)] = 1;
			if (event->event == KY_EV_POLL_END) {
				/* Never an end without a start before it. */
				assert_int_equal(open[NUMBER(event, POLL_END, worker_id)], 1);
				open[NUMBER(event, POLL_END, worker_id)] = 0;
			}
			if (event->event == KY_EV_LOSS)
				lost += NUMBER(event, LOSS, record_count);
		}
		for (uint32_t i = 0; i < 3; i++)
			written += w[i].record_count;
		assert_true(lost > 0);
		assert_int_equal(lost, stats.records_lost);
		assert_int_equal(stats.records_read + lost, written);
		case_close(&c);
	}
}

/* ---- images that lie ---- */

static void fill(struct drain_case *c, struct test_writer *w)
{
	uint64_t ns = T0;

	case_open(c, 6);
	for (uint32_t i = 0; i < 2; i++) {
		test_writer_open(&w[i], &c->ring, 501 + i, T0);
		test_worker(&w[i], ns, 10 + i, 0x7000, 1 + i);
	}
	test_ring_name(&c->ring, "name", 0, 0);
	test_ring_module(&c->ring, 0x1000, 0x2000, "/bin/app");
	test_ring_metadata(&c->ring, "a.b", "c");
	test_ring_string(&c->ring, "label");
	for (uint32_t n = 0; n < 800; n++) {
		struct test_writer *one = &w[n % 2];

		test_poll(one, ns += 1000, 1 + n % 9, 1);
		test_emit(one, ns += 1000, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(n % 9, 0), 0, 0);
		test_poll_end(one, ns += 1000, n % 50 == 0);
	}
	c->ring.now_ns = ns + 20 * MS;
}

/* Opens and drains whatever is there; any answer is fine as long as it is one. */
static int drain_all(struct drain_case *c, const uint8_t *image, size_t image_bytes)
{
	struct ky_drain_options options = c->options;
	int err;

	options.image = image;
	options.image_bytes = image_bytes;
	err = ky_drain_open(&c->drain, &options);
	if (err)
		return err;
	err = ky_drain_step(c->drain, 0);
	if (!err)
		err = ky_drain_step(c->drain, KY_DRAIN_FINAL);
	ky_drain_seal(c->drain);
	ky_drain_close(c->drain);
	c->drain = NULL;
	return err;
}

static void drain__torn_image_gives_what_is_whole(void **state)
{
	struct drain_case c;
	struct test_writer w[2];
	uint8_t *copy;
	size_t step;

	(void)state;
	fill(&c, w);
	for (size_t bytes = 0; bytes < c.ring.image_bytes; bytes += step) {
		int err;

		/* An allocation of exactly this size: the sanitiser sees every byte read beyond. */
		copy = aligned_alloc(64, (bytes + 63) / 64 * 64);
		memcpy(copy, c.ring.image, bytes);
		err = drain_all(&c, copy, bytes);
		if (bytes < sizeof(struct ky_ring_header))
			assert_int_equal(err, KYMO_E_TRUNCATED);
		else
			assert_int_equal(err, 0);
		free(copy);
		step = bytes < 1024 ? 64 : bytes < 16384 ? 448 : 4096 + 512;
	}
	test_sink_decode(&c.sink);
	case_close(&c);
}

static void drain__random_bytes_in_the_image_do_no_harm(void **state)
{
	struct drain_case c;
	struct test_writer w[2];
	uint8_t *copy;

	(void)state;
	fill(&c, w);
	copy = aligned_alloc(64, (c.ring.image_bytes + 63) / 64 * 64);
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct test_prng prng = {seed};
		uint32_t hits = 1 + test_below(&prng, 40);

		memcpy(copy, c.ring.image, c.ring.image_bytes);
		while (hits--) {
			/* Header, directory and the first words of slots are where it matters. */
			size_t area = test_below(&prng, 4);
			size_t at = area == 0 ? 16 + test_below(&prng, 400) :
				    area == 1 ? 8192 + test_below(&prng, 600) :
				    area == 2 ? 8192 + TEST_DIRECTORY_BYTES +
							test_below(&prng, 6) * KY_SLOT_BYTES +
							test_below(&prng, 320) :
						test_below(&prng, (uint32_t)c.ring.image_bytes);

			if (at >= 16)
				copy[at] = test_below(&prng, 3) ? (uint8_t)test_random(&prng) :
								  0xff;
		}
		drain_all(&c, copy, c.ring.image_bytes);
		test_sink_decode(&c.sink);
		c.sink.bytes.used = 0;
	}
	free(copy);
	case_close(&c);
}

static void drain__open_returns_what_is_wrong(void **state)
{
	struct drain_case c;

	(void)state;
	case_open(&c, 4);
	c.ring.header->version = 9;
	assert_int_equal(ky_drain_open(&c.drain, &c.options), KYMO_E_VERSION);
	c.ring.header->version = 1;
	c.ring.header->slot_bytes = 4096;
	assert_int_equal(ky_drain_open(&c.drain, &c.options), KYMO_E_CORRUPT);
	c.ring.header->slot_bytes = KY_SLOT_BYTES;
	atomic_store(&c.ring.header->magic, 1);
	assert_int_equal(ky_drain_open(&c.drain, &c.options), KYMO_E_NOT_TRACE);
	assert_null(c.drain);
	case_close(&c);
}

static void view__side_area_is_whole_or_absent(void **state)
{
	struct ky_ring_view view;
	struct drain_case c;
	uint64_t end;

	(void)state;
	case_open(&c, 4);
	assert_int_equal(ky_ring_view_init(&view, c.ring.image, c.ring.image_bytes), 0);
	assert_ptr_equal(view.side, c.ring.side);
	end = c.ring.header->side_offset + c.ring.header->side_bytes;
	assert_int_equal(ky_ring_view_init(&view, c.ring.image, end), 0);
	assert_ptr_equal(view.side, c.ring.side);
	assert_int_equal(ky_ring_view_init(&view, c.ring.image, end - 1), 0);
	assert_null(view.side);
	c.ring.header->side_bytes = sizeof(struct ky_ring_side) - 1;
	assert_int_equal(ky_ring_view_init(&view, c.ring.image, c.ring.image_bytes), 0);
	assert_null(view.side);
	c.ring.header->side_bytes = UINT64_MAX;
	assert_int_equal(ky_ring_view_init(&view, c.ring.image, c.ring.image_bytes), 0);
	assert_null(view.side);
	c.ring.header->side_bytes = sizeof(struct ky_ring_side);
	for (uint64_t offset = 0; offset < 8192; offset += 8) {
		c.ring.header->side_offset = UINT64_MAX - offset;
		assert_int_equal(ky_ring_view_init(&view, c.ring.image, c.ring.image_bytes), 0);
		assert_null(view.side);
	}
	c.ring.header->side_offset = 8192 + 8;
	assert_int_equal(ky_ring_view_init(&view, c.ring.image, c.ring.image_bytes), 0);
	assert_null(view.side);
	c.ring.header->side_offset = 0; /* written before there was one */
	assert_int_equal(ky_ring_view_init(&view, c.ring.image, c.ring.image_bytes), 0);
	assert_null(view.side);
	case_close(&c);
}

static void drain__nth_allocation_fails_cleanly(void **state)
{
	struct drain_case c;
	struct test_writer w[2];
	bool has_passed = false;

	(void)state;
	fill(&c, w);
	for (uint64_t n = 0; n < 400 && !has_passed; n++) {
		int err;

		test_alloc_fail_at(n);
		err = ky_drain_open(&c.drain, &c.options);
		if (err) {
			assert_int_equal(err, -ENOMEM);
			assert_null(c.drain);
		} else {
			err = ky_drain_step(c.drain, KY_DRAIN_FINAL);
			assert_true(err == 0 || err == -ENOMEM);
			ky_drain_seal(c.drain);
			has_passed = !err && test_allocs_left > 0;
		}
		ky_drain_close(c.drain);
		c.drain = NULL;
		test_alloc_normal();
		c.sink.bytes.used = 0;
	}
	assert_true(has_passed);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drain__random_schedules_come_out_complete_and_sorted),
		cmocka_unit_test(drain__pairs_balance_per_worker_under_any_loss),
		cmocka_unit_test(drain__torn_image_gives_what_is_whole),
		cmocka_unit_test(drain__random_bytes_in_the_image_do_no_harm),
		cmocka_unit_test(drain__open_returns_what_is_wrong),
		cmocka_unit_test(view__side_area_is_whole_or_absent),
		cmocka_unit_test(drain__nth_allocation_fails_cleanly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
