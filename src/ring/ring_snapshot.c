/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_snapshot.h>

#include <base/alloc.h>
#include <base/timeline.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>
#include <wire/ring_record.h>

#define MISSES_MAX 8u          /* looks at a slot that was handed out and not taken */
#define HANDOVER_CLAIMS 1024u  /* a second of a busy program */
#define THREAD_ENTRY_BYTES 40u /* of the directory, the least a thread takes */
#define FETCH_AHEAD 8u
#define DIRECTORY_ENTRIES 4096u /* a look; the rest at the next one */

static const struct ky_ring_side *find_side(const struct ky_ring_view *view)
{
	uint64_t offset = view->header->side_offset;

	if (!offset || offset % 64 || offset > view->image_bytes ||
	    view->image_bytes - offset < sizeof(struct ky_ring_side) ||
	    view->header->side_bytes < sizeof(struct ky_ring_side))
		return NULL;
	return (const struct ky_ring_side *)(const void *)(view->image + offset);
}

int ky_ring_look_open(struct ky_ring_look *look, const uint8_t *image, uint64_t image_bytes)
{
	struct ky_ring_view *view = &look->view;
	int err;

	memset(look, 0, sizeof(*look));
	err = ky_ring_view_open(view, image, image_bytes);
	if (err)
		return err;
	if (!view->ticks_per_second && !(view->flags & KY_RING_CLOCK_MONOTONIC))
		return KYMO_E_CORRUPT;
	look->side = find_side(view);
	look->thread_max = KY_LOOK_THREADS_MAX;
	if (view->directory_bytes / THREAD_ENTRY_BYTES < KY_LOOK_THREADS_MAX)
		look->thread_max = (uint32_t)(view->directory_bytes / THREAD_ENTRY_BYTES) + 64;
	look->threads = ky_alloc(look->thread_max * sizeof(*look->threads));
	look->slots = ky_alloc(((size_t)view->slot_count + 1) * sizeof(*look->slots));
	look->is_listed = ky_alloc((size_t)view->slot_count + 1);
	if (look->threads && look->slots && look->is_listed)
		return 0;
	ky_ring_look_release(look);
	return -ENOMEM;
}

void ky_ring_look_release(struct ky_ring_look *look)
{
	ky_free(look->threads);
	ky_free(look->slots);
	ky_free(look->is_listed);
	look->threads = NULL;
	look->slots = NULL;
	look->is_listed = NULL;
}

uint64_t ky_ring_look_ns(const struct ky_ring_look *look, uint64_t ticks)
{
	ky_wide ns;

	if (look->view.flags & KY_RING_CLOCK_MONOTONIC)
		return ticks;
	ns = (ky_wide)ticks * 1000000000u / look->view.ticks_per_second;
	return ns < UINT64_MAX ? (uint64_t)ns : UINT64_MAX;
}

static struct ky_look_thread *thread_at(struct ky_ring_look *look, uint64_t index)
{
	if (!index || index >= look->thread_max)
		return NULL;
	if (index > look->thread_last)
		look->thread_last = (uint32_t)index;
	return &look->threads[index];
}

static const struct ky_sub_buffer *sub_at(const struct ky_ring_look *look, uint32_t slot)
{
	const uint8_t *at = look->view.image + look->view.slots_offset +
			    (uint64_t)slot * KY_SLOT_BYTES;

	return (const struct ky_sub_buffer *)(const void *)at;
}

/* ---- records ---- */

/* A walk through one sub-buffer. */
struct walk {
	uint32_t thread;
	uint64_t ticks;
	uint32_t last_record;
};

