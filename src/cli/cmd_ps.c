/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/json_write.h>
#include <cli/cli.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/quantity.h>
#include <base/out_text.h>
#include <cli/shared_options.h>
#include <cli/ring_arguments.h>
#include <ring/ring_count.h>
#include <ring/ring_drainer.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INTERVAL_NS UINT64_C(500000000)
#define INTERVAL_NS_MAX UINT64_C(3600000000000)
#define SECOND_NS UINT64_C(1000000000)

struct ps_arguments {
	struct ky_ring_query query;
	uint64_t interval_ns;
	bool is_json, is_verbose;
};

/* Two counts of one ring, and what lies between them. */
struct rate {
	struct ky_open_ring ring;
	struct ky_ring_view view;
	struct ky_ring_count counts[2];
	uint64_t at_ns[2];
	int which;
	bool is_known;
	uint64_t events_per_second;
};

static const struct argp_option options[] = {
	{"all", 'a', 0, 0, "Processes of all users, as far as their rings may be read (root)", 0},
	{"interval", 'i', "DURATION", 0,
	 "Count events for DURATION (default 500ms; 0: do not count)", 0},
	{"verbose", 'v', 0, 0, "Print also where each ring is", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct ps_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->query;
		state->child_inputs[1] = &arguments->is_json;
		return 0;
	case 'a':
		arguments->query.is_all_users = true;
		return 0;
	case 'i':
		if (!ky_quantity_in(ky_quantity_ns, text, 0, INTERVAL_NS_MAX,
				    &arguments->interval_ns))
			ky_option_error(
				"--interval is a duration such as 500ms, at most 1h, or 0, not "
				"'%s'",
				text);
		return 0;
	case 'v':
		arguments->is_verbose = true;
		return 0;
	case ARGP_KEY_ARG:
		ky_option_error("'%s' is one word too many; `kymo status %s` shows one process",
				text, text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int count_once(void *ctx)
{
	struct rate *rate = ctx;
	int err = ky_ring_view_init(&rate->view, rate->ring.image, rate->ring.image_bytes);

	rate->at_ns[rate->which] = ky_now_ns(CLOCK_MONOTONIC);
	return err < 0 ? err : ky_ring_count(&rate->counts[rate->which], &rate->view);
}

/* Whatever goes wrong with one ring leaves its rate unknown. */
static void count_all(struct rate *rates, const struct ky_found_rings *rings, int which)
{
	char why[KY_FOUND_WHY_BYTES];
	uint32_t i;

	for (i = 0; i < rings->count; i++) {
		struct rate *rate = &rates[i];

		if (rings->rings[i].state != KY_FOUND_ALIVE)
			continue;
		if (which == 0)
			rate->is_known = ky_ring_open(&rate->ring, &rings->rings[i], false, why) ==
					 0;
		rate->which = which;
		if (rate->is_known)
			rate->is_known = ky_ring_guarded(&rate->ring, count_once, rate) == 0;
	}
}

static void measure(struct rate *rates, const struct ky_found_rings *rings, uint64_t interval_ns)
{
	struct timespec wait = {(time_t)(interval_ns / SECOND_NS), (long)(interval_ns % SECOND_NS)};
	uint32_t i, alive = 0;

	for (i = 0; i < rings->count; i++)
		alive += rings->rings[i].state == KY_FOUND_ALIVE;
	if (alive == 0)
		return;
	count_all(rates, rings, 0);
	while (nanosleep(&wait, &wait) != 0 && errno == EINTR)
		;
	count_all(rates, rings, 1);
	for (i = 0; i < rings->count; i++) {
		struct rate *rate = &rates[i];
		uint64_t events;

		if (!rate->is_known || rate->at_ns[1] <= rate->at_ns[0])
			continue;
		events = ky_ring_count_between(&rate->counts[0], &rate->counts[1]);
		rate->events_per_second = (uint64_t)((double)events * 1e9 /
							     (double)(rate->at_ns[1] -
								      rate->at_ns[0]) +
						     0.5);
	}
}

static void release_rates(struct rate *rates, uint32_t count)
{
	uint32_t i;

	for (i = 0; rates != NULL && i < count; i++) {
		ky_ring_count_release(&rates[i].counts[0]);
		ky_ring_count_release(&rates[i].counts[1]);
		if (rates[i].ring.image != NULL)
			ky_ring_close(&rates[i].ring);
	}
	ky_free(rates);
}

/* Stream mode is what a ring is to have: the process that drained it may have been killed. */
static bool is_abandoned(const struct ky_found_ring *found)
{
	struct ky_open_ring ring = {.fd = -1};
	char why[KY_FOUND_WHY_BYTES];
	bool is_drained;

	if (found->state != KY_FOUND_ALIVE || found->mode != KY_RING_MODE_STREAM ||
	    ky_ring_open(&ring, found, false, why) != 0)
		return false;
	is_drained = ky_ring_is_drained(found, &ring);
	ky_ring_close(&ring);
	return !is_drained;
}

/* ---- JSON ---- */

static void json_ring(struct ky_buf *out, const struct ky_found_ring *ring, const struct rate *rate)
{
	ky_json_open(out, NULL, "{");
	if (ring->pid != 0)
		ky_json_number(out, "pid", ring->pid);
	else
		ky_json_null(out, "pid");
	ky_json_number(out, "ring_pid", ring->ring_pid);
	ky_json_text(out, "service", ring->service);
	ky_json_text(out, "mode", ky_ring_mode_text(ring->mode));
	ky_json_text(out, "state", ky_ring_state_text(ring));
	ky_json_number(out, "uid", ring->uid);
	ky_json_number(out, "age_ns", ky_ring_age_ns(ring));
	ky_json_number(out, "started_unix_ns", ring->made_unix_ns);
	ky_json_number(out, "ring_bytes", ring->ring_bytes);
	ky_json_number(out, "ring_bytes_used", ring->populated_bytes);
	if (rate != NULL && rate->is_known)
		ky_json_number(out, "events_per_second", rate->events_per_second);
	else
		ky_json_null(out, "events_per_second");
	ky_json_number_or_null(out, "stopped_after_ns", ring->stopped_ns != 0,
			       ky_ring_stopped_after_ns(ring));
	ky_json_number(out, "dropped", ring->dropped_count);
	ky_json_flag(out, "is_abandoned", is_abandoned(ring));
	ky_json_flag(out, "is_anonymous", ring->is_anonymous);
	ky_json_flag(out, "is_foreign", ring->is_foreign);
	ky_json_flag(out, "is_other_boot", ring->is_other_boot);
	ky_json_flag(out, "is_replaced", ring->is_replaced);
	ky_json_flag(out, "is_cut", ring->is_truncated);
	ky_json_text(out, "path", ring->path);
	ky_json_close(out, "}");
}

static void print_json(struct ky_buf *out, const struct ky_found_rings *rings,
		       const struct rate *rates, uint64_t interval_ns)
{
	uint32_t i;

	ky_json_open(out, NULL, "{");
	ky_json_number(out, "interval_ns", interval_ns);
	ky_json_open(out, "rings", "[");
	for (i = 0; i < rings->count; i++)
		if (rings->rings[i].state != KY_FOUND_TROUBLE)
			json_ring(out, &rings->rings[i], rates != NULL ? &rates[i] : NULL);
	ky_json_close(out, "]");
	ky_json_open(out, "unreadable", "[");
	for (i = 0; i < rings->count; i++)
		if (rings->rings[i].state == KY_FOUND_TROUBLE)
			ky_json_text(out, NULL, rings->rings[i].why);
	ky_json_close(out, "]");
	ky_json_close(out, "}");
	ky_out_text(out, "\n");
}

/* ---- a table ---- */

static void user_cell(struct ky_table *table, uid_t uid)
{
	const struct passwd *user = getpwuid(uid);

	if (user != NULL)
		ky_table_cell(table, user->pw_name);
	else
		ky_table_format(table, "%u", uid);
}

static void table_row(struct ky_table *table, const struct ps_arguments *arguments,
		      const struct ky_found_ring *ring, const struct rate *rate, bool is_left)
{
	char cell[KY_OUT_CELL_BYTES], size[KY_OUT_CELL_BYTES];

	ky_table_format(table, "%u%s", ky_found_pid(ring), ring->pid != 0 ? "" : "*");
	ky_table_cell(table, ring->service[0] != '\0' ? ring->service : "-");
	if (arguments->query.is_all_users)
		user_cell(table, ring->uid);
	ky_table_format(table, "%s%s", ky_ring_mode_text(ring->mode), is_left ? " (!)" : "");
	ky_table_cell(table, ky_ring_state_text(ring));
	ky_table_duration(table, ky_ring_age_ns(ring));
	ky_table_format(table, "%s / %s", ky_out_bytes(cell, ring->populated_bytes),
			ky_out_bytes(size, ring->ring_bytes));
	if (rate != NULL)
		ky_table_cell(table, ring->stopped_ns && ring->state == KY_FOUND_ALIVE ? "stopped" :
				     rate->is_known ? ky_out_count(cell, rate->events_per_second) :
						      "-");
	ky_table_count(table, ring->dropped_count);
	if (arguments->is_verbose)
		ky_table_cell(table, ring->path);
}

static void print_table(struct ky_buf *out, const struct ps_arguments *arguments,
			const struct ky_found_rings *rings, const struct rate *rates)
{
	char align[KY_OUT_COLUMNS_MAX + 1], heads[128], rate[KY_OUT_CELL_BYTES + 16] = "";
	bool has_users = arguments->query.is_all_users, has_unseen = false, has_abandoned = false;
	char interval[KY_OUT_CELL_BYTES];
	struct ky_table table;
	bool is_this;
	uint32_t i;

	if (rates != NULL)
		(void)snprintf(rate, sizeof(rate), "EVENTS/S in %s|",
			       ky_out_duration(interval, arguments->interval_ns));
	(void)snprintf(align, sizeof(align), "rl%sllrr%sr%s", has_users ? "l" : "",
		       rates != NULL ? "r" : "", arguments->is_verbose ? "l" : "");
	(void)snprintf(heads, sizeof(heads), "PID|SERVICE|%sMODE|STATE|AGE|RING|%sDROPPED|PATH",
		       has_users ? "USER|" : "", rate);
	ky_table_begin(&table, align, heads);
	for (i = 0; i < rings->count; i++) {
		if (rings->rings[i].state == KY_FOUND_TROUBLE)
			continue;
		has_unseen |= rings->rings[i].pid == 0;
		is_this = is_abandoned(&rings->rings[i]);
		has_abandoned |= is_this;
		table_row(&table, arguments, &rings->rings[i], rates != NULL ? &rates[i] : NULL,
			  is_this);
	}
	ky_table_end(&table, out, 0, ky_out_is_coloured(STDOUT_FILENO));
	if (has_unseen)
		ky_out_text(out, "* as its own pid namespace counts; not visible from here\n");
	if (has_abandoned)
		ky_out_text(out, "(!) no process drains it; `kymo attach PID` does\n");
}

/* ---- the command ---- */

static uint32_t say_troubles(const struct ky_found_rings *rings)
{
	uint32_t i, count = 0;

	for (i = 0; i < rings->count; i++) {
		if (rings->rings[i].state != KY_FOUND_TROUBLE)
			continue;
		count++;
		ky_cli_error("%s", rings->rings[i].why);
	}
	if (rings->is_incomplete)
		ky_cli_notice("there are more rings than the %u listed", KY_FOUND_RINGS_MAX);
	return count;
}

static int print(const struct ps_arguments *arguments, const struct ky_found_rings *rings)
{
	struct rate *rates = NULL;
	uint32_t troubles = 0;
	struct ky_buf out;
	int err;

	if (arguments->interval_ns > 0 && rings->count > 0) {
		rates = ky_alloc(rings->count * sizeof(*rates));
		if (rates == NULL)
			return -ENOMEM;
		measure(rates, rings, arguments->interval_ns);
	}
	ky_buf_init(&out, 0);
	troubles = say_troubles(rings);
	if (arguments->is_json)
		print_json(&out, rings, rates, arguments->interval_ns);
	else if (rings->count > troubles)
		print_table(&out, arguments, rings, rates);
	else if (!troubles) /* what cannot be read may record */
		ky_cli_notice("nothing is recording, and no ring is left of anything that did");
	err = ky_cli_print(&out);
	ky_buf_release(&out);
	release_rates(rates, rings->count);
	return err < 0 ? err : (int)troubles;
}

int ky_cmd_ps(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_ring_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		options,
		parse,
		NULL,
		"Lists the processes that record, and the rings of those that ended: since when, "
		"in which mode, how full the ring is, how many events a second go into it and how "
		"many it had to drop.",
		children,
		0,
		0};
	struct ps_arguments arguments = {.interval_ns = INTERVAL_NS};
	struct ky_found_rings rings;
	int err = ky_option_parse(&argp, argc, argv, 0, &arguments);

	if (err)
		return err;
	err = ky_ring_find(&rings, &arguments.query);
	if (err == 0)
		err = print(&arguments, &rings);
	ky_found_rings_release(&rings);
	if (err < 0)
		ky_cli_error("%s", kymo_error_text(err));
	return err == 0 ? KY_EXIT_OK : KY_EXIT_TROUBLE;
}
