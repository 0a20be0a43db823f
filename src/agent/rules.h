/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rules.h - the rules over one ring: a watchdog, and a request for a dump from each firing.
 *
 * A firing goes into the stream, where one runs. What all of them came to stands in the ring, from
 * where every trace takes it.
 * Threads: owner. A fault in the image leaves ky_rules_set() and ky_rules_step() in the middle: the
 * object is lost then.
 */
#ifndef KY_AGENT_RULES_H
#define KY_AGENT_RULES_H

#include <agent/agent_event.h>
#include <agent/dumps.h>
#include <agent/ring_access.h>
#include <drain/drain.h>
#include <watch/watchdog.h>

struct ky_rules;

struct ky_rules_options {
	const uint8_t *image;
	size_t image_bytes;
	struct ky_ring_access access; /* to the same ring, for the figures */
	uint32_t pid;                 /* as for the watchdog; 0: the calling process */
	bool (*may_read)(void);       /* the same; NULL: always */
	struct ky_dumps *dumps;
	/* Where the dump of the n-th firing goes, valid until the next call; NULL: to the default
	 * place. */
	const char *(*path)(void *ctx, uint32_t n);
	void *path_ctx;
	ky_agent_event_fn event;
	void *event_ctx;
};

/* Without a rule. Returns 0; -ENOMEM; as ky_ring_view_init(). */
int ky_rules_open(struct ky_rules **out, const struct ky_rules_options *options);
void ky_rules_close(struct ky_rules *rules);

/* list: begins with the rules that are there, which keep what they have fired and their budget.
 * A rule that can never fire here is an event, and left out. Returns 0; what ky_watchdog_open()
 * returns: the rules are as before. */
int ky_rules_set(struct ky_rules *rules, const struct ky_rule *list, size_t count);
/* Do they need the events themselves? */
bool ky_rules_need_events(const struct ky_rules *rules);

/* Checks the rules. stream: where firings are written, too; NULL: nowhere. sums: NULL where no
 * drain runs. Returns after how many nanoseconds to call again; UINT64_MAX: no rule is armed. */
uint64_t ky_rules_step(struct ky_rules *rules, struct ky_drain *stream,
		       const struct ky_event_sums *sums);
/* The dumps are made: what is left are firings that no dump reports. */
void ky_rules_finish(struct ky_rules *rules);

/* For the dumps: what the watchdog saw while a dump waited, and what a dump took of the budget. */
struct ky_dump_hooks ky_rules_hooks(struct ky_rules *rules);
void ky_rules_stats(const struct ky_rules *rules, struct ky_watchdog_stats *out);

#endif
