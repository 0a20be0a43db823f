/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <base/hash.h>
#include <cli/page_file.h>
#include <cli/shared_options.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static error_t parse(int key, char *text, struct argp_state *state)
{
	const char **trace = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (*trace)
			ky_option_error("a page shows one trace file: `kymo convert` makes one of "
					"several");
		*trace = text;
		return 0;
	case ARGP_KEY_END:
		if (!*trace)
			ky_option_error("name a trace file");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* One page for each trace file, by its path, so that opening it again replaces the page.
 * Returns false where there is no such directory, said why. */
static bool find_place(const char *trace, char *out, size_t out_bytes)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	static char whole[PATH_MAX], directory[PATH_MAX];
	uint64_t hash;

	if (!realpath(trace, whole)) {
		ky_cli_error("%s: %s", trace, strerror(errno));
		return false;
	}
	hash = ky_hash_bytes(KY_HASH_START, whole, strlen(whole));
	if (cache && cache[0] == '/')
		(void)snprintf(directory, sizeof(directory), "%s", cache);
	else
		(void)snprintf(directory, sizeof(directory), "%s/.cache", home ? home : "");
	(void)mkdir(directory, 0700);
	if (strlen(directory) + 6 >= sizeof(directory)) {
		ky_cli_error("the name of the cache directory is too long");
		return false;
	}
	(void)strncat(directory, "/kymo", 6);
	if (mkdir(directory, 0700) && errno != EEXIST) {
		ky_cli_error("%s: %s; `kymo html` writes a page elsewhere", directory,
			     strerror(errno));
		return false;
	}
	if ((size_t)snprintf(out, out_bytes, "%s/%016llx.html", directory,
			     (unsigned long long)hash) >= out_bytes) {
		ky_cli_error("the name of the cache directory is too long");
		return false;
	}
	return true;
}

/* Returns whether a browser was started. */
static bool start_browser(const char *path)
{
	char program[] = "xdg-open";
	char *copy = strdup(path);
	char *arguments[] = {program, copy, NULL};
	posix_spawn_file_actions_t actions;
	int status = -1;
	pid_t pid;

	if (!copy)
		return false;
	if (posix_spawn_file_actions_init(&actions)) {
		free(copy);
		return false;
	}
	(void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
	(void)posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
	if (!posix_spawnp(&pid, program, &actions, NULL, arguments, environ))
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	(void)posix_spawn_file_actions_destroy(&actions);
	free(copy);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int ky_cmd_open(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_common_argp, 0, 0, 0}, {0}};
	static const struct argp argp = {
		NULL,
		parse,
		"FILE",
		"Opens a trace in the browser: writes a page to the cache directory, prints its "
		"path and starts the desktop's browser on it.",
		children,
		0,
		0};
	const char *trace = NULL;
	static char path[PATH_MAX];
	uint64_t bytes;
	int code = ky_option_parse(&argp, argc, argv, 0, &trace);

	if (code)
		return code;
	if (!find_place(trace, path, sizeof(path)))
		return KY_EXIT_TROUBLE;
	code = ky_page_file_write(trace, 0, 0, path, true, &bytes);
	if (code)
		return code;
	(void)printf("%s\n", path);
	(void)fflush(stdout);
	if (!start_browser(path))
		ky_cli_notice("no browser was started: xdg-open is missing or failed; open that "
			      "file yourself");
	return KY_EXIT_OK;
}