/* Sub-buffers are not read in the order of time: what is older than what we know says nothing. */
static void learn_role(struct ky_look_thread *thread, uint32_t type, const uint64_t *words,
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

static bool take_record(struct ky_ring_look *look, struct walk *walk, const uint64_t *words)
{
	uint32_t type = ky_record_type(words[0]);
	struct ky_look_thread *thread;

	if (type == KYMO_RECORD_THREAD_CHANGE) {
		thread = thread_at(look, words[1] >> 32);
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
	learn_role(&look->threads[walk->thread], type, words, walk->ticks);
	return true;
}

/* What a sub-buffer's header says about its thread: the record itself may be long gone. Then it
 * became this worker at the claim at the latest. */
static void learn_head(struct ky_look_thread *thread, const struct ky_slot_head *head)
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

/* Reads what slot holds under this claim: whose it is by now, and what its records say about
 * workers. */
static bool read_slot(struct ky_ring_look *look, uint32_t slot, uint64_t number, struct walk *walk)
{
	struct ky_look_thread *thread;
	struct ky_slot_head head;
	uint32_t offset, at = 0;
	bool is_busy;
	int count;

	if (ky_ring_view_head(&look->view, slot, number, &head) ||
	    ky_ring_view_published(&look->view, slot, &is_busy, &offset))
		return false;
	thread = thread_at(look, head.thread);
	count = ky_ring_view_copy(&look->view, slot, number, KY_SLOT_HEADER_BYTES, offset,
				  look->words);
	if (!thread || count < 0)
		return false;
	learn_head(thread, &head);
	*walk = (struct walk){head.thread, head.start_ticks, 0};
	while (at < (uint32_t)count) {
		uint32_t length = ky_record_words(look->words[at]);

		if (!length || length > (uint32_t)count - at ||
		    !take_record(look, walk, look->words + at))
			return false;
		at += length;
	}
	return true;
}

bool ky_ring_look_read(struct ky_ring_look *look, struct ky_look_slot *slot)
{
	struct ky_look_thread *thread = &look->threads[slot->thread];
	struct walk walk;

	if (thread->read_number == slot->number && thread->read_published == slot->published)
		return true;
	if (!read_slot(look, slot->slot, slot->number, &walk))
		return false;
	slot->thread = walk.thread;
	thread = &look->threads[walk.thread];
	thread->read_number = slot->number;
	thread->read_published = slot->published;
	thread->last_ticks = walk.ticks;
	thread->last_record = walk.last_record;
	return true;
}

bool ky_ring_look_is_replaced(const struct ky_ring_look *look, uint32_t index, uint64_t ticks)
{
	const struct ky_look_thread *thread = &look->threads[index];

	for (uint32_t i = 1; thread->identity && i <= look->thread_last; i++) {
		const struct ky_look_thread *other = &look->threads[i];

		if (other->identity == thread->identity && i != index &&
		    other->worker_ticks > thread->worker_ticks && other->worker_ticks > ticks)
			return true;
	}
	return false;
}

bool ky_ring_look_is_handed_over(struct ky_ring_look *look, const struct ky_look_slot *slot)
{
	uint32_t usable = ky_ring_view_usable(&look->view), index = slot->thread;
	uint32_t populated = ky_ring_view_populated(&look->view);
	uint64_t hand = look->hand, begin_ticks = slot->begin_ticks;
	struct ky_slot_head head;
	struct walk walk;

	if (!look->threads[index].identity)
		return false;
	for (uint32_t i = 0; i < look->slot_count; i++) {
		if (look->slots[i].is_open)
			ky_ring_look_read(look, &look->slots[i]);
	}
	for (uint32_t i = 0; i < HANDOVER_CLAIMS && hand; i++) {
		uint32_t at = (uint32_t)(--hand % usable);

		if (at >= populated || look->is_listed[at] ||
		    ky_ring_view_head(&look->view, at, hand + 1, &head))
			continue;
		if (head.start_ticks < begin_ticks)
			break;
		read_slot(look, at, hand + 1, &walk);
	}
	return ky_ring_look_is_replaced(look, index, begin_ticks);
}

/* ---- the directory ---- */

static void note_exit(struct ky_ring_look *look, uint32_t index)
{
	struct ky_look_thread *thread = thread_at(look, index);

	if (thread)
		thread->has_exited = true;
}

/* Threads that ended: what they left may go on under another name. */
static void read_directory(struct ky_ring_look *look)
{
	const struct ky_ring_view *view = &look->view;
	const uint8_t *base = view->image + view->directory_offset;
	uint64_t used = atomic_load_explicit(&view->header->directory_used, memory_order_acquire);
	struct ky_entry entry;

	if (used > view->directory_bytes)
		used = view->directory_bytes;
	for (uint32_t i = 0; i < DIRECTORY_ENTRIES && look->directory_at < used; i++) {
		uint64_t left = used - look->directory_at, bytes;

		if (left < sizeof(entry))
			return;
		memcpy(&entry, base + look->directory_at, sizeof(entry));
		bytes = sizeof(entry) + (((uint64_t)entry.payload_bytes + 7) & ~UINT64_C(7));
		if (bytes > left) {
			look->directory_at = used; /* a lie: nothing behind it can be found */
			return;
		}
		if (entry.kind == KY_ENTRY_THREAD_EXIT)
			note_exit(look, entry.id);
		look->directory_at += bytes;
	}
}

/* ---- slots ---- */

static void list_slot(struct ky_ring_look *look, uint32_t slot, uint64_t expected)
{
	if (look->is_listed[slot])
		return;
	look->is_listed[slot] = 1;
	look->slots[look->slot_count++] = (struct ky_look_slot){.slot = slot, .expected = expected};
}

/* What was handed out since the last look. */
static void list_claims(struct ky_ring_look *look)
{
	const struct ky_ring_view *view = &look->view;
	uint64_t from = look->hand,
		 to = atomic_load_explicit(&view->header->hand, memory_order_acquire);
	uint32_t usable = ky_ring_view_usable(view), populated = ky_ring_view_populated(view);

	look->hand = to;
	if (!look->has_looked || to < from || to - from >= usable) {
		for (uint32_t slot = 0; slot < populated; slot++)
			list_slot(look, slot, 0);
		look->has_looked = true;
		return;
	}
	for (; from < to; from++) {
		uint32_t slot = (uint32_t)(from % usable);

		if (slot < populated)
			list_slot(look, slot, from + 1);
	}
}

/* Closed again already, and not where a thread begins: nothing in it is asked for. */
static bool is_dull(const struct ky_ring_look *look, const struct ky_look_slot *slot,
		    uint32_t state)
{
	return state == KY_SLOT_CLOSED &&
	       *(const volatile uint64_t *)&sub_at(look, slot->slot)->record_count != 0;
}

/* A claim that is new to us. False: it changes under our eyes. */
static bool identify(struct ky_ring_look *look, struct ky_look_slot *slot, uint64_t number)
{
	struct ky_look_thread *thread;
	struct ky_slot_head head;
	struct walk walk;

	if (ky_ring_view_head(&look->view, slot->slot, number, &head))
		return false;
	slot->number = number;
	slot->thread = 0;
	slot->published = 0;
	thread = thread_at(look, head.thread);
	if (!thread)
		return true;
	slot->thread = head.thread;
	learn_head(thread, &head);
	/* Where it begins stands since when it is whose worker. */
	if (!head.record_count && read_slot(look, slot->slot, number, &walk))
		slot->thread = walk.thread;
	return true;
}

static void look_at_poll(const struct ky_sub_buffer *sub, struct ky_look_slot *slot)
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

static void look_at_thread(struct ky_ring_look *look, struct ky_look_slot *slot)
{
	struct ky_look_thread *thread = &look->threads[slot->thread];

	if (thread->has_exited && ky_ring_look_read(look, slot))
		thread = &look->threads[slot->thread];
	if (thread->seen_number != slot->number || thread->seen_published != slot->published) {
		thread->seen_number = slot->number;
		thread->seen_published = slot->published;
		thread->changed_ns = look->now_ns;
	}
	if (slot->depth && !thread->is_worker) {
		thread->is_worker = true;
		ky_ring_look_read(look, slot);
	}
}

/* False: nothing to look at any more. */
static bool look_at_slot(struct ky_ring_look *look, struct ky_look_slot *slot)
{
	uint64_t claim = ky_ring_view_claim(&look->view, slot->slot),
		 number = KY_CLAIM_NUMBER(claim);
	uint32_t state = KY_CLAIM_STATE(claim);

	slot->is_open = false;
	if (state == KY_SLOT_FILLING)
		return true;
	if (!number || number < slot->expected)
		return slot->misses++ < MISSES_MAX;
	if (is_dull(look, slot, state))
		return false;
	if (number != slot->number && !identify(look, slot, number))
		return true;
	if (state == KY_SLOT_PARKED)
		return true;
	if (state != KY_SLOT_OPEN)
		return false;
	if (!slot->thread)
		return true;
	slot->is_open = true;
	look_at_poll(sub_at(look, slot->slot), slot);
	look_at_thread(look, slot);
	return true;
}

/* Every line is somebody else's by now: fetched one after the other, they would be most of what a
 * look costs. */
static void fetch(const struct ky_ring_look *look, uint32_t index)
{
	const struct ky_look_slot *slot;
	const struct ky_sub_buffer *sub;

	if (index >= look->slot_count)
		return;
	slot = &look->slots[index];
	sub = sub_at(look, slot->slot);
	__builtin_prefetch(&sub->published);
	__builtin_prefetch(&sub->claim);
	__builtin_prefetch(&look->threads[slot->thread]);
	__builtin_prefetch(&look->threads[slot->thread].changed_ns);
}

void ky_ring_look_step(struct ky_ring_look *look, uint64_t now_ns, uint64_t ticks)
{
	uint32_t kept = 0;

	look->now_ns = now_ns;
	look->ticks = ticks;
	read_directory(look);
	list_claims(look);
	for (uint32_t i = 0; i < FETCH_AHEAD; i++)
		fetch(look, i);
	for (uint32_t i = 0; i < look->slot_count; i++) {
		struct ky_look_slot *slot = &look->slots[i];

		fetch(look, i + FETCH_AHEAD);
		if (look_at_slot(look, slot))
			look->slots[kept++] = *slot;
		else
			look->is_listed[slot->slot] = 0;
	}
	look->slot_count = kept;
}
