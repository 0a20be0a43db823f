/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <agent/sampled_rings.h>
#include <string.h>
#include <wire/ring_image.h>

static struct ky_sampled_rings rings;

static void find__takes_the_image_of_that_moment(void **state)
{
	struct ky_sampled_ring before = {.pid = 7, .made_ns = 100};
	struct ky_sampled_ring after = {.pid = 7, .made_ns = 200}; /* it called exec */
	struct ky_sampled_ring other = {.pid = 8, .made_ns = 50};

	(void)state;
	assert_true(ky_sampled_rings_add(&rings, &after));
	assert_true(ky_sampled_rings_add(&rings, &before));
	assert_true(ky_sampled_rings_add(&rings, &other));
	assert_null(ky_sampled_rings_find(&rings, 7, 99));
	assert_ptr_equal(ky_sampled_rings_find(&rings, 7, 100), &before);
	assert_ptr_equal(ky_sampled_rings_find(&rings, 7, 199), &before);
	assert_ptr_equal(ky_sampled_rings_find(&rings, 7, 200), &after);
	assert_null(ky_sampled_rings_find(&rings, 9, 300));
	rings.last = &before;
	ky_sampled_rings_remove(&rings, &before);
	assert_null(rings.last);
	assert_null(ky_sampled_rings_find(&rings, 7, 150));
	ky_sampled_rings_remove(&rings, &after);
	ky_sampled_rings_remove(&rings, &other);
	assert_int_equal(rings.count, 0);
}

static void add__is_bounded(void **state)
{
	static struct ky_sampled_ring many[KY_SAMPLED_RINGS_MAX + 1];

	(void)state;
	for (uint32_t i = 0; i < KY_SAMPLED_RINGS_MAX; i++)
		assert_true(ky_sampled_rings_add(&rings, &many[i]));
	assert_false(ky_sampled_rings_add(&rings, &many[KY_SAMPLED_RINGS_MAX]));
	memset(&rings, 0, sizeof(rings));
}

/* The header is another process's to write. */
static void tables__lie_within_the_image(void **state)
{
	struct ky_ring_header header = {.unwind_offset = 128, .unwind_bytes = 64};
	const struct ky_sampled_ring ring = {.image = (const uint8_t *)&header, .image_bytes = 192};

	(void)state;
	assert_null(ky_sampled_ring_tables(&ring).area);
	atomic_store(&header.unwind_ready, 1);
	assert_ptr_equal(ky_sampled_ring_tables(&ring).area, ring.image + 128);
	assert_int_equal(ky_sampled_ring_tables(&ring).area_bytes, 64);
	header.unwind_bytes = 65;
	assert_null(ky_sampled_ring_tables(&ring).area);
	header.unwind_bytes = UINT64_MAX;
	assert_null(ky_sampled_ring_tables(&ring).area);
	header.unwind_offset = 193;
	assert_null(ky_sampled_ring_tables(&ring).area);
	header.unwind_offset = 8;
	header.unwind_bytes = 8;
	assert_null(ky_sampled_ring_tables(&ring).area);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find__takes_the_image_of_that_moment),
		cmocka_unit_test(add__is_bounded),
		cmocka_unit_test(tables__lie_within_the_image),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
