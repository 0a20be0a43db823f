/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../adapters/tokio/host_words.h"

static void words__end_where_memory_ends(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	uint64_t words[8];

	(void)state;
	assert_true(pages != MAP_FAILED);
	assert_int_equal(munmap(pages + page, page), 0);
	errno = 17;
	assert_int_equal(ky_tokio_read_words((uintptr_t)pages + page - 16, words, 8), 2);
	assert_int_equal(ky_tokio_read_words((uintptr_t)pages + page, words, 8), 0);
	assert_int_equal(errno, 17);
	assert_int_equal(munmap(pages, page), 0);
}

static void words__an_arc_has_two_counts(void **state)
{
	uint64_t arc[2] = {1, 1}, none[2] = {0, 1}, huge[2] = {UINT64_C(1) << 40, 1};

	(void)state;
	assert_true(ky_tokio_is_arc((uintptr_t)arc));
	assert_false(ky_tokio_is_arc((uintptr_t)none));
	assert_false(ky_tokio_is_arc((uintptr_t)huge));
	assert_false(ky_tokio_is_arc(0x10000));
	assert_false(ky_tokio_is_arc((uintptr_t)arc + 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words__end_where_memory_ends),
		cmocka_unit_test(words__an_arc_has_two_counts),
	};

	return cmocka_run_group_tests_name("host_words", tests, NULL, NULL);
}
