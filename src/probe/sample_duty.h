/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sample_duty.h - when perf_event samples the CPU: always, or, where that would cost more
 * than KY_SAMPLE_BUDGET_INVERSE allows, in windows.
 *
 * A sampled thread arms and disarms a timer of the kernel's at every switch, which in a virtual
 * machine takes 1 to 7 us a park: 2 to 14 % of a CPU with 20,000 parks a second, whatever the
 * rate. Each window is followed by a gap as long as its share says, measured by the window's true
 * length; what a gap took too long is taken off the next one. The share is decided before its
 * window, so a sample stands for 1 / share of what it would otherwise, without bias; and gaps are
 * drawn from half to one and a half of their length, so that nothing periodic is seen always, or
 * never.
 * Threads: owner.
 */
#ifndef KY_PROBE_SAMPLE_DUTY_H
#define KY_PROBE_SAMPLE_DUTY_H

#include <stdbool.h>
#include <stdint.h>

struct ky_perf;
struct ky_perf_options;
struct ky_perf_sample;

/* 0.5 % of the CPUs. */
#define KY_SAMPLE_BUDGET_INVERSE 200u
/* 0.05 % of a CPU. */
#define KY_SAMPLE_DEAR_INVERSE 2000u
/* At most so many times less than always. */
#define KY_SAMPLE_SHARE_INVERSE_MAX 20u

struct ky_sample_duty {
	double switch_cost; /* CPUs per switch a second: seconds */
	double budget;      /* CPUs */
	uint64_t random;
	bool is_open;
	double share;      /* of the time, of this window and of the gap after it; 1: always */
	uint64_t since_ns; /* the window, or the gap, began; CLOCK_MONOTONIC */
	uint64_t due_ns;   /* it ends */
	int64_t owed_ns;   /* of gaps */
	double cycle_ns;   /* a window and its gap, on average */
};

/* What a switch of a thread costs more while it is sampled, tried on this thread by events of their
 * own, the caller's to close: half of what it costs where each one sets the clock anew, as a period
 * of some ticks does not always. Returns 0, -errno. */
int ky_sample_cost_open(struct ky_perf **out, const struct ky_perf_options *options);
uint64_t ky_sample_cost_ns(struct ky_perf *perf); /* NULL: the least */

/* Could so many switches a second matter, whatever one costs? And do they: is what sampling adds to
 * them more than 1 / KY_SAMPLE_DEAR_INVERSE of a CPU, as much as timers take at 99 Hz altogether?
 * An unknown cost is 0. */
bool ky_sample_duty_may_matter(uint64_t switches_per_s);
bool ky_sample_duty_is_dear(const struct ky_sample_duty *duty, uint64_t switches_per_s);

/* Found out later. */
void ky_sample_duty_cost(struct ky_sample_duty *duty, uint64_t switch_cost_ns);
uint32_t ky_sample_duty_cost_ns(const struct ky_sample_duty *duty);

void ky_sample_duty_init(struct ky_sample_duty *duty, uint64_t switch_cost_ns, uint32_t cpu_count,
			 uint64_t seed);
uint32_t ky_sample_cpus(void); /* that are on; 1 at least */

/* Sampling begins, or continues after a pause: open, and always for now. */
void ky_sample_duty_start(struct ky_sample_duty *duty, uint64_t now_ns);

/* What was sampled up to now has been read, for it has the weight of the window that is open.
 * switches_per_s: of the threads that are sampled; 0: unknown. Returns true where sampling is to be
 * stopped, or to continue, as is_open says now. */
bool ky_sample_duty_step(struct ky_sample_duty *duty, uint64_t now_ns, uint64_t switches_per_s);

/* What the last stop, or start, took: with many threads, each of which has its events, cycles are
 * longer, so that these take 0.1 % of a CPU. */
void ky_sample_duty_toggled(struct ky_sample_duty *duty, uint64_t cost_ns);

/* A step of the duty, and what it wants of these events. Returns what the step does: then the
 * caller reads what the window that is over still left, where it is not open now. */
bool ky_sample_duty_apply(struct ky_sample_duty *duty, struct ky_perf *perf,
			  uint64_t switches_per_s);

/* Until the window or the gap is over; UINT64_MAX where it samples always: any step will do. */
uint64_t ky_sample_duty_pace_ns(const struct ky_sample_duty *duty, uint64_t now_ns);

/* As metadata says it; 0: always. */
uint32_t ky_sample_duty_share_ppm(const struct ky_sample_duty *duty);

/* Its period times the weight. */
struct ky_perf_sample ky_sample_duty_weigh(const struct ky_sample_duty *duty,
					   const struct ky_perf_sample *sample);

#endif
