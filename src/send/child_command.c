/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <send/child_command.h>

#include <errno.h>
#include <fcntl.h>
#include <proc/clean_spawn.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOWHERE "/dev/null"

static int set_up(posix_spawn_file_actions_t *files, posix_spawnattr_t *attributes,
		  const char *input, int output_fd, bool has_errors)
{
	if (posix_spawn_file_actions_init(files) != 0)
		return -ENOMEM;
	if (ky_clean_spawn_init(attributes, true)) {
		posix_spawn_file_actions_destroy(files);
		return -ENOMEM;
	}
	if (posix_spawn_file_actions_addopen(files, STDIN_FILENO, input, O_RDONLY, 0) == 0 &&
	    posix_spawn_file_actions_adddup2(files, output_fd, STDOUT_FILENO) == 0 &&
	    (has_errors ? posix_spawn_file_actions_adddup2(files, output_fd, STDERR_FILENO) :
			  posix_spawn_file_actions_addopen(files, STDERR_FILENO, NOWHERE, O_WRONLY,
							   0)) == 0)
		return 0;
	posix_spawn_file_actions_destroy(files);
	posix_spawnattr_destroy(attributes);
	return -ENOMEM;
}

int ky_child_command_start(struct ky_child_command *out, char **words, char **environment,
			   const char *input, bool has_errors)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	err = set_up(&files, &attributes, input, ends[1], has_errors);
	if (!err) {
		err = -posix_spawnp(&out->pid, words[0], &files, &attributes, words, environment);
		posix_spawn_file_actions_destroy(&files);
		posix_spawnattr_destroy(&attributes);
	}
	close(ends[1]);
	if (err) {
		close(ends[0]);
		return err;
	}
	out->output_fd = ends[0];
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	out->pid_fd = (int)syscall(SYS_pidfd_open, out->pid, 0);
	return 0;
}

bool ky_child_command_has_ended(const struct ky_child_command *command)
{
	siginfo_t info = {.si_pid = 0};

	return waitid(P_PID, (id_t)command->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
	       info.si_pid == command->pid;
}

void ky_child_command_kill(const struct ky_child_command *command)
{
	(void)kill(-command->pid, SIGKILL);
}

int ky_child_command_reap(const struct ky_child_command *command)
{
	int status = 0;

	while (waitpid(command->pid, &status, 0) < 0 && errno == EINTR)
		;
	close(command->output_fd);
	if (command->pid_fd >= 0)
		close(command->pid_fd);
	return status;
}
