/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/poll_rule.h>

#include <base/text.h>

/* What sleeps on a futex without waiting for a lock. */
static bool is_other_sleep(const struct ky_code_line *line)
{
	return ky_text_contains(line->name, "thread::park") ||
	       ky_text_contains(line->name, "park_timeout") ||
	       ky_text_contains(line->name, "thread_parking") ||
	       ky_text_contains(line->name, "Condvar") ||
	       ky_text_contains(line->name, "pthread_cond_") ||
	       ky_text_contains(line->name, "mpmc::") || ky_text_contains(line->name, "::recv");
}

static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	if (one->reason != KY_WAIT_FUTEX ||
	    ky_poll_case_share_ppm(one, is_other_sleep) >= KY_FIND_HALF_PPM)
		return false;
	*confidence = KY_CONFIDENCE_PROVEN;
	return true;
}

static void say(struct ky_buf *out, const struct ky_poll_case *one,
		const struct ky_findings_options *options)
{
	(void)one;
	(void)options;
	ky_text(out, "were blocked by a lock that another thread held");
}

const struct ky_poll_rule ky_rule_lock_convoy = {
	.id = KY_FINDING_LOCK_CONVOY,
	.is_blocked = true,
	.fits = fits,
	.say = say,
	.action = "Hold this lock for less time, split it, or use tokio::sync::Mutex "
		  "where it is held across slow work: its waiters leave the worker to "
		  "others."};
