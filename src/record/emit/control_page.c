/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <kymo/emit.h>

/* A page of its own: page 1 of the ring file is mapped over it. */
struct kymo_control kymo_control __attribute__((aligned(KYMO_ARCH_PAGE_BYTES)));

_Static_assert(sizeof(struct kymo_control) == KYMO_ARCH_PAGE_BYTES, "nothing else on that page");
