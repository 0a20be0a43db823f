/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* runtime_facts.h - what is known of a runtime: its kind, how many workers it was seen to have, and
 * what the names of their threads begin with.
 * Threads: any.
 */
#ifndef KY_ANALYZE_RUNTIME_FACTS_H
#define KY_ANALYZE_RUNTIME_FACTS_H

#include <base/buf.h>
#include <read/trace.h>

struct ky_runtime_facts {
	uint32_t worker_count;     /* seen: one that did nothing is not among them */
	const char *thread_prefix; /* not terminated; the trace's */
	size_t prefix_bytes;       /* 0: not known, or none in common */
};

void ky_runtime_facts(const struct ky_trace *trace, uint32_t runtime, struct ky_runtime_facts *out);
/* In a word; NULL: not known. */
const char *ky_runtime_kind(uint8_t flavor);
/* The key "runtimes". */
void ky_runtimes_json(struct ky_buf *out, const struct ky_trace *trace);

#endif
