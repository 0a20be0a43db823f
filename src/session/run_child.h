/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_child.h - CMD as if kymo were not there: same process group, same terminal, same streams,
 * same signal mask and dispositions, and its end passed on as our own.
 *
 * Signals: what the terminal sends reaches CMD directly, because it is in the same process group;
 *          what another process sends to kymo alone is passed on. Stop and continue keep their
 *          default, so a shell's job control sees the whole job stop.
 * If kymo is killed, nothing happens to CMD: no pipe, no ptrace, no death signal ties it to us.
 * Threads: owner; one child per process.
 */
#ifndef KY_SESSION_RUN_CHILD_H
#define KY_SESSION_RUN_CHILD_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ky_run_child {
	pid_t pid;
	int signal_fd;
	int wait_status; /* of waitpid, once has_exited */
	bool has_exited;
	/* Called once it has ended, before it is reaped; NULL: nothing is. The owner's. */
	void (*has_ended)(void *ctx);
	void *ctx;
	bool was_interrupted; /* a terminating signal came after CMD's end */
	sigset_t saved_mask;
	struct sigaction saved_child_action, saved_pipe_action, saved_size_action;
};

/* What is to be done between the fork and the exec of CMD, to watch it from its first instruction
 * on: `parent` while the child waits, then `child`, in it, with what parent returned. */
struct ky_run_gate {
	uint8_t (*parent)(void *ctx, pid_t pid);
	void (*child)(void *ctx, uint8_t verdict);
	void *ctx;
};

/* Starts argv with this environment.
 *
 * gate        NULL: none
 * exec_error  0, or the errno of the exec that failed: the child is then already reaped
 * Returns     0, or -errno when no process could be made
 */
int ky_run_child_start(struct ky_run_child *child, char **argv, char **environment,
		       const struct ky_run_gate *gate, int *exec_error);

/* Waits for signals up to timeout_ns, passes them on, and notices the end of the child. */
void ky_run_child_wait(struct ky_run_child *child, uint64_t timeout_ns);
/* The same, also for these, `revents` of which it fills in. others: room for one more after them.
 */
void ky_run_child_wait_with(struct ky_run_child *child, uint64_t timeout_ns, struct pollfd *others,
			    uint32_t count);

/* Ends this process the way the child ended; returns the exit status to use when it could not die
 * of the child's signal (128 + signal). */
int ky_run_child_pass_status_on(struct ky_run_child *child);

/* As many descriptors as the hard limit allows, for us alone: what watches CMD takes one for each
 * of its threads and CPUs. CMD starts with the limit as it was; a program that takes our place
 * needs the second call for that. */
void ky_run_child_take_descriptors(void);
void ky_run_child_leave_descriptors(void);

#endif
