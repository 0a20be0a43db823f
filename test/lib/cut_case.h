/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* cut_case.h - a ring image, cuts of it, and what came out. */
#ifndef KY_TEST_CUT_CASE_H
#define KY_TEST_CUT_CASE_H

#include "drain_case.h"

#include <drain/cut.h>
#include <stdlib.h>
#include <string.h>

struct cut_case {
	struct test_ring ring;
	struct test_sink sink;
	struct ky_cut_options options;
	struct ky_cut_report report;
};

static inline void cut_open(struct cut_case *c, uint32_t slots)
{
	memset(c, 0, sizeof(*c));
	test_ring_open(&c->ring, slots);
	test_sink_open(&c->sink);
	c->options = (struct ky_cut_options){.image = c->ring.image,
					     .image_bytes = c->ring.image_bytes,
					     .anchor = test_ring_anchor,
					     .anchor_ctx = &c->ring,
					     .chunk = test_sink_chunk,
					     .chunk_ctx = &c->sink,
					     .hostname = "box",
					     .source = "test"};
}

/* With one thread that writes. */
static inline void cut_begin(struct cut_case *c, struct test_writer *w, uint32_t slots)
{
	cut_open(c, slots);
	test_writer_open(w, &c->ring, 501, T0);
}

/* Cuts and decodes, after whatever was cut before. now_ns: what the clock says. */
static inline void cut_take(struct cut_case *c, uint64_t now_ns)
{
	test_sink_close(&c->sink);
	test_sink_open(&c->sink);
	c->ring.now_ns = now_ns;
	assert_int_equal(ky_cut(&c->options, &c->report), 0);
	test_sink_decode(&c->sink);
}

/* One every 10 us, each of 5 us. Returns the time after the last. */
static inline uint64_t cut_polls(struct test_writer *w, struct test_ring *ring, uint64_t ns,
				 uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		ring->now_ns = ns; /* sub-buffers carry the clock of their claim */
		test_poll(w, ns, 1 + i % 50, 0);
		test_poll_end(w, ns + 5000, 0);
		ns += 10000;
	}
	return ns;
}

static inline void cut_close(struct cut_case *c)
{
	test_sink_close(&c->sink);
	test_ring_close(&c->ring);
}

/* The value of the last metadata event, NULL: it has no such key. */
static inline const char *cut_metadata(struct cut_case *c, const char *key)
{
	static char value[2048];
	size_t count = COUNT(c, SEGMENT_METADATA), key_bytes = strlen(key);
	const struct test_event *last = count ? EVENT(c, SEGMENT_METADATA, count - 1) : NULL;
	const char *found = NULL, *map = last ? TEXT(last, SEGMENT_METADATA, entries) : NULL;
	size_t bytes = map ? last->text_bytes[KY_F_SEGMENT_METADATA_entries] : 0;

	for (size_t at = 0; at + 8 <= bytes;) {
		uint32_t parts[2];

		memcpy(&parts[0], map + at, 4);
		memcpy(&parts[1], map + at + 4 + parts[0], 4);
		if (parts[0] == key_bytes && memcmp(map + at + 4, key, key_bytes) == 0) {
			memcpy(value, map + at + 8 + parts[0], parts[1]);
			value[parts[1]] = 0;
			found = value;
		}
		at += 8 + parts[0] + parts[1];
	}
	return found;
}

#endif
