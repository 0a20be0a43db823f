/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* convert.h - the third stage of a drain: records in the order of time become the events they mean;
 * for drain.c and the files of the segment stage.
 *
 * Invariants:  it appends to the open chunk and never ends one: ky_convert_run() returns before a
 *              record for which the chunk has no room, and the driver ends it there.
 * Threads:     owner.
 */
#ifndef KY_DRAIN_CONVERT_H
#define KY_DRAIN_CONVERT_H

#include <drain/common.h>
#include <drain/counter_news.h>
#include <drain/open_chunk.h>
#include <drain/task_table.h>
#include <drain/time_merge.h>
#include <wire/ring_span.h>

struct ky_convert;

/* Returns 0, -ENOMEM. */
int ky_convert_open(struct ky_convert **out, struct ky_drain_common *common,
		    const struct ky_drain_options *options);
void ky_convert_close(struct ky_convert *convert);

/* Takes from the merge what it prepared. KY_CONVERT_FULL: the chunk does not take the next record,
 * which is of *ns: end it there, and call again. Else 0. */
#define KY_CONVERT_FULL 1
int ky_convert_run(struct ky_convert *convert, struct ky_merge *merge, uint64_t *ns);

/* Its parts. */
struct ky_open_chunk *ky_convert_chunk(struct ky_convert *convert);
struct ky_worker_table *ky_convert_workers(struct ky_convert *convert);
struct ky_task_table *ky_convert_tasks(struct ky_convert *convert);
struct ky_counter_news *ky_convert_counters(struct ky_convert *convert);
uint64_t ky_convert_merged_ns(const struct ky_convert *convert); /* largest time written */
uint64_t ky_convert_late_wakes(const struct ky_convert *convert);
/* What the events since the last call say. */
void ky_convert_take_sums(struct ky_convert *convert, struct ky_event_sums *out);
/* Memory was missing since the last call. */
bool ky_convert_was_short(struct ky_convert *convert);

/* ---- single events: the chunk has room ---- */

void ky_convert_thread(struct ky_convert *convert, struct ky_dthread *thread, uint64_t ns);
void ky_convert_module(struct ky_convert *convert, struct ky_name_module *module, uint64_t ns);
/* False: it is none, and nothing to write. */
bool ky_convert_is_runtime(struct ky_convert *convert, uint32_t index);
void ky_convert_runtime(struct ky_convert *convert, uint32_t index, uint64_t ns);
void ky_convert_worker(struct ky_convert *convert, uint32_t index, uint64_t ns);
void ky_convert_live_tasks(struct ky_convert *convert, uint32_t listed, uint64_t ns);
void ky_convert_live_task(struct ky_convert *convert, const struct ky_drain_task *task,
			  uint64_t ns);
/* Every open poll of a thread. */
void ky_convert_open_polls(struct ky_convert *convert, const struct ky_dthread *thread, uint64_t ns,
			   bool is_at_exit);
void ky_convert_counter(struct ky_convert *convert, uint32_t index, uint64_t value, uint64_t ns);
/* Drops that the header counts and no record has reported: 0, or the loss to write. cause: 1 ..
 * 4. */
bool ky_convert_header_drops(struct ky_convert *convert, uint32_t cause, struct ky_loss *loss,
			     uint64_t ns);
void ky_convert_drops_reported(struct ky_convert *convert, uint64_t ns);

/* ---- lists: one call finds the next event, the other writes it once the chunk has room ---- */

/* Where a list was left; all 0: at its beginning. */
struct ky_list_at {
	uint32_t entry, part;
};

/* ---- retention (retain.h) ---- */

/* The ring's settings, where they changed. True: they did, and `before` was in force. */
bool ky_retain_read_settings(struct ky_convert *convert, struct ky_retain_policy *before);
/* RetentionEvents: of what is held back; with `before`, of what has changed. */
bool ky_retain_next_rule(struct ky_convert *convert, const struct ky_retain_policy *before,
			 struct ky_list_at *at);
void ky_retain_write_rule(struct ky_convert *convert, struct ky_list_at *at, uint64_t ns);
/* Once a step: whether what was counted is to be reported. */
bool ky_retain_is_due(struct ky_convert *convert);
bool ky_retain_has_counts(const struct ky_convert *convert);
bool ky_retain_holds_spans(const struct ky_convert *convert);
/* At the end of the process: wakes that still wait and are late; the others are counted. */
bool ky_retain_next_wake(struct ky_convert *convert, struct ky_list_at *at, uint64_t ns);
void ky_retain_wake(struct ky_convert *convert, struct ky_list_at *at, uint64_t ns);
/* Everything counted so far. *bytes: it takes. */
bool ky_retain_next_count(struct ky_convert *convert, struct ky_list_at *at, uint32_t *bytes);
void ky_retain_count(struct ky_convert *convert, struct ky_list_at *at, uint64_t ns);
bool ky_retain_next_worker(struct ky_convert *convert, struct ky_list_at *at);
void ky_retain_worker(struct ky_convert *convert, struct ky_list_at *at, uint64_t ns);
/* All of it was reported: it begins anew. */
void ky_retain_is_reported(struct ky_convert *convert, uint64_t ns);

/* ---- what the ring's tables hold at the end ---- */

bool ky_convert_next_place(struct ky_convert *convert, struct ky_list_at *at,
			   struct ky_place_seen *seen, uint64_t ns);
void ky_convert_place(struct ky_convert *convert, struct ky_list_at *at,
		      const struct ky_place_seen *seen, uint64_t ns);
bool ky_convert_next_alloc(struct ky_convert *convert, struct ky_list_at *at,
			   struct ky_alloc_seen *seen, uint64_t ns);
void ky_convert_alloc(struct ky_convert *convert, struct ky_list_at *at,
		      const struct ky_alloc_seen *seen, uint64_t ns);
bool ky_convert_next_open_span(struct ky_convert *convert, struct ky_list_at *at,
			       struct ky_open_span *span);
void ky_convert_open_span(struct ky_convert *convert, const struct ky_open_span *span, uint64_t ns,
			  bool is_at_exit);

#endif
