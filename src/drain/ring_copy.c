/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/ring_copy.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/testpoint.h>
#include <errno.h>
#include <kymo/base.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE 4096u
#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_SLOW_NS UINT64_C(1500000) /* CPU time of one; filling it with zeros takes a third */
#define HUGE_SLOW_MAX 3u
#define PASSES_MAX 8u
#define LAST_PASSES_MAX 4u /* so often may a pass be held up for a round of the ring */
#define FEW_CLAIMS 16u     /* given out during a pass: time for the last one */
#define EXTRA_SLOTS 256u   /* a round and so many may be given out while we copy */

/* What was seen of a slot at the last reading. */
struct seen_slot {
	uint64_t number;
	uint32_t state;
	uint32_t place; /* in the copy, + 1; 0: not copied */
};

struct copier {
	struct ky_ring_copy *out;
	struct ky_ring_view from;
	struct ky_ring_header *header; /* of the copy */
	uint8_t *slots;                /* of the copy */
	uint32_t capacity;             /* slots of the copy */
	struct seen_slot *seen;        /* by slot of the source */
	uint32_t populated, usable;
	uint64_t oldest_wanted; /* claim number + 1; open ones are always wanted */
	uint64_t number_max;
	bool is_first; /* this is the first pass */
	bool has_gap;  /* the last pass came too late to a slot */
};

static size_t round_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

/* What others change meanwhile, in order: a word that says that others are whole comes before them.
 * bytes: a multiple of 8. */
static void copy_words(uint8_t *to, const void *from, size_t bytes)
{
	const _Atomic uint64_t *words = from;
	uint64_t *out = (uint64_t *)(void *)to;

	for (size_t i = 0; i < bytes / 8; i++)
		out[i] = atomic_load_explicit(&words[i], memory_order_acquire);
}

/* Header, control, side area, directory, sub-buffers: each on pages of its own. */
static int lay_out(struct copier *copier)
{
	const struct ky_ring_view *from = &copier->from;
	size_t side_bytes = from->side ? sizeof(*from->side) : 0;
	size_t directory_at = 2 * PAGE + round_up(side_bytes, PAGE);
	size_t slots_at = round_up(directory_at + from->directory_bytes, HUGE_PAGE);
	size_t samples_at = slots_at + (size_t)copier->capacity * KY_SLOT_BYTES;
	size_t places_at = round_up(samples_at + (size_t)from->sample_bytes, PAGE);
	size_t allocs_at = places_at + (from->place_offset ? KY_PLACE_AREA_BYTES : 0);
	size_t resources_at = round_up(allocs_at + (from->alloc_offset ? KY_ALLOC_AREA_BYTES : 0),
				       PAGE);
	size_t bytes = resources_at + (from->resource_offset ? KY_RESOURCE_AREA_BYTES : 0);
	uint8_t *image = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ky_ring_header *header;

	if (image == MAP_FAILED)
		return -ENOMEM;
	copier->out->image = image;
	copier->out->image_bytes = bytes;
	copier->slots = image + slots_at;
	copier->header = header = (struct ky_ring_header *)(void *)image;
	copy_words(image, from->image, sizeof(*header));
	header->page_bytes = PAGE;
	header->file_bytes = bytes;
	header->side_offset = side_bytes ? 2 * PAGE : 0;
	header->side_bytes = side_bytes;
	header->directory_offset = directory_at;
	header->directory_bytes = from->directory_bytes;
	header->slots_offset = slots_at;
	header->slot_count = copier->capacity;
	header->sample_offset = from->sample_bytes ? samples_at : 0;
	header->sample_bytes = from->sample_bytes;
	/* Those that are copied. */
	atomic_store_explicit(&header->sample_classes, 0, memory_order_relaxed);
	header->place_offset = from->place_offset ? places_at : 0;
	header->alloc_offset = from->alloc_offset ? allocs_at : 0;
	header->resource_offset = from->resource_offset ? resources_at : 0;
	header->unwind_offset = header->unwind_bytes = 0; /* of use to the living alone */
	if (from->control)
		copy_words(image + PAGE, from->control, sizeof(*from->control));
	if (side_bytes)
		copy_words(image + 2 * PAGE, from->side, side_bytes);
	return 0;
}

/* A large page at a time, and no more of them once the kernel has to make room for some: where
 * memory is in pieces it moves other pages about, on our time, for many times what small pages
 * cost. */
