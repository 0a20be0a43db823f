/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ring_builder.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define SIDE_BYTES (24 * PAGE)
#define DIRECTORY_OFFSET (2 * PAGE + SIDE_BYTES)
#define OPEN_NS UINT64_C(1000000000)

_Static_assert(sizeof(struct ky_ring_side) <= SIDE_BYTES, "the side area fits");

uint64_t test_ticks_base = TEST_TICKS_BASE;

uint64_t test_ticks(uint64_t ns)
{
	return test_ticks_base + ns * 5 / 2;
}

struct ky_sample_ring test_ring_samples(struct test_ring *ring, uint32_t which)
{
	uint8_t *area = ring->image + ring->header->sample_offset;
	struct ky_sample_head *head = (struct ky_sample_head *)(void *)area;
	struct ky_sample_ring out = {.head = &head->classes[which]};
	uint64_t offset;

	out.cell_count = ky_sample_range(ring->header->sample_bytes, which, &offset);
	out.cells = area + offset;
	atomic_fetch_or(&ring->header->sample_classes, 1u << which);
	return out;
}

void test_ring_open(struct test_ring *ring, uint32_t slot_count)
{
	struct ky_ring_header *header;

	memset(ring, 0, sizeof(*ring));
	ring->image_bytes = DIRECTORY_OFFSET + TEST_DIRECTORY_BYTES +
			    (size_t)slot_count * KY_SLOT_BYTES + TEST_SAMPLE_BYTES;
	ring->image = aligned_alloc(KY_SLOT_BYTES, (ring->image_bytes + KY_SLOT_BYTES - 1) /
							   KY_SLOT_BYTES * KY_SLOT_BYTES);
	memset(ring->image, 0, ring->image_bytes);
	header = (struct ky_ring_header *)(void *)ring->image;
	ring->header = header;
	ring->control = (struct ky_ring_control *)(void *)(ring->image + PAGE);
	ring->side = (struct ky_ring_side *)(void *)(ring->image + 2 * PAGE);
	ring->now_ns = OPEN_NS;
	ring->next_thread = ring->next_name = ring->next_string = 1;
	header->version = KY_RING_VERSION;
	header->page_bytes = PAGE;
	header->file_bytes = ring->image_bytes;
	header->side_offset = 2 * PAGE;
	header->side_bytes = SIDE_BYTES;
	header->directory_offset = DIRECTORY_OFFSET;
	header->directory_bytes = TEST_DIRECTORY_BYTES;
	header->slots_offset = DIRECTORY_OFFSET + TEST_DIRECTORY_BYTES;
	header->slot_count = slot_count;
	header->slot_bytes = KY_SLOT_BYTES;
	header->sample_offset = ring->image_bytes - TEST_SAMPLE_BYTES;
	header->sample_bytes = TEST_SAMPLE_BYTES;
	header->pid = 4242;
	header->start_time_ticks = 777;
	header->ticks_per_second = TEST_TICKS_PER_SECOND;
	test_ring_anchor(ring, &header->open_anchor);
	memcpy(header->boot_id, "0123abcd-0000-0000-0000-000000000000",
	       sizeof("0123abcd-0000-0000-0000-000000000000"));
	memcpy(header->service, "svc", sizeof("svc"));
	memcpy(header->arch, "x86_64", sizeof("x86_64"));
	memcpy(header->recorder_version, "0.1.0", sizeof("0.1.0"));
	atomic_store(&header->state, KY_RING_LIVE);
	atomic_store(&header->populated_count, slot_count);
	atomic_store(&header->usable_count, slot_count);
	atomic_store(&ring->control->gates, KYMO_GATES_DEFAULT);
	atomic_store(&header->magic, KY_RING_MAGIC);
}

void test_ring_close(struct test_ring *ring)
{
	free(ring->image);
}

int test_ring_anchor(void *ctx, struct ky_clock_anchor *out)
{
	const struct test_ring *ring = ctx;
	uint64_t ticks = test_ticks(ring->now_ns);

	ticks += (uint64_t)((int64_t)(ring->now_ns / 1000000) * ring->drift_ppm);
	*out = (struct ky_clock_anchor){ticks - 10, ring->now_ns, ticks + 10,
					ring->now_ns + TEST_REALTIME_OFFSET};
	return 0;
}

struct ky_sub_buffer *test_ring_slot(const struct test_ring *ring, uint32_t slot)
{
	return (struct ky_sub_buffer *)(void *)(ring->image + ring->header->slots_offset +
						(size_t)slot * KY_SLOT_BYTES);
}

