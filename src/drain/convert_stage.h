/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* convert_stage.h - what the records so far have said of workers and tasks, and how far they were
 * written; for the files of the convert stage alone: convert.c (one record), merge_loop.c (record
 * after record), hot_record.h (the frequent ones), *_event.c, span.c, place.c, live_allocs.c,
 * retain*.c.
 * Threads: owner.
 */
#ifndef KY_DRAIN_CONVERT_STAGE_H
#define KY_DRAIN_CONVERT_STAGE_H

#include <drain/convert.h>
#include <drain/retain.h>
#include <drain/root_list.h>
#include <wire/call_facts.h>
#include <wire/place_table.h>
#include <kymo/emit.h>

/* Which part of the record at the head of the queues the chunk was too full for. */
enum ky_convert_full_for {
	KY_FULL_FOR_NONE,
	KY_FULL_FOR_RECORD,
	KY_FULL_FOR_CARRIED /* the start of a poll, which lies before its record */
};

/* A stack of the ring's place table in the pool of a chunk (wake_stack.h). */
struct ky_wake_stack {
	uint64_t chunk; /* its serial + 1 */
	uint32_t id;
};
#define KY_WAKE_STACKS (KY_PLACE_STACKS + 1)
_Static_assert(KY_WAKE_STACKS <= 1u << (16 - KYMO_WAKE_STACK_SHIFT), "a WAKE names one");

struct ky_convert {
	struct ky_drain_common *common;
	struct ky_open_chunk chunk;
	struct ky_worker_table workers;
	struct ky_task_table tasks;
	struct ky_root_list roots;
	struct ky_retain retain;
	struct ky_counter_news counters;
	struct ky_event_sums sums;
	struct ky_wake_stack wake_stacks[KY_WAKE_STACKS];
	uint64_t late_wakes; /* polls so far that began KY_LATE_WAKE_NS and more after their wake */
	uint64_t merged_ticks; /* largest stamp merged */
	uint64_t merged_ns;    /* largest time written */
	enum ky_convert_full_for full_for;
	uint64_t next_ns;           /* of the chunk that is wanted */
	uint64_t reported_drops[5]; /* by enum kymo_drop_cause, from DROPPED records */
	uint64_t credited_drops[5]; /* reported from the header before their record came */
	uint64_t drops_since_ns;
	uint64_t gap_count;    /* of all threads, merged so far */
	bool is_out_of_memory; /* something could not be counted */
};

/* ---- custom_event.c ---- */
/* An event of the application; one that makes no sense is a loss. */
void ky_convert_custom(struct ky_convert *convert, const struct ky_dthread *thread,
		       const struct ky_rec *rec, uint64_t ns);

/* ---- convert.c ---- */
/* Turns the records at the head of the thread's queue up to and including the stamp `limit` into
 * events. Returns 0; KY_CONVERT_FULL: with next_ns. */
int ky_convert_records(struct ky_convert *convert, struct ky_dthread *thread, uint64_t limit);
/* One of the thread's open polls, with its true start. */
void ky_convert_open_poll(struct ky_convert *convert, const struct ky_dthread *thread,
			  uint32_t depth, uint64_t ns);

/* ---- sample_event.c ---- */
/* The fields of an OffCpuEvent that say which call it was. */
void ky_call_facts_write(struct ky_trc_enc *enc, const struct ky_call_facts *call);

/* ---- place.c ---- */
/* A poll of the task ends: its points are other ones, and last_poll_ns is of its poll before. */
void ky_convert_points(const struct ky_convert *convert, struct ky_drain_task *task,
		       uint32_t points);
/* A poll of the task begins, or it ends without one: writes where it waited, if it did so for
 * long. */
void ky_convert_waited(struct ky_convert *convert, uint64_t id, uint64_t ns);

/* The same of this one; end_ns: of its wait, which is reported now. */
void ky_convert_task_waited(struct ky_convert *convert, const struct ky_drain_task *task,
			    uint64_t id, uint64_t end_ns, uint64_t ns);

/* ---- root_event.c ---- */
void ky_convert_root_woken(struct ky_convert *convert, uint64_t id, uint64_t ns);
/* call_event.c */
void ky_convert_spawn_window(struct ky_convert *convert, const struct ky_dthread *thread,
			     const struct ky_rec *rec, uint64_t ns); /* spawn_event.c */
void ky_convert_failed_calls(struct ky_convert *convert, const struct ky_dthread *thread,
			     const struct ky_rec *rec, uint64_t ns);
void ky_convert_root_begin(struct ky_convert *convert, struct ky_dthread *thread,
			   const struct ky_rec *rec, uint64_t ns);
