/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* facts_json.h - values that all of the lanes' JSON has.
 * Threads: owner.
 */
#ifndef KY_LANES_FACTS_JSON_H
#define KY_LANES_FACTS_JSON_H

#include <base/json_write.h>
#include <read/trace.h>

/* A moment, from the first poll, park or wake of the trace. */
static inline void ky_facts_moment(struct ky_buf *out, const char *key,
				   const struct ky_trace *trace, uint64_t time_ns)
{
	ky_json_signed(out, key, (int64_t)(time_ns - trace->run_first_ns));
}

/* KY_NONE: null. */
static inline void ky_facts_name(struct ky_buf *out, const char *key, const struct ky_trace *trace,
				 uint32_t name)
{
	ky_json_text_or_null(out, key, name == KY_NONE ? NULL : ky_trace_name(trace, name));
}

#endif
