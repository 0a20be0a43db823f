/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/poll_rule.h>

#include <base/text.h>
#include <wire/call_facts.h>

/* The runtime holds its own locks for no time: who waits for one waits for a holder that has no
 * CPU, and is no blocking call of the program. */
static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	*confidence = one->is_guessed ? KY_CONFIDENCE_LIKELY : KY_CONFIDENCE_PROVEN;
	return one->reason != KY_WAIT_FUTEX ||
	       ky_poll_case_called_ppm(one, ky_line_is_runtimes) < KY_FIND_HALF_PPM;
}

static void say(struct ky_buf *out, const struct ky_poll_case *one,
		const struct ky_findings_options *options)
{
	/* Of enum ky_fd_kind. */
	static const char *const kinds[KY_FD_KINDS] = {"",
						       "a file",
						       "a directory",
						       "a pipe",
						       "a terminal",
						       "a device",
						       "a TCP socket",
						       "a UDP socket",
						       "a Unix socket",
						       "a socket",
						       "an eventfd or its kin"};
	const char *name = one->syscall != KY_NO_SYSCALL && options->call_name ?
				   options->call_name(one->facts->trace, one->syscall) :
				   NULL;

	ky_text(out, "were blocked");
	if (name || one->syscall != KY_NO_SYSCALL)
		ky_text(out, " in ");
	if (name) {
		ky_text(out, name);
	} else if (one->syscall != KY_NO_SYSCALL) {
		ky_text(out, "system call ");
		ky_text_u64(out, one->syscall);
	}
	if (one->fd_kind && one->fd_kind < KY_FD_KINDS) {
		ky_text(out, " on ");
		ky_text(out, kinds[one->fd_kind]);
	}
}

const struct ky_poll_rule ky_rule_blocking_call = {
	.id = KY_FINDING_BLOCKING_CALL,
	.is_blocked = true,
	.fits = fits,
	.say = say,
	.action = "Await the asynchronous form of this call, or move it to "
		  "spawn_blocking(): while it blocks, its worker polls nothing else."};
