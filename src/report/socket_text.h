/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* socket_text.h - in words: threads that stood in calls on TCP sockets.
 * Threads: any.
 */
#ifndef KY_REPORT_SOCKET_TEXT_H
#define KY_REPORT_SOCKET_TEXT_H

#include <report/report_cells.h>

/* Lines, or nothing. */
void ky_socket_text(const struct ky_report_view *view);

/* "recvfrom: socket CLOSE_WAIT, peer port 5432, ..": the call, and what was read of its socket. */
void ky_socket_call_text(struct ky_buf *out, const struct ky_trace *trace,
			 const struct ky_trace_socket_wait *wait);

#endif
