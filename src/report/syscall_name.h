/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* syscall_name.h - what a system call is called, of those that make threads wait.
 * Threads: any.
 */
#ifndef KY_REPORT_SYSCALL_NAME_H
#define KY_REPORT_SYSCALL_NAME_H

#include <read/trace.h>
#include <stdint.h>

/* architecture: metadata machine.architecture of the trace; NULL: as here. Returns NULL where the
 * number is not known here, or is another architecture's. */
const char *ky_syscall_name(const char *architecture, uint64_t number);
/* Of the machine that recorded this trace. */
const char *ky_trace_call_name(const struct ky_trace *trace, uint32_t number);

#endif
