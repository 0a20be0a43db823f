/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/probe_resources.h>

#include <string.h>

static bool put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	return ky_ring_area_put(ctx, offset, bytes, count) == 0;
}

/* The area counts from its first reading on. */
static void announce(struct ky_probe_resources *resources)
{
	struct ky_resource_source *source = &resources->source;

	if (resources->is_announced || !source->readings || source->is_broken)
		return;
	source->is_broken = ky_ring_access_announce(&resources->area.access,
						    offsetof(struct ky_ring_header,
							     resource_ready)) != 0;
	resources->is_announced = !source->is_broken;
}

static uint64_t step(void *self, const struct ky_probe_moment *moment)
{
	struct ky_probe_resources *resources = self;
	struct ky_resource_source *source = &resources->source;
	const struct ky_proc_reader *process = resources->process;
	uint64_t interval_ns, next_ns;

	interval_ns = ky_resource_interval(moment->resource_ms,
					   moment->stream ? resources->interval_ns :
							    resources->flight_interval_ns);
	if (!resources->area.bytes || (resources->may_read && !resources->may_read()))
		return UINT64_MAX;
	if (!ky_resource_is_due(source, interval_ns, moment->now_ns)) {
		ky_resource_look(source, moment->now_ns);
		return interval_ns && !source->is_broken ? source->next_ns : UINT64_MAX;
	}
	if (!process)
		ky_proc_reader_open(&resources->own, NULL, NULL, 0, 0);
	next_ns = ky_resource_step(source, process ? process : &resources->own, interval_ns,
				   moment->now_ns);
	if (!process)
		ky_proc_reader_close(&resources->own);
	announce(resources);
	return source->is_broken ? UINT64_MAX : next_ns;
}

void ky_probe_resources_last(struct ky_probe_resources *resources, uint32_t resource_ms,
			     uint64_t now_ns)
{
	const struct ky_proc_reader *process = resources->process;
	uint64_t interval_ns = ky_resource_interval(resource_ms, resources->interval_ns);

	if (!resources->area.bytes || (resources->may_read && !resources->may_read()))
		return;
	if (!process)
		ky_proc_reader_open(&resources->own, NULL, NULL, 0, 0);
	ky_resource_last(&resources->source, process ? process : &resources->own, interval_ns,
			 now_ns);
	if (!process)
		ky_proc_reader_close(&resources->own);
	announce(resources);
}

struct ky_probe ky_probe_resources_init(struct ky_probe_resources *resources,
					const struct ky_ring_view *view)
{
	const uint8_t *area = view ? ky_ring_view_resources(view) : NULL;
	struct ky_resource_about about = {.claim_index = 0};

	/* What was never used is zeros, and some pages long. */
	if (resources->source.put)
		memset(&resources->source, 0, sizeof(resources->source));
	resources->source.put = put;
	resources->source.put_ctx = &resources->area;
	resources->source.is_own = !resources->process;
	resources->is_announced = false;
	resources->source.ring_address = (uint64_t)(uintptr_t)resources->area.access.base;
	resources->source.ring_bytes = resources->ring_bytes;
	if (view) {
		resources->source.ring_address = atomic_load_explicit(&view->header->mapped_address,
								      memory_order_relaxed);
		resources->source.ring_bytes = view->image_bytes;
	}
	if (view && view->resource_offset) {
		resources->area.offset = view->resource_offset;
		resources->area.bytes = KY_RESOURCE_AREA_BYTES;
	}
	if (area)
		ky_ring_view_resource_about(area, &about);
	ky_resource_begin(&resources->source, about.claim_index);
	return (struct ky_probe){.self = resources, .step = step};
}