static void populate_copy(uint8_t *at, size_t bytes)
{
	size_t left = bytes / HUGE_PAGE * HUGE_PAGE;
	uint32_t slow_count = 0;

	if (left >= 2 * HUGE_PAGE)
		(void)madvise(at, left, MADV_HUGEPAGE);
	for (; left >= 2 * HUGE_PAGE; left -= HUGE_PAGE, at += HUGE_PAGE, bytes -= HUGE_PAGE) {
		uint64_t start_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

		(void)madvise(at, HUGE_PAGE, MADV_POPULATE_WRITE);
		slow_count += ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns > HUGE_SLOW_NS;
		if (slow_count == HUGE_SLOW_MAX)
			(void)madvise(at + HUGE_PAGE, left - HUGE_PAGE, MADV_NOHUGEPAGE);
	}
	(void)madvise(at, bytes, MADV_POPULATE_WRITE);
}

/* Makes the pages exist, here and in our view of the source, before the race with the writers
 * begins, and begins it with a fresh slice of time. Failing is no harm. */
static void populate(const struct copier *copier, size_t bytes_max)
{
	size_t bytes = (size_t)copier->populated * KY_SLOT_BYTES;
	uintptr_t from = (uintptr_t)copier->from.image + copier->from.slots_offset;
	uintptr_t first = (from + PAGE - 1) / PAGE * PAGE;

	if (bytes_max && bytes > bytes_max)
		bytes = bytes_max;
	populate_copy(copier->slots, bytes);
	/* Only whole pages of slots that are populated: a reading of others would make them. */
	if (from + bytes > first)
		(void)madvise((void *)first, (from + bytes - first) / PAGE * PAGE,
			      MADV_POPULATE_READ);
	(void)sched_yield();
}

static uint8_t *place_of(const struct copier *copier, uint32_t place)
{
	return copier->slots + (size_t)place * KY_SLOT_BYTES;
}

/* Puts the slot after all others; one that was there before keeps its place. False: it is another
 * claim's by now. */
static bool copy_slot(struct copier *copier, uint32_t slot, uint64_t claim)
{
	struct seen_slot *seen = &copier->seen[slot];
	uint8_t *to = place_of(copier, copier->out->slot_count);
	struct ky_sub_buffer *sub = (struct ky_sub_buffer *)(void *)to;
	uint32_t offset;
	bool is_busy = false;

	KY_TESTPOINT("ring_copy.slot");
	/* A cursor that cannot be is for the drain to see: it says corrupt. */
	if (ky_ring_view_published(&copier->from, slot, &is_busy, &offset) != 0)
		offset = KY_SLOT_HEADER_BYTES;
	if (!ky_ring_view_copy_whole(&copier->from, slot, KY_CLAIM_NUMBER(claim), offset,
				     (uint64_t *)(void *)to)) {
		memset(to, 0, offset);
		return false;
	}
	/* As it was before the records were copied: an open one has been filled further since. */
	atomic_store_explicit(&sub->claim, claim, memory_order_relaxed);
	atomic_fetch_and_explicit(&sub->state, ~(1u | KY_STATE_WAS_BUSY), memory_order_relaxed);
	if (is_busy && KY_CLAIM_STATE(claim) == KY_SLOT_OPEN)
		atomic_fetch_or_explicit(&sub->state, KY_STATE_WAS_BUSY, memory_order_relaxed);
	copier->out->bytes += offset;
	if (KY_CLAIM_NUMBER(claim) > copier->number_max)
		copier->number_max = KY_CLAIM_NUMBER(claim);
	if (seen->place) {
		memcpy(place_of(copier, seen->place - 1), to, offset);
		memset(to, 0, offset);
	} else {
		seen->place = ++copier->out->slot_count;
	}
	return true;
}

/* Another claim than at the last reading, or than at the start: what was there is gone. */
static void note_change(struct copier *copier, struct seen_slot *seen, uint64_t number)
{
	uint64_t start = copier->out->claim_index_at_start;

	if (copier->is_first)
		copier->out->lost_count += number > start && number > copier->usable;
	else if (seen->number && seen->number <= start && !seen->place)
		copier->out->lost_count++;
	*seen = (struct seen_slot){.number = number};
}

/* A slot that the last pass finds with another claim than before: what was given out up to
 * `claim_index`, the end of what this pass has to bring, and was not copied, is gone. */
static bool is_too_late(const struct copier *copier, const struct seen_slot *seen, uint64_t number,
			uint64_t claim_index)
{
	uint64_t before = number > copier->usable ? number - copier->usable : 0;

	if (before > claim_index)
		before -= (before - claim_index + copier->usable - 1) / copier->usable *
			  copier->usable;
	if (before > seen->number) /* given out and overwritten between the two readings */
		return true;
	return seen->number && seen->number <= claim_index &&
	       (!seen->place || seen->state != KY_SLOT_CLOSED);
}

