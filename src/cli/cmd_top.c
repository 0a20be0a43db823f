/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kymo top: what a process does at this moment, each second anew, from copies of its ring. */
#include <cli/cli.h>

#include <analyze/findings/findings.h>
#include <base/now.h>
#include <base/out_text.h>
#include <base/quantity.h>
#include <cli/ring_arguments.h>
#include <cli/live_copy.h>
#include <cli/shared_options.h>
#include <cli/top_screen.h>
#include <errno.h>
#include <kymo/base.h>
#include <read/symbol_table.h>
#include <report/syscall_name.h>
#include <report/top_text.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define LAST_NS (10 * SECOND_NS)
#define LAST_NS_MAX (3600 * SECOND_NS)
#define MEMORY_BYTES_MAX (UINT64_C(1) << 30)

enum {
	KEY_ONCE = KY_OPTION_KEY_OWN,
	KEY_LAST
};

struct top_arguments {
	struct ky_ring_query query;
	const char *process;
	uint64_t last_ns;
	bool is_json, is_once;
};

/* One look at the process, and all that it is made from. */
struct look {
	struct ky_buf bytes;
	struct ky_byte_source source;
	struct ky_symbol_table *symbols;
	struct ky_trace *trace;
	struct ky_report *report;
	struct ky_stack_profile *profile;
	struct ky_findings *findings;
};

struct top {
	const struct top_arguments *arguments;
	struct ky_found_ring found;
	struct ky_open_ring ring;
	struct ky_live_copy copy;
	struct look look;
	uint32_t sort;
	bool is_paused, is_help;
};

static const struct argp_option options[] = {
	{"last", KEY_LAST, "DURATION", 0,
	 "Only the last DURATION, such as 500ms, 30s or 5m (default 10s)", 0},
	{"once", KEY_ONCE, 0, 0, "Print it once, without the screen; --json implies it", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct top_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->query;
		state->child_inputs[1] = &arguments->is_json;
		return 0;
	case KEY_LAST:
		if (!ky_quantity_in(ky_quantity_ns, text, 1, LAST_NS_MAX, &arguments->last_ns))
			ky_option_error(
				"--last is a duration such as 500ms or 30s, at most 1h, not "
				"'%s'",
				text);
		return 0;
	case KEY_ONCE:
		arguments->is_once = true;
		return 0;
	default:
		return ky_ring_argument_parse(key, text, &arguments->process);
	}
}

/* ---- a look ---- */

static void forget(struct look *look)
{
	ky_findings_free(look->findings);
	ky_stack_profile_free(look->profile);
	ky_report_free(look->report);
	ky_trace_close(look->trace);
	ky_symbol_table_close(look->symbols);
	if (look->source.close)
		look->source.close(look->source.ctx);
	ky_buf_release(&look->bytes);
	memset(look, 0, sizeof(*look));
}

static int analyze(struct look *look)
{
	struct ky_trace_options limits = {.memory_bytes_max = MEMORY_BYTES_MAX};
	int err = ky_symbol_table_open(&look->symbols, 0);

	if (!err)
		err = ky_byte_source_memory(&look->source, look->bytes.bytes, look->bytes.used,
					    "the ring");
	limits.symbols = look->symbols;
	if (!err)
		err = ky_trace_open(&look->trace, &look->source, 1, &limits);
	if (!err)
		err = ky_report_make(&look->report, look->trace, NULL);
	if (!err)
		err = ky_stack_profile_make(&look->profile, look->trace, look->report,
					    look->symbols, NULL);
	if (!err)
		err = ky_findings_make(
			&look->findings, look->trace, look->report, look->profile,
			&(struct ky_findings_options){.call_name = ky_trace_call_name});
	return err;
}

/* Copies what the ring has of the window; the process is not asked and does not wait. Returns 0,
 * also where nothing is in the window; a negative error. */
static int take_look(struct top *top)
{
	struct look *look = &top->look;
	int err;

	forget(look);
	ky_buf_init(&look->bytes, 0);
	top->copy.ring = &top->ring;
	top->copy.last_ns = top->arguments->last_ns;
	top->copy.gives_way = true;
	err = ky_live_copy(&top->copy, &look->bytes);
	if (!err)
		err = analyze(look);
	if (err)
		forget(look);
	return err == -ENODATA ? 0 : err;
}

static struct ky_top_view view_of(const struct top *top)
{
	const struct look *look = &top->look;

	return (struct ky_top_view){
		.pid = ky_found_pid(&top->found),
		.service = top->found.service,
		.window_ns = top->arguments->last_ns,
		.age_ns = ky_ring_age_ns(&top->found),
		.lost_count = top->found.dropped_count,
		.trace = look->findings ? look->trace : NULL,
		.report = look->report,
		.findings = look->findings,
		.sort = top->sort,
		.is_coloured = ky_out_is_coloured(STDOUT_FILENO),
	};
}

