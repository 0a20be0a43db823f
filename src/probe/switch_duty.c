/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <probe/switch_duty.h>

#include <base/random.h>

void ky_switch_duty_init(struct ky_switch_duty *duty, uint64_t seed)
{
	duty->window_ns = KY_DUTY_WINDOW_NS_MIN;
	duty->most_ns = KY_DUTY_WINDOW_NS_MAX;
	duty->random = seed | 1;
}

/* So long that a cycle takes KY_DUTY_CYCLE_NS, at the cost of the last one; never at one stroke. */
static uint64_t next_window(uint64_t window_ns, uint64_t most_ns, uint64_t paid_ns)
{
	uint64_t wanted = paid_ns ? (uint64_t)((double)window_ns * (double)KY_DUTY_CYCLE_NS /
					       (double)paid_ns) :
				    most_ns;

	if (wanted > window_ns * 2)
		wanted = window_ns * 2;
	if (wanted < window_ns / 4)
		wanted = window_ns / 4;
	if (wanted < KY_DUTY_WINDOW_NS_MIN)
		return KY_DUTY_WINDOW_NS_MIN;
	return wanted < most_ns ? wanted : most_ns;
}

uint64_t ky_switch_duty_after(struct ky_switch_duty *duty, uint64_t window_ns, uint64_t cost_ns)
{
	uint64_t paid_ns = cost_ns < UINT64_MAX / KY_DUTY_COST_INVERSE / 2 ?
				   cost_ns * KY_DUTY_COST_INVERSE :
				   UINT64_MAX / 2;
	uint64_t gap_ns;

	duty->window_ns = next_window(window_ns, duty->most_ns, paid_ns);
	if (paid_ns <= window_ns)
		return 0;
	gap_ns = paid_ns - window_ns;
	/* Half of it to one and a half: the whole on average. */
	return gap_ns / 2 + (uint64_t)((double)gap_ns * ky_random_share(&duty->random));
}
