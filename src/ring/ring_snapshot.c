/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_snapshot.h>

#include <base/alloc.h>
#include <base/timeline.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>
#include <wire/ring_record.h>

#define MISSES_MAX 8u          /* readings of a slot that was given out and not taken */
#define HANDOVER_CLAIMS 1024u  /* a second of a busy program */
#define THREAD_ENTRY_BYTES 40u /* of the directory, the least a thread takes */
#define FETCH_AHEAD 8u
#define DIRECTORY_ENTRIES 4096u /* a reading; the rest at the next one */

static const struct ky_ring_side *find_side(const struct ky_ring_view *view)
{
	uint64_t offset = view->header->side_offset;

	if (!offset || offset % 64 || offset > view->image_bytes ||
	    view->image_bytes - offset < sizeof(struct ky_ring_side) ||
	    view->header->side_bytes < sizeof(struct ky_ring_side))
		return NULL;
	return (const struct ky_ring_side *)(const void *)(view->image + offset);
}

int ky_ring_snapshot_open(struct ky_ring_snapshot *snapshot, const uint8_t *image,
			  uint64_t image_bytes)
{
	struct ky_ring_view *view = &snapshot->view;
	int err;

	memset(snapshot, 0, sizeof(*snapshot));
	err = ky_ring_view_init(view, image, image_bytes);
	if (err)
		return err;
	if (!view->ticks_per_second && !(view->flags & KY_RING_CLOCK_MONOTONIC))
		return KYMO_E_CORRUPT;
	snapshot->side = find_side(view);
	snapshot->thread_max = KY_SNAPSHOT_THREADS_MAX;
	if (view->directory_bytes / THREAD_ENTRY_BYTES < KY_SNAPSHOT_THREADS_MAX)
		snapshot->thread_max = (uint32_t)(view->directory_bytes / THREAD_ENTRY_BYTES) + 64;
	snapshot->threads = ky_alloc(snapshot->thread_max * sizeof(*snapshot->threads));
	snapshot->slots = ky_alloc(((size_t)view->slot_count + 1) * sizeof(*snapshot->slots));
	snapshot->is_listed = ky_alloc((size_t)view->slot_count + 1);
	if (snapshot->threads && snapshot->slots && snapshot->is_listed)
		return 0;
	ky_ring_snapshot_release(snapshot);
	return -ENOMEM;
}

void ky_ring_snapshot_release(struct ky_ring_snapshot *snapshot)
{
	ky_free(snapshot->threads);
	ky_free(snapshot->slots);
	ky_free(snapshot->is_listed);
	snapshot->threads = NULL;
	snapshot->slots = NULL;
	snapshot->is_listed = NULL;
}

uint64_t ky_ring_snapshot_ns(const struct ky_ring_snapshot *snapshot, uint64_t ticks)
{
	ky_wide ns;

	if (snapshot->view.flags & KY_RING_CLOCK_MONOTONIC)
		return ticks;
	ns = (ky_wide)ticks * 1000000000u / snapshot->view.ticks_per_second;
	return ns < UINT64_MAX ? (uint64_t)ns : UINT64_MAX;
}

static struct ky_snapshot_thread *thread_at(struct ky_ring_snapshot *snapshot, uint64_t index)
{
	if (!index || index >= snapshot->thread_max)
		return NULL;
	if (index > snapshot->thread_last)
		snapshot->thread_last = (uint32_t)index;
	return &snapshot->threads[index];
}

static const struct ky_sub_buffer *sub_at(const struct ky_ring_snapshot *snapshot, uint32_t slot)
{
	const uint8_t *at = snapshot->view.image + snapshot->view.slots_offset +
			    (uint64_t)slot * KY_SLOT_BYTES;

	return (const struct ky_sub_buffer *)(const void *)at;
}

/* ---- records ---- */

/* A walk through one sub-buffer. */
struct record_walk {
	uint32_t thread;
	uint64_t ticks;
	uint32_t last_record;
};