void ky_convert_root_end(struct ky_convert *convert, struct ky_dthread *thread,
			 const struct ky_rec *rec, uint64_t ns);

/* ---- worker_event.c ---- */
void ky_convert_worker_begin(struct ky_convert *convert, struct ky_dthread *thread, uint64_t task,
			     uint64_t runtime_key, uint64_t identity, uint64_t ns);
void ky_convert_worker_end(struct ky_convert *convert, struct ky_dthread *thread, uint64_t ns);
void ky_convert_thread_runtime(struct ky_convert *convert, struct ky_dthread *thread, uint64_t key);
/* After a gap: it begins unless it is known to continue. identity 0: the thread serves none. */
void ky_convert_worker_known(struct ky_convert *convert, struct ky_dthread *thread, uint64_t task,
			     uint64_t runtime_key, uint64_t identity, uint64_t ns);
/* PARK and UNPARK. */
void ky_convert_park(struct ky_convert *convert, struct ky_dthread *thread,
		     const struct ky_rec *rec, uint64_t ns);
/* Makes sure the thread may write outer polls and parks of its worker. False: it must not.
 * since_ns: when what is to be written began; a thread that served the worker later has it. */
bool ky_convert_worker_take_other(struct ky_convert *convert, struct ky_dthread *thread,
				  uint64_t since_ns, uint64_t ns);
static inline bool ky_convert_worker_take(struct ky_convert *convert, struct ky_dthread *thread,
					  uint64_t since_ns, uint64_t ns)
{
	const struct ky_drain_worker *worker = convert->workers.list;

	if (__builtin_expect(thread->worker != KY_NONE32, 1)) {
		worker += thread->worker;
		/* It has that worker already. */
		if (__builtin_expect(worker->owner == thread &&
					     (thread->is_launched ||
					      worker->runtime_key == thread->runtime_key),
				     1))
			return !worker->is_open || thread->depth > 0;
	}
	return ky_convert_worker_take_other(convert, thread, since_ns, ns);
}

/* ---- cost_event.c ---- */
/* What the poll that has just ended on the thread cost. */
void ky_convert_poll_cost(struct ky_convert *convert, struct ky_dthread *thread,
			  const struct ky_rec *rec, uint64_t ns);
/* How long the task of the poll that began right before this was ready, as its runtime says. */
void ky_convert_poll_delay(struct ky_convert *convert, const struct ky_dthread *thread,
			   const struct ky_rec *rec, uint64_t ns);

/* ---- conn_event.c: one of its records ---- */
void ky_convert_conn(struct ky_convert *convert, const struct ky_dthread *thread,
		     const struct ky_rec *rec, uint64_t ns);

/* ---- sample_event.c, note_event.c, resource_event.c, span.c ---- */
/* Writes the sample of a KY_REC_SAMPLE, with what its thread does at this moment. */
void ky_convert_sample(struct ky_convert *convert, uint64_t index, uint64_t ns);
/* Writes the note of a KY_REC_NOTE. */
void ky_convert_note(struct ky_convert *convert, uint64_t index, uint64_t ns);
void ky_convert_resource(struct ky_convert *convert, const struct ky_resource_row *row,
			 uint64_t ns);
/* Of a span's begin; sane for whatever a hostile ring says: not after `ns`. */
uint64_t ky_convert_began_ns(struct ky_convert *convert, uint64_t begin_ticks, uint64_t ns);
/* The field of the task that the thread polls. */
/* What each of the four events of spans begins with: the task whose poll is open, and the span.
 * word: its id and its name. Returns the name's number in the pool, which the caller writes. */
uint32_t ky_convert_span_event(struct ky_convert *convert, const struct ky_dthread *thread,
			       enum ky_event_id event, uint64_t word, uint64_t ns);
void ky_convert_span_longest(struct ky_convert *convert, uint64_t word, uint64_t length_ns);
void ky_convert_span_run(struct ky_convert *convert, const struct ky_dthread *thread,
			 const struct ky_rec *rec, uint64_t ns);
void ky_convert_span_follows(struct ky_convert *convert, const struct ky_rec *rec, uint64_t ns);
void ky_convert_span_begin(struct ky_convert *convert, const struct ky_dthread *thread,
			   const struct ky_rec *rec, uint64_t ns);
void ky_convert_span_end(struct ky_convert *convert, const struct ky_dthread *thread,
			 const struct ky_rec *rec, uint64_t ns);

static inline struct ky_chunk_mark ky_convert_mark(const struct ky_convert *convert)
{
	return (struct ky_chunk_mark){convert->chunk.serial, convert->chunk.first_ns};
}

#endif
