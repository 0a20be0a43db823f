/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/unseen_parks.h>

#include <analyze/thread_counts.h>
#include <base/alloc.h>

/* A worker whose parks are not recorded looks active all the time: the kernel knows better. */
int ky_unseen_parks(struct ky_report *report, const struct ky_trace *trace)
{
	struct ky_thread_count *counts = NULL;
	uint32_t count = 0;
	int result = ky_thread_counts(trace, report->from_ns, report->to_ns + 1, &counts, &count);

	for (uint32_t i = 0; i < report->worker_count; i++) {
		struct ky_worker_use *use = &report->workers[i];

		for (uint32_t j = 0; j < count && !use->park_count && use->poll_count; j++)
			if (counts[j].worker_id == trace->workers[use->worker].id &&
			    counts[j].span_ns > use->span_ns / 2 &&
			    counts[j].blocked_ns > counts[j].span_ns / 2) {
				use->active_permille = UINT64_MAX;
				report->workers_without_parks++;
				break;
			}
	}
	ky_free(counts);
	return result;
}
