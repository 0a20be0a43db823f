/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* lanes_json.h - what a page shows beside the strips, as JSON: what the trace is, its lanes, names,
 * losses and readings.
 *
 * Invariants:  times are nanoseconds from the first poll, park or wake of the trace, as in
 *              docs/findings.schema.json. Lists end at KY_PAGE_LIST_MAX; a count says of how many.
 * Threads:     owner.
 */
#ifndef KY_LANES_LANES_JSON_H
#define KY_LANES_LANES_JSON_H

#include <base/buf.h>
#include <lanes/lanes.h>

#define KY_PAGE_LIST_MAX 10000u

/* Errors: buf->failed. */
void ky_lanes_json(struct ky_buf *out, const struct ky_lanes *lanes);

#endif
