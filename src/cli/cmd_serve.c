/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kymo serve: the traces below some directories, and the viewer, for a browser. */
#include <cli/cli.h>

#include <arpa/inet.h>
#include <cli/bucket_input.h>
#include <cli/page_file.h>
#include <cli/ring_arguments.h>
#include <cli/live_copy.h>
#include <cli/shared_options.h>
#include <errno.h>
#include <serve/bucket_shelf.h>
#include <serve/http_server.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATHS_MAX 4096u
#define LIVE_NS UINT64_C(60000000000)

enum {
	KEY_LISTEN = KY_OPTION_KEY_OWN,
	KEY_LIVE
};

struct serve_arguments {
	char *paths[PATHS_MAX];
	size_t path_count;
	char address[INET6_ADDRSTRLEN];
	uint16_t port;
	const char *process; /* --live */
	struct ky_ring_query query;
	struct ky_input bucket; /* s3://BUCKET/PREFIX, and what is chosen of it */
	struct ky_time_range range;
};

/* What the server shows: of directories, or of a bucket. */
struct shown {
	struct ky_trace_list *list;
	struct ky_bucket_shelf *shelf;
};

/* The process that is shown live. */
struct live {
	struct ky_found_ring found;
	struct ky_open_ring ring;
	struct ky_live_copy copy;
	char name[128];
};

static const struct argp_option options[] = {
	{"listen", KEY_LISTEN, "ADDR:PORT", 0,
	 "Listen at this address, in numbers; port 0 is any free one (default 127.0.0.1:0)", 0},
	{"live", KEY_LIVE, "PID|SERVICE", 0,
	 "Show this process, too: the last minute of its ring, renewed each second", 0},
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
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->query;
		state->child_inputs[1] = &arguments->range;
		state->child_inputs[2] = &arguments->bucket;
		return 0;
	case KEY_LIVE:
		arguments->process = text;
		return 0;
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
		if (!arguments->path_count && !arguments->process)
			ky_option_error("name a directory with traces, or trace files, or "
					"s3://BUCKET/PREFIX, or --live PID");
		arguments->bucket.arguments = arguments->paths;
		arguments->bucket.argument_count = arguments->path_count;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int cut(void *ctx, struct ky_buf *out)
{
	struct live *live = ctx;

	return ky_live_copy(&live->copy, out);
}

/* Returns an exit code. */
static int open_live(struct live *live, const struct serve_arguments *arguments)
{
	int code = ky_ring_argument_open(&live->ring, &live->found, &arguments->query,
					 arguments->process, false, false);

	if (code)
		return code;
	live->copy.ring = &live->ring;
	live->copy.last_ns = LIVE_NS;
	(void)snprintf(live->name, sizeof(live->name), "%s, pid %u, live",
		       live->found.service[0] ? live->found.service : "process",
		       ky_found_pid(&live->found));
	return KY_EXIT_OK;
}

/* Until a signal ends it. */
static void tend(struct ky_http_server *server, const sigset_t *ending)
{
	static const struct timespec second = {.tv_sec = 1};

	while (sigtimedwait(ending, NULL, &second) < 0)
		ky_http_tend(server);
}

/* Returns an exit code. */
static int serve(const struct serve_arguments *arguments, const struct shown *shown,
		 struct live *live, const struct ky_buf *viewer)
{
	struct ky_http_options how = {
		.address = arguments->address,
		.port = arguments->port,
		.listing = shown->shelf ? ky_bucket_shelf_listing(shown->shelf) :
					  ky_trace_list_listing(shown->list),
		.viewer = viewer,
		.cut = live ? cut : NULL,
		.cut_ctx = live,
		.live_name = live ? live->name : NULL,
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
	ky_bucket_shelf_stop(shown->shelf); /* nobody waits for an answer any more */
	ky_http_close(server);
	return KY_EXIT_OK;
}

static int open_bucket(struct shown *shown, const struct serve_arguments *arguments)
{
	const struct ky_input *bucket = &arguments->bucket;
	char why[KY_BUCKET_WHY_BYTES] = "";
	struct ky_bucket_query query;
	int code = ky_bucket_query_make(&query, bucket, &arguments->range);

	if (code)
		return code;
	if (ky_bucket_shelf_open(&shown->shelf, &query,
				 bucket->fetch_bytes_max ? bucket->fetch_bytes_max :
							   KY_BUCKET_FETCH_BYTES_MAX,
				 why) == 0)
		return KY_EXIT_OK;
	ky_cli_error("%s: %s", arguments->paths[0], why);
	return KY_EXIT_TROUBLE;
}

static int open_shown(struct shown *shown, struct serve_arguments *arguments)
{
	const struct ky_input *bucket = &arguments->bucket;
	char error[512];
	int code;

	if (ky_bucket_is_input(bucket))
		return open_bucket(shown, arguments);
	code = ky_bucket_range_check(bucket, &arguments->range);
	if (!code && (bucket->service || bucket->host)) {
		ky_cli_error("--service and --host choose of a bucket; the list of files is "
			     "narrowed in the browser");
		code = KY_EXIT_USAGE;
	}
	if (code || !ky_trace_list_open(&shown->list, arguments->paths, arguments->path_count,
					error, sizeof(error)))
		return code;
	ky_cli_error("%s", error);
	return KY_EXIT_TROUBLE;
}

int ky_cmd_serve(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_ring_argp, 0, 0, 0},
						     {&ky_time_range_argp, 0, 0, 0},
						     {&ky_choice_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		options,
		parse,
		"[DIR|FILE...]",
		"Gives the traces below DIR, and the viewer, to a browser: prints the address of a "
		"list by service, host and time, in which a click opens a trace. It runs until "
		"Ctrl-C. The address has a random token, without which there is no answer.\v"
		"s3://BUCKET/PREFIX in place of DIR is a bucket, alone: each segment is a trace, "
		"which is fetched when it is opened; with --from, --to or --last, in UTC, each "
		"process is one, of that time.",
		children,
		0,
		0};
	static struct serve_arguments arguments = {.address = "127.0.0.1"};
	static struct live live = {.ring = {.fd = -1}};
	struct shown shown = {.list = NULL};
	struct ky_buf viewer;
	bool is_live;
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	if (code)
		return code;
	ky_buf_init(&viewer, KY_PAGE_VIEWER_BYTES_MAX);
	code = ky_page_viewer_read(&viewer);
	if (!code && arguments.process)
		code = open_live(&live, &arguments);
	is_live = !code && arguments.process;
	if (!code)
		code = open_shown(&shown, &arguments);
	if (!code)
		code = serve(&arguments, &shown, is_live ? &live : NULL, &viewer);
	if (is_live)
		ky_ring_close(&live.ring);
	ky_trace_list_close(shown.list);
	ky_bucket_shelf_close(shown.shelf);
	ky_buf_release(&viewer);
	return code;
}