/* Sub-buffers are not read in the order of time: what is older than what we know says nothing. */
static void learn_role(struct ky_snapshot_thread *thread, uint32_t type, const uint64_t *words,
		       uint64_t ticks)
{
	if (ticks < thread->role_ticks)
		return;
	if (type == KYMO_RECORD_WORKER_BEGIN) {
		thread->is_worker = true;
		thread->runtime = words[2];
		thread->identity = words[3];
		thread->worker_ticks = ticks;
	} else if (type == KYMO_RECORD_RUNTIME) {
		thread->runtime = words[1];
	} else if (type == KYMO_RECORD_POLL_BEGIN) {
		thread->is_worker = true;
	} else if (type == KYMO_RECORD_WORKER_END) {
		thread->is_worker = false;
	} else {
		return;
	}
	thread->role_ticks = ticks;
}

static bool take_record(struct ky_ring_snapshot *snapshot, struct record_walk *walk,
			const uint64_t *words)
{
	uint32_t type = ky_record_type(words[0]);
	struct ky_snapshot_thread *thread;

	if (type == KYMO_RECORD_THREAD_CHANGE) {
		thread = thread_at(snapshot, words[1] >> 32);
		if (!thread)
			return false;
		walk->thread = (uint32_t)(words[1] >> 32);
		thread->tid = (uint32_t)words[1];
		walk->ticks = words[2];
	} else if (type == KYMO_RECORD_TIME) {
		walk->ticks = words[1] > walk->ticks ? words[1] : walk->ticks;
		return true;
	} else {
		walk->ticks = ky_record_ticks(walk->ticks, words[0]);
	}
	walk->last_record = type;
	learn_role(&snapshot->threads[walk->thread], type, words, walk->ticks);
	return true;
}

/* What a sub-buffer's header says about its thread: the record itself may be long gone. Then it
 * became this worker at the claim at the latest. */
static void learn_head(struct ky_snapshot_thread *thread, const struct ky_slot_head *head)
{
	thread->tid = head->tid;
	if (head->start_ticks < thread->role_ticks)
		return;
	if (head->worker_runtime)
		thread->runtime = head->worker_runtime;
	if (!head->worker_identity || thread->identity == head->worker_identity)
		return;
	thread->is_worker = true;
	thread->identity = head->worker_identity;
	thread->worker_ticks = head->start_ticks;
}

/* Into snapshot->words. Returns how many they are; negative: the slot is not under this claim. */
static int copy_records(struct ky_ring_snapshot *snapshot, uint32_t slot, uint64_t number,
			struct ky_slot_head *head)
{
	uint32_t offset;
	bool is_busy;

	if (ky_ring_view_head(&snapshot->view, slot, number, head) ||
	    ky_ring_view_published(&snapshot->view, slot, &is_busy, &offset))
		return -1;
	return ky_ring_view_copy(&snapshot->view, slot, number, KY_SLOT_HEADER_BYTES, offset,
				 snapshot->words);
}

/* Reads what slot holds under this claim: whose it is by now, and what its records say about
 * workers. */
static bool read_slot(struct ky_ring_snapshot *snapshot, uint32_t slot, uint64_t number,
		      struct record_walk *walk)
{
	struct ky_snapshot_thread *thread;
	struct ky_slot_head head;
	int count = copy_records(snapshot, slot, number, &head);
	uint32_t at = 0;

	if (count < 0)
		return false;
	thread = thread_at(snapshot, head.thread);
	if (!thread)
		return false;
	learn_head(thread, &head);
	*walk = (struct record_walk){head.thread, head.start_ticks, 0};
	while (at < (uint32_t)count) {
		uint32_t length = ky_record_words(snapshot->words[at]);

		if (!length || length > (uint32_t)count - at ||
		    !take_record(snapshot, walk, snapshot->words + at))
			return false;
		at += length;
	}
	return true;
}

