/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/top_screen.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define COLUMNS_DEFAULT 80u
#define ROWS_DEFAULT 24u
#define KEY_END 4 /* Ctrl-D */

/* Another screen, no cursor, lines that do not wrap; and all that back. */
static const char taking[] = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J";
static const char giving[] = "\033[?7h\033[?25h\033[?1049l";

static struct termios before;
static volatile sig_atomic_t is_taken;

static void put(const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t done = write(STDOUT_FILENO, text, bytes);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return;
		text += done;
		bytes -= (size_t)done;
	}
}

static void take(void)
{
	struct termios raw = before;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
	put(taking, sizeof(taking) - 1);
	is_taken = 1;
}

/* Also in a signal handler: only calls that are allowed there. */
static void give_back(void)
{
	if (!is_taken)
		return;
	is_taken = 0;
	put(giving, sizeof(giving) - 1);
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
}

/* Blocked until the handler returns; then it ends the process as if we had never caught it. */
static void end_by_signal(int number)
{
	int error = errno;

	give_back();
	(void)signal(number, SIG_DFL);
	(void)raise(number);
	errno = error;
}

/* Ctrl-Z. */
static void rest(int number)
{
	int error = errno;
	bool had = is_taken;

	(void)number;
	give_back();
	(void)raise(SIGSTOP);
	if (had)
		take();
	errno = error;
}

static void wake(int number)
{
	(void)number; /* ends the wait for a key */
}

static void catch_signals(void)
{
	static const int ending[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE,
				     SIGABRT, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};
	struct sigaction action = {.sa_handler = end_by_signal};

	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		(void)sigaction(ending[i], &action, NULL);
	action.sa_handler = rest;
	(void)sigaction(SIGTSTP, &action, NULL);
	action.sa_handler = wake;
	(void)sigaction(SIGWINCH, &action, NULL);
}

int ky_top_screen_open(void)
{
	static bool is_registered;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before))
		return -ENOTTY;
	if (!is_registered)
		(void)atexit(give_back);
	is_registered = true;
	catch_signals();
	take();
	return 0;
}

void ky_top_screen_close(void)
{
	give_back();
}

void ky_top_screen_size(uint32_t *columns, uint32_t *rows)
{
	struct winsize size;

	*columns = COLUMNS_DEFAULT;
	*rows = ROWS_DEFAULT;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row) {
		*columns = size.ws_col;
		*rows = size.ws_row;
	}
}

void ky_top_screen_show(const struct ky_buf *text)
{
	static const char home[] = "\033[H", line_end[] = "\033[K", rest_gone[] = "\033[K\033[J";
	const char *at = (const char *)text->bytes, *end = at + text->used;
	uint32_t columns, rows, row = 1;
	struct ky_buf out;

	ky_top_screen_size(&columns, &rows);
	ky_buf_init(&out, 0);
	(void)ky_buf_append(&out, home, sizeof(home) - 1);
	while (at < end && row <= rows) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *to = newline ? newline : end;

		(void)ky_buf_append(&out, at, (size_t)(to - at));
		(void)ky_buf_append(&out, line_end, sizeof(line_end) - 1);
		if (row++ < rows && newline)
			(void)ky_buf_append(&out, "\r\n", 2);
		at = newline ? newline + 1 : end;
	}
	if (row <= rows)
		(void)ky_buf_append(&out, rest_gone, sizeof(rest_gone) - 1);
	if (!out.failed)
		put((const char *)out.bytes, out.used);
	ky_buf_release(&out);
}

int ky_top_screen_key(uint64_t wait_ns)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	const struct timespec wait = {.tv_sec = (time_t)(wait_ns / 1000000000),
				      .tv_nsec = (long)(wait_ns % 1000000000)};
	unsigned char key;

	if (ppoll(&input, 1, &wait, NULL) <= 0)
		return 0;
	if (read(STDIN_FILENO, &key, 1) != 1)
		return errno == EINTR || errno == EAGAIN ? 0 : -1;
	return key == KEY_END ? -1 : key;
}
