/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/ring_arguments.h>

#include <base/now.h>
#include <cli/cli.h>
#include <cli/shared_options.h>
#include <stdio.h>
#include <string.h>

error_t ky_ring_argument_parse(int key, char *text, const char **process)
{
	switch (key) {
	case ARGP_KEY_ARG:
		if (*process)
			ky_option_error("one process at a time; '%s' is a second one", text);
		*process = text;
		return 0;
	case ARGP_KEY_NO_ARGS:
		ky_option_error("which process? `kymo ps` lists them");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

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

void ky_ring_clock(struct ky_dump_clock *out, const struct ky_found_ring *found)
{
	out->monotonic_ns = found->made_ns;
	out->unix_ns = found->made_unix_ns;
	if (found->is_other_boot)
		return;
	out->monotonic_ns = ky_now_ns(CLOCK_MONOTONIC);
	out->unix_ns = ky_realtime_at_ns(out->monotonic_ns);
}
