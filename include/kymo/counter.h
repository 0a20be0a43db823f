/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* counter.h - numbers of the application, recorded in every trace and checked by rules.
 *
 * A counter lives in the process: its id stays valid over close, reopen and fork, and its value is
 * kept while nothing is open. At most 64; what does not fit is counted
 * (kymo_recorder_status.counters_refused) and recorded in the trace.
 * Threads: any.
 */
#ifndef KYMO_COUNTER_H
#define KYMO_COUNTER_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kymo_counter_flags {
	KYMO_COUNTER_ERRORS = 1u << 0 /* counts errors: the rule "errors>N/s" reads it */
};

/* Registers a counter, or finds it: equal names give equal ids.
 *
 * name     UTF-8, cut at 47 bytes; not empty
 * flags    enum kymo_counter_flags; of an old counter they are added
 * Returns  its id; 0 when the table is full or there is no name. add and set ignore 0.
 * Threads  any; takes a lock: not on the hot path.      Since 0.1
 */
KYMO_API uint32_t kymo_counter_register(const char *name, uint32_t flags);

/* Adds, wrapping around. No lock, no allocation, no system call; errno is untouched.
 * Threads any.      Signals safe.      Cost two locked instructions, one
 * reading of the CPU's counter.      Since 0.1
 */
KYMO_API void kymo_counter_add(uint32_t counter, int64_t by);

/* The same for numbers that go up and down. The last one to set it wins.
 * Threads any.      Signals safe.      Since 0.1
 */
KYMO_API void kymo_counter_set(uint32_t counter, int64_t value);

/* Returns 0 for an id that was never given out. Threads any. Signals safe. Since 0.1 */
KYMO_API int64_t kymo_counter_value(uint32_t counter);

#ifdef __cplusplus
}
#endif

#endif
