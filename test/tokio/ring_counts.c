/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_counts.c - what a ring file holds, by record type, as one JSON object: the other side of the
 * witness programs' statements, read without the drain so that the two can disagree.
 *
 *     ring_counts FILE
 *
 * Exit status: 0, 1 unreadable or contradicting itself (said on standard error).
 */
#include <fcntl.h>
#include <kymo/emit.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wire/ring_image.h>

struct counts {
	uint64_t records[256];
	uint64_t ready, cancelled, self_wakes, driver_wakes, dropped;
	uint64_t slots, open_polls;
};

static uint32_t payload_words(uint32_t record, uint32_t arg)
{
	static const uint8_t words[KYMO_RECORD_COUNT] = {
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

	return record == KYMO_RECORD_CUSTOM ? arg : words[record];
}

static void count(struct counts *counts, uint32_t record, uint32_t arg, const uint64_t *payload)
{
	/* The future of a block_on is no task: how often it is woken is a matter of its thread's
	 * pace, and no witness counts it. */
	if (record == KYMO_RECORD_WAKE && payload[0] >> KYMO_NAME_BITS & KYMO_ROOT_BIT)
		return;
	counts->records[record]++;
	if (record == KYMO_RECORD_POLL_END) {
		counts->ready += (arg & KYMO_POLL_READY) != 0;
		counts->cancelled += (arg & KYMO_POLL_CANCELLED) != 0;
		counts->self_wakes += (arg & KYMO_POLL_SELF_WAKE) != 0;
	} else if (record == KYMO_RECORD_WAKE) {
		counts->driver_wakes += (arg & KYMO_WAKE_ON_DRIVER) != 0;
	} else if (record == KYMO_RECORD_DROPPED) {
		counts->dropped += payload[0];
	}
}

static bool read_slot(struct counts *counts, const uint8_t *slot, uint64_t number)
{
	const struct ky_sub_buffer *sub = (const void *)slot;
	uint64_t claim = atomic_load_explicit(&sub->claim, memory_order_relaxed);
	uint32_t end = atomic_load_explicit(&sub->published, memory_order_relaxed) &
		       (KY_SLOT_BYTES - 1);
	uint32_t at = KY_SLOT_HEADER_BYTES;

	if (KY_CLAIM_NUMBER(claim) == 0 || KY_CLAIM_STATE(claim) == KY_SLOT_FILLING)
		return true;
	counts->slots++;
	if (end == 0 && atomic_load_explicit(&sub->published, memory_order_relaxed) != 0)
		end = KY_SLOT_BYTES;
	/* A slot that filled up inside a poll still says so; only the thread's last one is true. */
	if (KY_CLAIM_STATE(claim) == KY_SLOT_OPEN)
		counts->open_polls += atomic_load_explicit(&sub->state, memory_order_relaxed) >> 8 &
				      0xffu;
	while (at < end) {
		const uint64_t *word = (const void *)(slot + at);
		uint32_t record = word[0] >> 16 & 0xffu, arg = word[0] & 0xffffu;

		if (record == 0 || record >= KYMO_RECORD_COUNT ||
		    at + 8 * (1 + payload_words(record, arg)) > end) {
			fprintf(stderr, "ring_counts: slot %llu: a record of type %u at byte %u\n",
				(unsigned long long)number, record, at);
			return false;
		}
		count(counts, record, arg, word + 1);
		at += 8 * (1 + payload_words(record, arg));
	}
	return true;
}

static void print(const struct counts *counts, const struct ky_ring_header *header)
{
	static const struct {
		uint32_t record;
		const char *name;
	} names[] = {
		{KYMO_RECORD_POLL_BEGIN, "poll_begin"},
		{KYMO_RECORD_POLL_END, "poll_end"},
		{KYMO_RECORD_WAKE, "wake"},
		{KYMO_RECORD_TASK_END, "task_end"},
		{KYMO_RECORD_PARK, "park"},
		{KYMO_RECORD_UNPARK, "unpark"},
		{KYMO_RECORD_DRIVER_TURN, "driver_turn"},
		{KYMO_RECORD_WORKER_BEGIN, "worker_begin"},
		{KYMO_RECORD_WORKER_END, "worker_end"},
		{KYMO_RECORD_RUNTIME, "runtime"},
		{KYMO_RECORD_BLOCKING_BEGIN, "blocking_begin"},
		{KYMO_RECORD_BLOCKING_END, "blocking_end"},
		{KYMO_RECORD_NOTIFY, "notify"},
		{KYMO_RECORD_WAIT, "wait"},
		{KYMO_RECORD_WAKER_CLONE, "waker_clone"},
	};

	printf("{\"pid\":%u,\"slots\":%llu,\"slot_count\":%u,\"claims\":%llu,\"open_polls\":%llu",
	       header->pid, (unsigned long long)counts->slots, header->slot_count,
	       (unsigned long long)atomic_load_explicit(&header->claim_index, memory_order_relaxed),
	       (unsigned long long)counts->open_polls);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		printf(",\"%s\":%llu", names[i].name,
		       (unsigned long long)counts->records[names[i].record]);
	printf(",\"ready\":%llu,\"cancelled\":%llu,\"self_wakes\":%llu,\"driver_wakes\":%llu,"
	       "\"dropped\":%llu}\n",
	       (unsigned long long)counts->ready, (unsigned long long)counts->cancelled,
	       (unsigned long long)counts->self_wakes, (unsigned long long)counts->driver_wakes,
	       (unsigned long long)(counts->dropped + atomic_load_explicit(&header->dropped_count,
									   memory_order_relaxed)));
}

int main(int argc, char **argv)
{
	const struct ky_ring_header *header;
	struct counts counts;
	const uint8_t *image;
	struct stat st;
	int fd;

	memset(&counts, 0, sizeof(counts));
	fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0 || fstat(fd, &st) || st.st_size < (off_t)sizeof(*header)) {
		fprintf(stderr, "usage: ring_counts FILE, where FILE is a ring\n");
		return 1;
	}
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (image == MAP_FAILED)
		return 1;
	header = (const void *)image;
	if (atomic_load_explicit(&header->magic, memory_order_acquire) != KY_RING_MAGIC ||
	    header->slot_bytes != KY_SLOT_BYTES ||
	    header->slots_offset + (uint64_t)header->slot_count * KY_SLOT_BYTES >
		    (uint64_t)st.st_size) {
		fprintf(stderr, "ring_counts: %s: not a ring file\n", argv[1]);
		return 1;
	}
	for (uint32_t i = 0;
	     i < atomic_load_explicit(&header->populated_count, memory_order_relaxed); i++)
		if (!read_slot(&counts, image + header->slots_offset + (uint64_t)i * KY_SLOT_BYTES,
			       i))
			return 1;
	print(&counts, header);
	return 0;
}
