/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* cmocka_all.h - cmocka with the headers it needs before it. */
#ifndef KY_TEST_CMOCKA_ALL_H
#define KY_TEST_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* Needs the four above. */
#include <cmocka.h>

#endif
