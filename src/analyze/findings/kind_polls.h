/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kind_polls.h - all polls of the tasks of one name, by task and time, and the waits between them.
 * Memory:      24 bytes a poll, of KY_KIND_POLLS_MAX polls.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_KIND_POLLS_H
#define KY_ANALYZE_FINDINGS_KIND_POLLS_H

#include <analyze/findings/facts.h>

#define KY_KIND_POLLS_MAX (UINT32_C(1) << 21)

struct ky_kind_poll {
	uint64_t start_ns, end_ns;
	uint32_t task;
};

struct ky_kind_polls {
	struct ky_kind_poll *list;
	uint32_t count, capacity;
	bool is_cut; /* there were more polls */
	uint32_t wait_count;
	uint64_t wait_max_ns; /* of all of them, but for those that last */
};

/* Of polls that began before to_ns. Returns 0, -ENOMEM; is to be released either way. */
int ky_kind_polls_make(struct ky_kind_polls *out, const struct ky_facts *facts, uint32_t name,
		       uint64_t to_ns);
void ky_kind_polls_release(struct ky_kind_polls *polls);

/* For how long the task had waited at that moment: since the end of its last poll before it. 0: it
 * had none, or was in it. */
uint64_t ky_kind_polls_waited(const struct ky_kind_polls *polls, uint32_t task, uint64_t at_ns);

#endif
