/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ring_reader.h"

#include <fcntl.h>
#include <kymo/emit.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STAMP_MASK ((UINT64_C(1) << 43) - 1)

static const uint8_t payload_words[KYMO_RECORD_COUNT] = {
	[KYMO_RECORD_TIME] = 1,         [KYMO_RECORD_THREAD_CHANGE] = 3,
	[KYMO_RECORD_POLL_BEGIN] = 1,   [KYMO_RECORD_WAKE] = 1,
	[KYMO_RECORD_SPAWN] = 1,        [KYMO_RECORD_TASK_END] = 1,
	[KYMO_RECORD_DRIVER_TURN] = 1,  [KYMO_RECORD_WORKER_BEGIN] = 3,
	[KYMO_RECORD_RUNTIME] = 1,      [KYMO_RECORD_BLOCKING_BEGIN] = 1,
	[KYMO_RECORD_NOTIFY] = 1,       [KYMO_RECORD_WAKER_CLONE] = 1,
	[KYMO_RECORD_MARK] = 1,         [KYMO_RECORD_DROPPED] = 1,
	[KYMO_RECORD_GATES] = 1,        [KYMO_RECORD_WAIT] = 1,
	[KYMO_RECORD_SPAN_BEGIN] = 2,   [KYMO_RECORD_SPAN_END] = 2,
	[KYMO_RECORD_POLL_COUNTS] = 3,  [KYMO_RECORD_POLL_COST] = 3,
	[KYMO_RECORD_ROOT_BEGIN] = 1,   [KYMO_RECORD_ROOT_END] = 1,
	[KYMO_RECORD_FAILED_CALLS] = 1, [KYMO_RECORD_SPAWN_WINDOW] = 1,
	[KYMO_RECORD_CONN_BEGIN] = 3,   [KYMO_RECORD_CONN_END] = 3,
	[KYMO_RECORD_CONN_WAIT] = 2,    [KYMO_RECORD_CONN_UNSEEN] = 1,
	[KYMO_RECORD_PARKED_ON] = 1,    [KYMO_RECORD_SPAN_IN] = 1,
	[KYMO_RECORD_SPAN_OUT] = 1,     [KYMO_RECORD_SPAN_FOLLOWS] = 2,
	[KYMO_RECORD_POLL_DELAY] = 1,
};

int test_ring_open(struct test_ring *ring, const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *image;

	memset(ring, 0, sizeof(*ring));
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) != 0) {
		close(fd);
		return -1;
	}
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (image == MAP_FAILED)
		return -1;
	ring->image = image;
	ring->image_bytes = (size_t)st.st_size;
	ring->header = image;
	return 0;
}

void test_ring_close(struct test_ring *ring)
{
	if (ring->image)
		munmap((void *)(uintptr_t)ring->image, ring->image_bytes);
	free(ring->records);
	memset(ring, 0, sizeof(*ring));
}

static void append(struct test_ring *ring, const struct test_record *record)
{
	if (ring->count == ring->capacity) {
		ring->capacity = ring->capacity ? ring->capacity * 2 : 1024;
		ring->records = realloc(ring->records, ring->capacity * sizeof(*record));
		if (!ring->records)
			abort();
	}
	ring->records[ring->count] = *record;
	ring->records[ring->count].position = ring->count;
	ring->count++;
}

/* Copies word by word with atomic loads: the writer may be at work. */
static void copy_slot(const uint8_t *from, uint64_t *to, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++)
		to[i] = __atomic_load_n((const uint64_t *)(const void *)from + i, __ATOMIC_RELAXED);
}

/* Words of a slot up to `end`; false when they are no records. */
static int decode(struct test_ring *ring, const uint64_t *words, size_t end, struct test_record *at,
		  uint64_t stamp)
{
	for (size_t i = KY_SLOT_HEADER_BYTES / 8; i < end;) {
		uint64_t head = words[i];
		uint32_t type = (uint32_t)(head >> 16) & 0xff, count;

		if (type == 0 || type >= KYMO_RECORD_COUNT)
			return 0;
		count = type == KYMO_RECORD_CUSTOM ? (uint32_t)(head & 0xffff) :
						     payload_words[type];
		if ((count > 3 && type != KYMO_RECORD_CUSTOM) || i + 1 + count > end)
			return 0;
		at->type = type;
		at->arg = (uint32_t)(head & 0xffff);
		memset(at->words, 0, sizeof(at->words));
		memcpy(at->words, &words[i + 1], (size_t)(count < 3 ? count : 3) * 8);
		if (type == KYMO_RECORD_TIME)
			stamp = at->words[0] & ~UINT64_C(7);
		if (type == KYMO_RECORD_THREAD_CHANGE) {
			stamp = at->words[1] & ~UINT64_C(7);
			at->thread = (uint32_t)(at->words[0] >> 32);
			at->tid = (uint32_t)at->words[0];
			at->number = at->words[2];
		}
		stamp += (((head >> 24) << 3) - stamp) & STAMP_MASK;
		at->ticks = stamp;
		append(ring, at);
		at->number++;
		i += 1 + count;
	}
	return 1;
}

