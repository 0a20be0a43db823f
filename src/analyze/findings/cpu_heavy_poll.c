/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/poll_rule.h>

#include <base/text.h>

static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	*confidence = one->is_guessed ? KY_CONFIDENCE_LIKELY : KY_CONFIDENCE_PROVEN;
	return true;
}

static void say(struct ky_buf *out, const struct ky_poll_case *one,
		const struct ky_findings_options *options)
{
	(void)options;
	ky_text(out, one->is_unknown ? "lasted" : "ran on CPU");
}

const struct ky_poll_rule ky_rule_cpu_heavy_poll = {
	.id = KY_FINDING_CPU_HEAVY_POLL,
	.is_blocked = false,
	.fits = fits,
	.say = say,
	.action = "Move this work to spawn_blocking() or a pool of its own (rayon), or "
		  "yield between steps: a poll should end within some 100 us."};
