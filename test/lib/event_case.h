/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* event_case.h - a small trace of odd events: every type of value, containers inside containers,
 * undefined pool ids, unknown annotations, an event without a time.
 */
#ifndef KY_TEST_EVENT_CASE_H
#define KY_TEST_EVENT_CASE_H

#include <base/buf.h>

void event_case_write(struct ky_buf *out);

#endif
