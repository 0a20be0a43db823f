/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_rules.h - the rules of a program that links the library, checked by the library's thread.
 *
 * The rules are the process's, under a lock, and may be added while they are watched.
 */
#ifndef KY_AGENT_OWN_RULES_H
#define KY_AGENT_OWN_RULES_H

#include <agent/agent.h>
#include <record/emit/ring_file.h>

struct ky_own_rules {
	struct ky_rule list[KY_RULES_MAX];
	size_t count;
	uint32_t version;           /* of the rules */
	uint64_t fired, suppressed; /* atomic */
	int32_t last_error;         /* atomic; the first */
};

/* No rules. Threads: setup-only. */
void ky_own_rules_init(struct ky_own_rules *own);
/* In a forked child: the parent's rules. */
void ky_own_rules_reopen(struct ky_own_rules *own);

/* Returns 0; -EINVAL with a sentence and no rule added. Threads: any. */
int ky_own_rules_add(const char *text, char *errbuf, size_t errbuf_bytes);

/* Gives the agent of this ring the rules as they are now. Returns when to try again,
 * CLOCK_MONOTONIC; UINT64_MAX: when there are others. Threads: owner. */
uint64_t ky_own_rules_follow(struct ky_own_rules *own, const struct ky_ring *ring,
			     struct ky_agent *agent);
/* After a step of the agent: what its rules came to. Threads: owner. */
void ky_own_rules_count(struct ky_own_rules *own, const struct ky_rules *rules);

#endif
