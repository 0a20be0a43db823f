/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <probe/perf_walk.h>

#include <unwind/unwind_walk.h>

bool ky_perf_walk(const struct ky_unwind_view *view, const struct ky_perf_sample *sample,
		  uint64_t *frames, uint32_t *count)
{
	struct ky_walk_memory memory = {.low = sample->sp,
					.high = sample->sp + sample->stack_bytes,
					.bytes = sample->stack};
	struct ky_walk_start start = {.pc = sample->pc,
				      .sp = sample->sp,
				      .fp = sample->fp,
				      .second = sample->second,
				      .is_fp_known = true,
				      .is_second_known = true};
	struct ky_walk walk = {.frames_max = KY_SAMPLE_FRAMES_MAX};

	for (uint32_t i = 0; i < sample->kernel_count && *count < KY_SAMPLE_FRAMES_MAX / 2; i++)
		frames[(*count)++] = sample->kernel[i] - (i > 0);
	if (!sample->has_registers || memory.high < memory.low)
		return false;
	walk.frames = frames + *count;
	walk.frames_max -= *count;
	ky_unwind_walk(&walk, view, &memory, &start);
	*count += walk.count;
	return walk.end == KY_WALK_FIRST;
}

void ky_perf_put(const struct ky_sample_ring *ring, const struct ky_unwind_view *view,
		 const struct ky_perf_sample *sample)
{
	uint64_t frames[KY_SAMPLE_FRAMES_MAX];
	struct ky_sample out = {.kind = KY_SAMPLE_CPU,
				.flags = KY_SAMPLE_STAMP_IS_NS | KY_SAMPLE_HAS_CPU,
				.cpu = (uint16_t)sample->cpu,
				.syscall = -1,
				.tid = sample->tid,
				.stamp = sample->ns,
				.value = sample->period_ns,
				.other = KY_SOURCE_PERF,
				.frames = frames};

	if (!ky_perf_walk(view, sample, frames, &out.frame_count))
		out.flags |= KY_SAMPLE_TRUNCATED;
	(void)ky_sample_put(ring, &out);
}
