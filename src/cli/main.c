/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/nearest.h>
#include <cli/help_environment.h>
#include <cli/cli.h>

#include <argp.h>
#include <base/out_text.h>
#include <kymo/base.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In the order in which a new user meets them. */
static const struct ky_command commands[] = {
	{"run", "run a program and record it", ky_cmd_run},
	{"attach", "start recording a process that runs already", ky_cmd_attach},
	{"detach", "end the recording of a process, which runs on", ky_cmd_detach},
	{"info", "say what a trace is: when, how long, how many events", ky_cmd_info},
	{"report", "say why tasks were late, and what to do", ky_cmd_report},
	{"why", "say why tasks were late, delay by delay and in all", ky_cmd_why},
	{"task", "say what happened to one task, in the order of time", ky_cmd_task},
	{"view", "show one table of a trace: tasks, polls, wakes, spans ..", ky_cmd_view},
	{"query", "answer SQL over a trace", ky_cmd_query},
	{"check", "check a trace against thresholds, for CI", ky_cmd_check},
	{"diff", "say what changed between two groups of runs", ky_cmd_diff},
	{"export", "write a trace for other tools: flame graphs, pprof, Perfetto ..",
	 ky_cmd_export},
	{"events", "print events: text, JSON lines or CSV", ky_cmd_events},
	{"ps", "list the processes that record, and the rings of those that did", ky_cmd_ps},
	{"status", "say what one process records, and which polls are open now", ky_cmd_status},
	{"top", "show what a process does now, each second anew", ky_cmd_top},
	{"set", "change what a process records, while it runs", ky_cmd_set},
	{"mark", "put a label into what a process records", ky_cmd_mark},
	{"dump", "make a trace of what a process recorded last, without its help", ky_cmd_dump},
	{"recover", "make traces from the rings of dead processes", ky_cmd_recover},
	{"doctor", "say what a machine and a program allow, and what would help", ky_cmd_doctor},
	{"symbolize", "write the names of functions into a trace", ky_cmd_symbolize},
	{"open", "open a trace in the browser", ky_cmd_open},
	{"serve", "give traces and the viewer to a browser, by a list", ky_cmd_serve},
	{"html", "write a trace and its viewer as one page", ky_cmd_html},
	{"upload", "send segments on disk to a bucket or a command", ky_cmd_upload},
	{"scrub", "write a trace anew without what others shall not read", ky_cmd_scrub},
	{"agents", "texts for an assistant: how kymo answers questions", ky_cmd_agents},
	{"convert", "write a trace anew: sorted, or compressed differently", ky_cmd_convert},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_help(void)
{
	(void)printf("Usage: kymo COMMAND [OPTION...] ...\n"
		     "Records what an async runtime does and says why a task was late.\n\n"
		     "Commands:\n");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		(void)printf("  %-10s %s\n", commands[i].name, commands[i].summary);
	(void)printf("\n"
		     "  -h, --help     this list; `kymo COMMAND --help` for one command\n"
		     "  -V, --version  the version\n\n"
		     "Exit status: 0 success, 1 trouble with the input or the machine, 2 wrong "
		     "usage.\n");
}

static int unknown(const char *name)
{
	const char *names[COMMAND_COUNT];
	const char *nearest;

	for (size_t i = 0; i < COMMAND_COUNT; i++)
		names[i] = commands[i].name;
	nearest = ky_nearest(name, names, COMMAND_COUNT);
	if (nearest)
		ky_cli_error("there is no command '%s'; did you mean '%s'?", name, nearest);
	else
		ky_cli_error("there is no command '%s'; `kymo --help` lists them", name);
	return KY_EXIT_USAGE;
}

static int run(const struct ky_command *command, int argc, char **argv)
{
	char name[80];

	(void)snprintf(name, sizeof(name), "kymo %s", command->name);
	ky_cli_name(name);
	argv[0] = name;
	/* A file that meets its limit (`ulimit -f`) is an error with a sentence. What CMD of `kymo
	 * run` shall find unchanged is kept there (run_child.c). */
	if (command->run != ky_cmd_run)
		(void)signal(SIGXFSZ, SIG_IGN);
	return ky_cli_finish(command->run(argc, argv));
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "--help";

	ky_cli_guard_streams();
	(void)setlocale(LC_CTYPE, "");
	ky_out_fold(ky_out_columns(STDOUT_FILENO));
	/* Set, not defined: our symbols are hidden from libc. */
	argp_err_exit_status = KY_EXIT_USAGE;
	if (strcmp(name, "help") == 0 && argc > 2 && strcmp(argv[2], "environment") == 0) {
		ky_help_environment();
		return ky_cli_finish(KY_EXIT_OK);
	}
	if (strcmp(name, "help") == 0 && argc > 2) {
		static char help[] = "--help";

		name = argv[1] = argv[2];
		argv[2] = help;
	}
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
		print_help();
		return ky_cli_finish(argc > 1 ? KY_EXIT_OK : KY_EXIT_USAGE);
	}
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
		(void)printf("kymo %s\n", KYMO_VERSION_STRING);
		return ky_cli_finish(KY_EXIT_OK);
	}
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return run(&commands[i], argc - 1, argv + 1);
	}
	return unknown(name);
}
