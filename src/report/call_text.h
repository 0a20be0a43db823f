/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* call_text.h - why a thread was off CPU, in words: the call, what it was made with, and how it
 * ended.
 * Threads: owner.
 */
#ifndef KY_REPORT_CALL_TEXT_H
#define KY_REPORT_CALL_TEXT_H

#include <analyze/stack_profile.h>

#define KY_CALL_TEXT_BYTES 256u

/* "recvfrom, TCP to port 5432, 3 of 8 failed: EAGAIN", "read, a pipe", "page fault". calls: of
 * `count` intervals. Returns cell. */
const char *ky_call_text(char *cell, const struct ky_trace *trace, uint8_t reason, uint32_t syscall,
			 const struct ky_stack_profile_calls *calls, uint64_t count);

#endif