bool ky_ring_snapshot_read(struct ky_ring_snapshot *snapshot, struct ky_snapshot_slot *slot)
{
	struct ky_snapshot_thread *thread = &snapshot->threads[slot->thread];
	struct record_walk walk;

	if (thread->read_number == slot->number && thread->read_published == slot->published)
		return true;
	if (!read_slot(snapshot, slot->slot, slot->number, &walk))
		return false;
	slot->thread = walk.thread;
	thread = &snapshot->threads[walk.thread];
	thread->read_number = slot->number;
	thread->read_published = slot->published;
	thread->last_ticks = walk.ticks;
	thread->last_record = walk.last_record;
	return true;
}

/* Polls open after a record, of those from the outermost that began at begin_ticks. */
static uint32_t depth_after(uint32_t depth, uint32_t type, bool is_begin)
{
	if (type == KYMO_RECORD_POLL_BEGIN)
		return depth || is_begin ? depth + 1 : 0;
	return type == KYMO_RECORD_POLL_END && depth ? depth - 1 : depth;
}

bool ky_ring_snapshot_poll_end(struct ky_ring_snapshot *snapshot, uint32_t slot, uint64_t number,
			       uint64_t begin_ticks, uint64_t *end_ticks)
{
	struct ky_slot_head head;
	int count = copy_records(snapshot, slot, number, &head);
	uint64_t ticks = count < 0 ? 0 : head.start_ticks;
	uint32_t depth = 0;

	if (count > 0 && head.carried_depth && head.carried[0].begin_ticks == begin_ticks)
		depth = head.carried_depth;
	for (uint32_t at = 0; count > 0 && at < (uint32_t)count;) {
		const uint64_t *words = snapshot->words + at;
		uint32_t length = ky_record_words(words[0]), type = ky_record_type(words[0]);
		uint32_t before = depth;

		if (!length || length > (uint32_t)count - at)
			return false;
		if (type == KYMO_RECORD_THREAD_CHANGE)
			ticks = words[2];
		else if (type == KYMO_RECORD_TIME)
			ticks = words[1] > ticks ? words[1] : ticks;
		else
			ticks = ky_record_ticks(ticks, words[0]);
		depth = depth_after(depth, type, ticks == begin_ticks);
		*end_ticks = ticks;
		if (before && !depth)
			return true;
		at += length;
	}
	return false;
}

bool ky_ring_snapshot_is_replaced(const struct ky_ring_snapshot *snapshot, uint32_t index,
				  uint64_t ticks)
{
	const struct ky_snapshot_thread *thread = &snapshot->threads[index];

	for (uint32_t i = 1; thread->identity && i <= snapshot->thread_last; i++) {
		const struct ky_snapshot_thread *other = &snapshot->threads[i];

		if (other->identity == thread->identity && i != index &&
		    other->worker_ticks > thread->worker_ticks && other->worker_ticks > ticks)
			return true;
	}
	return false;
}

bool ky_ring_snapshot_has_moved(struct ky_ring_snapshot *snapshot,
				const struct ky_snapshot_slot *slot)
{
	uint32_t usable = ky_ring_view_usable(&snapshot->view), index = slot->thread;
	uint32_t populated = ky_ring_view_populated(&snapshot->view);
	uint64_t claim_index = snapshot->claim_index, begin_ticks = slot->begin_ticks;
	struct ky_slot_head head;
	struct record_walk walk;

	if (!snapshot->threads[index].identity)
		return false;
	for (uint32_t i = 0; i < snapshot->slot_count; i++) {
		if (snapshot->slots[i].is_open)
			ky_ring_snapshot_read(snapshot, &snapshot->slots[i]);
	}
	for (uint32_t i = 0; i < HANDOVER_CLAIMS && claim_index; i++) {
		uint32_t at = (uint32_t)(--claim_index % usable);

		if (at >= populated || snapshot->is_listed[at] ||
		    ky_ring_view_head(&snapshot->view, at, claim_index + 1, &head))
			continue;
		if (head.start_ticks < begin_ticks)
			break;
		read_slot(snapshot, at, claim_index + 1, &walk);
	}
	return ky_ring_snapshot_is_replaced(snapshot, index, begin_ticks);
}

