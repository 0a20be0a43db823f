/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Do the 95 % intervals that a profile states hold the truth 95 times of 100? Simulated programs,
 * of which everything is known, sampled by the recorder's own rules (gaps and weights of
 * allocations, phases of timers, windows and gaps of switches), written as a trace, read and
 * profiled. The seeds are fixed, so that each case says the same on every machine; of 1,000 runs
 * 950 are expected, with a standard deviation of 7. */
#include "../../lib/prng.h"
#include "../read/sample_case.h"

#include <analyze/stack_profile.h>
#include <probe/switch_duty.h>
#include <record/sample/alloc_odds.h>
#include <record/sample/timer_phase.h>
#include <stdlib.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define T0 (100 * MS)
#define RUNS 1000u
#define LEAK 0x10u
#define CHURN 0x20u

struct tally {
	uint32_t covered;
	double estimates, truths;
};

static void count(struct tally *tally, double low, double estimate, double high, double truth)
{
	tally->covered += low <= truth && truth <= high;
	tally->estimates += estimate;
	tally->truths += truth;
}

static void count_total(struct tally *tally, const struct ky_total *total, double truth)
{
	double margin = ky_total_margin(total);

	count(tally, total->sum - margin, total->sum, total->sum + margin, truth);
}

/* least: what is wider than it has to be holds the truth more often. */
static void assert_holds(const char *what, const struct tally *tally, uint32_t most)
{
	double bias = tally->estimates / tally->truths - 1.0;

	print_message("# %s: %u of %u, bias %.4f\n", what, tally->covered, RUNS, bias);
	assert_in_range(tally->covered, 930, most);
	assert_true(bias > -0.02 && bias < 0.02);
}

/* ---- a trace of one run ---- */

struct run {
	struct read_case c;
	struct ky_report *report;
	struct ky_stack_profile *profile;
};

static void run_begin(struct run *run)
{
	memset(run, 0, sizeof(*run));
	case_begin(&run->c);
	case_poll(&run->c, T0, T0 + 1, 0, 1);
}

static const struct ky_stack_profile *run_make(struct run *run)
{
	struct ky_trace_options options = {0};

	assert_int_equal(case_try_open(&run->c, run->c.buf.used, &options), 0);
	assert_int_equal(ky_report_make(&run->report, run->c.trace, NULL), 0);
	assert_int_equal(
		ky_stack_profile_make(&run->profile, run->c.trace, run->report, NULL, NULL), 0);
	return run->profile;
}

static void run_end(struct run *run)
{
	ky_stack_profile_free(run->profile);
	ky_report_free(run->report);
	case_finish(&run->c);
}

/* ---- allocations ---- */

#define ALLOCS 4000u
#define MEAN_BYTES (16u << 10)

/* One leaks a quarter of all, the other frees what it has after a while. Many are small, few
 * large. */
struct allocation {
	uint64_t ns, end_ns; /* end 0: it lives */
	uint64_t bytes;
	uint32_t stack;
	bool is_sampled;
};

static struct allocation allocs[ALLOCS];

static void allocate(struct test_prng *prng, uint64_t *random)
{
	uint64_t left = ky_alloc_gap(ky_alloc_random(random), MEAN_BYTES), ns = T0;

	for (uint32_t i = 0; i < ALLOCS; i++) {
		struct allocation *one = &allocs[i];

		ns += 1 + test_below(prng, 100000);
		*one = (struct allocation){.ns = ns, .stack = CHURN};
		one->bytes = test_below(prng, 10) ? 64 + test_below(prng, 960) :
						    4096 + test_below(prng, 61440);
		if (test_below(prng, 4) == 0)
			one->stack = LEAK;
		else
			one->end_ns = ns + 1 + test_below(prng, 20 * (uint32_t)MS);
		/* As the sampler does: what the gap ends in, and a new one after it. */
		one->is_sampled = one->bytes >= left;
		left = one->is_sampled ? ky_alloc_gap(ky_alloc_random(random), MEAN_BYTES) :
					 left - one->bytes;
	}
}

static int by_end(const void *a, const void *b)
{
	const struct allocation *one = *(const struct allocation *const *)a;
	const struct allocation *other = *(const struct allocation *const *)b;

	return (one->end_ns > other->end_ns) - (one->end_ns < other->end_ns);
}

/* Allocations in the order of time, then frees in theirs: a reader sorts. */
static void write_allocs(struct run *run)
{
	static struct allocation *freed[ALLOCS];
	uint32_t stacks[2], freed_count = 0;

	stacks[0] = CASE_STACK(&run->c, CHURN);
	stacks[1] = CASE_STACK(&run->c, LEAK);
	for (uint32_t i = 0; i < ALLOCS; i++) {
		struct allocation *one = &allocs[i];

		if (!one->is_sampled)
			continue;
		case_alloc(&run->c, one->ns, one->bytes, 4096 + 16 * i, stacks[one->stack == LEAK],
			   (double)ky_alloc_weight(one->bytes, MEAN_BYTES) / 4294967296.0);
		if (one->end_ns)
			freed[freed_count++] = one;
	}
	qsort(freed, freed_count, sizeof(*freed), by_end);
	for (uint32_t i = 0; i < freed_count; i++)
		case_free(&run->c, freed[i]->end_ns, freed[i]->bytes,
			  4096 + 16 * (uint64_t)(freed[i] - allocs));
}

