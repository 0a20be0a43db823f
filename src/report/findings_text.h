/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* findings_text.h - the first screen of `kymo report`: at most five findings, or what says that the
 * service is healthy.
 * Threads: owner.
 */
#ifndef KY_REPORT_FINDINGS_TEXT_H
#define KY_REPORT_FINDINGS_TEXT_H

#include <analyze/findings/findings.h>
#include <read/code_names.h>
#include <stdbool.h>

/* names: see watched_text.h. is_full: the tables follow, so the way to them is not told. */
void ky_findings_text(struct ky_buf *out, const struct ky_findings *findings,
		      const struct ky_code_names *names, bool is_coloured, bool is_full);

#endif
