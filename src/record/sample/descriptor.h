/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* descriptor.h - what a descriptor of the program is, asked after a call that was long or failed.
 *
 * Rule:     system calls that only read: fstat, getsockopt, getsockname, getpeername. No
 *           descriptor is opened or changed, none of them waits.
 * Threads:  any.    Signals: safe.    errno: the caller keeps it.
 */
#ifndef KY_RECORD_DESCRIPTOR_H
#define KY_RECORD_DESCRIPTOR_H

#include <wire/call_facts.h>

/* Sets fd, fd_kind, tcp_state and the ports. What another thread did to the descriptor since the
 * call is what is seen. */
void ky_descriptor_describe(int32_t fd, struct ky_call_facts *out);

#endif
