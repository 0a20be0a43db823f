/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_status.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/timeline.h>
#include <base/utf8.h>
#include <ring/ring_progress.h>
#include <errno.h>
#include <kymo/base.h>
#include <kymo/emit.h>
#include <stdlib.h>
#include <string.h>

#define TRIES 64
#define PAYLOAD_BYTES_MAX 1536u /* of what is read here; others are passed over */
#define METADATA_BYTES_MAX 65536u

struct status_reader {
	struct ky_ring_status *out;
	const struct ky_found_ring *found;
	struct ky_ring_view view;
	struct ky_timeline timeline;
	uint64_t now_ns; /* or the last that is known */
};

/* ---- time ---- */

static struct ky_clock_anchor read_clocks(bool is_monotonic)
{
	struct ky_clock_anchor now;
	uint32_t high;

	now.ticks_before = kymo_arch_ticks(&high);
	now.monotonic_ns = ky_now_ns(CLOCK_MONOTONIC);
	now.ticks_after = kymo_arch_ticks(&high);
	now.realtime_ns = ky_realtime_at_ns(now.monotonic_ns);
	if (is_monotonic)
		now.ticks_before = now.ticks_after = now.monotonic_ns;
	return now;
}

static int add_anchor(struct status_reader *reader, const struct ky_clock_anchor *anchor)
{
	uint64_t width = anchor->ticks_after - anchor->ticks_before;
	int err;

	if (anchor->ticks_after < anchor->ticks_before)
		return 0;
	err = ky_timeline_add(&reader->timeline, anchor->ticks_before + width / 2,
			      anchor->monotonic_ns, anchor->realtime_ns, 0);
	return err == -ENOMEM ? err : 0;
}

/* A living process: by the clock. A dead one: by its newest sub-buffer and record. */
static int open_timeline(struct status_reader *reader)
{
	bool is_monotonic = (reader->view.flags & KY_RING_CLOCK_MONOTONIC) != 0;
	struct ky_clock_anchor anchor = reader->out->count.newest_anchor;
	int err;

	ky_timeline_init(&reader->timeline, reader->view.ticks_per_second, is_monotonic);
	err = add_anchor(reader, &reader->view.open_anchor);
	if (reader->found->state == KY_FOUND_ALIVE)
		anchor = read_clocks(is_monotonic);
	if (err == 0)
		err = add_anchor(reader, &anchor);
	reader->now_ns = reader->found->state == KY_FOUND_ALIVE ?
				 anchor.monotonic_ns :
				 ky_timeline_ns(&reader->timeline, reader->out->count.newest_ticks);
	return err;
}

/* ---- open polls ---- */

struct slot_reading {
	uint64_t claim;
	uint32_t tid, thread, depth, reserved; /* no padding: compared as bytes */
	uint64_t words[KY_OPEN_DEPTH], begins[KY_OPEN_DEPTH];
};

static void read_slot_once(struct slot_reading *out, const struct ky_sub_buffer *sub)
{
	uint32_t i;

	memset(out, 0, sizeof(*out));
	out->claim = atomic_load_explicit(&sub->claim, memory_order_acquire);
	out->tid = *(const volatile uint32_t *)&sub->tid;
	out->thread = *(const volatile uint32_t *)&sub->thread;
	out->depth = atomic_load_explicit(&sub->state, memory_order_acquire) >> 8 & 0xffu;
	for (i = 0; i < KY_OPEN_DEPTH && i < out->depth; i++) {
		out->words[i] = atomic_load_explicit(&sub->open[i].task_word, memory_order_relaxed);
		out->begins[i] = atomic_load_explicit(&sub->open[i].begin_ticks,
						      memory_order_relaxed);
	}
	atomic_thread_fence(memory_order_acquire);
}

/* Two readings that agree. Polls too short for that are none that are open "now". */
static bool read_slot(struct slot_reading *out, const struct ky_sub_buffer *sub)
{
	struct slot_reading again;
	int i;

	read_slot_once(out, sub);
	for (i = 0; i < TRIES; i++) {
		read_slot_once(&again, sub);
		if (memcmp(out, &again, sizeof(again)) == 0)
			return true;
		*out = again;
	}
	return false;
}

