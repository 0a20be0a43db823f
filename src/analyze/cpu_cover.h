/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* cpu_cover.h - how much of the CPU time that the kernel counted of the process its samples
 * stand for. The rest has none: threads that end within a period, or were found late.
 *
 * Between two readings of the process: the first one that no sample is missing before, for a dump
 * has readings from before its oldest sample, and the last one. None is reported where several
 * processes are in a trace, where nothing was recorded in between, or a sample says nothing of its
 * weight. Threads: any.
 */
#ifndef KY_ANALYZE_CPU_COVER_H
#define KY_ANALYZE_CPU_COVER_H

#include <read/trace.h>

struct ky_cpu_cover {
	uint64_t from_ns, to_ns; /* of the readings; to 0: not known, and so is the rest */
	uint64_t used_ns;        /* as the kernel counted it */
	uint64_t sampled_ns;     /* what the samples in between stand for */
	uint64_t margin_ns;      /* by which the two may differ by chance: 95 % */
	bool is_user_only;       /* both without the kernel's work, which has no samples */
};

/* Readings in [from, to]. to 0: no end. */
void ky_cpu_cover_find(struct ky_cpu_cover *out, const struct ky_trace *trace, uint64_t from_ns,
		       uint64_t to_ns);

/* What has no samples; 0: by chance it may be nothing, or it is next to nothing. */
uint64_t ky_cpu_cover_missing_ns(const struct ky_cpu_cover *cover);

#endif
