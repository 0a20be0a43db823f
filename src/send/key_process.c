/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <send/key_process.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <poll.h>
#include <proc/clean_spawn.h>
#include <send/http_client.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOWHERE "/dev/null"
#define PART_BYTES 2048u

struct key_process {
	pid_t pid;
	int pid_fd, output_fd;
	bool is_late, is_long;
};

/* ---- words ---- */

/* One word, written over the text. Returns what follows it; NULL: a quote has no end. */
static char *take_word(char *from, char **word)
{
	char *to = from, quote = '\0';

	*word = to;
	for (; *from && (quote || !strchr(" \t\n", *from)); from++) {
		if (quote && *from == quote)
			quote = '\0';
		else if (!quote && (*from == '"' || *from == '\''))
			quote = *from;
		else if (*from == '\\' && from[1] &&
			 (!quote || (quote == '"' && strchr("\"\\$`", from[1]))))
			*to++ = *++from;
		else
			*to++ = *from;
	}
	if (quote)
		return NULL;
	from += *from != '\0'; /* before the word's end is written over it */
	*to = '\0';
	return from;
}

size_t ky_key_process_split(char *text, char **words, size_t words_max)
{
	size_t count = 0;

	for (text += strspn(text, " \t\n"); *text; text += strspn(text, " \t\n")) {
		if (count == words_max)
			return 0;
		text = take_word(text, &words[count]);
		if (!text)
			return 0;
		count++;
	}
	return count;
}

/* ---- its start ---- */

static int start(struct key_process *process, char **words)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	err = posix_spawn_file_actions_init(&files) ? -ENOMEM : 0;
	if (!err) {
		err = ky_clean_spawn_init(&attributes, true);
		if (!err) {
			if (posix_spawn_file_actions_addopen(&files, STDIN_FILENO, NOWHERE,
							     O_RDONLY, 0) ||
			    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO) ||
			    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, NOWHERE,
							     O_WRONLY, 0))
				err = -ENOMEM;
			else
				err = -posix_spawnp(&process->pid, words[0], &files, &attributes,
						    words, environ);
			posix_spawnattr_destroy(&attributes);
		}
		posix_spawn_file_actions_destroy(&files);
	}
	close(ends[1]);
	if (err) {
		close(ends[0]);
		return err;
	}
	process->output_fd = ends[0];
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	process->pid_fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	return 0;
}

/* ---- while it runs ---- */

/* False: it has closed its output, or has printed too much. */
static bool read_output(struct key_process *process, struct ky_buf *out)
{
	for (;;) {
		size_t room = KY_KEY_PROCESS_BYTES_MAX - out->used;
		ssize_t got = read(process->output_fd, out->bytes + out->used,
				   room < PART_BYTES ? room : PART_BYTES);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EAGAIN;
		if (got == 0)
			return false;
		out->used += (size_t)got;
		process->is_long = out->used == KY_KEY_PROCESS_BYTES_MAX;
		if (process->is_long)
			return false;
	}
}

static bool has_ended(const struct key_process *process)
{
	siginfo_t info = {.si_pid = 0};

	return waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
	       info.si_pid == process->pid;
}

static void wait_for(struct key_process *process, struct ky_buf *out, uint64_t end_ns)
{
	struct pollfd fds[2] = {{.fd = process->output_fd, .events = POLLIN},
				{.fd = process->pid_fd, .events = POLLIN}};

	while (!process->is_long && !has_ended(process)) {
		uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

		process->is_late = now_ns >= end_ns;
		if (process->is_late)
			return;
		/* Where there is no pidfd, each tenth of a second. */
		(void)poll(fds, 2,
			   process->pid_fd < 0 ? 100 : (int)((end_ns - now_ns) / 1000000) + 1);
		if (fds[0].revents && !read_output(process, out))
			fds[0].fd = -1;
	}
	if (!process->is_long)
		(void)read_output(process, out);
}

/* Its group goes before it is reaped: the number is not another's until then. */
static int reap(struct key_process *process)
{
	int status = 0;

	(void)kill(-process->pid, SIGKILL);
	while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR)
		;
	close(process->output_fd);
	if (process->pid_fd >= 0)
		close(process->pid_fd);
	return status;
}

static int judge(const struct key_process *process, int status, const char *name, char *why)
{
	if (process->is_late)
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: credential_process %.96s was ended: its time was over",
			 name);
	else if (process->is_long)
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: credential_process %.96s prints more than %u bytes", name,
			 KY_KEY_PROCESS_BYTES_MAX - 1);
	else if (WIFSIGNALED(status))
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: credential_process %.96s died of signal %d", name,
			 WTERMSIG(status));
	else if (WEXITSTATUS(status))
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: credential_process %.96s exits with %d", name,
			 WEXITSTATUS(status));
	else
		return 0;
	return -ENOENT;
}

static int run(struct ky_buf *out, char **words, uint64_t limit_ns, char *why)
{
	struct key_process process = {.pid_fd = -1};
	uint64_t end_ns = ky_now_ns(CLOCK_MONOTONIC) + limit_ns;
	int err = start(&process, words);

	if (err) {
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: credential_process %.96s cannot be started: %s", words[0],
			 kymo_error_text(err));
		return -ENOENT;
	}
	wait_for(&process, out, end_ns);
	return judge(&process, reap(&process), words[0], why);
}

int ky_key_process_run(struct ky_buf *out, const char *command, uint64_t limit_ns, char *why)
{
	char *words[KY_KEY_PROCESS_WORDS_MAX + 1] = {NULL}, *text = ky_alloc(strlen(command) + 1);
	int err = text ? ky_buf_reserve(out, KY_KEY_PROCESS_BYTES_MAX) : -ENOMEM;

	if (!err) {
		memcpy(text, command, strlen(command));
		if (ky_key_process_split(text, words, KY_KEY_PROCESS_WORDS_MAX)) {
			err = run(out, words, limit_ns ? limit_ns : KY_KEY_PROCESS_LIMIT_NS, why);
		} else {
			snprintf(why, KY_HTTP_ERROR_BYTES,
				 "no credentials: credential_process is 1 to %u words, and each "
				 "quote has its end",
				 KY_KEY_PROCESS_WORDS_MAX);
			err = -ENOENT;
		}
	}
	ky_free(text);
	return err;
}
