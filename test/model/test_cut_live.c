/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Cuts of a ring while threads write to it as fast as they can. Each thread numbers its polls, and
 * says in a word of its own how far it got: everything said before a cut begins must be in it, in
 * one piece, or be reported as lost with the exact count. */
#include "../lib/cmocka_all.h"
#include "../lib/event_list.h"
#include "../lib/recorder_case.h"

#include <drain/cut.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WRITERS 3u
#define AHEAD_POLLS 100000u
#if defined(__SANITIZE_THREAD__)
#define CUTS 3u          /* one takes it 40 times as long */
#elif defined(__clang__) /* the builds with sanitizers: five times */
#define CUTS 6u
#else
#define CUTS 16u
#endif

struct writer {
	pthread_t thread;
	_Alignas(64) _Atomic uint64_t done; /* number of the last poll that has ended */
};

static struct writer writers[WRITERS];
static _Atomic bool is_over;
static _Atomic bool is_reading; /* at what was cut: they would only take the CPU away */

static void *write_polls(void *ctx)
{
	struct writer *writer = ctx;
	uint64_t number = 0;

	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		while (atomic_load_explicit(&is_reading, memory_order_relaxed))
			nanosleep(&(const struct timespec){.tv_nsec = 1000000}, NULL);
		number++;
		kymo_poll_begin(number, 0, KYMO_QUEUE_UNKNOWN);
		kymo_poll_end(0);
		atomic_store_explicit(&writer->done, number, memory_order_release);
	}
	return NULL;
}

struct seen {
	uint64_t last, missing;
	bool is_used;
};

/* Polls of one worker count up; where they do not, the numbers between are missing. */
static void look_at_polls(const struct test_sink *sink, struct seen *seen)
{
	for (size_t i = 0; i < sink->event_count; i++) {
		const struct test_event *event = &sink->events[i];
		uint64_t task = event->number[KY_F_POLL_START_task_id];
		struct seen *one;

		if (event->event != KY_EV_POLL_START)
			continue;
		one = &seen[event->number[KY_F_POLL_START_worker_id]];
		if (one->is_used)
			one->missing += task - one->last - 1;
		assert_true(!one->is_used || task > one->last);
		one->is_used = true;
		one->last = task;
	}
}

static uint64_t records_lost(const struct test_sink *sink)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sink->event_count; i++) {
		if (sink->events[i].event == KY_EV_LOSS)
			sum += sink->events[i].number[KY_F_LOSS_record_count];
	}
	return sum;
}

static int by_number(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* Polls short of the witnesses when `absent` of them has nothing in the ring: the least that any
 * pairing of workers and witnesses comes to is that by rank. */
static uint64_t short_of(const uint64_t *reached, const uint64_t *witness, uint32_t absent)
{
	uint64_t sum = 0;

	for (uint32_t i = 0, at = 0; i < WRITERS; i++) {
		if (i == absent)
			continue;
		sum += witness[i] > reached[at] ? witness[i] - reached[at] : 0;
		at++;
	}
	return sum;
}

/* Every witness from before is reached by one of the workers. A writer that slept for a round of
 * the ring between closing one sub-buffer and its first record in the next has nothing in the ring:
 * at most one of them, and which one is not known. One that slept so while its last sub-buffers
 * awaited their turn in the copy ends early, by no more than was counted as overwritten. */
static bool has_reached(const uint64_t *reached, uint32_t present, const uint64_t *witness,
			uint64_t overwritten)
{
	uint64_t polls_max = overwritten * (KY_SLOT_BYTES / 16);

	if (present == WRITERS)
		return short_of(reached, witness, WRITERS) <= polls_max;
	for (uint32_t absent = 0; present + 1 == WRITERS && absent < WRITERS; absent++)
		if (short_of(reached, witness, absent) <= polls_max)
			return true;
	return false;
}

static uint32_t check(const struct test_sink *sink, uint64_t *witness,
		      const struct ky_cut_report *report)
{
	struct seen seen[WRITERS];
	uint64_t reached[WRITERS], missing = 0, lost = report->records_lost;
	uint32_t present = 0;

	memset(seen, 0, sizeof(seen));
	look_at_polls(sink, seen);
	for (uint32_t i = 0; i < WRITERS; i++) {
		if (seen[i].is_used)
			reached[present++] = seen[i].last;
		missing += seen[i].missing;
	}
	qsort(reached, present, sizeof(*reached), by_number);
	qsort(witness, WRITERS, sizeof(*witness), by_number);
	assert_true(has_reached(reached, present, witness, report->slots_overwritten));
	/* Two records a poll; those at the edges of a gap may be cut in half, and the thread writes
	 * one about the time now and then. */
	assert_true(missing * 2 <= lost + 2 * WRITERS);
	assert_int_equal(records_lost(sink), lost);
	if (!lost)
		assert_int_equal(missing, 0);
	return present;
}

/* Until all of them are at it, and this thread is one that competes with them: it is to be stopped
 * inside a copy, too. */
static void let_write(void)
{
	uint64_t before[WRITERS];

	for (uint32_t i = 0; i < WRITERS; i++)
		before[i] = atomic_load(&writers[i].done);
	atomic_store(&is_reading, false);
	for (uint32_t i = 0; i < WRITERS; i++)
		while (atomic_load(&writers[i].done) < before[i] + AHEAD_POLLS)
			;
}

static void cut__of_a_ring_under_load_holds_all_that_was_published(void **state)
{
	static struct ky_cut_report report;
	struct ky_cut_options options = {.hostname = "box"};
	struct test_recorder test;
	uint64_t witness[WRITERS];
	uint32_t whole_count = 0;

	(void)state;
	test_recorder_open(&test, UINT64_C(2) << 20, 0);
	for (uint32_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&writers[i].thread, NULL, write_polls, &writers[i]),
				 0);
	let_write(); /* there is a ring to read then */
	test_recorder_read(&test);
	options.image = test.ring.image;
	options.image_bytes = test.ring.image_bytes;
	for (uint32_t cut = 0; cut < CUTS; cut++) {
		struct test_sink sink;

		test_sink_open(&sink);
		options.chunk = test_sink_chunk;
		options.chunk_ctx = &sink;
		let_write();
		for (uint32_t i = 0; i < WRITERS; i++)
			witness[i] = atomic_load_explicit(&writers[i].done, memory_order_acquire);
		assert_int_equal(ky_cut(&options, &report), 0);
		atomic_store(&is_reading, true);
		test_sink_decode(&sink);
		whole_count += check(&sink, witness, &report) == WRITERS;
		assert_true(report.age_ns > 0);
		test_sink_close(&sink);
	}
	assert_true(whole_count >= CUTS / 2);
	atomic_store(&is_over, true);
	atomic_store(&is_reading, false);
	for (uint32_t i = 0; i < WRITERS; i++)
		pthread_join(writers[i].thread, NULL);
	test_recorder_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut__of_a_ring_under_load_holds_all_that_was_published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
