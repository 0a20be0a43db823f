/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* tokio_json.h - metrics of tokio-metrics and lints of tokio-console as JSON.
 * Threads: owner.
 */
#ifndef KY_ANALYZE_TOKIO_JSON_H
#define KY_ANALYZE_TOKIO_JSON_H

#include <base/buf.h>
#include <read/trace.h>

/* One object: "tasks", "runtimes" and "lints". Returns 0, -ENOMEM. */
int ky_tokio_json(struct ky_buf *out, const char *key, const struct ky_trace *trace);

#endif
