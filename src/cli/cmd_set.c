/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/json_write.h>
#include <cli/cli.h>

#include <base/out_text.h>
#include <cli/shared_options.h>
#include <cli/profile.h>
#include <cli/ring_arguments.h>
#include <ring/ring_drainer.h>
#include <ring/ring_settings.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>

struct set_arguments {
	struct ky_ring_query query;
	const char *process;
	struct ky_setting_changes changes;
	bool is_json;
};

#define KEY_PROFILE KY_OPTION_KEY_OWN

static void take_profile(struct set_arguments *arguments, const char *name)
{
	static struct ky_profile profile; /* large */
	char why[KY_FOUND_WHY_BYTES > KY_PROFILE_WHY_BYTES ? KY_FOUND_WHY_BYTES :
							     KY_PROFILE_WHY_BYTES];

	if (ky_profile_load(&profile, name, why) < 0)
		ky_option_error("--profile %s", why);
	if (profile.rule_count > 0)
		ky_option_error("--profile %s: triggers cannot be set in a process that runs; "
				"leave them out",
				name);
	for (size_t i = 0; i < profile.setting_count; i++)
		if (ky_settings_parse(&arguments->changes, profile.settings[i], why) < 0)
			ky_option_error("--profile %s: %s", name, why);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct set_arguments *arguments = state->input;
	char why[KY_FOUND_WHY_BYTES];

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->query;
		state->child_inputs[1] = &arguments->is_json;
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->process == NULL)
			arguments->process = text;
		else if (ky_settings_parse(&arguments->changes, text, why) < 0)
			ky_option_error("%s", why);
		return 0;
	case KEY_PROFILE:
		take_profile(arguments, text);
		return 0;
	case ARGP_KEY_NO_ARGS:
		ky_option_error("which process? `kymo ps` lists them");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

struct set_work {
	struct ky_open_ring ring;
	struct ky_found_ring found;
	struct ky_setting_changes *changes;
	bool is_reading;
	bool is_streaming; /* as its mode says now */
	bool is_drained;
};

static int do_work(void *ctx)
{
	struct set_work *work = ctx;
	uint32_t mode;
	int err = 0;

	if (work->is_reading)
		ky_settings_read(work->ring.control, work->changes);
	else
		err = ky_settings_apply(&work->ring, work->changes);
	mode = atomic_load_explicit(&work->ring.control->settings.mode, memory_order_relaxed);
	if (mode == KY_RING_MODE_AS_OPENED)
		work->is_streaming = (work->found.flags & KY_RING_FLIGHT) == 0;
	else
		work->is_streaming = mode == KY_RING_MODE_STREAM;
	return err;
}

