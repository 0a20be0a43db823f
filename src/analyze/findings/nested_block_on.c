/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/poll_rule.h>

#include <base/text.h>

/* An executor's entry: tokio's, futures', pollster's, the program's own. */
static bool is_block_on(const struct ky_code_line *line)
{
	return ky_text_contains(line->name, "block_on");
}

static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	*confidence = KY_CONFIDENCE_PROVEN;
	return ky_poll_case_inside_ppm(one, is_block_on) >= KY_FIND_HALF_PPM;
}

static void say(struct ky_buf *out, const struct ky_poll_case *one,
		const struct ky_findings_options *options)
{
	(void)one;
	(void)options;
	ky_text(out, "waited in an executor of their own (block_on)");
}

const struct ky_poll_rule ky_rule_nested_block_on = {
	.id = KY_FINDING_NESTED_BLOCK_ON,
	.is_blocked = true,
	.fits = fits,
	.say = say,
	.action = "Await the inner future in place of block_on(): inside a poll it "
		  "blocks the worker, and waits for ever where that worker is what it "
		  "needs."};
