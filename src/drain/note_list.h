/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* note_list.h - what reaches the trace without a sub-buffer, waiting for its turn in the merge:
 * marks, counters, a crash, what a watchdog has seen; for src/drain.
 *
 * Memory:      KY_NOTES_MAX notes.
 * Threads:     owner.
 */
#ifndef KY_DRAIN_NOTE_LIST_H
#define KY_DRAIN_NOTE_LIST_H

#include <drain/thread_table.h>
#include <stddef.h>

enum ky_note_kind {
	KY_NOTE_FREE = 0,
	KY_NOTE_MARK,
	KY_NOTE_MARKS_LOST,
	KY_NOTE_COUNTER,
	KY_NOTE_CRASH,
	KY_NOTE_STUCK,
	KY_NOTE_TRIGGER,
	KY_NOTE_THREAD_CPU,
	KY_NOTE_RESOURCE
};

struct ky_note {
	enum ky_note_kind kind;
	uint32_t index;      /* counter */
	uint64_t value;      /* counter; marks lost */
	void *body;          /* text of a mark, struct ky_ring_crash, ..stuck.., ..resource_row */
	uint32_t body_bytes; /* of a text */
};
#define KY_NOTES_MAX 4096u

struct ky_note_list {
	struct ky_dthread *source; /* its queue is merged like a thread's */
	struct ky_note *list;
	uint32_t count;
};

/* Returns 0, -ENOMEM. */
int ky_note_init(struct ky_note_list *notes);
void ky_note_release(struct ky_note_list *notes);
/* Into its place in the order of time. Takes the body over, also when it fails. Returns 0, -ENOMEM,
 * KYMO_E_LIMIT. */
int ky_note_add(struct ky_note_list *notes, struct ky_queue_sums *sums, const struct ky_note *note,
		uint64_t ticks);
/* NULL: no memory. */
void *ky_note_body(const void *bytes, size_t count);
/* It was reported. */
void ky_note_remove(struct ky_note *note);

#endif