/* ---- the directory ---- */

static void note_exit(struct ky_ring_snapshot *snapshot, uint32_t index)
{
	struct ky_snapshot_thread *thread = thread_at(snapshot, index);

	if (thread)
		thread->has_exited = true;
}

/* Threads that ended: what they left may continue under another name. */
static void read_directory(struct ky_ring_snapshot *snapshot)
{
	const struct ky_ring_view *view = &snapshot->view;
	const uint8_t *base = view->image + view->directory_offset;
	uint64_t used = atomic_load_explicit(&view->header->directory_used, memory_order_acquire);
	struct ky_entry entry;

	if (used > view->directory_bytes)
		used = view->directory_bytes;
	for (uint32_t i = 0; i < DIRECTORY_ENTRIES && snapshot->directory_at < used; i++) {
		uint64_t left = used - snapshot->directory_at, bytes;

		if (left < sizeof(entry))
			return;
		memcpy(&entry, base + snapshot->directory_at, sizeof(entry));
		bytes = sizeof(entry) + (((uint64_t)entry.payload_bytes + 7) & ~UINT64_C(7));
		if (bytes > left) {
			snapshot->directory_at = used; /* a lie: nothing after it can be found */
			return;
		}
		if (entry.kind == KY_ENTRY_THREAD_EXIT)
			note_exit(snapshot, entry.id);
		snapshot->directory_at += bytes;
	}
}

/* ---- slots ---- */

static void list_slot(struct ky_ring_snapshot *snapshot, uint32_t slot, uint64_t expected)
{
	if (snapshot->is_listed[slot])
		return;
	snapshot->is_listed[slot] = 1;
	snapshot->slots[snapshot->slot_count++] = (struct ky_snapshot_slot){.slot = slot,
									    .expected = expected};
}

/* What was given out since the last reading. */
static void list_claims(struct ky_ring_snapshot *snapshot)
{
	const struct ky_ring_view *view = &snapshot->view;
	uint64_t from = snapshot->claim_index,
		 to = atomic_load_explicit(&view->header->claim_index, memory_order_acquire);
	uint32_t usable = ky_ring_view_usable(view), populated = ky_ring_view_populated(view);

	snapshot->claim_index = to;
	if (!snapshot->has_stepped || to < from || to - from >= usable) {
		for (uint32_t slot = 0; slot < populated; slot++)
			list_slot(snapshot, slot, 0);
		snapshot->has_stepped = true;
		return;
	}
	for (; from < to; from++) {
		uint32_t slot = (uint32_t)(from % usable);

		if (slot < populated)
			list_slot(snapshot, slot, from + 1);
	}
}

/* Closed again already, and not where a thread begins: nothing in it is asked for. */
static bool is_dull(const struct ky_ring_snapshot *snapshot, const struct ky_snapshot_slot *slot,
		    uint32_t state)
{
	return state == KY_SLOT_CLOSED &&
	       *(const volatile uint64_t *)&sub_at(snapshot, slot->slot)->record_count != 0;
}

/* A claim that is new to us. False: it changes under our eyes. */
static bool identify(struct ky_ring_snapshot *snapshot, struct ky_snapshot_slot *slot,
		     uint64_t number)
{
	struct ky_snapshot_thread *thread;
	struct ky_slot_head head;
	struct record_walk walk;

	if (ky_ring_view_head(&snapshot->view, slot->slot, number, &head))
		return false;
	slot->number = number;
	slot->thread = 0;
	slot->published = 0;
	thread = thread_at(snapshot, head.thread);
	if (!thread)
		return true;
	slot->thread = head.thread;
	learn_head(thread, &head);
	/* Where it begins stands since when it is whose worker. */
	if (!head.record_count && read_slot(snapshot, slot->slot, number, &walk))
		slot->thread = walk.thread;
	return true;
}

