/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* event_list.h - chunks collected from a drain and decoded into a list a test can ask about.
 * Threads: owner.
 */
#ifndef KY_TEST_EVENT_LIST_H
#define KY_TEST_EVENT_LIST_H

#include <base/buf.h>
#include <stdbool.h>
#include <wire/chunk.h>
#include <wire/trc.h>

#define TEST_FIELDS_MAX 32

struct test_event {
	uint32_t event; /* KY_EV_ */
	uint64_t ns;
	uint64_t number[TEST_FIELDS_MAX]; /* by KY_F_ number */
	bool is_present[TEST_FIELDS_MAX];
	char *text[TEST_FIELDS_MAX];
	size_t text_bytes[TEST_FIELDS_MAX];
	uint32_t frame_count[TEST_FIELDS_MAX]; /* of a stack, and its first frame */
	uint64_t leaf[TEST_FIELDS_MAX];
	uint64_t chunk; /* number of the stream header before it, from 0 */
};

struct test_chunk {
	uint64_t offset, bytes, events, first_ns, last_ns;
	bool is_start, is_end;
};

struct test_sink {
	struct ky_buf bytes;
	struct test_chunk *chunks;
	size_t chunk_count;
	size_t refuse_from, refuse_count; /* refuses chunks of these numbers */
	size_t seen;
	struct test_event *events;
	size_t event_count;
};

void test_sink_open(struct test_sink *sink);
void test_sink_close(struct test_sink *sink);
int test_sink_chunk(void *ctx, const struct ky_chunk *chunk); /* a ky_chunk_fn */

/* Decodes what was collected (again). Returns the number of events; fails the test when the decoder
 * does not like the bytes. */
size_t test_sink_decode(struct test_sink *sink);

size_t test_sink_count(const struct test_sink *sink, uint32_t event);
/* The n-th event of this kind, or NULL. */
const struct test_event *test_sink_find(const struct test_sink *sink, uint32_t event, size_t n);

#endif
