/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Who issued wakes: few pairs of a stack and a thread, each once; rows name them by number. */
#include <read/load.h>

/* Of ids of a stream's pool of stacks. */
#define CACHE KY_STACK_CACHE

uint32_t ky_load_pooled_stack(struct ky_load *load, uint32_t pool_id, uint64_t time_ns)
{
	struct ky_slice frames;
	uint32_t stack;

	if (pool_id < CACHE && load->stack_stamp[pool_id] == load->pool_serial)
		return load->stack_of[pool_id];
	frames = ky_trc_dec_stack(load->reader->dec, pool_id);
	stack = ky_load_frames(load->trace, (const uint8_t *)frames.bytes, (uint32_t)frames.count,
			       time_ns);
	if (pool_id < CACHE) {
		load->stack_stamp[pool_id] = load->pool_serial;
		load->stack_of[pool_id] = stack;
	}
	return stack;
}

/* Number + 1 of the pair. */
static uint32_t source_of(struct ky_load *load, uint32_t stack, uint32_t tid)
{
	struct ky_trace *trace = load->trace;
	uint32_t *slot = ky_id_map_slot(&load->private->wake_sources, (uint64_t)stack << 32 | tid);

	if (!slot)
		return 0;
	if (*slot == 0 && trace->wake_source_count == KY_WAKE_SOURCES_MAX) {
		trace->wake_sources_left_out++;
		return 0;
	}
	if (*slot == 0) {
		if (!ky_pages_array(&trace->pages, &trace->wake_sources,
				    &trace->wake_source_capacity, trace->wake_source_count + 1,
				    sizeof(*trace->wake_sources)))
			return 0;
		trace->wake_sources[trace->wake_source_count++] = (struct ky_wake_source){stack,
											  tid};
		*slot = trace->wake_source_count;
	}
	return *slot;
}

uint32_t ky_load_wake_source(struct ky_load *load, uint32_t stack, uint32_t tid)
{
	return stack == KY_NONE && !tid ? 0 : source_of(load, stack, tid);
}
