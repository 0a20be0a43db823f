/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <send/key_process.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <kymo/base.h>
#include <poll.h>
#include <send/child_command.h>
#include <send/http_client.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PART_BYTES 2048u

struct key_process {
	struct ky_child_command child;
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

/* ---- while it runs ---- */

/* False: it has closed its output, or has printed too much. */
static bool read_output(struct key_process *process, struct ky_buf *out)
{
	for (;;) {
		size_t room = KY_KEY_PROCESS_BYTES_MAX - out->used;
		ssize_t got = read(process->child.output_fd, out->bytes + out->used,
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

static void wait_for(struct key_process *process, struct ky_buf *out, uint64_t end_ns)
{
	struct pollfd fds[2] = {{.fd = process->child.output_fd, .events = POLLIN},
				{.fd = process->child.pid_fd, .events = POLLIN}};

	while (!process->is_long && !ky_child_command_has_ended(&process->child)) {
		uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

		process->is_late = now_ns >= end_ns;
		if (process->is_late)
			return;
		/* Where there is no pidfd, each tenth of a second. */
		(void)poll(fds, 2,
			   process->child.pid_fd < 0 ? 100 :
						       (int)((end_ns - now_ns) / 1000000) + 1);
		if (fds[0].revents && !read_output(process, out))
			fds[0].fd = -1;
	}
	if (!process->is_long)
		(void)read_output(process, out);
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
	struct key_process process = {.is_late = false};
	uint64_t end_ns = ky_now_ns(CLOCK_MONOTONIC) + limit_ns;
	int err = ky_child_command_start(&process.child, words, environ, "/dev/null", false);

	if (err) {
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: credential_process %.96s cannot be started: %s", words[0],
			 kymo_error_text(err));
		return -ENOENT;
	}
	wait_for(&process, out, end_ns);
	ky_child_command_kill(&process.child);
	return judge(&process, ky_child_command_reap(&process.child), words[0], why);
}

int ky_key_process_run(struct ky_buf *out, const char *command, uint64_t limit_ns, char *why)
{
	char *words[KY_KEY_PROCESS_WORDS_MAX + 1] = {NULL}, *text = ky_alloc(strlen(command) + 1);
	int err = text ? ky_buf_reserve(out, KY_KEY_PROCESS_BYTES_MAX) : -ENOMEM;

	if (!err) {
		memcpy(text, command, strlen(command) + 1);
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