static double bytes_live_at(uint64_t ns)
{
	double sum = 0.0;

	for (uint32_t i = 0; i < ALLOCS; i++)
		if (allocs[i].ns <= ns && (!allocs[i].end_ns || allocs[i].end_ns > ns))
			sum += (double)allocs[i].bytes;
	return sum;
}

static void allocations__intervals_hold_the_truth(void **state)
{
	struct tally bytes = {0}, calls = {0}, live = {0}, growth = {0}, leak = {0};
	struct test_prng prng = {20261123};
	uint64_t random = 77;

	(void)state;
	for (uint32_t i = 0; i < RUNS; i++) {
		const struct ky_stack_profile *profile;
		double sum = 0.0, leaked = 0.0;
		struct run run;

		allocate(&prng, &random);
		run_begin(&run);
		write_allocs(&run);
		profile = run_make(&run);
		for (uint32_t k = 0; k < ALLOCS; k++) {
			sum += (double)allocs[k].bytes;
			leaked += allocs[k].stack == LEAK ? (double)allocs[k].bytes : 0.0;
		}
		count_total(&bytes, &profile->heap_all.bytes, sum);
		count_total(&calls, &profile->heap_all.allocations, ALLOCS);
		count_total(&live, &profile->heap_all.live_bytes,
			    bytes_live_at(profile->heap_points[KY_HEAP_PARTS]));
		count_total(&growth, &profile->heap_all.growth,
			    bytes_live_at(profile->heap_points[KY_HEAP_PARTS]) -
				    bytes_live_at(profile->heap_points[KY_HEAP_PARTS / 2]));
		/* Most live bytes first. */
		assert_int_equal(profile->heap_count, 2);
		count_total(&leak, &profile->heap[0].bytes, leaked);
		run_end(&run);
	}
	assert_holds("bytes", &bytes, 970);
	assert_holds("allocations", &calls, 970);
	assert_holds("live bytes", &live, 970);
	assert_holds("growth", &growth, 970);
	assert_holds("bytes of one stack", &leak, 970);
}

/* ---- time of the CPU ---- */

#define PERIOD (10 * MS)
#define CPU_NS (2 * SECOND)

/* A thread goes to and fro between two functions, so fast that two samples have nothing to do with
 * each other. */
static void cpu__shares_hold_the_truth(void **state)
{
	struct test_prng prng = {4711};
	struct tally share = {0};

	(void)state;
	for (uint32_t i = 0; i < RUNS; i++) {
		uint64_t next = ky_timer_first_ns(test_random(&prng), PERIOD, 0), in_leak = 0;
		const struct ky_stack_profile *profile;
		const struct ky_stack_profile_cpu *cpu;
		uint32_t stacks[2];
		struct run run;

		run_begin(&run);
		stacks[0] = CASE_STACK(&run.c, CHURN);
		stacks[1] = CASE_STACK(&run.c, LEAK);
		for (uint64_t ns = 0; ns < CPU_NS;) {
			bool is_leak = test_below(&prng, 4) == 0;
			uint64_t end = ns + 1 + test_below(&prng, 4 * (uint32_t)MS);

			end = end < CPU_NS ? end : CPU_NS;
			in_leak += is_leak ? end - ns : 0;
			for (; next < end; next += PERIOD)
				case_cpu(&run.c, T0 + next, 0, 11, stacks[is_leak], PERIOD, 0, 0);
			ns = end;
		}
		profile = run_make(&run);
		cpu = &profile->cpu;
		for (uint32_t k = 0; k < cpu->function_count; k++) {
			const struct ky_stack_profile_function *function = &cpu->functions[k];

			if (cpu->functions[k].self_count && run.c.trace->samples.rows != NULL &&
			    function->self_share.ppm < 500000)
				count(&share, function->self_share.low_ppm,
				      function->self_share.ppm, function->self_share.high_ppm,
				      1e6 * (double)in_leak / (double)CPU_NS);
		}
		run_end(&run);
	}
	/* Even distances are a little better than independent draws, which the interval is of. */
	assert_holds("share of the time", &share, 985);
}

/* ---- time off it ---- */

#define WAITS_NS (8 * SECOND)
#define RECORD_NS (30 * US)
#define THIN_NS (2 * MS)

struct watching {
	struct ky_switch_duty duty;
	uint64_t begin_ns, end_ns, stretch_ns; /* of the window */
	uint64_t records;
};

