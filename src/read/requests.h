/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* requests.h - what the spans of connections have beside others: since when their connection was
 * idle, when their task was woken for them, and when they waited for more to come in.
 *
 * A request of an accepted connection begins with a read, but its bytes were there before: where
 * the driver woke its task for them, after the last byte of the answer before, its span begins
 * with that wake (lead_ns).
 * Memory:      32 bytes a wait.
 */
#ifndef KY_READ_REQUESTS_H
#define KY_READ_REQUESTS_H

#include <read/trace.h>

enum ky_request_kind {
	KY_REQUEST_NONE = 0, /* a span that is no request */
	KY_REQUEST_IN,       /* on a connection that the program accepted */
	KY_REQUEST_OUT       /* on one that it made */
};

/* [from, to]: nothing to read, and then something. */
struct ky_request_wait {
	uint64_t span_id, from_ns, to_ns;
	uint32_t serial;
};

/* Of a type of event: its spans are requests. */
bool ky_request_is_type(const char *type);
/* enum ky_request_kind, by the name of such a span. */
uint8_t ky_request_kind_of(const struct ky_trace *trace, uint32_t name);

#endif
