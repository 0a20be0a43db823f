/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/gnu.h>

#include <ring/run_populate.h>
#include <kymo/base.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLOTS 2048u
#define FIRST 8u /* populated by the host when it began */
#define SLOTS_AT 16384u
#define BYTES (SLOTS_AT + (size_t)SLOTS * KY_SLOT_BYTES)

static struct {
	int fd;
	uint8_t *host;
	const uint8_t *image;
	struct ky_ring_header *header;
	struct ky_ring_view view;
	struct ky_run_populate populate;
} c;

/* A ring as the host has it, and our own mapping of it, which cannot be written. */
static int open_ring(void **state)
{
	(void)state;
	memset(&c, 0, sizeof(c));
	c.fd = memfd_create("populate", MFD_CLOEXEC);
	if (c.fd < 0 || ftruncate(c.fd, (off_t)BYTES) != 0)
		return -1;
	c.host = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, 0);
	c.image = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, c.fd, 0);
	if (c.host == MAP_FAILED || c.image == MAP_FAILED)
		return -1;
	c.header = (struct ky_ring_header *)(void *)c.host;
	c.header->version = KY_RING_VERSION;
	c.header->page_bytes = 4096;
	c.header->file_bytes = BYTES;
	c.header->directory_offset = 8192;
	c.header->directory_bytes = 4096;
	c.header->slots_offset = SLOTS_AT;
	c.header->slot_count = SLOTS;
	c.header->slot_bytes = KY_SLOT_BYTES;
	atomic_store(&c.header->usable_count, SLOTS);
	atomic_store(&c.header->populated_count, FIRST);
	atomic_store(&c.header->magic, KY_RING_MAGIC);
	return ky_ring_view_init(&c.view, c.image, BYTES);
}

static int close_ring(void **state)
{
	(void)state;
	munmap(c.host, BYTES);
	munmap((void *)(uintptr_t)c.image, BYTES);
	return close(c.fd);
}

static uint32_t step(uint64_t claim_index)
{
	atomic_store(&c.header->claim_index, claim_index);
	return ky_run_populate(&c.populate, &c.view, c.fd);
}

/* Sub-buffers that take up memory, after those the host has populated and never touched here. */
static uint64_t slots_there(void)
{
	struct stat st;

	assert_int_equal(fstat(c.fd, &st), 0);
	return ((uint64_t)st.st_blocks * 512 - 4096) / KY_SLOT_BYTES;
}

/* Kernels before 5.14 make nothing, and then the host does it itself. */
static bool can_populate(void)
{
	void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool can = page != MAP_FAILED && madvise(page, 4096, 22) == 0;

	if (page != MAP_FAILED)
		munmap(page, 4096);
	if (!can)
		print_message("# this kernel makes no pages ahead\n");
	return can;
}

static void run_populate__makes_pages_ahead_of_a_growing_claim_index(void **state)
{
	uint32_t made;

	(void)state;
	if (!can_populate())
		skip();
	made = step(2);
	assert_in_range(made, 1, 128);
	assert_int_equal(slots_there(), made);
	/* Faster: more. */
	atomic_store(&c.header->populated_count, 304);
	made = step(300);
	assert_in_range(made, 300, 1024);
}

static void run_populate__makes_nothing_while_the_claim_index_stands(void **state)
{
	(void)state;
	assert_int_equal(step(0), 0);
	assert_int_equal(slots_there(), 0);
	(void)step(2);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(step(2), 0);
}

static void run_populate__makes_no_page_twice_and_none_after_the_ring(void **state)
{
	uint32_t made = FIRST;

	(void)state;
	if (!can_populate())
		skip();
	for (uint64_t claim_index = 1; claim_index < 3 * SLOTS; claim_index += 200) {
		atomic_store(&c.header->populated_count,
			     claim_index + FIRST < SLOTS ? (uint32_t)claim_index + FIRST : SLOTS);
		made += step(claim_index);
	}
	assert_in_range(made, SLOTS - 256, SLOTS);
	assert_true(slots_there() <= SLOTS - FIRST);
	assert_int_equal(step(4 * SLOTS), 0);
}

/* A ring that found no memory goes round in fewer. */
static void run_populate__leaves_unused_sub_buffers_alone(void **state)
{
	(void)state;
	atomic_store(&c.header->usable_count, FIRST);
	assert_int_equal(step(100), 0);
	assert_int_equal(slots_there(), 0);
	atomic_store(&c.header->usable_count, UINT32_MAX);
	atomic_store(&c.header->populated_count, UINT32_MAX);
	assert_int_equal(step(200), 0);
	assert_int_equal(slots_there(), 0);
}

static void run_populate__changes_nothing_that_is_written(void **state)
{
	uint8_t *slots = c.host + SLOTS_AT;

	(void)state;
	memset(slots, 0x5a, (size_t)64 * KY_SLOT_BYTES);
	(void)step(2);
	for (size_t i = 0; i < (size_t)64 * KY_SLOT_BYTES; i += 512)
		assert_int_equal(slots[i], 0x5a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ring, close_ring)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(run_populate__makes_pages_ahead_of_a_growing_claim_index),
		TEST(run_populate__makes_nothing_while_the_claim_index_stands),
		TEST(run_populate__makes_no_page_twice_and_none_after_the_ring),
		TEST(run_populate__leaves_unused_sub_buffers_alone),
		TEST(run_populate__changes_nothing_that_is_written),
	};

	return cmocka_run_group_tests_name("run_populate", tests, NULL, NULL);
}
