/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* watched_text.h - lines of `kymo info` and `kymo report` about what was recorded externally: how
 * the process ended, why there is this dump, which rule fired, what stuck threads did.
 * Threads: any.
 */
#ifndef KY_REPORT_WATCHED_TEXT_H
#define KY_REPORT_WATCHED_TEXT_H

#include <base/buf.h>
#include <read/code_names.h>
#include <read/trace.h>

/* Appends one line each; nothing where the trace has nothing of the kind. names: of the code; NULL
 * or without table: addresses stay numbers. */
void ky_watched_text(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_code_names *names);

#endif
