/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* console_lints.h - the lints of tokio-console (0.1.14), by its names and with its thresholds: how
 * many tasks of each kind have it.
 *
 * tokio-console checks a task again and again while it lives; here it is checked once, at its end
 * or at that of the trace.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_ANALYZE_CONSOLE_LINTS_H
#define KY_ANALYZE_CONSOLE_LINTS_H

#include <analyze/tokio_metrics.h>

/* By kind, those that were polled longest first. Returns 0, -ENOMEM. */
int ky_console_lints(struct ky_metric_rows *out, const struct ky_tokio_sums *sums);

#endif
