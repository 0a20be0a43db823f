/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* child_states.h - a thread that waits for a child to stop, continue or end, and stamps it: 0.1 ms
 * after the fact, whatever else this process does. It reaps nothing.
 *
 * Memory:  a log of the last KY_CHILD_CHANGES changes.
 * Threads: opened and closed by one; read by any.
 */
#ifndef KY_SESSION_CHILD_STATES_H
#define KY_SESSION_CHILD_STATES_H

#include <stdint.h>
#include <sys/types.h>

#define KY_CHILD_CHANGES 256u

struct ky_child_states;

struct ky_child_change {
	uint64_t at_ns;  /* CLOCK_MONOTONIC */
	uint32_t detail; /* signal, or exit status */
	uint8_t change;  /* enum ky_process_change */
};

/* Returns 0 or -errno. */
int ky_child_states_open(struct ky_child_states **out, pid_t pid);
/* The changes from number *next on, at most so many; *next moves on. What has been overwritten is
 * left out. Returns how many. */
uint32_t ky_child_states_read(struct ky_child_states *states, uint64_t *next,
			      struct ky_child_change *out, uint32_t count_max);
/* The child has ended, and is still to be reaped: waits for the last change. Again, or NULL:
 * nothing. */
void ky_child_states_finish(struct ky_child_states *states);
/* Only after that. */
void ky_child_states_close(struct ky_child_states *states);

#endif
