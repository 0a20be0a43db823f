/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* lock_wakes.h - who let go of the lock that a poll waited for.
 *
 * Who unlocks wakes the futex, and that is recorded (WorkerNotifyEvent): the last of this address
 * within the wait ended it. So the thread is known without the kernel's records, and what it
 * polled then is what held the lock.
 * Threads:     owner, while the trace is loaded.
 */
#ifndef KY_READ_LOCK_WAKES_H
#define KY_READ_LOCK_WAKES_H

#include <read/trace.h>

/* Sets what woke each futex wait of a sample row where nothing else has told. The notifications
 * are in order. Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_lock_wakes_find(struct ky_trace *trace);

#endif
