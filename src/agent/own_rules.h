/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_rules.h - the rules of a program that links the library, checked by the library's thread.
 *
 * The rules are the process's, behind a lock, and may be added while they are watched.
 */
#ifndef KY_AGENT_OWN_RULES_H
#define KY_AGENT_OWN_RULES_H

#include <agent/drain_mode.h>
#include <agent/rules.h>
#include <record/emit/ring_file.h>

struct ky_own_rules {
	struct ky_dumps *dumps;
	struct ky_rules *rules; /* NULL: none, or not opened yet */
	struct ky_rule list[KY_RULES_MAX];
	size_t count;
	uint32_t version;           /* of the rules */
	uint64_t fired, suppressed; /* atomic */
	int32_t last_error;         /* atomic; the first */
};

/* No rules. Threads: setup-only. */
void ky_own_rules_open(struct ky_own_rules *own, struct ky_dumps *dumps);
/* In a forked child: the parent's rules; its watchdog stays where it is. */
void ky_own_rules_reopen(struct ky_own_rules *own);

/* Returns 0; -EINVAL with a sentence and no rule added. Threads: any. */
int ky_own_rules_add(const char *text, char *errbuf, size_t errbuf_bytes);

/* mode: of the same ring. Returns when to call again, CLOCK_MONOTONIC;
 * UINT64_MAX: nothing is armed. Threads: owner. */
uint64_t ky_own_rules_step(struct ky_own_rules *own, const struct ky_ring *ring,
			   struct ky_drain_mode *mode);
void ky_own_rules_close(struct ky_own_rules *own);

#endif
