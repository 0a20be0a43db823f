/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unseen_parks.h - workers whose parks are not recorded.
 * Threads: owner.
 */
#ifndef KY_ANALYZE_UNSEEN_PARKS_H
#define KY_ANALYZE_UNSEEN_PARKS_H

#include <analyze/report.h>

/* Takes back the share of active time of workers without a park that the kernel counted as blocked
 * for most of the time, and counts them. Returns 0, -ENOMEM. */
int ky_unseen_parks(struct ky_report *report, const struct ky_trace *trace);

#endif
