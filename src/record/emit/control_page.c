/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <kymo/emit.h>
#include <stddef.h>
#include <wire/ring_image.h>

/* A page of its own: page 1 of the ring file is mapped over it. */
struct kymo_control kymo_control __attribute__((aligned(KYMO_ARCH_PAGE_BYTES)));

_Static_assert(offsetof(struct kymo_control, may_call) ==
		       offsetof(struct ky_ring_control, may_call),
	       "emit.h and ring_image.h describe the same bytes");
_Static_assert(sizeof(struct kymo_control) == KYMO_ARCH_PAGE_BYTES, "nothing else on that page");
