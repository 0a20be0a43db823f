/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/poll_rule.h>

#include <analyze/findings/say.h>
#include <base/text.h>

/* Faults of memory that the kernel has to clear: their cost at FAULT_NS each is a part of the CPU
 * time of the polls. An allocator that asks the kernel for memory faults, too: then it is it. */
static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	const struct ky_kind_facts *kind = one->kind;

	if (!kind->cost_count)
		return false;
	*confidence = KY_CONFIDENCE_LIKELY;
	return kind->major_faults > kind->cost_count ||
	       ky_share_ppm(kind->minor_faults * KY_FIND_FAULT_NS, one->ns) >= KY_FIND_FAULTS_PPM;
}

static void say(struct ky_buf *out, const struct ky_poll_case *one,
		const struct ky_findings_options *options)
{
	(void)options;
	ky_text(out, "took ");
	ky_say_many(out, one->kind->minor_faults + one->kind->major_faults, "page fault",
		    "page faults");
	ky_text(out, " and ran");
}

const struct ky_poll_rule ky_rule_page_fault_storm = {
	.id = KY_FINDING_PAGE_FAULT_STORM,
	.is_blocked = false,
	.fits = fits,
	.say = say,
	.action = "Use memory again in place of mapping it anew (a pool of buffers, or "
		  "an allocator that keeps what is freed): the kernel clears each new "
		  "page inside the poll."};
