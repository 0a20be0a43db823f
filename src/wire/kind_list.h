/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kind_list.h - the kinds of event that can be chosen, by the names that settings, profiles and
 * traces call them: one row for each gate of kymo/emit.h, in the order of the bits.
 *
 *   PLAIN(GATE, name)    on or off
 *   LIMITED(GATE, name)  also at most so many a second (KY_RETAIN_GATE)
 *   TIMED(GATE, name)    also only what takes so long
 */
#ifndef KY_WIRE_KIND_LIST_H
#define KY_WIRE_KIND_LIST_H

#include <kymo/emit.h>

/* clang-format off */
#define KY_KIND_LIST(PLAIN, LIMITED, TIMED) \
	TIMED(POLL, "poll")                 \
	TIMED(WAKE, "wake")                 \
	LIMITED(PARK, "park")               \
	PLAIN(SPAWN, "spawn")               \
	LIMITED(DRIVER, "driver")           \
	TIMED(BLOCKING, "blocking")         \
	PLAIN(WAKER_CLONE, "waker_clone")   \
	LIMITED(MARK, "mark")               \
	LIMITED(CUSTOM, "custom")           \
	TIMED(SPAN, "span")                 \
	PLAIN(PLACE, "places")              \
	PLAIN(OFF_CPU, "offcpu")            \
	PLAIN(ALLOC, "alloc")               \
	PLAIN(OFF_CPU_STACK, "offcpu.stacks") \
	PLAIN(ALLOC_STACK, "alloc.stacks")  \
	PLAIN(CONN, "conn")
/* clang-format on */

#define KY_KIND_BIT(gate, name) | KYMO_GATE_##gate
_Static_assert((0u KY_KIND_LIST(KY_KIND_BIT, KY_KIND_BIT, KY_KIND_BIT)) ==
		       ((uint32_t)KYMO_GATES_DEFAULT | KYMO_GATE_WAKER_CLONE | KYMO_GATE_ALLOC |
			KYMO_GATE_CONN),
	       "every gate has a name");

#endif