/* What of a wait lies in the window, kept by its length. */
static void watch_wait(struct run *run, struct test_prng *prng, struct watching *watching,
		       uint64_t from_ns, uint64_t to_ns)
{
	uint64_t begin = from_ns > watching->begin_ns ? from_ns : watching->begin_ns;
	uint64_t end = to_ns < watching->end_ns ? to_ns : watching->end_ns;
	double weight = (double)(watching->end_ns - watching->stretch_ns) /
			(double)(watching->end_ns - watching->begin_ns);

	if (begin >= end)
		return;
	watching->records += 2;
	if (end - begin < THIN_NS) {
		if (test_random(prng) % THIN_NS >= end - begin)
			return;
		weight *= (double)THIN_NS / (double)(end - begin);
	}
	case_off_cpu_by(&run->c, T0 + end, end - begin, 11, 0, 0, 1, weight,
			KY_OFF_CPU_BY_SWITCHES);
}

static void next_window(struct run *run, struct watching *watching)
{
	uint64_t length = watching->end_ns - watching->begin_ns;
	uint64_t gap_ns = ky_switch_duty_after(&watching->duty, length,
					       watching->records * RECORD_NS);

	case_off_window(&run->c, T0 + watching->end_ns, length,
			watching->end_ns - watching->stretch_ns);
	watching->stretch_ns = watching->end_ns;
	watching->begin_ns = watching->end_ns + gap_ns;
	watching->end_ns = watching->begin_ns + watching->duty.window_ns;
	watching->records = 0;
}

/* A thread runs and waits in turn, in bursts with long runs in between. Returns what it
 * waited for, up to the end of the last window. */
static uint64_t run_and_wait(struct run *run, struct test_prng *prng, struct watching *watching,
			     uint32_t burst, uint32_t pause_ms)
{
	uint64_t waited = 0, watched = 0, until = 0;
	uint32_t count = 0;

	for (uint64_t ns = 0; ns < WAITS_NS;) {
		uint64_t from = ns + 1 +
				test_below(prng, (++count % burst ? 2 : pause_ms) * (uint32_t)MS);
		uint64_t to = from + 1 + test_below(prng, 6 * (uint32_t)MS);

		watch_wait(run, prng, watching, from, to);
		while (to >= watching->end_ns) {
			until = watching->end_ns;
			watched = waited + (until > from ? until - from : 0);
			next_window(run, watching);
			watch_wait(run, prng, watching, from, to);
		}
		waited += to - from;
		ns = to;
	}
	return watched;
}

/* Steady waits, and bursts that are short beside a gap. Bursts about as long as a gap are not held:
 * the gap after a window is the longer the more was seen in it, and it is the next window, which
 * the burst may not have reached, that stands for it. */
static void off_cpu__intervals_hold_the_truth(void **state)
{
	static const struct {
		uint32_t burst, pause_ms;
	} loads[] = {{1, 2}, {4, 40}, {4, 200}};
	struct test_prng prng = {815};

	(void)state;
	for (uint32_t load = 0; load < sizeof(loads) / sizeof(loads[0]); load++) {
		struct tally waits = {0};

		for (uint32_t i = 0; i < RUNS; i++) {
			struct watching watching = {.records = 0};
			const struct ky_stack_profile *profile;
			double low, high;
			uint64_t truth;
			struct run run;

			run_begin(&run);
			ky_switch_duty_init(&watching.duty, test_random(&prng));
			watching.end_ns = watching.duty.window_ns;
			truth = run_and_wait(&run, &prng, &watching, loads[load].burst,
					     loads[load].pause_ms);
			profile = run_make(&run);
			ky_stack_profile_off_cpu_interval(profile, &low, &high);
			count(&waits, low, profile->off_cpu.sum, high, (double)truth);
			run_end(&run);
		}
		/* One window a stretch varies less than windows drawn one by one, which the
		 * interval is of. */
		assert_holds("time off the CPU", &waits, 1000);
	}
}

/* ---- totals of which few were seen ---- */

/* Each of 300 things of size 1 is seen with a chance of 1 in 50: six of them. */
static void few__leaning_interval_holds_the_truth(void **state)
{
	struct test_prng prng = {99};
	struct tally things = {0};

	(void)state;
	for (uint32_t i = 0; i < RUNS; i++) {
		struct ky_total total = {0};
		double low, high;

		for (uint32_t k = 0; k < 300; k++)
			if (test_below(&prng, 50) == 0)
				ky_total_add(&total, 50.0, 1.0);
		ky_total_interval(&total, &low, &high);
		count(&things, low, total.sum, high, 300.0);
	}
	assert_holds("things of which few were seen", &things, 970);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allocations__intervals_hold_the_truth),
		cmocka_unit_test(cpu__shares_hold_the_truth),
		cmocka_unit_test(off_cpu__intervals_hold_the_truth),
		cmocka_unit_test(few__leaning_interval_holds_the_truth),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
