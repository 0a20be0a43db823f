/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* cli.h - what the commands of `kymo` share: the table of commands, exit codes, saying things.
 *
 * Exit codes:  enum ky_exit, for every command; `kymo run` passes on what its command exits with.
 * Streams:     results on stdout, everything else on stderr, one sentence each, "kymo COMMAND:
 *              ...".
 * Threads:     owner.
 */
#ifndef KY_CLI_CLI_H
#define KY_CLI_CLI_H

#include <base/buf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ky_exit {
	KY_EXIT_OK = 0,
	KY_EXIT_TROUBLE = 1, /* with the input or the machine */
	KY_EXIT_USAGE = 2
};

struct ky_command {
	const char *name;
	const char *summary;               /* one line for `kymo --help` */
	int (*run)(int argc, char **argv); /* argv[0] is "kymo NAME"; returns the exit code */
};

int ky_cmd_info(int argc, char **argv);
int ky_cmd_events(int argc, char **argv);
int ky_cmd_report(int argc, char **argv);
int ky_cmd_why(int argc, char **argv);
int ky_cmd_task(int argc, char **argv);
int ky_cmd_view(int argc, char **argv);
int ky_cmd_query(int argc, char **argv);
int ky_cmd_check(int argc, char **argv);
int ky_cmd_diff(int argc, char **argv);
int ky_cmd_export(int argc, char **argv);
int ky_cmd_convert(int argc, char **argv);
int ky_cmd_agents(int argc, char **argv);
int ky_cmd_scrub(int argc, char **argv);
int ky_cmd_html(int argc, char **argv);
int ky_cmd_open(int argc, char **argv);
int ky_cmd_serve(int argc, char **argv);
int ky_cmd_symbolize(int argc, char **argv);
int ky_cmd_doctor(int argc, char **argv);
int ky_cmd_dump(int argc, char **argv);
int ky_cmd_recover(int argc, char **argv);
int ky_cmd_ps(int argc, char **argv);
int ky_cmd_mark(int argc, char **argv);
int ky_cmd_set(int argc, char **argv);
int ky_cmd_top(int argc, char **argv);
int ky_cmd_upload(int argc, char **argv);
int ky_cmd_status(int argc, char **argv);
int ky_cmd_attach(int argc, char **argv);
int ky_cmd_detach(int argc, char **argv);
/* Does not return when a signal ended CMD: it dies of the same. */
int ky_cmd_run(int argc, char **argv);

/* What we open must not become standard input, output or error where one of them was closed: a
 * sentence would go into a ring. The place-holders are close-on-exec, so CMD of `kymo run` finds
 * closed what was closed. */
void ky_cli_guard_streams(void);

/* "kymo info: TEXT" on stderr; a warning is yellow where stderr is a terminal. */
void ky_cli_name(const char *command); /* argv[0] of the command that runs */
__attribute__((format(printf, 1, 2))) void ky_cli_error(const char *format, ...);
__attribute__((format(printf, 1, 0))) void ky_cli_error_list(const char *format, va_list args);
__attribute__((format(printf, 1, 2))) void ky_cli_notice(const char *format, ...);

/* --quiet: no progress, and no line about what was done; results and trouble are still printed. */
void ky_cli_set_quiet(bool is_wanted);
bool ky_cli_is_quiet(void);

/* Writes everything to stdout and clears. Returns 0, -ENOMEM (the buffer failed), -errno. */
int ky_cli_print(struct ky_buf *out);

/* Last thing of a command: flushes stdout. Returns `code`, or KY_EXIT_TROUBLE with a sentence when
 * stdout could not be written. A closed pipe ends the process by SIGPIPE, as other tools do. */
int ky_cli_finish(int code);

#endif