static void print_json(struct ky_buf *out, const struct set_work *work)
{
	char before[KY_SETTING_TEXT_BYTES], after[KY_SETTING_TEXT_BYTES];
	size_t i;

	ky_json_open(out, NULL, "{");
	ky_json_number(out, "pid", ky_found_pid(&work->found));
	ky_json_text(out, "service", work->found.service);
	ky_json_open(out, work->is_reading ? "settings" : "changes", "[");
	for (i = 0; i < work->changes->count; i++) {
		const struct ky_setting_change *change = &work->changes->changes[i];

		ky_setting_text(before, change->setting, change->before);
		ky_setting_text(after, change->setting, change->value);
		ky_json_open(out, NULL, "{");
		ky_json_text(out, "name", ky_setting_name(change->setting));
		ky_json_text(out, work->is_reading ? "value" : "before", before);
		if (!work->is_reading)
			ky_json_text(out, "after", after);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_flag(out, "is_streaming", work->is_streaming);
	ky_json_flag(out, "is_drained", work->is_drained);
	ky_json_close(out, "}");
	ky_out_text(out, "\n");
}

/* A stream is a request: a recorder process has to fulfil it. */
static void warn(struct ky_buf *out, const struct set_work *work, const struct ky_setting *setting)
{
	if (strcmp(ky_setting_name(setting), "mode") != 0 || !work->is_streaming ||
	    work->is_drained)
		return;
	ky_out_format(out,
		      ", but this ring is not drained: nothing is written until a recorder process "
		      "drains it; `kymo dump %u` writes what it holds",
		      ky_found_pid(&work->found));
}

static void print_text(struct ky_buf *out, const struct set_work *work)
{
	char before[KY_SETTING_TEXT_BYTES], after[KY_SETTING_TEXT_BYTES];
	size_t i;

	for (i = 0; i < work->changes->count; i++) {
		const struct ky_setting_change *change = &work->changes->changes[i];
		const char *name = ky_setting_name(change->setting);

		ky_setting_text(before, change->setting, change->before);
		ky_setting_text(after, change->setting, change->value);
		if (work->is_reading) {
			ky_out_format(out, "%s=%s\n", name, before);
			continue;
		}
		if (change->before == change->value)
			ky_out_format(out, "%s: %s, as it was", name, after);
		else
			ky_out_format(out, "%s: %s -> %s", name, before, after);
		warn(out, work, change->setting);
		ky_out_text(out, "\n");
	}
}

static int print(const struct set_work *work, bool is_json)
{
	struct ky_buf out;
	int err;

	ky_buf_init(&out, 0);
	if (is_json)
		print_json(&out, work);
	else if (work->is_reading || !ky_cli_is_quiet())
		print_text(&out, work);
	err = ky_cli_print(&out);
	ky_buf_release(&out);
	return err < 0 ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

int ky_cmd_set(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_ring_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp_option options[] = {
		{"profile", KEY_PROFILE, "NAME|FILE", 0,
		 "Record as a preset says: default, profile, everything, or a file "
		 "(kymo-profile(5))",
		 0},
		{0}};
	static const struct argp argp = {
		options,
		parse,
		"PID|SERVICE [KEY=VALUE...]",
		"Changes what a process records while it runs, and prints what changed. All values "
		"are checked before the first is written. Without KEY=VALUE: prints them all."
		"\vGates (on, off): poll, wake, park, spawn, driver, blocking, waker_clone, mark, "
		"custom, span, places, offcpu, alloc, offcpu.stacks, alloc.stacks, conn.\n"
		"recording=off shuts them all, ends sampling and the readings of resources, and "
		"keeps what the ring holds; recording=on records again as before.\n"
		"For the drain: poll.threshold, wake.threshold, blocking.threshold, "
		"span.threshold (a time); KIND.throttle (events a second) for poll, wake, park, "
		"driver, blocking, mark, custom and span; each also off or default; mode (stream, "
		"flight, default); sampling (a rate), resources (a time between readings); "
		"alloc.bytes (a size).",
		children,
		0,
		0};
	struct set_arguments arguments = {.process = NULL};
	struct set_work work = {.changes = &arguments.changes};
	int code, err;

	code = ky_option_parse(&argp, argc, argv, 0, &arguments);
	if (code)
		return code;
	work.is_reading = arguments.changes.count == 0;
	code = ky_ring_argument_open(&work.ring, &work.found, &arguments.query, arguments.process,
				     false, true);
	if (code != KY_EXIT_OK)
		return code;
	err = ky_ring_guarded(&work.ring, do_work, &work);
	if (arguments.is_json || (work.is_streaming && !work.is_reading))
		work.is_drained = ky_ring_is_drained(&work.found, &work.ring);
	ky_ring_close(&work.ring);
	if (err == 0 && arguments.changes.is_unfinished)
		ky_cli_notice("another `kymo set` is changing these, or was killed meanwhile; the "
			      "former values hold until the next one");
	if (err == 0)
		return print(&work, arguments.is_json);
	ky_cli_error("%s: %s", work.found.path, kymo_error_text(err));
	return KY_EXIT_TROUBLE;
}
