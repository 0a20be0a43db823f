/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Writes the seeds of fuzz/corpus/ring_image: make_ring_corpus DIRECTORY. */
#include "ring_builder.h"

#include <stdio.h>
#include <string.h>

#define T0 UINT64_C(2000000000)
/* The fuzz target's clock runs at 2 ticks a ns, ours at 2.5 from another start: what counts is
 * order. */

static void save(const char *directory, const char *name, uint8_t how, const struct test_ring *ring,
		 size_t bytes)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "wb");
	if (!file || fwrite(&how, 1, 1, file) != 1 ||
	    fwrite(ring->image, 1, bytes, file) != bytes || fclose(file) != 0)
		fprintf(stderr, "%s: cannot write it\n", path);
}

static void small_directory(struct test_ring *ring)
{
	/* A seed of 300 KiB teaches a fuzzer nothing: the slots move up behind a directory of
	 * 8 KiB. */
	size_t slots = ring->image_bytes - ring->header->slots_offset;
	size_t front = ring->header->directory_offset + 8192;

	memmove(ring->image + front, ring->image + ring->header->slots_offset, slots);
	ring->header->directory_bytes = 8192;
	ring->header->slots_offset = front;
	ring->image_bytes = front + slots;
	ring->header->file_bytes = ring->image_bytes;
}

/* Marks, one of them half written, counters, an end and a crash. */
static void fill_side(struct test_ring *ring)
{
	struct ky_ring_side *side = ring->side;

	for (uint32_t i = 0; i < 3; i++) {
		side->marks[i].monotonic_ns = T0 + 1000 * i;
		side->marks[i].text_bytes = 6;
		memcpy(side->marks[i].text, "deploy", 6);
		atomic_store(&side->marks[i].serial, i == 1 ? 0 : i + 1);
		memcpy(side->counters[i].name, "errors", 6);
		atomic_store(&side->counters[i].value, i);
	}
	atomic_store(&side->mark_hand, 3);
	atomic_store(&side->counter_count, 3);
	side->crash.signal = 11;
	side->crash.tid = 501;
	side->crash.monotonic_ns = T0 + 5000;
	side->crash.ticks = test_ticks(T0 + 5000);
	side->crash.register_count = 3;
	side->crash.stack_bytes = 16;
	atomic_store(&side->crash.state, 2);
	side->end.code = 9;
	side->end.monotonic_ns = T0 + 6000;
	atomic_store(&side->end.kind, KY_END_SIGNAL);
}

int main(int argc, char **argv)
{
	struct test_writer w[3];
	struct test_ring ring;
	uint64_t ns = T0;

	if (argc < 2)
		return 2;
	test_ring_open(&ring, 3);
	test_ring_runtime(&ring, 0x7000, 1, "main");
	test_ring_name(&ring, "app::task", 0, 0);
	test_ring_module(&ring, 0x1000, 0x2000, "/bin/app");
	test_ring_metadata(&ring, "a.b", "c");
	test_ring_string(&ring, "label");
	for (uint32_t i = 0; i < 2; i++) {
		test_writer_open(&w[i], &ring, 501 + i, T0);
		test_worker(&w[i], ns += 100, 10 + i, 0x7000, 1 + i);
	}
	for (uint32_t n = 0; n < 40; n++) {
		struct test_writer *one = &w[n % 2];

		test_emit(one, ns += 100, KYMO_RECORD_PARK + n % 2, 1, 0, 0, 0, 0);
		test_poll(one, ns += 100, 1 + n % 5, 1);
		test_emit(one, ns += 100, KYMO_RECORD_WAKE, n % 4, 1, kymo_task_word(n % 7, 0), 0,
			  0);
		if (n % 5 == 0)
			test_poll(one, ns += 100, 90, 1);
		if (n % 5 == 0)
			test_poll_end(one, ns += 100, 0);
		test_poll_end(one, ns += 100, n % 4);
		test_emit(one, ns += 100, 8 + n % 15, 2, 3, n, 1, 2);
	}
	small_directory(&ring);
	save(argv[1], "two-workers", 1, &ring, ring.image_bytes);
	save(argv[1], "changing", 7, &ring, ring.image_bytes);
	save(argv[1], "torn", 1, &ring, ring.image_bytes - 12000);
	save(argv[1], "header-only", 0, &ring, 4096);
	fill_side(&ring);
	save(argv[1], "side", 1, &ring, ring.image_bytes);
	save(argv[1], "dead-range", 1 | 8 | 16, &ring, ring.image_bytes);
	test_ring_close(&ring);
	return 0;
}
