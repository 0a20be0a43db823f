/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kymo serve: the traces below some directories, and the viewer, for a browser. */
#include <cli/cli.h>

#include <arpa/inet.h>
#include <cli/page_file.h>
#include <cli/shared_options.h>
#include <errno.h>
#include <serve/http_server.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATHS_MAX 4096u

enum {
	KEY_LISTEN = KY_OPTION_KEY_OWN
};

struct serve_arguments {
	char *paths[PATHS_MAX];
	size_t path_count;
	char address[INET6_ADDRSTRLEN];
	uint16_t port;
};

static const struct argp_option options[] = {
	{"listen", KEY_LISTEN, "ADDR:PORT", 0,
	 "Listen at this address, in numbers; port 0 is any free one (default 127.0.0.1:0)", 0},
	{0},
};

static void read_listen(struct serve_arguments *arguments, const char *text)
{
	const char *colon = strrchr(text, ':');
	bool has_bracket = text[0] == '[';
	size_t bytes = colon ? (size_t)(colon - text) : 0;
	unsigned long port;
	char *end = NULL;
	uint8_t address[sizeof(struct in6_addr)];

	port = colon && colon[1] >= '0' && colon[1] <= '9' ? strtoul(colon + 1, &end, 10) :
							     UINT16_MAX + 1ul;
	if (has_bracket && bytes > 2 && text[bytes - 1] == ']') {
		text++;
		bytes -= 2;
	}
	if (!bytes || bytes >= sizeof(arguments->address) || port > UINT16_MAX || !end || *end)
		ky_option_error("--listen is an address in numbers and a port, such as "
				"127.0.0.1:8080 or [::1]:0, not '%s'",
				text);
	memcpy(arguments->address, text, bytes);
	arguments->address[bytes] = '\0';
	if (inet_pton(has_bracket ? AF_INET6 : AF_INET, arguments->address, address) != 1)
		ky_option_error("--listen: '%s' is no address in numbers, such as 127.0.0.1 or "
				"[::1]",
				arguments->address);
	arguments->port = (uint16_t)port;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct serve_arguments *arguments = state->input;

	switch (key) {
	case KEY_LISTEN:
		read_listen(arguments, text);
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->path_count == PATHS_MAX)
			ky_option_error("at most %u directories and files; name a directory above "
					"them",
					PATHS_MAX);
		arguments->paths[arguments->path_count++] = text;
		return 0;
	case ARGP_KEY_END:
		if (!arguments->path_count)
			ky_option_error("name a directory with traces, or trace files");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Until a signal ends it. */
static void tend(struct ky_http_server *server, const sigset_t *ending)
{
	static const struct timespec second = {.tv_sec = 1};

	while (sigtimedwait(ending, NULL, &second) < 0)
		ky_http_tend(server);
}

/* Returns an exit code. */
static int serve(const struct serve_arguments *arguments, struct ky_trace_list *list,
		 const struct ky_buf *viewer)
{
	struct ky_http_options how = {
		.address = arguments->address,
		.port = arguments->port,
		.list = list,
		.viewer = viewer,
	};
	struct ky_http_server *server;
	char error[512], url[256];
	sigset_t ending;

	/* Blocked before there are threads, so that none of them is ended. */
	(void)sigemptyset(&ending);
	(void)sigaddset(&ending, SIGINT);
	(void)sigaddset(&ending, SIGTERM);
	(void)sigaddset(&ending, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &ending, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	if (ky_http_open(&server, &how, error, sizeof(error))) {
		ky_cli_error("%s", error);
		return KY_EXIT_TROUBLE;
	}
	if (!ky_http_is_loopback(arguments->address))
		ky_cli_notice("other machines can reach this address, and what is sent is not "
			      "encrypted: the token in it is all that protects the traces");
	ky_http_url(server, url, sizeof(url));
	(void)printf("%s\n", url);
	if (fflush(stdout) == 0)
		tend(server, &ending);
	ky_http_close(server);
	return KY_EXIT_OK;
}

int ky_cmd_serve(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_common_argp, 0, 0, 0}, {0}};
	static const struct argp argp = {
		options,
		parse,
		"DIR|FILE...",
		"Gives the traces below DIR, and the viewer, to a browser: prints the address of a "
		"list by service, host and time, in which a click opens a trace. It runs until "
		"Ctrl-C. The address has a random token, without which there is no answer.",
		children,
		0,
		0};
	static struct serve_arguments arguments = {.address = "127.0.0.1"};
	struct ky_trace_list *list = NULL;
	struct ky_buf viewer;
	char error[512];
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	if (code)
		return code;
	ky_buf_init(&viewer, KY_PAGE_VIEWER_BYTES_MAX);
	code = ky_page_viewer_read(&viewer);
	if (!code && ky_trace_list_open(&list, arguments.paths, arguments.path_count, error,
					sizeof(error))) {
		ky_cli_error("%s", error);
		code = KY_EXIT_TROUBLE;
	}
	if (!code)
		code = serve(&arguments, list, &viewer);
	ky_trace_list_close(list);
	ky_buf_release(&viewer);
	return code;
}