/* Whose is the slot now: a sub-buffer may have been continued by a later thread. */
static void settle_thread(const struct status_reader *reader, struct slot_reading *seen,
			  uint32_t slot)
{
	const struct ky_ring_count *count = &reader->out->count;
	uint32_t thread = count->slot_threads != NULL && slot < count->slot_count ?
				  count->slot_threads[slot] :
				  0;

	if (thread == 0 || thread >= count->thread_count)
		return;
	seen->thread = thread;
	seen->tid = count->threads[thread].tid;
}

static void add_polls(struct status_reader *reader, const struct slot_reading *seen)
{
	struct ky_ring_status *out = reader->out;
	uint32_t i;

	out->open_poll_count += seen->depth;
	for (i = 0; i < seen->depth && i < KY_OPEN_DEPTH; i++) {
		struct ky_state_poll *poll;
		uint64_t begin_ns = ky_timeline_ns(&reader->timeline, seen->begins[i]);

		if (out->listed_count == KY_STATE_POLLS_MAX)
			return;
		poll = &out->polls[out->listed_count++];
		poll->tid = seen->tid;
		poll->thread = seen->thread;
		poll->depth = i;
		poll->task = seen->words[i] >> KYMO_NAME_BITS;
		poll->name = (uint32_t)(seen->words[i] & ((1u << KYMO_NAME_BITS) - 1));
		poll->begin_ticks = seen->begins[i];
		poll->length_ns = reader->now_ns > begin_ns ? reader->now_ns - begin_ns : 0;
	}
}

