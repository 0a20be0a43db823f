/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/own_namer.h>

#include <record/emit/emit_engine.h>

const struct ky_own_namer_calls *ky_own_namer_calls;

size_t ky_own_name(void *ctx, const struct ky_entry_name *entry, char *out, size_t capacity)
{
	struct ky_own_namer *namer = ctx;

	if (!namer->calls || ky_engine_is_under_filter())
		return 0;
	if (!namer->names)
		namer->names = namer->calls->open(namer->ring->base, namer->ring->mapped_bytes);
	return namer->names ? namer->calls->name(namer->names, entry, out, capacity) : 0;
}

void ky_own_namer_follow(struct ky_own_namer *namer, const struct ky_ring *ring)
{
	if (namer->ring == ring)
		return;
	ky_own_namer_close(namer);
	namer->ring = ring;
	namer->calls = ring ? ky_own_namer_calls : NULL;
}

void ky_own_namer_close(struct ky_own_namer *namer)
{
	if (namer->names)
		namer->calls->close(namer->names);
	*namer = (struct ky_own_namer){0};
}
