/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* threads.h - what runs in place of pthread_create() in objects that contain Tokio: where the
 * process samples itself by timers, a new thread begins with a timer of its own. Else the call goes
 * straight through.
 *
 * Memory:  KY_TOKIO_STARTS_MAX threads may be between their making and their first instruction; one
 *          more than that begins without, and is found later.
 */
#ifndef KY_TOKIO_THREADS_H
#define KY_TOKIO_THREADS_H

#include <stdint.h>

#define KY_TOKIO_STARTS_MAX 64u

/* The replacement for a slot of pthread_create(). */
uintptr_t ky_tokio_create_address(void);

#endif
