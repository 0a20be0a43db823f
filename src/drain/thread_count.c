/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Asks what the kernel has counted for the threads of workers, rarely. */
#include <drain/drain_state.h>
#include <kymo/base.h>

#define PACE_NS UINT64_C(1000000000)
#define PACE_LATE_NS UINT64_C(100000000) /* a task was woken and polled late */
#define LOOKS_MAX 256u                   /* in one step: a look is two small files */

int ky_drain_count_threads(struct ky_drain *drain)
{
	const struct ky_drain_options *options = &drain->options;
	uint64_t late_wakes = drain->late_wakes;
	uint64_t pace_ns = late_wakes != drain->late_counted ? PACE_LATE_NS : PACE_NS;
	uint32_t looks = 0;
	int err = 0;

	if (!options->count_thread || drain->is_muted || drain->is_cut || !drain->now_ns)
		return 0;
	for (uint32_t i = 0; i < drain->thread_count && !err && looks < LOOKS_MAX; i++) {
		struct ky_dthread *thread = drain->threads[i];
		struct ky_thread_cpu cpu;

		if (thread->worker == KY_NONE32 || thread->is_done || !thread->tid)
			continue;
		/* The last word of a process that is still there. */
		if (!drain->is_final && thread->counted_ns &&
		    drain->now_ns - thread->counted_ns < pace_ns)
			continue;
		looks++;
		drain->late_counted = late_wakes;
		thread->counted_ns = drain->now_ns;
		if (!options->count_thread(options->count_ctx, thread->tid, &cpu))
			continue;
		cpu.monotonic_ns = drain->now_ns;
		err = ky_drain_thread_cpu(drain, &cpu);
		if (err == KYMO_E_LIMIT) /* too much waits: the next look tells the sums */
			err = 0;
	}
	return err;
}
