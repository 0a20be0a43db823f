/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* shutdown.h - when the orderly end of a runtime began.
 *
 * A runtime that is dropped cancels the tasks that it still has: at the end of the trace none lives
 * and none waits, which says nothing about how the program stood. That is judged just before.
 *
 * Threads:     any.
 */
#ifndef KY_ANALYZE_SHUTDOWN_H
#define KY_ANALYZE_SHUTDOWN_H

#include <read/trace.h>

/* The first cancelled end of the last series of them, after which nothing is polled any more: ends
 * at most 10 ms apart, or with no poll's begin between them. Where tasks ended by themselves within
 * 100 ms before it, as close to each other, and none began any more, the first of those. 0: there
 * was no such end.
 *
 * Returns 0, -ENOMEM.
 */
int ky_shutdown_find(const struct ky_trace *trace, uint64_t *out_ns);

#endif
