/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* child_command.h - a program that is run for us: in a process group of its own, with its output in
 * a pipe.
 *
 * Threads: any; each command has one owner.
 */
#ifndef KY_SEND_CHILD_COMMAND_H
#define KY_SEND_CHILD_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

struct ky_child_command {
	pid_t pid;
	int pid_fd;    /* readable once it has ended; -1: a kernel without it */
	int output_fd; /* does not block */
};

/* input: a file that is opened for it. has_errors: its standard error goes into the pipe, too, else
 * nowhere. Returns 0, -errno; -ENOMEM. */
int ky_child_command_start(struct ky_child_command *out, char **words, char **environment,
			   const char *input, bool has_errors);
bool ky_child_command_has_ended(const struct ky_child_command *command);
/* Its group goes before it is reaped: the number is not another's until then. */
void ky_child_command_kill(const struct ky_child_command *command);
/* After the kill. Returns what waitpid() says of it. */
int ky_child_command_reap(const struct ky_child_command *command);

#endif
