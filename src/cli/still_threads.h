/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* still_threads.h - threads that were off the processor for a whole window, of which the kernel's
 * switch records therefore say nothing: their processor time did not grow.
 *
 * Those are looked at that were seen to switch in earlier windows, the latest STILL_MAX of them,
 * by files that stay open: a look takes about a microsecond.
 * Threads: owner.
 */
#ifndef KY_CLI_STILL_THREADS_H
#define KY_CLI_STILL_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#define KY_STILL_MAX 64u

struct ky_still_thread {
	uint32_t pid, tid; /* tid 0: free */
	int fd;            /* of its schedstat */
	uint64_t cpu_ns;   /* at the window's beginning; UINT64_MAX: unreadable */
	uint64_t used;     /* number of the last window that it was seen in */
};

struct ky_still_threads {
	struct ky_still_thread threads[KY_STILL_MAX];
	uint64_t window; /* number */
};

void ky_still_init(struct ky_still_threads *still);
void ky_still_release(struct ky_still_threads *still);

/* It was seen to switch. */
void ky_still_note(struct ky_still_threads *still, uint32_t pid, uint32_t tid);
/* A window begins. */
void ky_still_begin(struct ky_still_threads *still);
/* At its end. reason: enum ky_off_cpu. False: it ran, it is gone, or nobody knows. */
bool ky_still_is_still(const struct ky_still_thread *thread, uint8_t *reason);

#endif
