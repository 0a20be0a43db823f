/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* send_case.h - a directory of traces as a recorder leaves it, made by the store itself. */
#ifndef KY_TEST_SEND_CASE_H
#define KY_TEST_SEND_CASE_H

#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <ship/store.h>
#include <string.h>

#define RUN_A "0123abcd-42-777"
#define RUN_B "0123abcd-43-778"

static char send_top[64];

static inline int send_set_up(void **state)
{
	(void)state;
	return temp_tree_make(send_top, sizeof(send_top));
}

static inline int send_tear_down(void **state)
{
	(void)state;
	return temp_tree_remove(send_top);
}

static inline struct ky_store *send_store(const char *service, const char *run, uint64_t total)
{
	struct ky_store_options options = {
		.directory = send_top, .service = service, .run = run, .total_bytes_max = total};
	struct ky_store *store;

	assert_int_equal(ky_store_open(&store, &options), 0);
	return store;
}

/* One sealed segment of 1,000 bytes. */
static inline void send_segment(struct ky_store *store)
{
	static uint8_t bytes[1000] = {'T', 'R', 'C', 0, 1};
	const struct ky_chunk chunk = {.bytes = bytes,
				       .byte_count = sizeof(bytes),
				       .is_segment_start = true,
				       .is_segment_end = true};

	assert_int_equal(ky_store_chunk(store, &chunk), 0);
}

/* Of one service: B with a segment, and A with two. */
static inline void send_two_runs(void)
{
	struct ky_store *store = send_store("web", RUN_B, 0);

	send_segment(store);
	ky_store_close(store);
	store = send_store("web", RUN_A, 0);
	send_segment(store);
	send_segment(store);
	ky_store_close(store);
}

#endif
