/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/probe_resources.h>

#include <base/now.h>
#include <record/emit/emit_engine.h>
#include <string.h>

#define FLIGHT_INTERVAL_NS (10 * KY_RESOURCE_INTERVAL_NS)

static bool put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	const struct ky_probe_resources *own = ctx;

	/* The mapping is ours to write, whatever the pointer to its description says. */
	return ky_ring_put_resource((struct ky_ring *)(uintptr_t)own->ring, offset, bytes, count);
}

static uint64_t interval_of(const struct ky_ring *ring, bool is_streaming)
{
	uint32_t wish_ms = ky_settings_resource_ms(&ring->control->settings);
	uint32_t started_ms = ky_engine.options.resource_interval_ms;

	if (!wish_ms)
		wish_ms = started_ms;
	return ky_resource_interval(wish_ms,
				    is_streaming ? KY_RESOURCE_INTERVAL_NS : FLIGHT_INTERVAL_NS);
}

uint64_t ky_probe_resources_step(struct ky_probe_resources *own, const struct ky_ring *ring,
				 bool is_streaming)
{
	uint64_t interval_ns = interval_of(ring, is_streaming), now_ns, next_ns;

	if (!ring->resource_bytes || ky_engine_is_under_filter())
		return UINT64_MAX;
	if (own->ring != ring) {
		memset(own, 0, sizeof(*own));
		own->ring = ring;
		own->source.put = put;
		own->source.put_ctx = own;
		own->source.is_own = true;
	}
	now_ns = ky_now_ns(CLOCK_MONOTONIC);
	if (!ky_resource_is_due(&own->source, interval_ns, now_ns))
		return interval_ns ? own->source.next_ns : UINT64_MAX;
	ky_proc_look_open(&own->look, NULL, NULL, 0, 0);
	next_ns = ky_resource_step(&own->source, &own->look, interval_ns, now_ns);
	ky_proc_look_close(&own->look);
	if (own->source.looks && !own->source.is_broken)
		atomic_store_explicit(&ring->header->resource_ready, 1, memory_order_release);
	return next_ns;
}
