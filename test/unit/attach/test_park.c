/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a thread does, by the words that the kernel and the symbol table have for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <attach/park.h>
#include <cmocka.h>

static void park__line_of_a_wait_without_end(void **state)
{
	uint64_t pc = 0;

	(void)state;
	assert_int_equal(
		ky_park_parse("202 0x7f00 0x89 0x0 0x0 0x0 0xffffffff 0x7ffd8 0x7f9906e47829\n",
			      &pc),
		KY_ARCH_WAIT_FUTEX);
	assert_int_equal(pc, UINT64_C(0x7f9906e47829));
	assert_int_equal(ky_park_parse("232 0x3 0x55 0x400 0xffffffff 0x0 0x0 0x7f 0x7f01\n", &pc),
			 KY_ARCH_WAIT_EPOLL);
	assert_int_equal(ky_park_parse("281 0x3 0x55 0x400 0xffffffff 0x0 0x8 0x7f 0x7f01\n", &pc),
			 KY_ARCH_WAIT_EPOLL);
	assert_int_equal(ky_park_parse("441 0x3 0x55 0x400 0x0 0x0 0x8 0x7f 0x7f01\n", &pc),
			 KY_ARCH_WAIT_EPOLL);
}

static void park__line_of_a_wait_with_a_limit(void **state)
{
	uint64_t pc = 0;

	(void)state;
	assert_int_equal(ky_park_parse("232 0x3 0x55 0x400 0x64 0x0 0x0 0x7f 0x7f01\n", &pc),
			 KY_ARCH_WAIT_EPOLL_TIMED);
	assert_int_equal(ky_park_parse("441 0x3 0x55 0x400 0x7ffd 0x0 0x8 0x7f 0x7f01\n", &pc),
			 KY_ARCH_WAIT_EPOLL_TIMED);
	assert_int_equal(ky_park_parse("202 0x7f 0x189 0x0 0x7ffd 0x0 0xffff 0x7f 0x7f01\n", &pc),
			 KY_ARCH_WAIT_FUTEX);
}

static void park__what_could_not_be_taken_up_again_is_no_wait(void **state)
{
	uint64_t pc = 0;

	(void)state;
	/* a futex for so long; epoll with a signal mask; nanosleep, read; in no call at all */
	assert_int_equal(ky_park_parse("202 0x7f 0x80 0x0 0x7ffd 0x0 0x0 0x7f 0x7f01\n", &pc),
			 KY_ARCH_NO_WAIT);
	assert_int_equal(ky_park_parse("281 0x3 0x55 0x400 0xffffffff 0x7ff 0x8 0x7f 0x7f01\n",
				       &pc),
			 KY_ARCH_NO_WAIT);
	assert_int_equal(ky_park_parse("230 0x1 0x0 0x7f 0x0 0x0 0x0 0x7f 0x7f01\n", &pc),
			 KY_ARCH_NO_WAIT);
	assert_int_equal(ky_park_parse("0 0x1 0x0 0x7f 0x0 0x0 0x0 0x7f 0x7f01\n", &pc),
			 KY_ARCH_NO_WAIT);
	assert_int_equal(ky_park_parse("running\n", &pc), KY_ARCH_NO_WAIT);
	assert_int_equal(ky_park_parse("-1 0x7ffd8 0x7f01\n", &pc), KY_ARCH_NO_WAIT);
	assert_int_equal(ky_park_parse("", &pc), KY_ARCH_NO_WAIT);
}

static void park__names_of_parks(void **state)
{
	static const char *const names[] = {
		"_ZN5tokio7runtime4park5Inner4park17h0123456789abcdefE",
		"_ZN5tokio7runtime9scheduler12multi_thread6worker7Context13park_internal17h01E",
		"_ZN5tokio7runtime8blocking4pool5Inner3run17h01E",
		"_ZN5tokio7runtime2io6driver6Driver4turn17h01E",
		"_RNvMNtNtCsabc_5tokio7runtime4parkNtB2_16CachedParkThread4park",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(ky_park_name_of(names[i]), KY_PARK_NAME_PARK);
}

static void park__a_poll_is_no_park_under_any_scheduler(void **state)
{
	static const char *const names[] = {
		"_ZN5tokio7runtime4task3raw4poll17h0123456789abcdefE",
		/* clang takes two pieces in a list for a forgotten comma */
		("_RINvNtNtNtCsabc_5tokio7runtime4task3raw4pollNCNvC3app4main0INtNtC5alloc4sync3Arc"
		 "NtNtNtNtNtB6_9scheduler12multi_thread6handle6HandleEE"),
		"_ZN77_$LT$tokio..runtime..task..core..TaskIdGuard$u20$as$u20$core..ops..Drop",
		"__rust_alloc",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(ky_park_name_of(names[i]), KY_PARK_NAME_POLL);
	assert_int_equal(ky_park_name_of("_ZN3std3sys5mutex5futex5Mutex14lock_contended17h1E"),
			 KY_PARK_NAME_OTHER);
	assert_int_equal(ky_park_name_of("_ZN3app9scheduler4park17h1E"), KY_PARK_NAME_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(park__line_of_a_wait_without_end),
		cmocka_unit_test(park__line_of_a_wait_with_a_limit),
		cmocka_unit_test(park__what_could_not_be_taken_up_again_is_no_wait),
		cmocka_unit_test(park__names_of_parks),
		cmocka_unit_test(park__a_poll_is_no_park_under_any_scheduler),
	};

	if (ky_arch_refusal()) {
		print_message("1..0 # SKIP %s\n", ky_arch_refusal());
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