/* One reading of a slot. Closed ones are taken, and parked ones, which may be overwritten as well;
 * open ones only when this reading is the last. */
static void read_one(struct copier *copier, uint32_t slot, uint64_t claim_index, bool is_last)
{
	struct seen_slot *seen = &copier->seen[slot];
	uint64_t claim = ky_ring_view_claim(&copier->from, slot), number = KY_CLAIM_NUMBER(claim);
	uint32_t state = KY_CLAIM_STATE(claim);

	if (number != seen->number) {
		copier->has_gap |= is_last && is_too_late(copier, seen, number, claim_index);
		note_change(copier, seen, number);
	}
	if (!number || number > claim_index)
		return;
	if (state == KY_SLOT_OPEN ? !is_last : number < copier->oldest_wanted)
		return;
	if (state != KY_SLOT_OPEN && state != KY_SLOT_CLOSED && state != KY_SLOT_PARKED)
		return;
	/* A parked one that was taken may have been continued by another thread. */
	if (seen->place && (seen->state == KY_SLOT_CLOSED || !is_last))
		return;
	if (copier->out->slot_count == copier->capacity) {
		copier->out->lost_count++;
		return;
	}
	seen->state = state;
	if (copy_slot(copier, slot, claim))
		return;
	copier->out->lost_count += !seen->place && number <= copier->out->claim_index_at_start;
	copier->has_gap |= is_last;
	*seen = (struct seen_slot){.number = 0};
}

/* Claims `from` up to `to`, in their order; all slots once when the claim index came round
 * meanwhile. */
static void read_claims(struct copier *copier, uint64_t from, uint64_t to, bool is_last)
{
	if (to - from > copier->usable)
		from = to > copier->usable ? to - copier->usable : 0;
	for (; from < to; from++) {
		uint32_t slot = (uint32_t)(from % copier->usable);

		if (slot < copier->populated)
			read_one(copier, slot, to, is_last);
	}
}

static uint64_t claim_index_of(const struct copier *copier)
{
	return atomic_load_explicit(&copier->from.header->claim_index, memory_order_acquire);
}

/* Reads the clock, and then what was published before. */
static void last_pass(struct copier *copier, const struct ky_ring_copy_options *options)
{
	struct ky_ring_copy *out = copier->out;
	uint64_t to;

	if (options->anchor && options->anchor(options->anchor_ctx, &out->now) == 0)
		out->has_now = true;
	/* Whatever was stamped before that reading lies in claims before this claim index. */
	to = claim_index_of(copier);
	copier->has_gap = false;
	copier->populated = ky_ring_view_populated(&copier->from);
	for (uint32_t slot = 0; slot < copier->populated; slot++)
		read_one(copier, slot, to, true);
}

static void take_slots(struct copier *copier, const struct ky_ring_copy_options *options)
{
	struct ky_ring_copy *out = copier->out;
	uint64_t from = claim_index_of(copier), to;
	uint64_t wanted = options->bytes_max / KY_SLOT_BYTES;

	out->claim_index_at_start = from;
	if (options->bytes_max && from > wanted)
		copier->oldest_wanted = from - wanted + 1;
	/* What the claim index comes to first goes first; that is the order of claims, too. */
	copier->is_first = true;
	for (uint32_t i = 0; i < copier->usable; i++) {
		uint32_t slot = (uint32_t)((from + i) % copier->usable);

		if (slot < copier->populated)
			read_one(copier, slot, from, false);
	}
	copier->is_first = false;
	for (uint32_t pass = 0; pass < PASSES_MAX; pass++) {
		copier->populated = ky_ring_view_populated(&copier->from);
		to = claim_index_of(copier);
		read_claims(copier, from, to, false);
		if (to - from <= FEW_CLAIMS)
			break;
		from = to;
	}
	/* A pass that was held up for a round of the ring finds what it came for overwritten. After
	 * another one that is a gap, which the records behind it count, and no early end. */
	copier->has_gap = true;
	for (uint32_t pass = 0; pass < LAST_PASSES_MAX && copier->has_gap; pass++)
		last_pass(copier, options);
	out->lost_count += copier->has_gap;
}

