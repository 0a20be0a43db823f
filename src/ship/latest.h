/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* latest.h - DIR/SERVICE/latest, a link to the run of that service that began last.
 *
 * Invariants: the link is relative and replaced in one step, so that it always leads to a run. What
 *             has its name and is no link to a run's name is never touched.
 * Threads:    any.
 */
#ifndef KY_SHIP_LATEST_H
#define KY_SHIP_LATEST_H

#include <stdbool.h>

#define KY_LATEST "latest"

/* Lets the link lead to `run`. Returns 0; -EEXIST: the name is taken by something else; -errno. */
int ky_latest_set(int service_fd, const char *run);
/* Does the link lead there? */
bool ky_latest_is(int service_fd, const char *run);

#endif
