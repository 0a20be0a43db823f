/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The same stores by a mapping of our own and by a descriptor give the same file. */
#include "../../lib/cmocka_all.h"

#include <agent/ring_access.h>
#include <errno.h>
#include <kymo/arch.h>
#include <kymo/base.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((uint64_t)KYMO_ARCH_PAGE_BYTES)
#define FILE_BYTES (4 * PAGE)

static uint8_t *image;
static int fd;
static uint32_t touched, touches_max;

static bool touch(void *word)
{
	uint64_t mask = UINT64_MAX;

	if (touched == touches_max)
		return false;
	touched++;
	memcpy(word, &mask, sizeof(mask));
	return true;
}

static int make_file(void **state)
{
	(void)state;
	touched = 0;
	touches_max = UINT32_MAX;
	fd = memfd_create("ring-access", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)FILE_BYTES), 0);
	image = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(image, MAP_FAILED);
	return 0;
}

static int drop_file(void **state)
{
	(void)state;
	munmap(image, FILE_BYTES);
	return close(fd);
}

static struct ky_ring_area area_of(bool is_own)
{
	return (struct ky_ring_area){.access = {.base = is_own ? image : NULL,
						.touch = is_own ? touch : NULL,
						.fd = is_own ? -1 : fd},
				     .offset = PAGE,
				     .bytes = 2 * PAGE};
}

static void put_stores_bytes_at_any_place(void **state)
{
	uint8_t bytes[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i + 1);
	for (uint32_t is_own = 0; is_own < 2; is_own++) {
		struct ky_ring_area area = area_of(is_own);

		for (uint64_t at = 0; at < 9; at++)
			for (size_t count = 0; count <= sizeof(bytes); count++) {
				memset(image + PAGE, 0, PAGE);
				area.made_bytes = PAGE;
				assert_int_equal(ky_ring_area_put(&area, at, bytes, count), 0);
				assert_memory_equal(image + PAGE + at, bytes, count);
				assert_int_equal(image[PAGE + at + count], 0);
			}
	}
	assert_int_equal(touched, 0);
}

static void put_makes_pages_of_its_own_once_and_clean(void **state)
{
	struct ky_ring_area area = area_of(true);
	uint64_t word = 7;

	(void)state;
	assert_int_equal(ky_ring_area_put(&area, PAGE + 8, &word, sizeof(word)), 0);
	assert_int_equal(touched, 2);
	for (uint64_t at = 0; at < FILE_BYTES; at++)
		if (at != 2 * PAGE + 8)
			assert_int_equal(image[at], 0);
	assert_int_equal(ky_ring_area_put(&area, 16, &word, sizeof(word)), 0);
	assert_int_equal(touched, 2);
}

static void put_refuses_what_has_no_room(void **state)
{
	uint64_t word = 7;

	(void)state;
	for (uint32_t is_own = 0; is_own < 2; is_own++) {
		struct ky_ring_area area = area_of(is_own);

		assert_int_equal(ky_ring_area_put(&area, 2 * PAGE - 7, &word, 8), KYMO_E_LIMIT);
		assert_int_equal(ky_ring_area_put(&area, UINT64_MAX, &word, 8), KYMO_E_LIMIT);
	}
	for (uint64_t at = 0; at < FILE_BYTES; at++)
		assert_int_equal(image[at], 0);
}

static void put_reports_missing_memory(void **state)
{
	struct ky_ring_area area = area_of(true), closed = area_of(false);
	uint64_t word = 7;

	(void)state;
	touches_max = 1;
	assert_int_equal(ky_ring_area_put(&area, 0, &word, sizeof(word)), 0);
	assert_int_equal(ky_ring_area_put(&area, PAGE, &word, sizeof(word)), -ENOSPC);
	closed.access.fd = -1;
	assert_int_equal(ky_ring_area_put(&closed, 0, &word, sizeof(word)), -EBADF);
}

/* Another program cut the file: it does not get its length back. */
static void put_does_not_make_a_cut_file_grow(void **state)
{
	struct ky_ring_area area = area_of(false);
	uint64_t word = 7;
	struct stat st;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	assert_int_equal(ky_ring_area_put(&area, 0, &word, sizeof(word)), KYMO_E_TRUNCATED);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(ky_ring_access_store(&area.access, 0, &word, sizeof(word)),
			 KYMO_E_TRUNCATED);
	assert_int_equal(ky_ring_access_announce(&area.access, 4), KYMO_E_TRUNCATED);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 0);
}

static void announce_writes_one_word(void **state)
{
	(void)state;
	for (uint32_t is_own = 0; is_own < 2; is_own++) {
		struct ky_ring_area area = area_of(is_own);
		uint32_t word;

		memset(image, 0xff, 16);
		assert_int_equal(ky_ring_access_announce(&area.access, 4), 0);
		memcpy(&word, image + 4, sizeof(word));
		assert_int_equal(word, 1);
		assert_int_equal(image[3], 0xff);
		assert_int_equal(image[8], 0xff);
	}
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, make_file, drop_file)
	const struct CMUnitTest tests[] = {
		CASE(put_stores_bytes_at_any_place),
		CASE(put_makes_pages_of_its_own_once_and_clean),
		CASE(put_refuses_what_has_no_room),
		CASE(put_does_not_make_a_cut_file_grow),
		CASE(put_reports_missing_memory),
		CASE(announce_writes_one_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
