/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Polls that Tokio's budget could not end: the future runs under unconstrained(), or its time goes
 * into operations that take none of the budget, one after the other, as each was ready. */
#include <analyze/findings/poll_rule.h>

#include <base/text.h>

static bool is_unconstrained(const struct ky_code_line *line)
{
	/* Tokio's own timers use with_unconstrained(), which is no such future. */
	static const char *const parts[] = {"::unconstrained::Unconstrained<",
					    "::unconstrained::poll"};

	return KY_LINE_HAS(line, parts);
}

/* On queues, streams and sockets: what does not wait, and channels that know of no budget. */
static bool is_free_operation(const struct ky_code_line *line)
{
	static const char *const parts[] = {
		"::try_recv",   "::try_next", "::try_read",        "::try_write",     "::try_io",
		"::try_accept", "::try_send", "futures_channel::", "async_channel::", "flume::"};

	return KY_LINE_HAS(line, parts);
}

static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	*confidence = KY_CONFIDENCE_LIKELY;
	if (one->row_count < KY_FIND_SAMPLES_MIN)
		return false;
	return ky_poll_case_share_ppm(one, is_unconstrained) >= KY_FIND_HALF_PPM ||
	       ky_poll_case_called_ppm(one, is_free_operation) >= KY_FIND_HALF_PPM;
}

static void say(struct ky_buf *out, const struct ky_poll_case *one,
		const struct ky_findings_options *options)
{
	(void)options;
	if (ky_poll_case_share_ppm(one, is_unconstrained) >= KY_FIND_HALF_PPM)
		ky_text(out, "ran under unconstrained(), so without Tokio's budget,");
	else
		ky_text(out, "did operations on a queue or socket that take none of Tokio's "
			     "budget");
}

const struct ky_poll_rule ky_rule_coop_budget = {
	.id = KY_FINDING_COOP_BUDGET_BYPASSED,
	.is_blocked = false,
	.fits = fits,
	.say = say,
	.action = "Await consume_budget() or yield_now() after some 100 operations, and take "
		  "unconstrained() away: Tokio's budget of 128 ends a poll only at an operation "
		  "that takes from it. A single long computation belongs into spawn_blocking()."};
