/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_view.h>

#include <errno.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>

static void copy_text(char *out, const char *in, size_t in_bytes)
{
	memcpy(out, in, in_bytes);
	out[in_bytes] = 0;
}

static void copy_identity(struct ky_ring_view *view, const struct ky_ring_header *header)
{
	view->flags = header->flags;
	view->pid = header->pid;
	view->start_time_ticks = header->start_time_ticks;
	view->ticks_per_second = header->ticks_per_second;
	view->open_anchor = header->open_anchor;
	copy_text(view->boot_id, header->boot_id, sizeof(header->boot_id));
	copy_text(view->service, header->service, sizeof(header->service));
	copy_text(view->arch, header->arch, sizeof(header->arch));
	copy_text(view->recorder_version, header->recorder_version,
		  sizeof(header->recorder_version));
}

static const struct ky_ring_side *side_of(const struct ky_ring_header *header, const uint8_t *image,
					  uint64_t image_bytes)
{
	uint64_t offset = header->side_offset, bytes = header->side_bytes;

	if (offset < sizeof(*header) || offset % 64 || bytes < sizeof(struct ky_ring_side) ||
	    offset > image_bytes || bytes > image_bytes - offset)
		return NULL;
	return (const struct ky_ring_side *)(const void *)(image + offset);
}

static bool has_samples(const struct ky_ring_header *header, uint64_t image_bytes)
{
	uint64_t offset = header->sample_offset, bytes = header->sample_bytes;

	return offset >= sizeof(*header) && offset % 64 == 0 && offset <= image_bytes &&
	       bytes <= image_bytes - offset;
}

int ky_ring_view_init(struct ky_ring_view *view, const uint8_t *image, uint64_t image_bytes)
{
	const struct ky_ring_header *header;
	uint64_t slots;

	memset(view, 0, sizeof(*view));
	if (!image || (uintptr_t)image % 64)
		return -EINVAL;
	if (image_bytes < 8)
		return KYMO_E_TRUNCATED;
	header = (const struct ky_ring_header *)(const void *)image;
	/* Pairs with the release store that publishes a finished header. */
	if (atomic_load_explicit(&header->magic, memory_order_acquire) != KY_RING_MAGIC)
		return KYMO_E_NOT_TRACE;
	if (image_bytes < sizeof(*header))
		return KYMO_E_TRUNCATED;
	if (header->version != KY_RING_VERSION)
		return KYMO_E_VERSION;
	view->image = image;
	view->header = header;
	view->image_bytes = image_bytes;
	view->directory_offset = header->directory_offset;
	view->directory_bytes = header->directory_bytes;
	view->slots_offset = header->slots_offset;
	view->slot_count = header->slot_count;
	copy_identity(view, header);
	if (header->slot_bytes != KY_SLOT_BYTES || view->slots_offset % KY_SLOT_BYTES ||
	    view->directory_offset % 8 || !view->slot_count ||
	    view->directory_offset < sizeof(*header) || view->slots_offset < sizeof(*header) ||
	    header->page_bytes < sizeof(*header) || header->page_bytes % 64)
		return KYMO_E_CORRUPT;
	if (header->page_bytes + sizeof(struct ky_ring_control) <= image_bytes)
		view->control = (const struct ky_ring_control *)(const void *)(image +
									       header->page_bytes);
	view->side = side_of(header, image, image_bytes);
	if (has_samples(header, image_bytes)) {
		view->sample_offset = header->sample_offset;
		view->sample_bytes = header->sample_bytes;
	}
	if (header->place_bytes == KY_PLACE_AREA_BYTES && header->place_offset % 64 == 0 &&
	    header->place_offset >= sizeof(*header) && header->place_offset <= image_bytes &&
	    header->place_bytes <= image_bytes - header->place_offset)
		view->place_offset = header->place_offset;
	if (header->alloc_bytes == KY_ALLOC_AREA_BYTES && header->alloc_offset % 64 == 0 &&
	    header->alloc_offset >= sizeof(*header) && header->alloc_offset <= image_bytes &&
	    header->alloc_bytes <= image_bytes - header->alloc_offset)
		view->alloc_offset = header->alloc_offset;
	if (header->resource_bytes == KY_RESOURCE_AREA_BYTES && header->resource_offset % 64 == 0 &&
	    header->resource_offset >= sizeof(*header) && header->resource_offset <= image_bytes &&
	    header->resource_bytes <= image_bytes - header->resource_offset)
		view->resource_offset = header->resource_offset;
	if (view->directory_offset > image_bytes) { /* truncated before it: empty, at the end */
		view->directory_offset = image_bytes;
		view->directory_bytes = 0;
	} else if (view->directory_bytes > image_bytes - view->directory_offset) {
		view->directory_bytes = image_bytes - view->directory_offset;
	}
	slots = view->slots_offset < image_bytes ?
			(image_bytes - view->slots_offset) / KY_SLOT_BYTES :
			0;
	if (slots < view->slot_count)
		view->slot_count = (uint32_t)slots;
	return 0;
}