/* A cell that changes under our eyes stays empty in the copy, and is missing by its number. */
static void take_class(struct copier *copier, uint32_t which, const struct ky_sample_ring *from)
{
	struct ky_ring_header *header = copier->header;
	uint8_t *area = copier->out->image + header->sample_offset;
	struct ky_sample_head *head = (struct ky_sample_head *)(void *)area;
	uint64_t claim_index = atomic_load_explicit(&from->head->claim_index, memory_order_acquire),
		 offset;
	uint64_t claim = KY_SAMPLE_CLAIM(claim_index), count = claim;

	if (count > from->cell_count)
		count = from->cell_count;
	(void)ky_sample_range(header->sample_bytes, which, &offset);
	copy_words((uint8_t *)&head->classes[which], from->head, sizeof(*from->head));
	atomic_store_explicit(&head->classes[which].claim_index, claim_index, memory_order_relaxed);
	for (; count > 0; count--) {
		uint64_t at = offset + (claim - count) % from->cell_count * KY_SAMPLE_CELL_BYTES;
		uint64_t words[KY_SAMPLE_CELL_BYTES / 8];

		if (ky_ring_view_sample(from, claim - count, words) == KY_SAMPLE_WHOLE)
			memcpy(area + at, words, sizeof(words));
	}
	copier->out->bytes += KY_SAMPLE_CLAIM(claim_index) < from->cell_count ?
				      KY_SAMPLE_CLAIM(claim_index) * KY_SAMPLE_CELL_BYTES :
				      (uint64_t)from->cell_count * KY_SAMPLE_CELL_BYTES;
	atomic_fetch_or_explicit(&header->sample_classes, 1u << which, memory_order_relaxed);
}

static void await_windows(struct copier *copier)
{
	struct ky_ring_header *header = copier->header;
	struct ky_sample_head *head = (void *)(copier->out->image + header->sample_offset);

	atomic_store_explicit(&head->classes[KY_SAMPLES_OFF_CPU].source, 1u << KY_SOURCE_SWITCHES,
			      memory_order_relaxed);
	atomic_fetch_or_explicit(&header->sample_classes, KY_SAMPLE_HEADS, memory_order_relaxed);
}

/* After the clock was read: what was stamped before is there. */
static void take_samples(struct copier *copier)
{
	for (uint32_t which = 0; which < KY_SAMPLE_CLASSES; which++) {
		struct ky_sample_ring ring;

		if (ky_ring_view_samples(&copier->from, which, &ring))
			take_class(copier, which, &ring);
	}
	if (ky_ring_view_awaits_windows(&copier->from))
		await_windows(copier);
}

/* Rows, each whole, then the points and stacks that they may name. */
static void take_places(struct copier *copier)
{
	const uint8_t *from = ky_ring_view_places(&copier->from);
	uint8_t *to = copier->out->image + copier->header->place_offset;

	atomic_store_explicit(&copier->header->place_ready, from != NULL, memory_order_relaxed);
	if (!from)
		return;
	copy_words(to, from, KY_PLACE_SETS_OFFSET);
	for (uint32_t i = 0; i < KY_PLACE_ENTRIES; i++)
		ky_ring_view_place_copy(
			from, i, (struct kymo_place_row *)(void *)(to + KY_PLACE_SETS_OFFSET) + i);
	copy_words(to + KY_PLACE_POINTS_OFFSET, from + KY_PLACE_POINTS_OFFSET,
		   KY_PLACE_UNITS_OFFSET - KY_PLACE_POINTS_OFFSET);
	copy_words(to + KY_PLACE_UNITS_OFFSET, from + KY_PLACE_UNITS_OFFSET,
		   ky_ring_view_place_units(to) * KY_PLACE_UNIT_BYTES);
	copier->out->bytes += KY_PLACE_UNITS_OFFSET;
}

