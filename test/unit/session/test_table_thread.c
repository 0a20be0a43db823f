/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The thread that keeps tables, on a ring file of this process. */
#include "../../lib/cmocka_all.h"

#include <session/table_thread.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind/unwind_table.h>

#define AREA_OFFSET 8192u

static struct ky_ring_header header;

static int make_file(uint64_t bytes)
{
	int fd = memfd_create("run-unwind", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	header.pid = (uint32_t)getpid();
	header.unwind_offset = AREA_OFFSET;
	header.unwind_bytes = KY_UNWIND_AREA_BYTES;
	return fd;
}

static void add__tables_come_to_stand_in_the_file(void **state)
{
	int fd = make_file(AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	struct ky_run_unwind *unwind = NULL;
	struct ky_run_unwound *ring = ky_run_unwind_add(&unwind, fd, &header);
	const uint8_t *image = mmap(NULL, AREA_OFFSET + KY_UNWIND_AREA_BYTES, PROT_READ, MAP_SHARED,
				    fd, 0);
	const struct ky_ring_header *there = (const struct ky_ring_header *)(const void *)image;
	struct ky_unwind_view view = {image + AREA_OFFSET, KY_UNWIND_AREA_BYTES};
	uint64_t own = (uint64_t)(uintptr_t)add__tables_come_to_stand_in_the_file;
	struct ky_unwind_code code;
	struct ky_unwind_wide wide;
	char text[200];

	(void)state;
	assert_non_null(ring);
	assert_ptr_not_equal(image, MAP_FAILED);
	while (atomic_load_explicit(&there->unwind_ready, memory_order_acquire) != 1 ||
	       !ky_unwind_code_of(&view, own, &code))
		sched_yield();
	assert_true(ky_unwind_rule_kind(ky_unwind_rule_at(&code, own, &wide)) >= KY_UNWIND_BY_SP);
	/* Told at the end of the look that made them. */
	do
		ky_run_unwind_text(unwind, ring, text, sizeof(text));
	while (strstr(text, " modules, ") == NULL);
	assert_null(strstr(text, "none"));
	ky_run_unwind_remove(unwind, ring);
	ky_run_unwind_close(unwind);
	munmap((void *)(uintptr_t)image, AREA_OFFSET + KY_UNWIND_AREA_BYTES);
	close(fd);
}

/* As on a full file system: the file may not grow. */
static void add__no_room_is_told(void **state)
{
	int fd = make_file(AREA_OFFSET);
	struct ky_run_unwind *unwind = NULL;
	struct ky_run_unwound *ring;
	char text[200];

	(void)state;
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	ring = ky_run_unwind_add(&unwind, fd, &header);
	assert_non_null(ring);
	do
		ky_run_unwind_text(unwind, ring, text, sizeof(text));
	while (strstr(text, "ended before") != NULL);
	assert_non_null(strstr(text, "none: "));
	ky_run_unwind_close(unwind);
	close(fd);
}

static void add__a_ring_without_an_area_has_none(void **state)
{
	struct ky_run_unwind *unwind = NULL;
	int fd = make_file(AREA_OFFSET);
	char text[200];

	(void)state;
	header.unwind_offset = 0;
	assert_null(ky_run_unwind_add(&unwind, fd, &header));
	assert_null(unwind);
	ky_run_unwind_text(unwind, NULL, text, sizeof(text));
	assert_non_null(strstr(text, "none: "));
	ky_run_unwind_remove(unwind, NULL);
	ky_run_unwind_close(unwind);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add__tables_come_to_stand_in_the_file),
		cmocka_unit_test(add__no_room_is_told),
		cmocka_unit_test(add__a_ring_without_an_area_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