uint32_t ky_ring_view_populated(const struct ky_ring_view *view)
{
	uint32_t count = atomic_load_explicit(&view->header->populated_count, memory_order_acquire);

	return count < view->slot_count ? count : view->slot_count;
}

uint32_t ky_ring_view_usable(const struct ky_ring_view *view)
{
	uint32_t count = atomic_load_explicit(&view->header->usable_count, memory_order_acquire);

	return count ? count : 1;
}

uint32_t ky_ring_view_truncated(const struct ky_ring_view *view)
{
	uint64_t claim_index = atomic_load_explicit(&view->header->claim_index,
						    memory_order_relaxed);
	uint64_t slots = view->header->slot_count;

	if (slots > ky_ring_view_usable(view))
		slots = ky_ring_view_usable(view);
	if (slots > claim_index)
		slots = claim_index;
	return slots > view->slot_count ? (uint32_t)slots - view->slot_count : 0;
}

static const struct ky_sub_buffer *slot_at(const struct ky_ring_view *view, uint32_t slot)
{
	const uint8_t *at = view->image + view->slots_offset + (uint64_t)slot * KY_SLOT_BYTES;

	return (const struct ky_sub_buffer *)(const void *)at;
}

uint64_t ky_ring_view_claim(const struct ky_ring_view *view, uint32_t slot)
{
	/* Pairs with the release stores that change a slot's state. */
	return atomic_load_explicit(&slot_at(view, slot)->claim, memory_order_acquire);
}

int ky_ring_view_published(const struct ky_ring_view *view, uint32_t slot, bool *is_busy,
			   uint32_t *offset)
{
	const struct ky_sub_buffer *sub = slot_at(view, slot);
	uint32_t state, published;

	/* The busy mark first: pairs with the release store that clears it after the cursor. */
	state = atomic_load_explicit(&sub->state, memory_order_acquire);
	published = atomic_load_explicit(&sub->published, memory_order_acquire) &
		    (KY_SLOT_BYTES - 1);
	*is_busy = state & 1u;
	*offset =
		published; /* writers leave the last word free, so that 0 never means a full slot */
	return published % 8 || published < KY_SLOT_HEADER_BYTES ? KYMO_E_CORRUPT : 0;
}

uint32_t ky_ring_view_state(const struct ky_ring_view *view, uint32_t slot)
{
	return atomic_load_explicit(&slot_at(view, slot)->state, memory_order_relaxed);
}

static bool is_still(const struct ky_ring_view *view, uint32_t slot, uint64_t number)
{
	/* What was read before must not move after this reading of the claim. */
	atomic_thread_fence(memory_order_acquire);
	return KY_CLAIM_NUMBER(atomic_load_explicit(&slot_at(view, slot)->claim,
						    memory_order_relaxed)) == number;
}

int ky_ring_view_head(const struct ky_ring_view *view, uint32_t slot, uint64_t number,
		      struct ky_slot_head *out)
{
	const struct ky_sub_buffer *sub = slot_at(view, slot);

	out->claim = ky_ring_view_claim(view, slot);
	if (KY_CLAIM_NUMBER(out->claim) != number)
		return KYMO_E_AGAIN;
	out->tid = *(const volatile uint32_t *)&sub->tid;
	out->thread = *(const volatile uint32_t *)&sub->thread;
	out->record_count = *(const volatile uint64_t *)&sub->record_count;
	out->start_ticks = *(const volatile uint64_t *)&sub->start_ticks;
	out->anchor = sub->anchor;
	out->gates = *(const volatile uint32_t *)&sub->gates;
	out->carried_depth = *(const volatile uint32_t *)&sub->carried_depth;
	out->worker_task = *(const volatile uint64_t *)&sub->worker_task;
	out->worker_runtime = *(const volatile uint64_t *)&sub->worker_runtime;
	out->worker_identity = *(const volatile uint64_t *)&sub->worker_identity;
	out->parked_on = *(const volatile uint64_t *)&sub->parked_on;
	for (uint32_t i = 0; i < KY_OPEN_DEPTH; i++) {
		out->carried[i].task_word = atomic_load_explicit(&sub->carried[i].task_word,
								 memory_order_relaxed);
		out->carried[i].begin_ticks = atomic_load_explicit(&sub->carried[i].begin_ticks,
								   memory_order_relaxed);
	}
	return is_still(view, slot, number) ? 0 : KYMO_E_AGAIN;
}

