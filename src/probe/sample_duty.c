/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/sample_duty.h>

#include <base/now.h>
#include <base/random.h>
#include <probe/perf_source.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CYCLE_NS_MIN 250000000.0
#define CYCLE_NS_MAX 30000000000.0
#define TOGGLE_INVERSE 1000.0 /* of a CPU; two make a cycle */
#define WINDOW_NS_MIN 20000000.0
#define CHECK_NS UINT64_C(500000000)
#define SECOND_NS 1e9
/* Beyond that, windows would save little. */
#define ALWAYS_SHARE 0.8
/* The timer is the next one to go off, at each switch. */
#define TEST_HZ 1000u
#define TEST_ROUNDS 3u
#define COST_NS_MIN UINT64_C(200)
#define COST_NS_MAX UINT64_C(8000)

int ky_sample_cost_open(struct ky_perf **out, const struct ky_perf_options *options)
{
	struct ky_perf_options how = *options;

	how.rate_hz = TEST_HZ;
	how.is_at_exec = false;
	how.ring_bytes_max = 0;
	return ky_perf_open(out, &how, (pid_t)syscall(SYS_gettid));
}

uint64_t ky_sample_cost_ns(struct ky_perf *perf)
{
	uint64_t with_ns = UINT64_MAX, without_ns = UINT64_MAX, ns;

	for (uint32_t i = 0; perf && i < TEST_ROUNDS; i++) {
		(void)ky_perf_pause(perf, true);
		ns = ky_perf_time_sleeps();
		without_ns = ns < without_ns ? ns : without_ns;
		(void)ky_perf_pause(perf, false);
		ns = ky_perf_time_sleeps();
		with_ns = ns < with_ns ? ns : with_ns;
	}
	/* A sleep is two switches. */
	ns = with_ns > without_ns ? (with_ns - without_ns) / 4 : 0;
	ns = ns < COST_NS_MIN ? COST_NS_MIN : ns;
	return ns < COST_NS_MAX ? ns : COST_NS_MAX;
}

uint32_t ky_sample_cpus(void)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);

	return count > 0 ? (uint32_t)count : 1;
}

void ky_sample_duty_init(struct ky_sample_duty *duty, uint64_t switch_cost_ns, uint32_t cpu_count,
			 uint64_t seed)
{
	*duty = (struct ky_sample_duty){
		.switch_cost = (double)switch_cost_ns / SECOND_NS,
		.budget = (double)cpu_count / KY_SAMPLE_BUDGET_INVERSE,
		.random = seed | 1,
		.share = 1,
		.cycle_ns = CYCLE_NS_MIN,
	};
}

void ky_sample_duty_cost(struct ky_sample_duty *duty, uint64_t switch_cost_ns)
{
	duty->switch_cost = (double)switch_cost_ns / SECOND_NS;
}

uint32_t ky_sample_duty_cost_ns(const struct ky_sample_duty *duty)
{
	return (uint32_t)(duty->switch_cost * SECOND_NS + 0.5);
}

bool ky_sample_duty_may_matter(uint64_t switches_per_s)
{
	return (double)switches_per_s * (double)COST_NS_MAX / SECOND_NS * KY_SAMPLE_DEAR_INVERSE >
	       1;
}

bool ky_sample_duty_is_dear(const struct ky_sample_duty *duty, uint64_t switches_per_s)
{
	return (double)switches_per_s * duty->switch_cost * KY_SAMPLE_DEAR_INVERSE > 1;
}

void ky_sample_duty_start(struct ky_sample_duty *duty, uint64_t now_ns)
{
	duty->is_open = true;
	duty->share = 1;
	duty->since_ns = now_ns;
	duty->due_ns = now_ns + CHECK_NS;
	duty->owed_ns = 0;
}

static double share_for(const struct ky_sample_duty *duty, uint64_t switches_per_s)
{
	double cost = (double)switches_per_s * duty->switch_cost;
	double share = cost > duty->budget ? duty->budget / cost : 1;

	if (share > ALWAYS_SHARE)
		return 1;
	return share > 1.0 / KY_SAMPLE_SHARE_INVERSE_MAX ? share :
							   1.0 / KY_SAMPLE_SHARE_INVERSE_MAX;
}

static void open_window(struct ky_sample_duty *duty, uint64_t now_ns, uint64_t switches_per_s)
{
	double window_ns;

	duty->share = share_for(duty, switches_per_s);
	if (duty->share >= 1) {
		ky_sample_duty_start(duty, now_ns);
		return;
	}
	window_ns = duty->share * duty->cycle_ns;
	duty->is_open = true;
	duty->since_ns = now_ns;
	duty->due_ns = now_ns + (uint64_t)(window_ns > WINDOW_NS_MIN ? window_ns : WINDOW_NS_MIN);
}

bool ky_sample_duty_step(struct ky_sample_duty *duty, uint64_t now_ns, uint64_t switches_per_s)
{
	uint64_t passed_ns = now_ns - duty->since_ns;

	if (now_ns < duty->due_ns)
		return false;
	if (!duty->is_open) {
		duty->owed_ns -= (int64_t)passed_ns;
		open_window(duty, now_ns, switches_per_s);
		return true;
	}
	if (duty->share < 1)
		duty->owed_ns += (int64_t)((double)passed_ns * (1 / duty->share - 1));
	if (duty->owed_ns <= 0) {
		open_window(duty, now_ns, switches_per_s);
		return false;
	}
	duty->is_open = false;
	duty->since_ns = now_ns;
	duty->due_ns = now_ns +
		       (uint64_t)((double)duty->owed_ns * (0.5 + ky_random_share(&duty->random)));
	return true;
}

void ky_sample_duty_toggled(struct ky_sample_duty *duty, uint64_t cost_ns)
{
	double cycle_ns = 2 * (double)cost_ns * TOGGLE_INVERSE;

	/* One slow answer alone says little. */
	cycle_ns = (duty->cycle_ns + cycle_ns) / 2;
	duty->cycle_ns = cycle_ns < CYCLE_NS_MIN ? CYCLE_NS_MIN :
			 cycle_ns > CYCLE_NS_MAX ? CYCLE_NS_MAX :
						   cycle_ns;
}

bool ky_sample_duty_apply(struct ky_sample_duty *duty, struct ky_perf *perf,
			  uint64_t switches_per_s)
{
	uint64_t start_ns;

	if (!ky_sample_duty_step(duty, ky_now_ns(CLOCK_MONOTONIC), switches_per_s))
		return false;
	start_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	(void)ky_perf_pause(perf, !duty->is_open);
	ky_sample_duty_toggled(duty, ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns);
	return true;
}

uint64_t ky_sample_duty_pace_ns(const struct ky_sample_duty *duty, uint64_t now_ns)
{
	if (duty->share >= 1)
		return UINT64_MAX;
	return duty->due_ns > now_ns ? duty->due_ns - now_ns : 0;
}

uint32_t ky_sample_duty_share_ppm(const struct ky_sample_duty *duty)
{
	return duty->share < 1 ? (uint32_t)(duty->share * 1e6 + 0.5) : 0;
}

struct ky_perf_sample ky_sample_duty_weigh(const struct ky_sample_duty *duty,
					   const struct ky_perf_sample *sample)
{
	struct ky_perf_sample weighed = *sample;

	weighed.period_ns = (uint64_t)((double)sample->period_ns / duty->share + 0.5);
	return weighed;
}