int test_ring_read_slot(struct test_ring *ring, uint32_t slot)
{
	const uint8_t *bytes = ring->image + ring->header->slots_offset +
			       (size_t)slot * KY_SLOT_BYTES;
	const struct ky_sub_buffer *live = (const struct ky_sub_buffer *)(const void *)bytes;
	uint64_t claim = atomic_load_explicit(&live->claim, memory_order_acquire), after;
	static _Thread_local uint64_t words[KY_SLOT_BYTES / 8];
	struct test_record at = {.claim = KY_CLAIM_NUMBER(claim)};
	struct ky_sub_buffer head;
	uint32_t published, state = KY_CLAIM_STATE(claim);

	if (state > KY_SLOT_PARKED) {
		ring->bad_count++;
		return 0;
	}
	ring->slot_states[state]++;
	if (state == KY_SLOT_FREE || state == KY_SLOT_FILLING)
		return 0;
	published = atomic_load_explicit(&live->published, memory_order_acquire) &
		    (KY_SLOT_BYTES - 1);
	copy_slot(bytes, words, published);
	atomic_thread_fence(memory_order_acquire);
	after = atomic_load_explicit(&live->claim, memory_order_relaxed);
	if (KY_CLAIM_NUMBER(after) != KY_CLAIM_NUMBER(claim)) {
		ring->torn_count++;
		return 1;
	}
	if (published < KY_SLOT_HEADER_BYTES || published % 8) {
		ring->bad_count++;
		return 0;
	}
	memcpy(&head, words,
	       KY_SLOT_HEADER_BYTES < sizeof(head) ? KY_SLOT_HEADER_BYTES : sizeof(head));
	at.thread = head.thread;
	at.tid = head.tid;
	at.number = head.record_count;
	if (!decode(ring, words, published / 8, &at, head.start_ticks & ~UINT64_C(7)))
		ring->bad_count++;
	return 0;
}

static int by_claim(const void *a, const void *b)
{
	const struct test_record *x = a, *y = b;

	if (x->claim != y->claim)
		return x->claim < y->claim ? -1 : 1;
	return x->position < y->position ? -1 : x->position > y->position;
}

void test_ring_read(struct test_ring *ring)
{
	uint32_t populated = atomic_load_explicit(&ring->header->populated_count,
						  memory_order_acquire);

	ring->count = 0;
	ring->torn_count = ring->bad_count = 0;
	memset(ring->slot_states, 0, sizeof(ring->slot_states));
	for (uint32_t slot = 0; slot < populated && slot < ring->header->slot_count; slot++)
		test_ring_read_slot(ring, slot);
	if (ring->count)
		qsort(ring->records, ring->count, sizeof(*ring->records), by_claim);
}

size_t test_ring_count(const struct test_ring *ring, uint32_t thread, uint32_t type)
{
	size_t count = 0;

	for (size_t i = 0; i < ring->count; i++)
		if ((!thread || ring->records[i].thread == thread) && ring->records[i].type == type)
			count++;
	return count;
}

uint64_t test_ring_lost(const struct test_ring *ring, uint32_t thread)
{
	uint64_t next = 0, lost = 0;

	for (size_t i = 0; i < ring->count; i++) {
		if (ring->records[i].thread != thread)
			continue;
		lost += ring->records[i].number - next;
		next = ring->records[i].number + 1;
	}
	return lost;
}

const struct ky_entry *test_ring_entry(const struct test_ring *ring, uint32_t kind, size_t n)
{
	const uint8_t *directory = ring->image + ring->header->directory_offset;
	uint64_t used = atomic_load_explicit(&ring->header->directory_used, memory_order_acquire);

	for (uint64_t at = 0; at + sizeof(struct ky_entry) <= used;) {
		const struct ky_entry *entry = (const struct ky_entry *)(const void *)(directory +
										       at);

		if (entry->kind == kind && n-- == 0)
			return entry;
		at += sizeof(*entry) + ((entry->payload_bytes + 7u) & ~7u);
	}
	return NULL;
}
