/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Asks what the kernel has counted for the threads of workers, rarely. */
#include <drain/copy_stage.h>

#include <errno.h>
#include <kymo/base.h>

#define PACE_NS UINT64_C(1000000000)
#define PACE_LATE_NS UINT64_C(100000000) /* a task was woken and polled late */
#define READS_MAX 256u                   /* in one step: a reading is two small files */

int ky_copy_thread_counts(struct ky_copy *copy, uint64_t late_wakes)
{
	const struct ky_drain_common *common = copy->common;
	uint64_t pace_ns = late_wakes != copy->late_counted ? PACE_LATE_NS : PACE_NS;
	uint32_t readings = 0;
	int err = 0;

	if (!copy->count_thread || common->is_watching || common->is_cut || !common->now_ns)
		return 0;
	for (uint32_t i = 0; i < common->threads.count && !err && readings < READS_MAX; i++) {
		struct ky_dthread *thread = common->threads.list[i];
		struct ky_thread_cpu cpu;
		struct ky_note note;

		if (thread->worker == KY_NONE32 || thread->is_done || !thread->tid)
			continue;
		/* The last word of a process that is still there. */
		if (!common->is_final && thread->counted_ns &&
		    common->now_ns - thread->counted_ns < pace_ns)
			continue;
		readings++;
		copy->late_counted = late_wakes;
		thread->counted_ns = common->now_ns;
		if (!copy->count_thread(copy->count_ctx, thread->tid, &cpu))
			continue;
		cpu.monotonic_ns = common->now_ns;
		note = (struct ky_note){.kind = KY_NOTE_THREAD_CPU,
					.body = ky_note_body(&cpu, sizeof(cpu))};
		err = note.body ? ky_common_note(copy->common, &note, cpu.monotonic_ns) : -ENOMEM;
		if (err == KYMO_E_LIMIT) /* too much waits: the next reading reports the sums */
			err = 0;
	}
	return err;
}
