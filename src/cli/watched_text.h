/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* watched_text.h - lines of `kymo info` and `kymo report` about what was told from outside: how the
 * process ended, why there is this dump, which rule fired, what stuck threads did.
 * Threads: any.
 */
#ifndef KY_CLI_WATCHED_TEXT_H
#define KY_CLI_WATCHED_TEXT_H

#include <base/buf.h>
#include <read/trace.h>

/* Appends one line each; nothing where the trace has nothing of the kind. */
void ky_watched_text(struct ky_buf *out, const struct ky_trace *trace);

#endif