uint64_t test_ring_entry(struct test_ring *ring, uint16_t kind, uint32_t id, const void *fixed,
			 uint32_t fixed_bytes, const char *text)
{
	uint64_t at = atomic_load(&ring->header->directory_used);
	struct ky_entry entry = {.kind = kind, .id = id};
	uint8_t *to = ring->image + ring->header->directory_offset + at;

	entry.payload_bytes = fixed_bytes + (uint32_t)strlen(text);
	memcpy(to, &entry, sizeof(entry));
	memcpy(to + sizeof(entry), fixed, fixed_bytes);
	memcpy(to + sizeof(entry) + fixed_bytes, text, strlen(text));
	atomic_store(&ring->header->directory_used,
		     at + sizeof(entry) + ((entry.payload_bytes + 7u) & ~7u));
	return at;
}

uint32_t test_ring_name(struct test_ring *ring, const char *text, uint64_t code, uint32_t copy)
{
	struct ky_entry_name about = {code, 0, copy, (uint32_t)strlen(text)};

	test_ring_entry(ring, KY_ENTRY_NAME, ring->next_name, &about, sizeof(about), text);
	return ring->next_name++;
}

uint32_t test_ring_string(struct test_ring *ring, const char *text)
{
	test_ring_entry(ring, KY_ENTRY_STRING, ring->next_string, "", 0, text);
	return ring->next_string++;
}

void test_ring_runtime(struct test_ring *ring, uint64_t key, uint32_t kind, const char *name)
{
	struct ky_entry_runtime about = {key, kind, 0};

	test_ring_entry(ring, KY_ENTRY_RUNTIME, 0, &about, sizeof(about), name);
}

void test_ring_metadata(struct test_ring *ring, const char *key, const char *value)
{
	char both[512];
	uint32_t key_bytes = (uint32_t)strlen(key);

	memcpy(both, key, key_bytes);
	memcpy(both + key_bytes, value, strlen(value) + 1);
	test_ring_entry(ring, KY_ENTRY_METADATA, 0, &key_bytes, 4, both);
}

void test_ring_module(struct test_ring *ring, uint64_t start, uint64_t end, const char *path)
{
	struct ky_entry_module about = {
		start, end, start, 0, test_ticks(ring->now_ns), 0, (uint32_t)strlen(path)};

	test_ring_entry(ring, KY_ENTRY_MODULE, ring->next_module++, &about, sizeof(about), path);
}

void test_writer_open(struct test_writer *writer, struct test_ring *ring, uint32_t tid, uint64_t ns)
{
	struct ky_entry_thread about = {tid, 0, test_ticks(ns)};

	memset(writer, 0, sizeof(*writer));
	writer->ring = ring;
	writer->tid = tid;
	writer->index = ring->next_thread++;
	test_ring_entry(ring, KY_ENTRY_THREAD, writer->index, &about, sizeof(about), "worker");
	atomic_store(&ring->header->thread_count, writer->index);
}

static void set_state(struct ky_sub_buffer *sub, uint32_t state)
{
	uint64_t claim = atomic_load(&sub->claim);

	atomic_store(&sub->claim, KY_CLAIM_NUMBER(claim) << KY_CLAIM_STATE_BITS | state);
}

void test_writer_claim(struct test_writer *writer, uint64_t ns)
{
	struct test_ring *ring = writer->ring;
	uint32_t usable = atomic_load(&ring->header->usable_count);
	struct ky_sub_buffer *old = writer->sub, *sub;
	uint64_t number;

	do {
		number = atomic_fetch_add(&ring->header->claim_index, 1);
		sub = test_ring_slot(ring, (uint32_t)(number % usable));
	} while (KY_CLAIM_STATE(atomic_load(&sub->claim)) == KY_SLOT_OPEN);
	atomic_store(&sub->claim, (number + 1) << KY_CLAIM_STATE_BITS | KY_SLOT_FILLING);
	atomic_store(&sub->state, writer->depth << 8);
	atomic_store(&sub->published, KY_SLOT_HEADER_BYTES);
	for (uint32_t i = 0; old && i < writer->depth && i < KY_OPEN_DEPTH; i++) {
		atomic_store(&sub->open[i].task_word, atomic_load(&old->open[i].task_word));
		atomic_store(&sub->open[i].begin_ticks, atomic_load(&old->open[i].begin_ticks));
		atomic_store(&sub->carried[i].task_word, atomic_load(&old->open[i].task_word));
		atomic_store(&sub->carried[i].begin_ticks, atomic_load(&old->open[i].begin_ticks));
	}
	sub->carried_depth = writer->depth;
	sub->worker_task = writer->worker[0];
	sub->worker_runtime = writer->worker[1];
	sub->worker_identity = writer->worker[2];
	sub->tid = writer->tid;
	sub->thread = writer->index;
	sub->ordinal = writer->ordinal++;
	sub->record_count = writer->record_count;
	sub->start_ticks = test_ticks(ns);
	sub->gates = KYMO_GATES_DEFAULT;
	test_ring_anchor(ring, &sub->anchor);
	set_state(sub, KY_SLOT_OPEN);
	if (old)
		set_state(old, KY_SLOT_CLOSED);
	writer->sub = sub;
	writer->slot = (uint32_t)(number % usable);
	writer->offset = KY_SLOT_HEADER_BYTES;
	writer->last_high = test_ticks(ns) >> 32;
}

