/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_rules.h - the rules of a program that links the library, looked at by the library's thread.
 *
 * The rules are the process's, behind a lock; the watchdog over them is the thread's own and is
 * made anew when a rule is added. Rules that need events are fed by the drain of stream mode, in
 * flight mode by a drain that observes and writes nothing.
 */
#ifndef KY_AGENT_OWN_RULES_H
#define KY_AGENT_OWN_RULES_H

#include <drain/drain.h>
#include <agent/dump_request.h>
#include <record/emit/ring_file.h>
#include <watch/watchdog.h>

struct ky_lookout {
	struct ky_watchdog *watchdog; /* NULL: no rule, or not opened yet */
	struct ky_drain *observer;
	struct ky_drain *stream; /* of this step; NULL in flight mode */
	struct ky_rule rules[KY_RULES_MAX];
	size_t rule_count;
	uint32_t version; /* of the rules */
	uint64_t fired_before, suppressed_before;
	/* Firings without a dump, and what those dumps would have told as held back. */
	uint64_t undumped_count, untold_count;
	uint64_t fired, suppressed; /* atomic */
	int32_t last_error;         /* atomic; the first */
};

/* No rules. Threads: setup-only. */
void ky_lookout_open(struct ky_lookout *lookout);
/* In a forked child: the parent's rules; its watchdog stays where it is. */
void ky_lookout_reopen(struct ky_lookout *lookout);

/* Returns 0; -EINVAL with a sentence and no rule added. Threads: any. */
int ky_lookout_add(const char *text, char *errbuf, size_t errbuf_bytes);

/* stream: the drain that runs anyway, or NULL. A firing becomes a request in the dump queue.
 * Returns when to call again, CLOCK_MONOTONIC; UINT64_MAX: nothing is armed. Threads: owner. */
uint64_t ky_lookout_step(struct ky_lookout *lookout, const struct ky_ring *ring,
			 struct ky_drain *stream);

/* For the dump queue, of a firing's request; ctx is the lookout. before: what was seen while
 * its range was not over yet. after: takes its bytes off the budget, or counts it as missing. */
void ky_lookout_before(void *ctx, struct ky_dump_request *request);
void ky_lookout_after(void *ctx, const struct ky_dump_request *request, int err);

void ky_lookout_close(struct ky_lookout *lookout);

#endif
