/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* find.h - those that find: each adds what it has found, and says that memory was short by
 * findings->failed.
 */
#ifndef KY_ANALYZE_FINDINGS_FIND_H
#define KY_ANALYZE_FINDINGS_FIND_H

#include <analyze/findings/findings.h>

void ky_find_long_polls(struct ky_findings *findings);

#endif
