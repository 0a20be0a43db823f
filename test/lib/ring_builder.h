/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_builder.h - ring images in memory, written as a recorder would, one record at a time
 * and with a clock that the test sets. Times are CLOCK_MONOTONIC ns; the counter runs at 2.5
 * ticks per ns. Threads: owner.
 */
#ifndef KY_TEST_RING_BUILDER_H
#define KY_TEST_RING_BUILDER_H

#include <kymo/emit.h>
#include <stdbool.h>
#include <wire/ring_image.h>
#include <wire/sample_area.h>

#define TEST_TICKS_PER_SECOND UINT64_C(2500000000)
/* Beyond 32 bits, and yet before the counter of a machine that booted 20 s ago: what is read with
 * the real counter would wait for records that lie ahead of it. */
#define TEST_TICKS_BASE (UINT64_C(9) << 32)
#define TEST_REALTIME_OFFSET UINT64_C(1700000000000000000)
#define TEST_DIRECTORY_BYTES (256u << 10)
#define TEST_SAMPLE_BYTES (128u << 10)

struct test_ring {
	uint8_t *image;
	size_t image_bytes;
	struct ky_ring_header *header;
	struct ky_ring_control *control;
	struct ky_ring_side *side;
	uint64_t now_ns; /* what the next anchor says */
	uint32_t next_thread, next_name, next_string, next_module;
	int64_t drift_ppm; /* of the counter, from now on */
};

struct test_writer {
	struct test_ring *ring;
	uint32_t tid, index;
	uint64_t record_count, ordinal;
	struct ky_sub_buffer *sub; /* NULL: none yet */
	uint32_t slot, offset, depth;
	uint64_t last_ticks;
	uint64_t last_high;
	uint64_t dropped;
	uint64_t worker[3]; /* for the headers of later sub-buffers */
};

extern uint64_t test_ticks_base; /* what the counter had at 0 ns */
uint64_t test_ticks(uint64_t ns);

void test_ring_open(struct test_ring *ring, uint32_t slot_count);
void test_ring_close(struct test_ring *ring);
int test_ring_anchor(void *ctx, struct ky_clock_anchor *out); /* ctx: the ring */
struct ky_sub_buffer *test_ring_slot(const struct test_ring *ring, uint32_t slot);

/* The class's cells, as a sampler that has begun has them. */
struct ky_sample_ring test_ring_samples(struct test_ring *ring, uint32_t which);

/* Raw directory entry; returns its offset in the directory. */
uint64_t test_ring_entry(struct test_ring *ring, uint16_t kind, uint32_t id, const void *fixed,
			 uint32_t fixed_bytes, const char *text);
uint32_t test_ring_name(struct test_ring *ring, const char *text, uint64_t code, uint32_t copy);
uint32_t test_ring_string(struct test_ring *ring, const char *text);
void test_ring_runtime(struct test_ring *ring, uint64_t key, uint32_t kind, const char *name);
void test_ring_metadata(struct test_ring *ring, const char *key, const char *value);
void test_ring_module(struct test_ring *ring, uint64_t start, uint64_t end, const char *path);

void test_writer_open(struct test_writer *writer, struct test_ring *ring, uint32_t tid,
		      uint64_t ns);
/* Takes the next sub-buffer although the old one may have room. */
void test_writer_claim(struct test_writer *writer, uint64_t ns);
/* parked: leaves the sub-buffer to `heir`, which begins with a THREAD_CHANGE (NULL: closed). */
void test_writer_exit(struct test_writer *writer, uint64_t ns, bool is_parked);
void test_writer_continue(struct test_writer *writer, struct test_writer *parked, uint64_t ns);
void test_busy(struct test_writer *writer, bool is_busy);

void test_emit_words(struct test_writer *writer, uint64_t ns, uint32_t type, uint32_t arg,
		     uint32_t words, const uint64_t *payload);
void test_emit(struct test_writer *writer, uint64_t ns, uint32_t type, uint32_t arg, uint32_t words,
	       uint64_t a, uint64_t b, uint64_t c);
void test_poll(struct test_writer *writer, uint64_t ns, uint64_t task, uint32_t name);
void test_poll_end(struct test_writer *writer, uint64_t ns, uint32_t flags);
void test_worker(struct test_writer *writer, uint64_t ns, uint64_t launch, uint64_t runtime,
		 uint64_t identity);

#endif
