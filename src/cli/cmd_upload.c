/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kymo upload: what `kymo run` wrote to a directory, sent to destinations. */
#include <cli/cli.h>

#include <cli/destinations.h>
#include <cli/recover_into.h>
#include <cli/shared_options.h>
#include <cli/upload_run.h>
#include <session/dump_child.h>
#include <ship/inflate.h>
#include <ship/retention.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct upload_arguments {
	struct ky_destinations destinations;
	struct ky_ring_query query;
	const char *dump_directory; /* NULL: beside the directory */
	char dumps[KY_DUMP_DIRECTORY_BYTES];
	const char *directory;
	bool is_json;
};

enum {
	KEY_DUMP_DIR = KY_OPTION_KEY_OWN
};

static const struct argp_option options[] = {
	{"dump-dir", KEY_DUMP_DIR, "DIR", 0,
	 "Send the dumps of --trigger in DIR, too (default: the directory's name and .dumps)", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct upload_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->destinations;
		state->child_inputs[1] = &arguments->query;
		state->child_inputs[2] = &arguments->is_json;
		return 0;
	case KEY_DUMP_DIR:
		if (!text[0] || strlen(text) >= sizeof(arguments->dumps))
			ky_option_error("--dump-dir is a directory, of at most %u bytes",
					(unsigned)sizeof(arguments->dumps) - 1);
		arguments->dump_directory = text;
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->directory)
			ky_option_error("one directory or dump at a time; '%s' is a second one",
					text);
		arguments->directory = text;
		return 0;
	case ARGP_KEY_NO_ARGS:
		ky_option_error("which directory? It is what `kymo run` wrote to, such as "
				"kymo-traces, or a dump's file");
		return 0;
	case ARGP_KEY_END:
		if (!arguments->destinations.count)
			ky_option_error("say where to send it with --to s3://BUCKET/PREFIX");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* A file is a dump: other traces are segments of a run, which is sent as such, or no traces.
 * Returns an exit code. */
static int check_dump(const struct upload_arguments *arguments)
{
	const char *path = arguments->directory, *slash = strrchr(path, '/');
	char marker[1024], error[512] = "";
	struct ky_byte_source source;
	uint64_t number;
	bool is_active;

	if (ky_upload_check_dump(&arguments->destinations, path))
		return KY_EXIT_USAGE;
	(void)snprintf(marker, sizeof(marker), "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path,
		       KY_RUN_MARKER);
	if (ky_retention_is_segment_name(slash ? slash + 1 : path, &number, &is_active) &&
	    access(marker, F_OK) == 0) {
		ky_cli_error("%s: a segment is sent with its run: name its directory", path);
		return KY_EXIT_USAGE;
	}
	if (ky_inflate_open(&source, path, NULL, error, sizeof(error))) {
		ky_cli_error("%s", error);
		return KY_EXIT_TROUBLE;
	}
	source.close(source.ctx);
	return KY_EXIT_OK;
}

int ky_cmd_upload(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_destinations_argp, 0, 0, 0},
						     {&ky_ring_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		options,
		parse,
		"DIR|FILE",
		"Sends the sealed segments below DIR that a destination does not have yet, oldest "
		"first. What dead processes left in their rings becomes segments of their runs "
		"before. FILE is a dump, which is sent with a manifest, as those of --trigger are. "
		"Nothing is deleted here. What a destination has is in a list beside the segments, "
		"so that each is sent once.\v"
		"Credentials, region and endpoint are those of the AWS tools: AWS_ACCESS_KEY_ID "
		"and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, AWS_REGION, AWS_ENDPOINT_URL. Exit "
		"status: 0 all is there; 1 something is left, and a sentence says why.",
		children,
		0,
		0};
	struct upload_arguments arguments = {.directory = NULL};
	struct ky_sender_options sender_options = {.directory = NULL};
	struct ky_sender *sender;
	struct stat about;
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments), recovered;

	if (code)
		return code;
	ky_upload_set_up();
	ky_dump_child_directory(arguments.dumps, sizeof(arguments.dumps), arguments.dump_directory,
				arguments.directory);
	sender_options.directory = arguments.directory;
	sender_options.dumps = arguments.dumps;
	if (stat(arguments.directory, &about) == 0 && !S_ISDIR(about.st_mode)) {
		code = check_dump(&arguments);
		if (code)
			return code;
		sender_options.directory = NULL;
		sender_options.dumps = arguments.directory;
	}
	sender = ky_upload_open(&arguments.destinations, &sender_options);
	if (!sender)
		return KY_EXIT_TROUBLE;
	recovered = sender_options.directory ?
			    ky_recover_into(arguments.directory, &arguments.query) :
			    KY_EXIT_OK;
	code = ky_upload_run(&arguments.destinations, sender, arguments.directory,
			     arguments.is_json);
	if (code == KY_EXIT_OK)
		code = recovered;
	ky_sender_close(sender);
	return code;
}