void test_writer_exit(struct test_writer *writer, uint64_t ns, bool is_parked)
{
	uint64_t ticks = test_ticks(ns);

	if (writer->sub)
		set_state(writer->sub, is_parked ? KY_SLOT_PARKED : KY_SLOT_CLOSED);
	test_ring_entry(writer->ring, KY_ENTRY_THREAD_EXIT, writer->index, &ticks, 8, "");
}

static void put(struct test_writer *writer, uint64_t ticks, uint32_t type, uint32_t arg,
		uint32_t words, const uint64_t *payload)
{
	uint64_t *at = (uint64_t *)(void *)((uint8_t *)writer->sub + writer->offset);

	at[0] = kymo_header_word(ticks, type, arg);
	memcpy(at + 1, payload, words * 8);
	writer->offset += 8 * (1 + words);
	writer->record_count++;
	atomic_store(&writer->sub->published,
		     0x40000000u + writer->slot * KY_SLOT_BYTES + writer->offset);
}

void test_writer_continue(struct test_writer *writer, struct test_writer *parked, uint64_t ns)
{
	uint64_t payload[3] = {(uint64_t)writer->index << 32 | writer->tid, test_ticks(ns),
			       writer->record_count};

	writer->sub = parked->sub;
	writer->slot = parked->slot;
	writer->offset = parked->offset;
	writer->last_high = test_ticks(ns) >> 32;
	set_state(writer->sub, KY_SLOT_OPEN);
	put(writer, test_ticks(ns), KYMO_RECORD_THREAD_CHANGE, 0, 3, payload);
}

void test_busy(struct test_writer *writer, bool is_busy)
{
	atomic_store(&writer->sub->state, writer->depth << 8 | is_busy);
}

void test_emit_words(struct test_writer *writer, uint64_t ns, uint32_t type, uint32_t arg,
		     uint32_t words, const uint64_t *payload)
{
	uint64_t ticks = test_ticks(ns);

	if (!writer->sub || writer->offset + 8 * (1 + words + 2) > KY_SLOT_BYTES - 8)
		test_writer_claim(writer, ns);
	if (ticks >> 32 != writer->last_high) {
		writer->last_high = ticks >> 32;
		put(writer, ticks, KYMO_RECORD_TIME, 0, 1, &ticks);
	}
	if (type == KYMO_RECORD_POLL_BEGIN && writer->depth < KY_OPEN_DEPTH) {
		atomic_store(&writer->sub->open[writer->depth].task_word, payload[0]);
		atomic_store(&writer->sub->open[writer->depth].begin_ticks, ticks);
	}
	put(writer, ticks, type, arg, words, payload);
	if (type == KYMO_RECORD_POLL_BEGIN)
		writer->depth++;
	if (type == KYMO_RECORD_POLL_END && writer->depth)
		writer->depth--;
	atomic_store(&writer->sub->state, writer->depth << 8);
	writer->last_ticks = ticks;
}

void test_emit(struct test_writer *writer, uint64_t ns, uint32_t type, uint32_t arg, uint32_t words,
	       uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t payload[3] = {a, b, c};

	test_emit_words(writer, ns, type, arg, words, payload);
}

void test_poll(struct test_writer *writer, uint64_t ns, uint64_t task, uint32_t name)
{
	test_emit(writer, ns, KYMO_RECORD_POLL_BEGIN, KYMO_QUEUE_UNKNOWN, 1,
		  kymo_task_word(task, name), 0, 0);
}

void test_poll_end(struct test_writer *writer, uint64_t ns, uint32_t flags)
{
	test_emit(writer, ns, KYMO_RECORD_POLL_END, flags, 0, 0, 0, 0);
}

void test_worker(struct test_writer *writer, uint64_t ns, uint64_t launch, uint64_t runtime,
		 uint64_t identity)
{
	test_emit(writer, ns, KYMO_RECORD_WORKER_BEGIN, 0, 3, kymo_task_word(launch, 0), runtime,
		  identity);
	writer->worker[0] = kymo_task_word(launch, 0);
	writer->worker[1] = runtime;
	writer->worker[2] = identity;
}
