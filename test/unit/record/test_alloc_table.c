/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Allocations as they are recorded: totals, intervals, ends, loss, and whose they are. Addresses
 * are numbers, never dereferenced. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"
#include "../../lib/recorder_case.h"

#include <analyze/share.h>
#include <errno.h>
#include <kymo/alloc.h>
#include <record/emit/emit_engine.h>
#include <record/sample/alloc_odds.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wire/alloc_table.h>

#define KIB UINT64_C(1024)
#define ONE 4294967296.0
#define MEAN (64 * KIB)

static struct test_recorder test;
static struct ky_sample_ring cells;
static struct ky_alloc_head *head;

static void open_allocs(void)
{
	uint8_t *area;

	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	kymo_poll_begin(7, 0, 0); /* this thread has a state */
	atomic_store(&ky_engine.ring->control->settings.alloc_bytes, MEAN);
	kymo_recorder_gates(KYMO_GATE_ALLOC, 0);
	area = ky_ring_allocs(ky_engine.ring, NULL);
	assert_non_null(area);
	head = (struct ky_alloc_head *)(void *)area;
	cells = ky_engine.ring->alloc_samples;
	memset(kymo_alloc_filter, 0, sizeof(kymo_alloc_filter));
	ky_alloc_seed(4711);
}

static int setup(void **state)
{
	(void)state;
	open_allocs();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_recorder_close(&test);
	return 0;
}

static uint32_t reported(void)
{
	return (uint32_t)(atomic_load(&cells.head->claim_index) >> KY_SAMPLE_CLAIM_BITS);
}

/* Sample `number`, which has one cell: there are no unwind tables. */
static const struct ky_sample_cell *cell_of(uint32_t number)
{
	return (const struct ky_sample_cell *)(const void *)(cells.cells +
							     (size_t)(number % cells.cell_count) *
								     KY_SAMPLE_CELL_BYTES);
}

static const void *address_of(uint64_t number)
{
	return (const void *)(uintptr_t)(0x100000 + number * 32); /* NOLINT */
}

static uint64_t bytes_lost(void)
{
	return atomic_load(&cells.head->lost_count);
}

static uint64_t live_count(void)
{
	return atomic_load(&head->kept_count) - atomic_load(&head->ended_count);
}

/* Allocates until one is recorded; returns its number. */
static uint64_t allocate_recorded(uint64_t number, size_t bytes)
{
	uint32_t before = reported();

	for (uint32_t i = 0; i < 1000000; i++) {
		kymo_alloc(address_of(number), bytes);
		if (reported() != before)
			return number;
		kymo_free(address_of(number));
	}
	fail_msg("nothing was recorded");
	return 0;
}

/* ---- totals ---- */

/* Small ones, large ones, and some beyond the mean. */
static size_t draw_bytes(struct test_prng *prng)
{
	uint32_t kind = test_below(prng, 100);

	if (kind < 70)
		return 16 + test_below(prng, 256);
	if (kind < 98)
		return 1024 + test_below(prng, 8192);
	return 20000 + test_below(prng, 100000);
}

static void alloc__interval_covers_the_truth_in_1000_runs(void **state)
{
	uint32_t covered = 0, covered_live = 0;
	double off = 0.0;

	(void)state;
	for (uint32_t run = 0; run < 1000; run++) {
		struct test_prng prng = {run * 7919 + 1};
		struct ky_total all = {0}, live = {0};
		double truth = 0.0, truth_live = 0.0, low, high;
		uint32_t from = reported();

		ky_alloc_seed(run + 1);
		for (uint32_t i = 0; i < 2500; i++) {
			size_t bytes = draw_bytes(&prng);

			kymo_alloc(address_of(i), bytes);
			truth += (double)bytes;
			if (i % 3)
				kymo_free(address_of(i));
			else
				truth_live += (double)bytes;
		}
		assert_true(reported() - from < cells.cell_count);
		for (; from != reported(); from++) {
			const struct ky_sample_cell *cell = cell_of(from);
			double weight = (double)cell->weight / ONE;

			if (cell->kind != KY_SAMPLE_ALLOC)
				continue;
			ky_total_add(&all, weight, (double)cell->value);
			if ((cell->more - 0x100000) / 32 % 3 == 0)
				ky_total_add(&live, weight, (double)cell->value);
		}
		ky_total_interval(&all, &low, &high);
		covered += low <= truth && truth <= high;
		ky_total_interval(&live, &low, &high);
		covered_live += low <= truth_live && truth_live <= high;
		off += all.sum / truth - 1.0;
		for (uint32_t i = 0; i < 2500; i += 3)
			kymo_free(address_of(i));
		assert_int_equal(live_count(), 0);
	}
	print_message("# covered: %u all, %u live; bias %.5f\n", covered, covered_live,
		      off / 1000.0);
	assert_in_range(covered, 930, 970);
	assert_in_range(covered_live, 930, 970);
	/* Without bias: within four standard deviations of the mean of 1,000. */
	assert_true(off / 1000.0 > -0.015 && off / 1000.0 < 0.015);
	assert_int_equal(bytes_lost(), 0);
}

