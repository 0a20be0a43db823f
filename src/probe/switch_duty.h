/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* switch_duty.h - when the kernel's switch records are let come: windows of as many milliseconds as
 * the budget pays for. Each window is paid for by the time after it, in which nothing is watched;
 * where the records are so few that the window pays for itself, the next one follows at once.
 *
 * The next window's length depends on what earlier ones cost alone, so what is seen in it stands
 * for the whole time by one factor. The times between are drawn, so that nothing periodic is seen
 * always, or never.
 */
#ifndef KY_PROBE_SWITCH_DUTY_H
#define KY_PROBE_SWITCH_DUTY_H

#include <stdint.h>

/* Of one CPU: 0.3 %. */
#define KY_DUTY_COST_INVERSE UINT64_C(333)
#define KY_DUTY_WINDOW_NS_MIN UINT64_C(12000000)
/* Shorter than half a perf ring of samples lasts, which is emptied at the same wake-up then. */
#define KY_DUTY_WINDOW_NS_MAX UINT64_C(150000000)
/* Of a process in which nothing happens, where the caller is woken when something does. */
#define KY_DUTY_WINDOW_NS_QUIET UINT64_C(1000000000)
#define KY_DUTY_CYCLE_NS UINT64_C(250000000)

struct ky_switch_duty {
	uint64_t window_ns; /* of the next window */
	uint64_t most_ns;   /* that one may be; KY_DUTY_WINDOW_NS_MAX but for its owner's word */
	uint64_t random;
};

void ky_switch_duty_init(struct ky_switch_duty *duty, uint64_t seed);

/* A window is over: cost_ns is what its records took of all CPUs, here and in the kernel.
 * Returns how long nothing is to be watched now; 0: it continues. */
uint64_t ky_switch_duty_after(struct ky_switch_duty *duty, uint64_t window_ns, uint64_t cost_ns);

#endif