/* Entries of addresses, each whole, and the stacks that they may name. */
static void take_allocs(struct copier *copier)
{
	const uint8_t *from = ky_ring_view_allocs(&copier->from);
	uint8_t *to = copier->out->image + copier->header->alloc_offset;
	uint64_t *words = (uint64_t *)(void *)(to + KY_ALLOC_WORDS_OFFSET);
	struct ky_alloc_entry *entries = (struct ky_alloc_entry *)(void *)(to +
									   KY_ALLOC_ENTRIES_OFFSET);

	atomic_store_explicit(&copier->header->alloc_ready, from != NULL, memory_order_relaxed);
	if (!from)
		return;
	copy_words(to, from, sizeof(struct ky_alloc_head));
	for (uint32_t i = 0; i < KY_ALLOC_ENTRIES; i++) {
		struct ky_alloc_seen seen;

		if (!ky_ring_view_alloc(from, i, &seen))
			continue;
		words[i] = seen.address;
		atomic_store_explicit(&entries[i].stamp, seen.stamp, memory_order_relaxed);
		atomic_store_explicit(&entries[i].bytes, seen.bytes, memory_order_relaxed);
		atomic_store_explicit(&entries[i].weight, seen.weight, memory_order_relaxed);
		atomic_store_explicit(&entries[i].about, seen.about, memory_order_relaxed);
		copier->out->bytes += sizeof(seen);
	}
	copy_words(to + KY_ALLOC_STACKS_OFFSET, from + KY_ALLOC_STACKS_OFFSET,
		   KY_ALLOC_UNITS_OFFSET - KY_ALLOC_STACKS_OFFSET);
	copy_words(to + KY_ALLOC_UNITS_OFFSET, from + KY_ALLOC_UNITS_OFFSET,
		   ky_ring_view_alloc_units(to) * KY_PLACE_UNIT_BYTES);
}

/* The rows that are there: pages beyond do not exist and stay so. */
static void take_resources(struct copier *copier)
{
	const uint8_t *from = ky_ring_view_resources(&copier->from);
	uint8_t *to = copier->out->image + copier->header->resource_offset;
	uint64_t count;

	atomic_store_explicit(&copier->header->resource_ready, from != NULL, memory_order_relaxed);
	if (!from)
		return;
	copy_words(to, from, KY_RESOURCE_ENTRIES_OFFSET);
	count = atomic_load_explicit(
		&((const struct ky_resource_head *)(const void *)to)->claim_index,
		memory_order_relaxed);
	if (count > KY_RESOURCE_ENTRIES)
		count = KY_RESOURCE_ENTRIES;
	copy_words(to + KY_RESOURCE_ENTRIES_OFFSET, from + KY_RESOURCE_ENTRIES_OFFSET,
		   count * sizeof(struct ky_resource_entry));
	copier->out->bytes += KY_RESOURCE_ENTRIES_OFFSET + count * sizeof(struct ky_resource_entry);
}

/* After the sub-buffers: what their records refer to was there before them. */
static void take_directory(struct copier *copier)
{
	const struct ky_ring_view *from = &copier->from;
	uint64_t used = atomic_load_explicit(&from->header->directory_used, memory_order_acquire);

	if (used > from->directory_bytes)
		used = from->directory_bytes;
	memcpy(copier->out->image + copier->header->directory_offset,
	       from->image + from->directory_offset, used);
	atomic_store_explicit(&copier->header->directory_used, used, memory_order_relaxed);
}

static void finish(struct copier *copier)
{
	struct ky_ring_header *header = copier->header;
	uint32_t count = copier->out->slot_count ? copier->out->slot_count : 1;

	header->slot_count = count;
	atomic_store_explicit(&header->populated_count, count, memory_order_relaxed);
	atomic_store_explicit(&header->usable_count, count, memory_order_relaxed);
	atomic_store_explicit(&header->claim_index, copier->number_max, memory_order_relaxed);
}

int ky_ring_copy_take(struct ky_ring_copy *out, const struct ky_ring_copy_options *options)
{
	struct copier copier = {.out = out};
	int err;

	memset(out, 0, sizeof(*out));
	err = ky_ring_view_init(&copier.from, options->image, options->image_bytes);
	if (err)
		return err;
	copier.populated = ky_ring_view_populated(&copier.from);
	copier.usable = ky_ring_view_usable(&copier.from);
	out->truncated_count = ky_ring_view_truncated(&copier.from);
	if (copier.usable > copier.from.slot_count)
		copier.usable = copier.from.slot_count;
	if (!copier.usable)
		copier.usable = 1; /* an image that ends before its first slot */
	out->ring_slots = copier.usable;
	copier.capacity = copier.populated * 2 + EXTRA_SLOTS;
	copier.seen = ky_alloc(((size_t)copier.from.slot_count + 1) * sizeof(*copier.seen));
	err = copier.seen ? lay_out(&copier) : -ENOMEM;
	if (!err) {
		populate(&copier, options->bytes_max);
		take_slots(&copier, options);
		take_samples(&copier);
		take_places(&copier);
		take_allocs(&copier);
		take_resources(&copier);
		take_directory(&copier);
		finish(&copier);
	}
	ky_free(copier.seen);
	if (err)
		ky_ring_copy_release(out);
	return err;
}

void ky_ring_copy_release(struct ky_ring_copy *copy)
{
	if (copy->image)
		munmap(copy->image, copy->image_bytes);
	copy->image = NULL;
}
