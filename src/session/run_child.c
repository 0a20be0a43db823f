/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <session/run_child.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Faults of our own must stay deadly, and stop signals must stop us with the rest of the job. */
static const int not_intercepted[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP,
				      SIGSYS,  SIGABRT, SIGTSTP, SIGTTIN, SIGTTOU};

/* As it was when we were started; of no use until it is known. */
static struct rlimit descriptors;
static bool has_descriptors;

void ky_run_child_take_descriptors(void)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0)
		return;
	most = (struct rlimit){descriptors.rlim_max, descriptors.rlim_max};
	has_descriptors = setrlimit(RLIMIT_NOFILE, &most) == 0;
}

void ky_run_child_leave_descriptors(void)
{
	if (has_descriptors)
		(void)setrlimit(RLIMIT_NOFILE, &descriptors);
}

static int intercept_signals(struct ky_run_child *child)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t mask;
	size_t i;

	sigfillset(&mask);
	for (i = 0; i < sizeof(not_intercepted) / sizeof(not_intercepted[0]); i++)
		sigdelset(&mask, not_intercepted[i]);
	if (sigprocmask(SIG_SETMASK, &mask, &child->saved_mask) != 0)
		return -errno;
	/* An inherited SIG_IGN would reap the child before we read its status. */
	sigaction(SIGCHLD, &action, &child->saved_child_action);
	action.sa_handler = SIG_IGN; /* our messages must not kill us */
	sigaction(SIGPIPE, &action, &child->saved_pipe_action);
	sigaction(SIGXFSZ, &action, &child->saved_size_action); /* nor a limit on files */
	child->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return child->signal_fd >= 0 ? 0 : -errno;
}

static void restore_signals(const struct ky_run_child *child)
{
	sigaction(SIGCHLD, &child->saved_child_action, NULL);
	sigaction(SIGPIPE, &child->saved_pipe_action, NULL);
	sigaction(SIGXFSZ, &child->saved_size_action, NULL);
	sigprocmask(SIG_SETMASK, &child->saved_mask, NULL);
}

/* In the child. A kymo that died in between has closed the pipe: CMD runs all the same. */
static void pass_gate(const struct ky_run_gate *gate, int fd)
{
	uint8_t verdict = 0;
	ssize_t got;

	if (!gate)
		return;
	do
		got = read(fd, &verdict, 1);
	while (got < 0 && errno == EINTR);
	gate->child(gate->ctx, got == 1 ? verdict : 0);
}

static void open_gate(const struct ky_run_gate *gate, pid_t pid, int fd)
{
	uint8_t verdict;

	if (!gate)
		return;
	verdict = gate->parent(gate->ctx, pid);
	/* A child that is gone by now needs no word. */
	while (write(fd, &verdict, 1) < 0 && errno == EINTR)
		;
}

int ky_run_child_start(struct ky_run_child *child, char **argv, char **environment,
		       const struct ky_run_gate *gate, int *exec_error)
{
	int report[2], hold[2], err;
	ssize_t got;

	memset(child, 0, sizeof(*child));
	child->signal_fd = -1;
	*exec_error = 0;
	if (pipe2(report, O_CLOEXEC) != 0)
		return -errno;
	if (pipe2(hold, O_CLOEXEC) != 0) {
		err = -errno;
		close(report[0]);
		close(report[1]);
		return err;
	}
	err = intercept_signals(child);
	if (err == 0) {
		child->pid = fork();
		if (child->pid < 0)
			err = -errno;
	}
	if (err != 0) {
		close(report[0]);
		close(report[1]);
		close(hold[0]);
		close(hold[1]);
		restore_signals(child);
		return err;
	}
	if (child->pid == 0) {
		close(hold[1]);
		pass_gate(gate, hold[0]);
		restore_signals(child);
		ky_run_child_leave_descriptors();
		execvpe(argv[0], argv, environment);
		err = errno;
		if (write(report[1], &err, sizeof(err)) != (ssize_t)sizeof(err))
			_exit(125);
		_exit(err == ENOENT ? 127 : 126);
	}
	close(report[1]);
	close(hold[0]);
	open_gate(gate, child->pid, hold[1]);
	close(hold[1]);
	do
		got = read(report[0], exec_error, sizeof(*exec_error));
	while (got < 0 && errno == EINTR);
	close(report[0]);
	if (got != (ssize_t)sizeof(*exec_error))
		*exec_error = 0;
	else
		child->has_exited = waitpid(child->pid, &child->wait_status, 0) == child->pid;
	return 0;
}

/* Its counters can be read until it is reaped. */
static void reap(struct ky_run_child *child)
{
	siginfo_t info = {.si_pid = 0};

	if (child->has_exited ||
	    waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
	    info.si_pid != child->pid)
		return;
	if (child->has_ended)
		child->has_ended(child->ctx);
	child->has_exited = waitpid(child->pid, &child->wait_status, WNOHANG) == child->pid;
}

static bool is_terminating(uint32_t signal)
{
	return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

static void handle(struct ky_run_child *child, const struct signalfd_siginfo *info)
{
	if (info->ssi_signo == SIGCHLD)
		return;
	if (child->has_exited) {
		if (is_terminating(info->ssi_signo))
			child->was_interrupted = true;
		return;
	}
	/* The kernel's own (terminal, timer) went to the whole process group already; and a child
	 * that signals its group has had its share. What the kernel says in our own name is about
	 * a call of ours. */
	if (info->ssi_code > 0 || info->ssi_pid == (uint32_t)child->pid ||
	    info->ssi_pid == (uint32_t)getpid())
		return;
	kill(child->pid, (int)info->ssi_signo);
}

void ky_run_child_wait(struct ky_run_child *child, uint64_t timeout_ns)
{
	struct pollfd own;

	ky_run_child_wait_with(child, timeout_ns, &own, 0);
}

void ky_run_child_wait_with(struct ky_run_child *child, uint64_t timeout_ns, struct pollfd *others,
			    uint32_t count)
{
	struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000),
				   .tv_nsec = (long)(timeout_ns % 1000000000)};
	struct signalfd_siginfo info;

	others[count] = (struct pollfd){.fd = child->signal_fd, .events = POLLIN};
	if (ppoll(others, count + 1, &timeout, NULL) > 0) {
		/* The end first: a Ctrl-C that ends CMD must not count as meant for us. */
		while (read(child->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
			handle(child, &info);
	}
	reap(child);
}

int ky_run_child_pass_status_on(struct ky_run_child *child)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	sigset_t mask;
	int signal;

	if (WIFEXITED(child->wait_status))
		return WEXITSTATUS(child->wait_status);
	signal = WTERMSIG(child->wait_status);
	/* CMD's core is the interesting one; ours would overwrite it. */
	setrlimit(RLIMIT_CORE, &(const struct rlimit){0, 0});
	prctl(PR_SET_DUMPABLE, 0);
	sigaction(signal, &action, NULL);
	sigemptyset(&mask);
	sigaddset(&mask, signal);
	sigprocmask(SIG_UNBLOCK, &mask, NULL);
	kill(getpid(), signal);
	return 128 + signal;
}
