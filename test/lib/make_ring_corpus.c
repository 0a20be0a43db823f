/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Writes the seeds of fuzz/corpus/ring_image: make_ring_corpus DIRECTORY. With --check it fails
 * where a seed is another one: after a change of the ring's layout the old ones are refused at
 * their first page, and teach a fuzzer nothing. */
#include "ring_builder.h"

#include <kymo/schema.h>
#include <stdio.h>
#include <string.h>
#include <wire/event_schema.h>

#define T0 UINT64_C(2000000000)
/* The fuzz target's clock runs at 2 ticks a ns, ours at 2.5 from another start: what counts is
 * order. */

static bool is_checking, has_failed;

static bool is_same(FILE *file, uint8_t how, const struct test_ring *ring, size_t bytes)
{
	const uint8_t *image = ring->image;
	bool same = fgetc(file) == how;

	for (size_t i = 0; i < bytes && same; i++)
		same = fgetc(file) == image[i];
	return same && fgetc(file) == EOF;
}

static bool write_all(FILE *file, uint8_t how, const struct test_ring *ring, size_t bytes)
{
	return fwrite(&how, 1, 1, file) == 1 && fwrite(ring->image, 1, bytes, file) == bytes;
}

static void save(const char *directory, const char *name, uint8_t how, const struct test_ring *ring,
		 size_t bytes)
{
	char path[512];
	FILE *file;
	bool is_good;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, is_checking ? "rb" : "wb");
	is_good = file && (is_checking ? is_same : write_all)(file, how, ring, bytes);
	if (file && fclose(file) != 0)
		is_good = false;
	if (!is_good)
		fprintf(stderr, "%s: %s\n", path,
			is_checking ? "is not what make_ring_corpus writes" : "cannot write it");
	has_failed |= !is_good;
}

static void small_directory(struct test_ring *ring)
{
	/* A seed of 300 KiB teaches a fuzzer nothing: the sub-buffers move up after a directory of
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
	atomic_store(&side->mark_claim_index, 3);
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

/* Events of the application: each type of value, lists and maps within each other, and numbers of
 * a runtime. */
static void save_custom(const char *directory)
{
	static const char schema[] = "Order\0"
				     "\x09id\0\0"
				     "\x84note\0\0"
				     "\x07who\0\0"
				     "\x0elist\0\0"
				     "\x0fmap\0kg";
	uint64_t words[32] = {1, 7, 1, 3, 0x616263, 0, 0};
	struct test_writer w;
	struct test_ring ring;

	test_ring_open(&ring, 1);
	test_ring_entry(&ring, KY_ENTRY_SCHEMA, 1, schema, sizeof(schema), "");
	words[5] = test_ring_string(&ring, "label");
	words[6] = (uint64_t)KYMO_CUSTOM_LIST << 32 | 2; /* of a list of two, and an empty one */
	words[7] = (uint64_t)KYMO_CUSTOM_U64 << 32 | 2;
	words[8] = 5;
	words[9] = 6;
	words[10] = (uint64_t)KYMO_CUSTOM_F64 << 32;
	words[11] = (uint64_t)KYMO_CUSTOM_I64 << 40 | (uint64_t)KYMO_CUSTOM_STRING << 32 | 1;
	words[12] = 1;
	words[13] = 'k';
	words[14] = UINT64_MAX;
	test_writer_open(&w, &ring, 501, T0);
	test_poll(&w, T0 + 100, 1, 0);
	for (uint32_t count = 12; count <= 16; count++)
		test_emit_words(&w, T0 + 100 * count, KYMO_RECORD_CUSTOM, count, count, words);
	words[0] = KY_SCHEMA_RUNTIME_METRICS;
	words[1] = words[5];
	test_emit_words(&w, T0 + 1700, KYMO_RECORD_CUSTOM, 18, 18, words);
	small_directory(&ring);
	save(directory, "custom", 1, &ring, ring.image_bytes);
	test_ring_close(&ring);
}

int main(int argc, char **argv)
{
	struct test_writer w[3];
	struct test_ring ring;
	const char *directory;
	uint64_t ns = T0;

	is_checking = argc == 3 && strcmp(argv[1], "--check") == 0;
	if (argc != 2 && !is_checking)
		return 2;
	directory = argv[argc - 1];
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
	save(directory, "two-workers", 1, &ring, ring.image_bytes);
	save(directory, "changing", 7, &ring, ring.image_bytes);
	save(directory, "torn", 1, &ring, ring.image_bytes - 12000);
	save(directory, "header-only", 0, &ring, 4096);
	fill_side(&ring);
	save(directory, "side", 1, &ring, ring.image_bytes);
	save(directory, "dead-range", 1 | 8 | 16, &ring, ring.image_bytes);
	test_ring_close(&ring);
	save_custom(directory);
	return has_failed;
}