/* Four at a time: no compiler puts atomic loads together, and a loop costs more than they do. */
static void copy_words(const _Atomic uint64_t *words, uint32_t count, uint64_t *out)
{
	uint32_t i = 0;

	for (; i + 4 <= count; i += 4) {
		out[i] = atomic_load_explicit(&words[i], memory_order_relaxed);
		out[i + 1] = atomic_load_explicit(&words[i + 1], memory_order_relaxed);
		out[i + 2] = atomic_load_explicit(&words[i + 2], memory_order_relaxed);
		out[i + 3] = atomic_load_explicit(&words[i + 3], memory_order_relaxed);
	}
	for (; i < count; i++)
		out[i] = atomic_load_explicit(&words[i], memory_order_relaxed);
}

int ky_ring_view_copy(const struct ky_ring_view *view, uint32_t slot, uint64_t number,
		      uint32_t from, uint32_t to, uint64_t *out)
{
	const uint8_t *base = (const uint8_t *)slot_at(view, slot);
	const _Atomic uint64_t *words;
	uint32_t count;

	if (from < KY_SLOT_HEADER_BYTES || to > KY_SLOT_BYTES || from > to || (from | to) % 8)
		return KYMO_E_CORRUPT;
	words = (const void *)(base + from);
	count = (to - from) / 8;
	copy_words(words, count, out);
	return is_still(view, slot, number) ? (int)count : KYMO_E_AGAIN;
}

bool ky_ring_view_copy_whole(const struct ky_ring_view *view, uint32_t slot, uint64_t number,
			     uint32_t to, uint64_t *out)
{
	const _Atomic uint64_t *words = (const void *)slot_at(view, slot);

	for (uint32_t i = 0; i < to / 8; i++)
		out[i] = atomic_load_explicit(&words[i], memory_order_relaxed);
	return is_still(view, slot, number);
}

bool ky_ring_view_samples(const struct ky_ring_view *view, uint32_t which,
			  struct ky_sample_ring *out)
{
	uint32_t there = atomic_load_explicit(&view->header->sample_classes, memory_order_acquire);
	uint64_t offset;
	uint32_t count = ky_sample_range(view->sample_bytes, which, &offset);
	uintptr_t area = (uintptr_t)view->image + view->sample_offset;

	memset(out, 0, sizeof(*out));
	if (!count || !(there & 1u << which))
		return false;
	out->head = &((struct ky_sample_head *)area)->classes[which];
	out->cells = (uint8_t *)(area + offset);
	out->cell_count = count;
	return true;
}

uint64_t ky_ring_view_samples_lost(const struct ky_ring_view *view)
{
	struct ky_sample_ring ring;
	uint64_t count = 0;

	for (uint32_t which = 0; which < KY_SAMPLE_CLASSES; which++)
		if (ky_ring_view_samples(view, which, &ring))
			count += atomic_load_explicit(&ring.head->lost_count, memory_order_relaxed);
	return count;
}

static const char *const source_names[KY_SOURCE_COUNT] = {"none",     "perf_event",
							  "timers",   "interposed calls",
							  "watchdog", "context switches",
							  "wake-ups", "run delay"};

bool ky_ring_view_awaits_windows(const struct ky_ring_view *view)
{
	uint32_t there = atomic_load_explicit(&view->header->sample_classes, memory_order_acquire);
	uintptr_t area = (uintptr_t)view->image + view->sample_offset;
	const struct ky_sample_head *head = (const struct ky_sample_head *)area;

	return view->sample_bytes >= KY_SAMPLE_PAGE_BYTES && there & KY_SAMPLE_HEADS &&
	       !(there & 1u << KY_SAMPLES_OFF_CPU) &&
	       atomic_load_explicit(&head->classes[KY_SAMPLES_OFF_CPU].source,
				    memory_order_relaxed) &
		       1u << KY_SOURCE_SWITCHES;
}

const char *ky_ring_view_sources(const struct ky_ring_view *view, uint32_t which, char *out,
				 size_t capacity)
{
	struct ky_sample_ring ring;
	size_t used = 0;
	uint32_t bits;

	snprintf(out, capacity, "%s", view->sample_bytes ? "off" : "none");
	if (!ky_ring_view_samples(view, which, &ring)) {
		if (which == KY_SAMPLES_OFF_CPU && ky_ring_view_awaits_windows(view))
			snprintf(out, capacity, "none yet: no window of %s has begun",
				 source_names[KY_SOURCE_SWITCHES]);
		return out;
	}
	bits = atomic_load_explicit(&ring.head->source, memory_order_relaxed);
	snprintf(out, capacity, "none");
	for (uint32_t i = 1; i < KY_SOURCE_COUNT && used < capacity; i++)
		if (bits & 1u << i)
			used += (size_t)snprintf(out + used, capacity - used, "%s%s",
						 used ? ", " : "", source_names[i]);
	return out;
}

