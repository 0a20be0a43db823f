/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/ring_arguments.h>

#include <base/now.h>
#include <cli/cli.h>
#include <cli/run_options.h>
#include <stdio.h>
#include <string.h>

enum {
	OPTION_RING_DIRECTORY = 0x200,
	OPTION_COMPRESS
};

static const struct argp_option ring_options[] = {
	{"ring-dir", OPTION_RING_DIRECTORY, "DIR", 0,
	 "Look for rings in DIR alone (default: KYMO_RING_DIR, /dev/shm/kymo-UID, and whatever "
	 "running processes map)",
	 0},
	{0, 'h', 0, OPTION_HIDDEN, 0, 0},
	{0},
};

static error_t parse_ring(int key, char *text, struct argp_state *state)
{
	struct ky_ring_query *query = state->input;

	if (key == 'h') { /* argp's own is -? alone */
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	}
	if (key != OPTION_RING_DIRECTORY)
		return ARGP_ERR_UNKNOWN;
	if (strlen(text) >= KY_RUN_RING_DIRECTORY_BYTES)
		argp_error(state, "--ring-dir has %zu bytes, and may have %u", strlen(text),
			   KY_RUN_RING_DIRECTORY_BYTES - 1);
	query->ring_directory = text;
	return 0;
}

const struct argp ky_ring_argp = {ring_options, parse_ring, 0, 0, 0, 0, 0};

static const struct argp_option compression_options[] = {
	{"compress", OPTION_COMPRESS, "HOW", 0,
	 "zstd[:LEVEL] (default, level 1), gzip[:LEVEL] or none", 0},
	{0},
};

static error_t parse_compression(int key, char *text, struct argp_state *state)
{
	struct ky_compression *compression = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		compression->is_chosen = false;
		ky_stage_zstd(&compression->stage, 1);
		return 0;
	case OPTION_COMPRESS:
		compression->is_chosen = true;
		if (ky_run_parse_compression(text, &compression->stage) != 0)
			argp_error(state, "--compress is zstd[:1-19], gzip[:1-9] or none, not '%s'",
				   text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ky_compression_argp = {compression_options, parse_compression, 0, 0, 0, 0, 0};

int ky_ring_argument_open(struct ky_open_ring *out, struct ky_found_ring *found,
			  const struct ky_ring_query *query, const char *pid_or_service,
			  bool is_dead_wanted, bool is_writable)
{
	char why[KY_FOUND_WHY_BYTES];

	out->fd = -1;
	if (ky_ring_find_one(found, query, pid_or_service, is_dead_wanted, why) == 0 &&
	    ky_ring_open(out, found, is_writable, why) == 0)
		return KY_EXIT_OK;
	ky_cli_error("%s", why);
	return KY_EXIT_TROUBLE;
}

const char *ky_ring_state_text(const struct ky_found_ring *ring)
{
	switch (ring->state) {
	case KY_FOUND_ALIVE:
		return "alive";
	case KY_FOUND_CLOSED:
		return "closed";
	case KY_FOUND_DEAD:
		return "dead";
	default:
		return "damaged";
	}
}

const char *ky_ring_mode_text(uint32_t mode)
{
	return mode == KY_RING_MODE_FLIGHT ? "flight" : "stream";
}

uint64_t ky_ring_stopped_after_ns(const struct ky_found_ring *ring)
{
	return ring->stopped_ns > ring->made_ns ? ring->stopped_ns - ring->made_ns : 0;
}

uint64_t ky_ring_age_ns(const struct ky_found_ring *ring)
{
	uint64_t now = ky_now_ns(ring->is_other_boot ? CLOCK_REALTIME : CLOCK_MONOTONIC);
	uint64_t made = ring->is_other_boot ? ring->made_unix_ns : ring->made_ns;

	return now > made ? now - made : 0;
}