/* What is larger than many means is always recorded, with weight 1. */
static void alloc__large_allocation_is_recorded_with_weight_one(void **state)
{
	(void)state;
	kymo_alloc(address_of(1), 100 * MEAN);
	assert_int_equal(reported(), 1);
	assert_int_equal(cell_of(0)->kind, KY_SAMPLE_ALLOC);
	assert_true(cell_of(0)->weight == UINT64_C(1) << 32);
	assert_true(cell_of(0)->value == 100 * MEAN);
	assert_true(cell_of(0)->more == (uintptr_t)address_of(1));
	assert_int_equal(cell_of(0)->tid, syscall(SYS_gettid));
}

/* ---- ends ---- */

static void alloc__free_names_its_allocation_and_its_time(void **state)
{
	uint64_t at = allocate_recorded(5, 100);
	uint32_t number = reported() - 1;

	(void)state;
	assert_true(kymo_alloc_is_known(address_of(at)));
	kymo_free(address_of(6)); /* another one */
	assert_int_equal(reported(), number + 1);
	kymo_free(address_of(at));
	assert_int_equal(reported(), number + 2);
	assert_int_equal(cell_of(number + 1)->kind, KY_SAMPLE_FREE);
	assert_true(cell_of(number + 1)->more == (uintptr_t)address_of(at));
	assert_true(cell_of(number + 1)->other == cell_of(number)->stamp);
	assert_int_equal(cell_of(number + 1)->value, 100);
	assert_true(cell_of(number + 1)->stamp >= cell_of(number)->stamp);
	assert_false(kymo_alloc_is_known(address_of(at)));
	kymo_free(address_of(at)); /* twice: the host's mistake */
	assert_int_equal(reported(), number + 2);
}

static void *free_all(void *ctx)
{
	uint64_t count = *(const uint64_t *)ctx;

	for (uint64_t i = 0; i < count; i++)
		kymo_free(address_of(i));
	return NULL;
}

static void alloc__other_threads_free_recorded_allocations(void **state)
{
	uint64_t count = 300;

	(void)state;
	for (uint64_t i = 0; i < count; i++)
		kymo_alloc(address_of(i), 8 * MEAN);
	assert_in_range(live_count(), 290, 300);
	test_in_thread(free_all, &count);
	assert_int_equal(live_count(), 0);
	assert_true(cell_of(reported() - 1)->tid != (uint32_t)syscall(SYS_gettid));
	/* Under a filter the recorder does not ask the kernel for a number. */
	assert_true(cell_of(reported() - 1)->tid != 0 || prctl(PR_GET_SECCOMP) != 0);
}

static void alloc__failed_realloc_stays_live(void **state)
{
	uint64_t at = allocate_recorded(9, 200);
	struct kymo_alloc_taken taken;
	uint32_t count = reported();

	(void)state;
	assert_true(kymo_alloc_take(address_of(at), &taken));
	assert_false(kymo_alloc_take(address_of(at), &taken));
	kymo_alloc_put_back(&taken);
	assert_int_equal(reported(), count);
	assert_true(kymo_alloc_take(address_of(at), &taken));
	assert_int_equal(taken.bytes, 200);
	kymo_alloc_end(&taken);
	assert_int_equal(reported(), count + 1);
}

/* Freed by code that is not recorded, and allocated again: the older one is over. */
static void alloc__reused_address_is_kept_once(void **state)
{
	uint64_t at = 77;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++)
		kymo_alloc(address_of(at), 100 * MEAN);
	kymo_free(address_of(at));
	assert_false(kymo_alloc_is_known(address_of(at)));
	assert_int_equal(atomic_load(&head->refused_count), 0);
}

/* ---- loss ---- */

static void alloc__beyond_the_table_is_counted_as_lost(void **state)
{
	const uint64_t many = KYMO_ALLOCS_MAX * 3 / 2;
	uint64_t kept, ended = 0;

	(void)state;
	for (uint64_t i = 0; i < many; i++)
		kymo_alloc(address_of(i * 3), 100 * MEAN);
	kept = atomic_load(&head->kept_count);
	assert_in_range(kept, KYMO_ALLOCS_MAX * 9 / 10, KYMO_ALLOCS_MAX);
	assert_int_equal(kept + atomic_load(&head->refused_count), many);
	assert_int_equal(bytes_lost(), many - kept);
	for (uint64_t i = 0; i < many; i++)
		kymo_free(address_of(i * 3));
	ended = atomic_load(&head->ended_count);
	assert_int_equal(ended, kept);
}

/* ---- who may ---- */

