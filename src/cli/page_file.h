/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* page_file.h - a trace and the viewer together as one HTML file, which opens without a network.
 *
 * The viewer is viewer.html, as `make viewer` builds it: beside the program that runs (in a build
 * tree), else in share/kymo of its prefix.
 * Returns: each function an exit code; trouble has been said.
 * Threads: owner.
 */
#ifndef KY_CLI_PAGE_FILE_H
#define KY_CLI_PAGE_FILE_H

#include <base/buf.h>
#include <stdbool.h>
#include <stdint.h>

/* A page holds its trace as text; browsers hold no longer one. */
#define KY_PAGE_TRACE_BYTES_MAX (UINT64_C(256) << 20)

#define KY_PAGE_VIEWER_BYTES_MAX (64u << 20)

/* The viewer without a trace. */
int ky_page_viewer_read(struct ky_buf *viewer);

/* trace_bytes_max: a trace with more is not in the page, but what `kymo report --json` says of it;
 * 0: such a trace, of more than KY_PAGE_TRACE_BYTES_MAX, is refused.
 * redacted: what of the trace is replaced, enum ky_redact_class. output: "-": standard output.
 * *bytes: of what was written. */
int ky_page_file_write(const char *trace, uint32_t redacted, uint64_t trace_bytes_max,
		       const char *output, bool may_replace, uint64_t *bytes);

#endif
