/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/destinations.h>

#include <base/quantity.h>
#include <cli/cli.h>
#include <send/push_child.h>
#include <cli/shared_options.h>
#include <edit/redact.h>
#include <send/exec_stage.h>
#include <send/s3_stage.h>
#include <string.h>

enum {
	KEY_TO = 0x180, /* below those of the commands */
	KEY_EXEC,
	KEY_LAYOUT,
	KEY_UPLOAD_TIMEOUT,
	KEY_REDACT,
	KEY_NO_SYMBOLS
};

static const struct argp_option options[] = {
	/* the first: ky_destinations_but_to_argp */
	{"to", KEY_TO, "URL", 0,
	 "Send each sealed segment there: s3://BUCKET/PREFIX; or what is in it: otlp:URL, "
	 "pprof:URL; may be repeated",
	 0},
	{"exec", KEY_EXEC, "COMMAND", 0,
	 "Run COMMAND, words without a shell, for each sealed segment, which is its input; may be "
	 "repeated",
	 0},
	{"layout", KEY_LAYOUT, "dial9|kymo", 0,
	 "Names in the bucket, and gzip or the file as it is (default dial9)", 0},
	{"upload-timeout", KEY_UPLOAD_TIMEOUT, "DURATION", 0,
	 "At the end send for at most DURATION; what is left stays on disk (default 30s)", 0},
	{"redact", KEY_REDACT, "args|values|names|none", 0,
	 "What does not leave this machine (default args)", 0},
	{"no-symbols", KEY_NO_SYMBOLS, NULL, 0,
	 "Send code addresses without the names that files of this machine give them", 0},
	{0},
};

void ky_destinations_add(struct ky_destinations *destinations, const char *word, bool is_command)
{
	if (destinations->count == KY_SENDER_STAGES_MAX)
		ky_option_error("at most %u destinations", KY_SENDER_STAGES_MAX);
	destinations->are_commands[destinations->count] = is_command;
	destinations->words[destinations->count++] = word;
}

static void parse_layout(struct ky_destinations *destinations, const char *text)
{
	if (strcmp(text, "dial9") != 0 && strcmp(text, "kymo") != 0)
		ky_option_error("--layout is dial9 or kymo, not '%s'", text);
	destinations->layout = text[0] == 'k' ? KY_LAYOUT_KYMO : KY_LAYOUT_DIAL9;
	destinations->has_layout = true;
}

/* Before anything is started or read. */
static void check(struct ky_destinations *destinations)
{
	struct ky_sender_options made = {.stage_count = 0};

	ky_destinations_make(destinations, &made);
	for (uint32_t i = 0; i < made.stage_count; i++)
		made.stages[i].close(made.stages[i].ctx);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct ky_destinations *destinations = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		destinations->timeout_ns = KY_UPLOAD_TIMEOUT_NS;
		destinations->outgoing = (struct ky_outgoing_choice){KY_REDACT_LEVEL_ARGS,
								     .is_named = true};
		return 0;
	case KEY_TO:
		ky_destinations_add(destinations, text, false);
		return 0;
	case KEY_EXEC:
		ky_destinations_add(destinations, text, true);
		return 0;
	case KEY_LAYOUT:
		parse_layout(destinations, text);
		return 0;
	case KEY_UPLOAD_TIMEOUT:
		if (!ky_quantity_in(ky_quantity_ns, text, 0, UINT64_C(86400000000000),
				    &destinations->timeout_ns))
			ky_option_error("--upload-timeout is a duration such as 30s, at most 24h, "
					"not '%s'",
					text);
		return 0;
	case KEY_REDACT:
		destinations->outgoing.classes = ky_redact_level(text);
		if (!destinations->outgoing.classes && strcmp(text, "none") != 0)
			ky_option_error("--redact is args, values, names or none, not '%s'", text);
		return 0;
	case KEY_NO_SYMBOLS:
		destinations->outgoing.is_named = false;
		return 0;
	case ARGP_KEY_END:
		check(destinations);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ky_destinations_argp = {options, parse, 0, 0, 0, 0, 0};
const struct argp ky_destinations_but_to_argp = {options + 1, parse, 0, 0, 0, 0, 0};

void ky_destinations_make(struct ky_destinations *destinations, struct ky_sender_options *out)
{
	char why[KYMO_STAGE_REASON_BYTES] = "out of memory";

	out->filter = ky_outgoing_filter(&destinations->outgoing);
	for (uint32_t i = 0; i < destinations->count; i++) {
		struct kymo_segment_stage *stage = &out->stages[out->stage_count];

		const char *words = destinations->words[i];

		if (destinations->are_commands[i]) {
			if (ky_exec_stage_make(stage, words, 0, why))
				ky_option_error("--exec: %s", why);
		} else if (ky_push_stage_is(words) ?
				   ky_push_stage_make(stage, words, ky_push_child_make, NULL, why) :
				   ky_s3_stage_make(stage, words, destinations->layout, why)) {
			ky_option_error("%s: %s",
					destinations->to_option ? destinations->to_option : "--to",
					why);
		}
		for (uint32_t j = 0; j < out->stage_count; j++)
			if (strcmp(out->stages[j].name, stage->name) == 0)
				ky_option_error("%s is given twice", stage->name);
		out->stage_count++;
	}
}
