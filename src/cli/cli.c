/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <cli/cli.h>
#include <cli/progress.h>

#include <base/out_text.h>
#include <cli/progress.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *command_name = "kymo";
static bool is_quiet;

void ky_cli_name(const char *command)
{
	command_name = command;
}

void ky_cli_set_quiet(bool is_wanted)
{
	is_quiet = is_wanted;
}

bool ky_cli_is_quiet(void)
{
	return is_quiet;
}

void ky_cli_guard_streams(void)
{
	/* What is opened so can be neither read nor written, as if it were closed. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/", O_PATH | O_CLOEXEC);
}

__attribute__((format(printf, 2, 0))) static void say(const char *colour, const char *format,
						      va_list args)
{
	bool is_coloured = ky_out_is_coloured(STDERR_FILENO);
	struct ky_buf text, safe;

	ky_buf_init(&text, 0);
	ky_buf_init(&safe, 0);
	ky_out_format_list(&text, format, args);
	ky_out_safe(&safe, (const char *)text.bytes, text.used);
	if (text.failed || safe.failed) {
		ky_buf_clear(&safe);
		ky_out_text(&safe, "out of memory");
	}
	ky_progress_quiet();
	(void)fflush(stdout);
	(void)fprintf(stderr, "%s%s:%s %.*s\n", is_coloured ? colour : "", command_name,
		      is_coloured ? "\033[0m" : "", (int)safe.used, (const char *)safe.bytes);
	ky_buf_release(&text);
	ky_buf_release(&safe);
}

void ky_cli_error_list(const char *format, va_list args)
{
	say("\033[1;31m", format, args);
}

void ky_cli_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ky_cli_error_list(format, args);
	va_end(args);
}

void ky_cli_notice(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say("\033[33m", format, args);
	va_end(args);
}

int ky_cli_print(struct ky_buf *out)
{
	int result = out->failed;

	ky_progress_result();
	if (!result && out->used && fwrite(out->bytes, 1, out->used, stdout) != out->used)
		result = -errno;
	ky_buf_clear(out);
	return result;
}

int ky_cli_finish(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	if (errno == EPIPE) {
		/* Our parent ignores SIGPIPE; the reader is gone all the same. */
		(void)signal(SIGPIPE, SIG_DFL);
		(void)raise(SIGPIPE);
	}
	ky_cli_error("standard output cannot be written: %s", kymo_error_text(-errno));
	return KY_EXIT_TROUBLE;
}