static void read_poll(const struct ky_sub_buffer *sub, struct ky_snapshot_slot *slot)
{
	uint32_t before = atomic_load_explicit(&sub->state, memory_order_acquire), after;
	uint64_t begin = atomic_load_explicit(&sub->open[0].begin_ticks, memory_order_acquire);

	slot->task = atomic_load_explicit(&sub->open[0].task_word, memory_order_acquire) >>
		     KYMO_NAME_BITS;
	after = atomic_load_explicit(&sub->state, memory_order_acquire);
	slot->published = atomic_load_explicit(&sub->published, memory_order_acquire);
	slot->begin_ticks = begin;
	slot->depth = before >> 8 & 0xffu;
	/* It moved on meanwhile: what is open now has just begun. */
	if (!(after >> 8 & 0xffu) ||
	    begin != atomic_load_explicit(&sub->open[0].begin_ticks, memory_order_relaxed))
		slot->depth = 0;
}

static void read_one_thread(struct ky_ring_snapshot *snapshot, struct ky_snapshot_slot *slot)
{
	struct ky_snapshot_thread *thread = &snapshot->threads[slot->thread];

	if (thread->has_exited && ky_ring_snapshot_read(snapshot, slot))
		thread = &snapshot->threads[slot->thread];
	if (thread->seen_number != slot->number || thread->seen_published != slot->published) {
		thread->seen_number = slot->number;
		thread->seen_published = slot->published;
		thread->changed_ns = snapshot->now_ns;
	}
	if (slot->depth && !thread->is_worker) {
		thread->is_worker = true;
		ky_ring_snapshot_read(snapshot, slot);
	}
}

/* False: nothing to read any more. */
static bool read_one_slot(struct ky_ring_snapshot *snapshot, struct ky_snapshot_slot *slot)
{
	uint64_t claim = ky_ring_view_claim(&snapshot->view, slot->slot),
		 number = KY_CLAIM_NUMBER(claim);
	uint32_t state = KY_CLAIM_STATE(claim);

	slot->is_open = false;
	if (state == KY_SLOT_FILLING)
		return true;
	if (!number || number < slot->expected)
		return slot->misses++ < MISSES_MAX;
	if (is_dull(snapshot, slot, state))
		return false;
	if (number != slot->number && !identify(snapshot, slot, number))
		return true;
	if (state == KY_SLOT_PARKED)
		return true;
	if (state != KY_SLOT_OPEN)
		return false;
	if (!slot->thread)
		return true;
	slot->is_open = true;
	read_poll(sub_at(snapshot, slot->slot), slot);
	read_one_thread(snapshot, slot);
	return true;
}

/* Every line is another's by now: fetched one after the other, they would be most of what a
 * step costs. */
static void fetch(const struct ky_ring_snapshot *snapshot, uint32_t index)
{
	const struct ky_snapshot_slot *slot;
	const struct ky_sub_buffer *sub;

	if (index >= snapshot->slot_count)
		return;
	slot = &snapshot->slots[index];
	sub = sub_at(snapshot, slot->slot);
	__builtin_prefetch(&sub->published);
	__builtin_prefetch(&sub->claim);
	__builtin_prefetch(&snapshot->threads[slot->thread]);
	__builtin_prefetch(&snapshot->threads[slot->thread].changed_ns);
}

void ky_ring_snapshot_step(struct ky_ring_snapshot *snapshot, uint64_t now_ns, uint64_t ticks)
{
	uint32_t kept = 0;

	snapshot->now_ns = now_ns;
	snapshot->ticks = ticks;
	read_directory(snapshot);
	list_claims(snapshot);
	for (uint32_t i = 0; i < FETCH_AHEAD; i++)
		fetch(snapshot, i);
	for (uint32_t i = 0; i < snapshot->slot_count; i++) {
		struct ky_snapshot_slot *slot = &snapshot->slots[i];

		fetch(snapshot, i + FETCH_AHEAD);
		if (read_one_slot(snapshot, slot))
			snapshot->slots[kept++] = *slot;
		else
			snapshot->is_listed[slot->slot] = 0;
	}
	snapshot->slot_count = kept;
}