static int by_length(const void *left, const void *right)
{
	const struct ky_state_poll *a = left, *b = right;

	if (a->length_ns != b->length_ns)
		return a->length_ns > b->length_ns ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int read_polls(struct status_reader *reader)
{
	uint32_t slot, populated = ky_ring_view_populated(&reader->view);
	struct ky_ring_status *out = reader->out;
	struct slot_reading seen;

	out->polls = ky_alloc(KY_STATE_POLLS_MAX * sizeof(*out->polls));
	if (out->polls == NULL)
		return -ENOMEM;
	for (slot = 0; slot < populated; slot++) {
		const uint8_t *at = reader->view.image + reader->view.slots_offset +
				    (uint64_t)slot * KY_SLOT_BYTES;
		const struct ky_sub_buffer *sub = (const struct ky_sub_buffer *)(const void *)at;

		if (KY_CLAIM_STATE(ky_ring_view_claim(&reader->view, slot)) != KY_SLOT_OPEN ||
		    !read_slot(&seen, sub) || KY_CLAIM_STATE(seen.claim) != KY_SLOT_OPEN)
			continue;
		settle_thread(reader, &seen, slot);
		add_polls(reader, &seen);
	}
	qsort(out->polls, out->listed_count, sizeof(*out->polls), by_length);
	return 0;
}

/* ---- the directory ---- */

static void take_text(char *out, size_t out_bytes, const uint8_t *text, size_t text_bytes)
{
	if (text_bytes > out_bytes - 1)
		text_bytes = out_bytes - 1;
	memcpy(out, text, text_bytes);
	out[text_bytes] = '\0';
	ky_utf8_clean((uint8_t *)out, strlen(out));
}

static void take_thread(struct ky_ring_status *out, uint32_t index, const uint8_t *payload,
			size_t bytes)
{
	uint32_t i;

	for (i = 0; i < out->listed_count; i++)
		if (out->polls[i].thread == index && bytes > sizeof(struct ky_entry_thread))
			take_text(out->polls[i].thread_name, sizeof(out->polls[i].thread_name),
				  payload + sizeof(struct ky_entry_thread),
				  bytes - sizeof(struct ky_entry_thread));
}

static void take_name(struct ky_ring_status *out, const struct ky_ring_namer *namer, uint32_t id,
		      const uint8_t *payload, size_t bytes)
{
	struct ky_entry_name entry;
	char text[KY_STATE_NAME_BYTES];
	size_t text_bytes = 0;
	bool is_wanted = false;
	uint32_t i;

	for (i = 0; i < out->listed_count; i++)
		is_wanted |= out->polls[i].name == id;
	if (!is_wanted || bytes < sizeof(entry))
		return;
	memcpy(&entry, payload, sizeof(entry));
	if (entry.text_bytes > bytes - sizeof(entry))
		return;
	if (namer->name != NULL && (entry.code_address != 0 || entry.table_address != 0))
		text_bytes = namer->name(namer->ctx, &entry, text, sizeof(text) - 1);
	if (text_bytes > 0)
		take_text(text, sizeof(text), (const uint8_t *)text, text_bytes);
	else
		take_text(text, sizeof(text), payload + sizeof(entry), entry.text_bytes);
	for (i = 0; i < out->listed_count; i++)
		if (out->polls[i].name == id)
			memcpy(out->polls[i].text, text, sizeof(text));
}

static void take_metadata(struct ky_ring_status *out, const uint8_t *payload, size_t bytes)
{
	char text[PAYLOAD_BYTES_MAX + 1];
	uint32_t key_bytes;

	if (bytes < sizeof(key_bytes))
		return;
	memcpy(&key_bytes, payload, sizeof(key_bytes));
	payload += sizeof(key_bytes);
	bytes -= sizeof(key_bytes);
	if (key_bytes > bytes)
		return;
	take_text(text, sizeof(text), payload, key_bytes);
	(void)ky_buf_append(&out->metadata, text, strlen(text) + 1);
	take_text(text, sizeof(text), payload + key_bytes, bytes - key_bytes);
	(void)ky_buf_append(&out->metadata, text, strlen(text) + 1);
}

static void take_entry(struct status_reader *reader, const struct ky_ring_namer *namer,
		       const struct ky_entry *entry, const uint8_t *payload)
{
	if (entry->kind == KY_ENTRY_THREAD)
		take_thread(reader->out, entry->id, payload, entry->payload_bytes);
	else if (entry->kind == KY_ENTRY_NAME)
		take_name(reader->out, namer, entry->id, payload, entry->payload_bytes);
	else if (entry->kind == KY_ENTRY_METADATA)
		take_metadata(reader->out, payload, entry->payload_bytes);
}

/* Each entry is copied before it is read. payload: PAYLOAD_BYTES_MAX bytes. */
static void walk_directory(struct status_reader *reader, const struct ky_ring_namer *namer,
			   uint8_t *payload)
{
	const uint8_t *from = reader->view.image + reader->view.directory_offset;
	uint64_t used = reader->out->directory_used, at = 0, whole;
	struct ky_entry entry;

	while (used - at >= sizeof(entry)) {
		memcpy(&entry, from + at, sizeof(entry));
		at += sizeof(entry);
		whole = ((uint64_t)entry.payload_bytes + 7u) & ~(uint64_t)7u;
		if (whole > used - at)
			break;
		if (entry.payload_bytes <= PAYLOAD_BYTES_MAX) {
			memcpy(payload, from + at, entry.payload_bytes);
			take_entry(reader, namer, &entry, payload);
		}
		at += whole;
	}
}

static int read_directory(struct status_reader *reader, const struct ky_ring_namer *namer)
{
	uint8_t *payload = ky_alloc(PAYLOAD_BYTES_MAX);

	if (payload == NULL)
		return -ENOMEM;
	walk_directory(reader, namer, payload);
	ky_free(payload);
	return reader->out->metadata.failed == -ENOMEM ? -ENOMEM : 0;
}

/* ---- words ---- */

static void read_counters(struct ky_ring_status *out, const struct ky_ring_side *side)
{
	uint32_t i, count = atomic_load_explicit(&side->counter_count, memory_order_acquire);

	out->counter_count = count < KY_COUNTERS ? count : KY_COUNTERS;
	for (i = 0; i < out->counter_count; i++) {
		const struct ky_ring_counter *counter = &side->counters[i];

		out->counters[i].value = (int64_t)atomic_load_explicit(&counter->value,
								       memory_order_relaxed);
		out->counters[i].counts_errors = atomic_load_explicit(&counter->errors_flag,
								      memory_order_relaxed) == 1;
		take_text(out->counters[i].name, sizeof(out->counters[i].name),
			  (const uint8_t *)counter->name,
			  strnlen(counter->name, KY_COUNTER_NAME_BYTES));
	}
}

static uint64_t load(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void read_side(struct ky_ring_status *out, const struct ky_ring_view *view,
		      const struct ky_ring_header *header)
{
	uint64_t offset = header->side_offset, bytes = header->side_bytes;
	const struct ky_ring_side *side;

	if (offset == 0 || offset % 64u != 0 || bytes < sizeof(*side) ||
	    offset > view->image_bytes || view->image_bytes - offset < sizeof(*side))
		return;
	side = (const struct ky_ring_side *)(const void *)(view->image + offset);
	out->has_side = true;
	out->mark_count = ky_mark_read(side, out->marks);
	read_counters(out, side);
	out->records_lost = load(&side->lost.records);
	out->drain_samples_lost = load(&side->lost.samples);
}

static void read_words(struct ky_ring_status *out, const struct ky_ring_view *view)
{
	const struct ky_ring_header *header = view->header;
	uint32_t i;

	if (view->control != NULL)
		ky_settings_read(view->control, &out->settings);
	memcpy(out->arch, view->arch, sizeof(out->arch));
	memcpy(out->recorder_version, view->recorder_version, sizeof(out->recorder_version));
	out->slot_count = view->slot_count;
	out->populated_count = ky_ring_view_populated(view);
	out->usable_count = ky_ring_view_usable(view);
	out->thread_count = atomic_load_explicit(&header->thread_count, memory_order_relaxed);
	out->claim_index = load(&header->claim_index);
	out->directory_bytes = view->directory_bytes;
	out->directory_used = atomic_load_explicit(&header->directory_used, memory_order_acquire);
	if (out->directory_used > out->directory_bytes)
		out->directory_used = out->directory_bytes;
	out->directory_overflow_count = load(&header->directory_overflow_count);
	out->dropped = load(&header->dropped_count);
	out->dropped_signal = load(&header->dropped_signal_count);
	out->dropped_no_slot = load(&header->dropped_no_slot_count);
	out->dropped_no_state = load(&header->dropped_no_state_count);
	out->dropped_exited = load(&header->dropped_exited_count);
	out->fork_disarmed_count = load(&header->fork_disarmed_count);
	for (i = 0; i < out->count.thread_count; i++)
		out->record_count += out->count.threads[i].record_count;
	read_side(out, view, header);
}

static void read_sampling(struct ky_ring_status *out, const struct ky_ring_view *view)
{
	struct ky_sample_ring cpu;

	(void)ky_ring_view_sources(view, KY_SAMPLES_CPU, out->sampling, sizeof(out->sampling));
	(void)ky_ring_view_choice(view, out->sampling_choice, sizeof(out->sampling_choice));
	(void)ky_ring_view_refusals(view, KY_SAMPLES_CPU, out->sampling_refused,
				    sizeof(out->sampling_refused));
	out->all_samples_lost = ky_ring_view_samples_lost(view);
	if (!ky_ring_view_samples(view, KY_SAMPLES_CPU, &cpu))
		return;
	out->sample_hz = atomic_load_explicit(&cpu.head->rate_hz, memory_order_relaxed);
	out->samples_min = ky_sample_count_min(load(&cpu.head->claim_index));
	out->samples_lost = load(&cpu.head->lost_count);
}

static int read_drained_path(struct ky_ring_status *out, const struct ky_open_ring *ring)
{
	struct ky_ring_tail *tail = ky_alloc(sizeof(*tail));

	if (tail == NULL)
		return -ENOMEM;
	ky_ring_progress_read(tail, ring);
	memcpy(out->drained_path, tail->path, sizeof(out->drained_path));
	ky_free(tail);
	return 0;
}

int ky_ring_status_read(struct ky_ring_status *out, const struct ky_open_ring *ring,
			const struct ky_found_ring *found, const struct ky_ring_namer *namer)
{
	struct status_reader reader = {.out = out, .found = found};
	int err;

	memset(out, 0, sizeof(*out));
	ky_buf_init(&out->metadata, METADATA_BYTES_MAX);
	err = ky_ring_view_init(&reader.view, ring->image, ring->image_bytes);
	if (err == 0)
		err = ky_ring_count(&out->count, &reader.view);
	if (err == 0)
		err = read_drained_path(out, ring);
	if (err < 0)
		return err;
	read_words(out, &reader.view);
	read_sampling(out, &reader.view);
	err = open_timeline(&reader);
	if (err == 0)
		err = read_polls(&reader);
	if (err == 0)
		err = read_directory(&reader, namer);
	ky_timeline_release(&reader.timeline);
	return err;
}

void ky_ring_status_release(struct ky_ring_status *state)
{
	ky_ring_count_release(&state->count);
	ky_buf_release(&state->metadata);
	ky_free(state->polls);
	state->polls = NULL;
}
