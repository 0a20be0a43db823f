/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* errno_name.h - what an error number is called, of those that calls on descriptors end with.
 * Threads: any.
 */
#ifndef KY_REPORT_ERRNO_NAME_H
#define KY_REPORT_ERRNO_NAME_H

#include <stdint.h>

#define KY_ERRNO_NAME_BYTES 24u

/* "EAGAIN"; "error 219" of one that has no name here. Returns cell. */
const char *ky_errno_name(char *cell, uint32_t number);

#endif
