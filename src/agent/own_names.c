/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <kymo/names.h>

#include <agent/own_namer.h>
#include <symbol/ring_names.h>

static void *open_names(const uint8_t *image, size_t image_bytes)
{
	struct ky_ring_names *names;

	/* No debug files: what a stripped program's own traces lack, `kymo symbolize` adds. */
	return ky_ring_names_open(&names, image, image_bytes, NULL) == 0 ? names : NULL;
}

static void close_names(void *names)
{
	ky_ring_names_close(names);
}

void kymo_names_enable(int is_on)
{
	static const struct ky_own_namer_calls calls = {open_names, ky_ring_names_text,
							close_names};

	ky_own_namer_calls = is_on ? &calls : NULL;
}
