/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A poll wakes a task and goes on: the task stands in its worker's LIFO slot, from which no other
 * worker takes it, and one of them had nothing to do. Whatever else stands behind such a poll is
 * stolen from it. With no idle worker the slot harms nobody: then the poll is too long, no more. */
#include <analyze/findings/poll_rule.h>

#include <analyze/findings/say.h>
#include <base/earlier.h>
#include <base/text.h>

/* For half of their time such polls kept a task in the slot, and that is half of what waited for
 * them: else it is by chance that they woke one, as a blocked poll may, and their length is all. */
static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	const struct ky_kind_facts *kind = one->kind;

	*confidence = one->is_guessed ? KY_CONFIDENCE_LIKELY : KY_CONFIDENCE_PROVEN;
	return ky_share_ppm(kind->lifo_idle_ns, kind->behind_ns) >= KY_FIND_HALF_PPM &&
	       ky_share_ppm(kind->lifo_idle_ns, ky_kind_long_ns(kind)) >= KY_FIND_HALF_PPM &&
	       ky_share_ppm(kind->lifo_idle_ns, one->facts->ready_ns) >= KY_FIND_SHARE_PPM_MIN;
}

static void say_busy(struct ky_buf *out, const struct ky_poll_case *one,
		     const struct ky_findings_options *options)
{
	(void)options;
	ky_text(out, "woke a task and then ");
	ky_text(out, one->is_unknown ? "lasted" : "ran on CPU");
}

static void say_blocked(struct ky_buf *out, const struct ky_poll_case *one,
			const struct ky_findings_options *options)
{
	ky_text(out, "woke a task and then ");
	ky_rule_blocking_call.say(out, one, options);
}

static void say_impact(struct ky_buf *out, const struct ky_poll_case *one)
{
	ky_text(out, " For ");
	ky_say_ns(out, ky_earlier(one->kind->lifo_idle_ns, one->behind_ns));
	ky_text(out, " of it they stood in the LIFO slot of a worker while another one was idle.");
}

#define ACTION                                                                                     \
	"Wake others at the end of the poll, or await yield_now() after "                          \
	"the wake: the runtime polls a woken task next on the same worker, and no other worker "

const struct ky_poll_rule ky_rule_lifo_slot_busy = {
	.id = KY_FINDING_LIFO_SLOT_STARVATION,
	.is_blocked = false,
	.fits = fits,
	.say = say_busy,
	.say_impact = say_impact,
	.action = ACTION "takes it from there. Or move the rest of this work to spawn_blocking()."};

const struct ky_poll_rule ky_rule_lifo_slot_blocked = {
	.id = KY_FINDING_LIFO_SLOT_STARVATION,
	.is_blocked = true,
	.fits = fits,
	.say = say_blocked,
	.say_impact = say_impact,
	.action = ACTION "takes it from there. Or move the call that blocks to spawn_blocking()."};
