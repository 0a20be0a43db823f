/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The thread that takes readings, on files of this process. */
#include "../../lib/cmocka_all.h"

#include <session/reading_thread.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define AREA_OFFSET 65536u
#define FILE_BYTES (AREA_OFFSET + KY_RESOURCE_AREA_BYTES)
#define SECOND UINT64_C(1000000000)

struct ring {
	struct ky_ring_header *header;
	struct ky_ring_view view;
	struct ky_reading reading;
	int fd;
};

static void make(struct ring *ring, uint64_t interval_ns)
{
	uint8_t *image;

	memset(ring, 0, sizeof(*ring));
	ring->fd = memfd_create("reading-thread", MFD_CLOEXEC);
	assert_true(ring->fd >= 0);
	assert_int_equal(ftruncate(ring->fd, FILE_BYTES), 0);
	image = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	assert_ptr_not_equal(image, MAP_FAILED);
	ring->header = (void *)image;
	ring->header->pid = (uint32_t)getpid();
	ring->view.image = image;
	ring->view.image_bytes = FILE_BYTES;
	ring->view.header = ring->header;
	ring->view.resource_offset = AREA_OFFSET;
	ring->reading.resources.area.access.fd = ring->fd;
	ring->reading.resources.interval_ns = interval_ns;
}

static void unmake(struct ring *ring)
{
	munmap(ring->header, FILE_BYTES);
	close(ring->fd);
}

static uint64_t rows(const struct ring *ring)
{
	const uint8_t *area = ky_ring_view_resources(&ring->view);
	struct ky_resource_about about = {.claim_index = 0};

	if (area)
		ky_ring_view_resource_about(area, &about);
	return about.claim_index;
}

static void wait_for_more(const struct ring *ring, uint64_t before)
{
	while (rows(ring) <= before)
		sched_yield();
}

static void add__reads_at_once_and_end_once_more(void **state)
{
	struct ky_reading_thread *thread = NULL;
	static struct ring one, other;
	uint64_t first;

	(void)state;
	make(&one, 3600 * SECOND);
	make(&other, 3600 * SECOND);
	ky_reading_add(&thread, &one.reading, &one.view);
	ky_reading_add(&thread, &other.reading, &other.view);
	wait_for_more(&one, 0);
	wait_for_more(&other, 0);
	ky_reading_end(&other.reading);
	first = rows(&one);
	ky_reading_end(&one.reading);
	assert_true(rows(&one) > first);
	first = rows(&one);
	ky_reading_end(&one.reading); /* nothing more */
	assert_int_equal(rows(&one), first);
	ky_reading_thread_close(thread);
	unmake(&one);
	unmake(&other);
}

static void set__counts_at_once(void **state)
{
	struct ky_reading_thread *thread = NULL;
	static struct ring ring;

	(void)state;
	make(&ring, 0); /* off */
	ky_reading_add(&thread, &ring.reading, &ring.view);
	ky_reading_set(&ring.reading, 3600000);
	wait_for_more(&ring, 0);
	ky_reading_thread_close(thread); /* ends it, too */
	assert_null(ring.reading.thread);
	unmake(&ring);
}

static void lend__leaves_the_readings_to_the_caller(void **state)
{
	struct ky_reading_thread *thread = NULL;
	static struct ring ring;
	uint64_t before;

	(void)state;
	make(&ring, 0); /* off: the thread has nothing to take when it is lent */
	ky_reading_add(&thread, &ring.reading, &ring.view);
	assert_int_equal(ky_reading_step(thread), UINT64_MAX); /* it is the thread's */
	ky_reading_lend(thread, true);
	before = rows(&ring);
	ky_reading_set(&ring.reading, 3600000);
	assert_true(ky_reading_step(thread) < UINT64_MAX);
	assert_true(rows(&ring) > before);
	before = rows(&ring);
	ky_reading_set(&ring.reading, 1800000);
	ky_reading_lend(thread, false);
	wait_for_more(&ring, before);
	ky_reading_lend(NULL, true);
	assert_int_equal(ky_reading_step(NULL), UINT64_MAX);
	ky_reading_thread_close(thread);
	unmake(&ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add__reads_at_once_and_end_once_more),
		cmocka_unit_test(set__counts_at_once),
		cmocka_unit_test(lend__leaves_the_readings_to_the_caller),
	};

	return cmocka_run_group_tests_name("reading_thread", tests, NULL, NULL);
}
