/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/json_write.h>
#include <cli/cli.h>

#include <base/now.h>
#include <base/out_text.h>
#include <cli/shared_options.h>
#include <cli/ring_arguments.h>
#include <ring/ring_mark.h>
#include <kymo/base.h>
#include <string.h>

struct mark_arguments {
	struct ky_ring_query query;
	const char *process, *text;
	bool is_all, is_json;
	unsigned int count;
	const char *words[2];
};

static const struct argp_option options[] = {
	{"all", 'a', 0, 0, "Mark every process of this user that records; takes only TEXT", 0},
	{0},
};

static void take_words(struct mark_arguments *arguments)
{
	char why[KY_FOUND_WHY_BYTES];

	if (arguments->count != (arguments->is_all ? 1u : 2u))
		ky_option_error(arguments->is_all ?
					"--all takes one TEXT and no process" :
					"a process and one TEXT are wanted (in quotes, where it "
					"has blanks)");
	arguments->process = arguments->is_all ? NULL : arguments->words[0];
	arguments->text = arguments->words[arguments->is_all ? 0 : 1];
	if (ky_mark_check(arguments->text, why) < 0)
		ky_option_error("%s", why);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct mark_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->query;
		state->child_inputs[1] = &arguments->is_json;
		return 0;
	case 'a':
		arguments->is_all = true;
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->count < 2)
			arguments->words[arguments->count] = text;
		arguments->count++;
		return 0;
	case ARGP_KEY_END:
		take_words(arguments);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

struct mark_work {
	struct ky_open_ring ring;
	const char *text;
	uint64_t now_ns;
	struct ky_buf said;
	bool is_json;
};

static int put(void *ctx)
{
	struct mark_work *work = ctx;

	ky_mark_put(work->ring.side, work->text, work->now_ns);
	return 0;
}

static void say_marked(struct mark_work *work, uint32_t pid, const char *service)
{
	if (work->is_json) {
		ky_json_open(&work->said, NULL, "{");
		ky_json_number(&work->said, "pid", pid);
		ky_json_text(&work->said, "service", service);
		ky_json_close(&work->said, "}");
		return;
	}
	if (ky_cli_is_quiet())
		return;
	ky_out_format(&work->said, "marked %u (", pid);
	ky_out_safe(&work->said, service, strlen(service));
	ky_out_text(&work->said, ")\n");
}

/* Takes the ring. */
static bool mark(struct mark_work *work, const struct ky_found_ring *found)
{
	uint32_t pid = ky_found_pid(found);
	int err;

	if (work->ring.side == NULL) {
		ky_cli_error("process %u records with a kymo whose rings have no room for marks",
			     pid);
		ky_ring_close(&work->ring);
		return false;
	}
	err = ky_ring_guarded(&work->ring, put, work);
	ky_ring_close(&work->ring);
	if (err < 0)
		ky_cli_error("%s: %s", found->path, kymo_error_text(err));
	else
		say_marked(work, pid, found->service);
	return err == 0;
}

static int mark_all(const struct mark_arguments *arguments, struct mark_work *work)
{
	char why[KY_FOUND_WHY_BYTES];
	struct ky_found_rings rings;
	uint32_t i, alive = 0, marked = 0;
	int err = ky_ring_find(&rings, &arguments->query);

	if (err < 0) {
		ky_cli_error("%s", kymo_error_text(err));
		return KY_EXIT_TROUBLE;
	}
	for (i = 0; i < rings.count; i++) {
		if (rings.rings[i].state != KY_FOUND_ALIVE)
			continue;
		alive++;
		if (ky_ring_open(&work->ring, &rings.rings[i], true, why) < 0)
			ky_cli_error("%s", why);
		else
			marked += mark(work, &rings.rings[i]);
	}
	if (alive == 0)
		ky_cli_error("nothing is recording");
	ky_found_rings_release(&rings);
	return alive > 0 && marked == alive ? KY_EXIT_OK : KY_EXIT_TROUBLE;
}

static int mark_one(const struct mark_arguments *arguments, struct mark_work *work)
{
	struct ky_found_ring found;
	int code = ky_ring_argument_open(&work->ring, &found, &arguments->query, arguments->process,
					 false, true);

	if (code == KY_EXIT_OK && !mark(work, &found))
		code = KY_EXIT_TROUBLE;
	return code;
}

int ky_cmd_mark(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_ring_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		options,
		parse,
		"PID|SERVICE TEXT\n--all TEXT",
		"Puts a label into what a process records, at this moment: \"deploy 7\". The trace "
		"shows it as an AnnotationEvent of no thread. At most 104 bytes of UTF-8.",
		children,
		0,
		0};
	struct mark_arguments arguments = {.count = 0};
	struct mark_work work = {0};
	int code;

	code = ky_option_parse(&argp, argc, argv, 0, &arguments);
	if (code)
		return code;
	work.text = arguments.text;
	work.now_ns = ky_now_ns(CLOCK_MONOTONIC);
	work.is_json = arguments.is_json;
	ky_buf_init(&work.said, 0);
	if (work.is_json) {
		ky_json_open(&work.said, NULL, "{");
		ky_json_open(&work.said, "marked", "[");
	}
	code = arguments.is_all ? mark_all(&arguments, &work) : mark_one(&arguments, &work);
	if (work.is_json) {
		ky_json_close(&work.said, "]");
		ky_json_close(&work.said, "}");
		ky_out_text(&work.said, "\n");
	}
	(void)ky_cli_print(&work.said);
	ky_buf_release(&work.said);
	return code;
}
