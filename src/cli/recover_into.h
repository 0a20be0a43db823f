/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* recover_into.h - what dead processes left in their rings, as the next segments of their runs.
 * Threads: one in the process (ring_guard.h).
 */
#ifndef KY_CLI_RECOVER_INTO_H
#define KY_CLI_RECOVER_INTO_H

#include <ring/ring_finder.h>

/* Of runs below that directory alone. Says what it made, and trouble. Returns an exit code. */
int ky_recover_into(const char *directory, const struct ky_ring_query *query);

#endif
