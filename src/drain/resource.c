/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Rows of the ring's resource area: what was seen of the process's resources. */
#include <drain/copy_stage.h>

#include <errno.h>

int ky_copy_resources(struct ky_copy *copy, uint64_t merged_ns)
{
	struct ky_drain_common *common = copy->common;
	const uint8_t *area = ky_ring_view_resources(&common->ring);
	struct ky_resource_about about;
	uint64_t back_ns = 0; /* a stream reports nothing of while it was left */
	int err = 0;

	if (common->back_ticks)
		back_ns = ky_timeline_ns(&common->timeline, common->back_ticks);
	if (!area)
		return 0;
	ky_ring_view_resource_about(area, &about);
	if (about.claim_index < copy->resource_next) /* rows are never taken back */
		return 0;
	if (about.claim_index - copy->resource_next > KY_RESOURCE_ENTRIES)
		copy->resource_next = about.claim_index - KY_RESOURCE_ENTRIES;
	for (; copy->resource_next < about.claim_index && err != -ENOMEM; copy->resource_next++) {
		struct ky_note note = {.kind = KY_NOTE_RESOURCE};
		struct ky_resource_row row;

		if (!ky_ring_view_resource(area, copy->resource_next, &row))
			continue;
		if (!common->is_cut && row.monotonic_ns < back_ns)
			continue;
		/* A reading takes a while: events that are younger may be written by now. */
		if (!common->is_cut && row.monotonic_ns < merged_ns)
			row.monotonic_ns = merged_ns;
		note.body = ky_note_body(&row, sizeof(row));
		err = note.body ? ky_common_note(common, &note, row.monotonic_ns) : -ENOMEM;
	}
	return err == -ENOMEM ? err : 0;
}