/* Finds it again; false: it records no more into this ring. */
static bool is_recording(struct top *top)
{
	struct ky_ring_query query = top->arguments->query;
	struct ky_found_rings rings;
	bool is_alive = false;

	query.pid = top->found.pid;
	if (!query.pid || ky_ring_find(&rings, &query) < 0)
		return false;
	for (uint32_t i = 0; i < rings.count; i++) {
		const struct ky_found_ring *ring = &rings.rings[i];

		if (ring->inode != top->found.inode || ring->device != top->found.device)
			continue;
		is_alive = ring->state == KY_FOUND_ALIVE;
		top->found.dropped_count = ring->dropped_count;
	}
	ky_found_rings_release(&rings);
	return is_alive;
}

static int say_trouble(const struct top *top, int err)
{
	ky_cli_error("%s: %s", top->found.path, kymo_error_text(err));
	return KY_EXIT_TROUBLE;
}

/* ---- once ---- */

static int print_once(struct top *top)
{
	struct ky_top_view view;
	struct ky_buf out;
	int err = take_look(top);

	if (err)
		return say_trouble(top, err);
	ky_buf_init(&out, 0);
	view = view_of(top);
	view.columns = ky_out_columns(STDOUT_FILENO);
	if (top->arguments->is_json)
		ky_top_json(&out, &view);
	else
		ky_top_text(&out, &view);
	err = ky_cli_print(&out);
	ky_buf_release(&out);
	return err ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

/* ---- the screen ---- */

static const char help[] =
	"kymo top reads a copy of the ring each second; the process is not "
	"disturbed.\n\n"
	"  q        quit\n"
	"  p, Space pause, and continue\n"
	"  s        sort the kinds of tasks by another column\n"
	"  h, ?     this text\n\n"
	"Active: the share of its time in which a worker was not parked. In polls: "
	"in which it ran\ntasks. Longest delay: from ready to its poll. What it "
	"all means: kymo report, on a trace that\n`kymo dump` makes.\n";

static void show(const struct top *top)
{
	struct ky_top_view view = view_of(top);
	struct ky_buf out;

	ky_buf_init(&out, 0);
	ky_top_screen_size(&view.columns, &view.rows);
	if (top->is_help) {
		ky_out_text(&out, help);
	} else {
		ky_top_text(&out, &view);
		ky_out_format(&out, "\n%sq quit  p %s  s sorted by %s  h help",
			      top->is_paused ? "PAUSED  " : "",
			      top->is_paused ? "continue" : "pause", ky_top_sort_text(top->sort));
	}
	if (!out.failed)
		ky_top_screen_show(&out);
	ky_buf_release(&out);
}

/* Returns false: it is to end. */
static bool obey(struct top *top, int key)
{
	switch (key) {
	case -1:
	case 'q':
	case 'Q':
		return false;
	case 'p':
	case ' ':
		top->is_paused = !top->is_paused;
		break;
	case 's':
		top->sort = (top->sort + 1) % KY_TOP_SORTS;
		break;
	case 'h':
	case '?':
		top->is_help = !top->is_help;
		break;
	default:
		break;
	}
	return true;
}

/* Keys and what they change, for a second. Returns false: it is to end. */
static bool watch_keys(struct top *top)
{
	uint64_t end_ns = ky_now_ns(CLOCK_MONOTONIC) + SECOND_NS, now_ns;

	while ((now_ns = ky_now_ns(CLOCK_MONOTONIC)) < end_ns) {
		if (!obey(top, ky_top_screen_key(end_ns - now_ns)))
			return false;
		show(top);
	}
	return true;
}

static int watch(struct top *top)
{
	int err;

	if (ky_top_screen_open()) {
		ky_cli_error("standard input or output is no terminal; --once prints it once, "
			     "--json as JSON");
		return KY_EXIT_TROUBLE;
	}
	ky_out_fold(0); /* the screen cuts what is too long */
	for (;;) {
		bool is_alive = top->is_paused || is_recording(top);

		err = top->is_paused || !is_alive ? 0 : take_look(top);
		if (err || !is_alive) {
			ky_top_screen_close();
			if (err)
				return say_trouble(top, err);
			ky_cli_notice("process %u records no more; `kymo recover` makes a trace of "
				      "what its ring holds",
				      ky_found_pid(&top->found));
			return KY_EXIT_OK;
		}
		show(top);
		if (!watch_keys(top))
			break;
	}
	ky_top_screen_close();
	return KY_EXIT_OK;
}

int ky_cmd_top(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_ring_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		options,
		parse,
		"PID|SERVICE",
		"Shows what a process does now, each second anew: its workers, the kinds of tasks "
		"that are busiest, the slowest polls of the last seconds, and the first finding. "
		"It reads copies of the ring, so the process is not disturbed. Keys: q quits, p "
		"pauses, s sorts, h helps.",
		children,
		0,
		0};
	static struct top_arguments arguments = {.last_ns = LAST_NS};
	static struct top top;
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	if (code)
		return code;
	top.arguments = &arguments;
	code = ky_ring_argument_open(&top.ring, &top.found, &arguments.query, arguments.process,
				     false, false);
	if (code)
		return code;
	code = arguments.is_once || arguments.is_json ? print_once(&top) : watch(&top);
	forget(&top.look);
	ky_ring_close(&top.ring);
	return code;
}