static void alloc__closed_gate_records_only_frees(void **state)
{
	uint64_t at = allocate_recorded(3, 64 * MEAN);
	uint32_t count = reported();

	(void)state;
	kymo_recorder_gates(0, KYMO_GATE_ALLOC);
	for (uint64_t i = 100; i < 200; i++)
		kymo_alloc(address_of(i), 64 * MEAN);
	assert_int_equal(reported(), count);
	kymo_free(address_of(at));
	assert_int_equal(reported(), count + 1);
	kymo_recorder_gates(KYMO_GATE_ALLOC, 0);
	kymo_alloc(address_of(300), 64 * MEAN);
	assert_int_equal(reported(), count + 2);
}

static void alloc__opened_gate_is_seen_within_16_kib(void **state)
{
	(void)state;
	atomic_store(&ky_engine.ring->control->settings.alloc_bytes, KIB);
	kymo_recorder_gates(0, KYMO_GATE_ALLOC);
	kymo_alloc(address_of(1), KIB);
	kymo_recorder_gates(KYMO_GATE_ALLOC, 0);
	for (uint32_t i = 0; i < 16; i++)
		kymo_alloc(address_of(i), KIB);
	/* Of 64 KiB none is sampled once in e^64 times. */
	for (uint32_t i = 0; i < 64; i++)
		kymo_alloc(address_of(i), KIB);
	assert_int_not_equal(reported(), 0);
}

static void alloc__changed_interval_applies_to_later_allocations(void **state)
{
	const uint64_t small = 4 * KIB;
	double weight;

	(void)state;
	kymo_alloc(address_of(1), 64 * MEAN);
	atomic_store(&ky_engine.ring->control->settings.alloc_bytes, small);
	allocate_recorded(2, 64 * MEAN); /* with the old one, or the new one */
	allocate_recorded(3, 100);
	weight = (double)cell_of(reported() - 1)->weight / ONE;
	assert_true(weight > 41.0 && weight < 42.0); /* 4,096 / 100, and a half */
	assert_true(atomic_load(&head->mean_bytes) == small);
}

static void alloc__failed_allocation_is_not_recorded(void **state)
{
	(void)state;
	errno = 4321;
	for (uint32_t i = 0; i < 100; i++)
		kymo_alloc(NULL, 64 * MEAN);
	assert_int_equal(reported(), 0);
	kymo_free(NULL);
	kymo_alloc(address_of(1), 64 * MEAN);
	assert_int_equal(reported(), 1);
	assert_int_equal(errno, 4321);
	/* What no allocator has: the count continues. */
	kymo_alloc(NULL, SIZE_MAX);
	kymo_alloc(NULL, SIZE_MAX / 2 + 1);
	kymo_alloc(address_of(2), 64 * MEAN);
	assert_int_equal(reported(), 2);
}

static void alloc__child_leaves_the_parents_table_alone(void **state)
{
	uint64_t at = allocate_recorded(3, 64 * MEAN);
	uint32_t count = reported();
	int status;
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		kymo_free(address_of(at));
		for (uint64_t i = 0; i < 100; i++)
			kymo_alloc(address_of(i), 64 * MEAN);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(reported(), count);
	kymo_free(address_of(at));
	assert_int_equal(reported(), count + 1);
}

static void alloc__next_recording_starts_empty(void **state)
{
	uint64_t at = allocate_recorded(3, 64 * MEAN);

	(void)state;
	test_recorder_close(&test);
	kymo_free(address_of(at));
	kymo_alloc(address_of(4), 64 * MEAN);
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	kymo_poll_begin(7, 0, 0);
	kymo_recorder_gates(KYMO_GATE_ALLOC, 0);
	kymo_alloc(address_of(5000), 1000 * MEAN); /* far from the other */
	cells = ky_engine.ring->alloc_samples;
	assert_int_equal(reported(), 1);
	assert_false(kymo_alloc_is_known(address_of(at)));
	kymo_free(address_of(at));
	assert_int_equal(reported(), 1);
	kymo_free(address_of(5000));
	assert_int_equal(reported(), 2);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(alloc__interval_covers_the_truth_in_1000_runs),
		CASE(alloc__large_allocation_is_recorded_with_weight_one),
		CASE(alloc__free_names_its_allocation_and_its_time),
		CASE(alloc__other_threads_free_recorded_allocations),
		CASE(alloc__failed_realloc_stays_live),
		CASE(alloc__reused_address_is_kept_once),
		CASE(alloc__beyond_the_table_is_counted_as_lost),
		CASE(alloc__closed_gate_records_only_frees),
		CASE(alloc__opened_gate_is_seen_within_16_kib),
		CASE(alloc__changed_interval_applies_to_later_allocations),
		CASE(alloc__failed_allocation_is_not_recorded),
		CASE(alloc__child_leaves_the_parents_table_alone),
		CASE(alloc__next_recording_starts_empty),
	};

	return cmocka_run_group_tests_name("alloc_table", tests, NULL, NULL);
}
