/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/unsealed.h>

#include <string.h>
#include <wire/trc.h>

void ky_unsealed_event(struct ky_unsealed *unsealed, uint32_t event)
{
	unsealed->is_kymo |= event < KY_EV_COUNT && !ky_event_table[event].is_dial9;
}

void ky_unsealed_note(struct ky_unsealed *unsealed, const char *name, bool is_sealed, bool is_torn,
		      uint64_t event_count)
{
	size_t bytes = strlen(name), ending = strlen(".active");

	if (is_sealed || is_torn || !event_count ||
	    (bytes > ending && strcmp(name + bytes - ending, ".active") == 0))
		return;
	if (unsealed->count++ == 0)
		unsealed->first = name;
}
