/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* under_valgrind.h - is this test run by Valgrind, which stands between it and the kernel? */
#ifndef TEST_LIB_UNDER_VALGRIND_H
#define TEST_LIB_UNDER_VALGRIND_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool test_is_under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "vgpreload");
}

#endif
