/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/common.h>

#include <errno.h>

int ky_common_init(struct ky_drain_common *common)
{
	int err = ky_note_init(&common->notes);

	common->to_ns = common->busy_ticks = UINT64_MAX;
	common->names.modules = &common->modules;
	return err ? err : ky_samples_init(&common->samples);
}

void ky_common_release(struct ky_drain_common *common)
{
	ky_thread_table_release(&common->threads);
	ky_note_release(&common->notes);
	ky_samples_release(&common->samples);
	ky_name_release(&common->names);
	ky_module_release(&common->modules);
	ky_pair_release(&common->pairs);
	ky_runtime_release(&common->runtimes);
	ky_launch_release(&common->launches);
	ky_timeline_release(&common->timeline);
}

/* A time another process wrote: never in the future, and not before there was a ring. */
static uint64_t sane_ns(const struct ky_drain_common *common, uint64_t ns)
{
	uint64_t first = common->timeline.count ? common->timeline.points[0].ns : 0;

	if (!common->is_dead && common->now_ns && ns > common->now_ns)
		ns = common->now_ns;
	if (common->is_dead && common->now_ns &&
	    ns > common->now_ns + common->timeline.ahead_max_ns)
		ns = common->now_ns;
	return ns > first ? ns : first;
}

int ky_common_note(struct ky_drain_common *common, const struct ky_note *note, uint64_t ns)
{
	uint64_t ticks = ky_timeline_ticks(&common->timeline, sane_ns(common, ns));

	return ky_note_add(&common->notes, &common->threads.queues, note, ticks);
}
