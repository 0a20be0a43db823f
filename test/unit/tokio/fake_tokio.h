/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* fake_tokio.h - Tokio's tables and headers in C, under the names rustc gives the real ones, so
 * that the adapter finds and patches them in the test program itself.
 */
#ifndef KY_TEST_TOKIO_FAKE_TOKIO_H
#define KY_TEST_TOKIO_FAKE_TOKIO_H

#include <stdbool.h>
#include <stdint.h>

#include "../../../adapters/tokio/tables.h"

#define FAKE_NEXT_ID_FIRST 100u /* at the start of the program */

enum fake_state {
	FAKE_RUNNING = 1,
	FAKE_COMPLETE = 2,
	FAKE_NOTIFIED = 4,
	FAKE_JOIN_INTEREST = 8,
	FAKE_CANCELLED = 32,
	FAKE_REFERENCE = 64
};

/* A task cell: header, scheduler, id, what it captured, trailer. */
struct fake_task {
	uint64_t state, next;
	const void *table;
	uint64_t owner;
	uint64_t scheduler, id;
	uint64_t captured[4];
	uint64_t trailer;
	uint32_t poll_count, shutdown_count, dealloc_count, wake_count; /* what reached "Tokio" */
};

typedef void (*fake_body_fn)(struct fake_task *task);

/* What every poll does next; and every shutdown. */
extern fake_body_fn fake_poll_body, fake_shutdown_body;

enum fake_table {
	FAKE_MULTI,
	FAKE_CURRENT,
	FAKE_BLOCKING,
	FAKE_LAUNCH,
	FAKE_TABLES
};

/* A task that is about to be polled for the first time. */
struct fake_task fake_task(enum fake_table table, uint64_t id);

/* Through the tables, as Tokio calls. */
void fake_poll(struct fake_task *task);
void fake_shutdown(struct fake_task *task);
void fake_wake(struct fake_task *task);
void fake_wake_by_ref(struct fake_task *task);
void fake_clone(struct fake_task *task);

/* Tokio's counter of ids: the next one. */
extern uint64_t fake_next_id __asm__("_ZN5tokio7runtime4task2id2Id4next7NEXT_ID17h05E");

/* Finds the tables of this program, once. */
const struct ky_tokio_found *fake_find(void);

/* Finds and patches them, once. */
void fake_patch(void);

/* What the adapter knows about one of them. */
struct ky_tokio_table *fake_table_of(enum fake_table table);

#endif
