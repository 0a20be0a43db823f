/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* usdt.h - the probes of <kymo/usdt.h> that the slow path fires after a record.
 *
 * Two steps, since a thread must not be stopped inside an event longer than it takes: what the
 * record means is taken while the thread is inside it, and fired once it is out. So a tracer's
 * handler, or a signal's, finds it as after any other event.
 * Invariant:  a thread that remembers a poll for its end has no fast path (`limit` is NULL).
 * Memory:     128 bytes a thread, touched while a tracer is attached.
 */
#ifndef KY_RECORD_EMIT_USDT_H
#define KY_RECORD_EMIT_USDT_H

#include <kymo/usdt.h>
#include <record/emit/emit_engine.h>

struct ky_usdt_task {
	uint64_t id;
	const struct kymo_usdt_place *place;
	const char *name;
	uint64_t code;
};

struct ky_usdt_event {
	uint32_t record; /* 0: nothing to fire */
	uint32_t flags, copy;
	struct ky_usdt_task task; /* of an event about one */
	uint64_t other;           /* who wakes or spawns */
	uint64_t count;           /* of tasks that were spawned, from task.id on */
	uint64_t runtime, worker;
};

/* A tracer is attached to any probe. */
static inline bool ky_usdt_is_wanted(void)
{
	return kymo_usdt_is_on(KYMO_USDT_TASKS) || kymo_usdt_is_on(KYMO_USDT_WAKES) ||
	       kymo_usdt_is_on(KYMO_USDT_WORKERS);
}

/* Before the record: whose worker this is, which it may end to be. */
void ky_usdt_prepare(const struct ky_thread *thread, struct ky_usdt_event *out);

/* One record. before: flags when it began; after: those that it leaves. */
struct ky_usdt_record {
	uint32_t record, arg;
	const uint64_t *payload;
	uint32_t before, after;
	bool is_written;
};
void ky_usdt_take(struct ky_thread *thread, const struct ky_usdt_record *record,
		  struct ky_usdt_event *out);

/* Fires the probes. */
void ky_usdt_fire(const struct ky_usdt_event *event);

#endif