const char *ky_ring_view_refusals(const struct ky_ring_view *view, uint32_t which, char *out,
				  size_t capacity)
{
	struct ky_sample_ring ring;
	size_t used = 0;

	out[0] = 0;
	if (!view->sample_bytes)
		snprintf(out, capacity, "the ring file has no room for stacks (a file-size limit)");
	if (!ky_ring_view_samples(view, which, &ring))
		return out;
	for (uint32_t i = 0; i < KY_SOURCE_COUNT && used < capacity; i++) {
		uint32_t err = atomic_load_explicit(&ring.head->refusals[i], memory_order_relaxed);

		/* Stacks of page faults are not missed by most: put_fault_stacks() says why. */
		if (which == KY_SAMPLES_OFF_CPU && i == KY_SOURCE_PERF)
			continue;
		if (err && err < 4096)
			used += (size_t)snprintf(out + used, capacity - used, "%s%s: %s",
						 used ? "; " : "", source_names[i],
						 kymo_error_text(-(int)err));
	}
	return out;
}

const char *ky_ring_view_choice(const struct ky_ring_view *view, char *out, size_t capacity)
{
	struct ky_sample_ring ring;
	uint32_t now, switches, cost_ns;

	out[0] = 0;
	if (!ky_ring_view_samples(view, KY_SAMPLES_CPU, &ring))
		return out;
	now = atomic_load_explicit(&ring.head->now, memory_order_relaxed);
	switches = atomic_load_explicit(&ring.head->switches_per_s, memory_order_relaxed);
	cost_ns = atomic_load_explicit(&ring.head->switch_ns, memory_order_relaxed);
	if (now != KY_SOURCE_PERF && now != KY_SOURCE_TIMER)
		return out;
	if (switches && cost_ns)
		snprintf(out, capacity, "%s: %u switches a second, %u ns more each by %s",
			 source_names[now], switches, cost_ns, source_names[KY_SOURCE_PERF]);
	else
		snprintf(out, capacity, "%s", source_names[now]);
	return out;
}

enum ky_sample_read ky_ring_view_sample(const struct ky_sample_ring *ring, uint64_t claim,
					uint64_t *out)
{
	const _Atomic uint64_t *cell = ky_sample_serial(ring, claim);
	uint64_t serial = atomic_load_explicit(cell, memory_order_acquire), ours = (claim + 1) * 2;

	if (serial > ours + 1)
		return KY_SAMPLE_GONE;
	if (serial != ours)
		return KY_SAMPLE_UNFINISHED;
	out[0] = serial;
	for (uint32_t i = 1; i < KY_SAMPLE_CELL_BYTES / 8; i++)
		out[i] = atomic_load_explicit(&cell[i], memory_order_relaxed);
	/* What was read before must not move after the second reading. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(cell, memory_order_relaxed) == serial ? KY_SAMPLE_WHOLE :
									    KY_SAMPLE_GONE;
}

bool ky_ring_view_settings(const struct ky_ring_view *view, struct ky_ring_wish *out)
{
	const struct ky_ring_settings *settings = view->control ? &view->control->settings : NULL;
	struct ky_ring_wish wish;

	if (!settings)
		return false;
	wish.generation = atomic_load_explicit(&settings->generation, memory_order_acquire);
	if (wish.generation % 2 || wish.generation == out->generation)
		return false;
	wish.mode = atomic_load_explicit(&settings->mode, memory_order_relaxed);
	wish.poll_threshold_ns = atomic_load_explicit(&settings->poll_threshold_ns,
						      memory_order_relaxed);
	wish.wake_threshold_ns = atomic_load_explicit(&settings->wake_threshold_ns,
						      memory_order_relaxed);
	for (uint32_t i = 0; i < 8; i++)
		wish.throttle[i] = atomic_load_explicit(&settings->throttle[i],
							memory_order_relaxed);
	wish.sample_hz = ky_settings_sample_hz(settings);
	wish.resource_ms = ky_settings_resource_ms(settings);
	/* What was read before must not move after the second reading. */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&settings->generation, memory_order_relaxed) != wish.generation)
		return false;
	*out = wish;
	return true;
}
