/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stop_json.h - when the process as a whole was stopped, for programs.
 * Threads: any.
 */
#ifndef KY_ANALYZE_STOP_JSON_H
#define KY_ANALYZE_STOP_JSON_H

#include <base/buf.h>
#include <read/stops.h>

/* Keys "stops", "throttled" and "exit"; each only where the trace has one. */
void ky_stops_json(struct ky_buf *out, const struct ky_trace *trace);

#endif
