/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* notified.h - which parked worker each notification was for.
 *
 * A write to a driver's descriptor is for the worker that waits in that driver. A futex has an
 * address that is one worker's for life; WorkerEvent says whose. In a trace without that it is
 * learned: the worker that leaves its park first after a notification of it. Such an address is
 * known that was used three times and more, by three of four times for the same worker; the parks
 * of a worker without one are not told apart.
 * Memory:      8 bytes a notification.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_ANALYZE_NOTIFIED_H
#define KY_ANALYZE_NOTIFIED_H

#include <read/trace.h>

struct ky_notified_worker {
	uint64_t *times_ns; /* ascending */
	uint64_t count, capacity;
	bool has_futex; /* an address is its own */
};

struct ky_notified {
	struct ky_notified_worker *workers; /* as trace->workers */
	uint32_t worker_count;
	bool is_recorded; /* the trace has notifications at all */
};

/* Returns 0, -ENOMEM. */
int ky_notified_make(struct ky_notified *out, const struct ky_trace *trace);
void ky_notified_release(struct ky_notified *notified);

/* When that park of the worker was notified: UINT64_MAX: not at all. Returns false where that is
 * not known. */
bool ky_notified_at(const struct ky_notified *notified, uint32_t worker, const struct ky_park *park,
		    uint64_t *out);

#endif
