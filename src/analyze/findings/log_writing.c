/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/poll_rule.h>

#include <base/text.h>

#define FD_STDOUT 1
#define FD_STDERR 2
#define SYS_WRITE_X86_64 1u
#define SYS_WRITEV_X86_64 20u
#define SYS_WRITE_GENERIC 64u /* of the kernel's generic table: aarch64 */
#define SYS_WRITEV_GENERIC 66u

/* Libraries that write logs, and the standard streams of Rust. */
bool ky_line_writes_logs(const struct ky_code_line *line)
{
	static const char *const parts[] = {
		"std::io::stdio::", "_eprint",  "_print", "tracing_subscriber::",
		"env_logger::",     "log4rs::", "fern::", "slog::"};

	return KY_LINE_HAS(line, parts);
}

static bool is_write(uint32_t number)
{
	return number == SYS_WRITE_X86_64 || number == SYS_WRITEV_X86_64 ||
	       number == SYS_WRITE_GENERIC || number == SYS_WRITEV_GENERIC;
}

static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	const struct ky_stack_row *row = one->most != KY_NONE ?
						 &one->facts->trace->samples.rows[one->most] :
						 NULL;

	if (!row)
		return false;
	*confidence = KY_CONFIDENCE_PROVEN;
	/* The lock of the stream, which a thread has that is in the write. */
	if (row->reason == KY_WAIT_FUTEX)
		return ky_poll_case_called_ppm(one, ky_line_writes_logs) >= KY_FIND_HALF_PPM;
	if (!is_write(one->syscall) && one->syscall != KY_NO_SYSCALL)
		return false;
	return row->fd == FD_STDOUT || row->fd == FD_STDERR ||
	       ky_poll_case_share_ppm(one, ky_line_writes_logs) >= KY_FIND_HALF_PPM;
}

static void say(struct ky_buf *out, const struct ky_poll_case *one,
		const struct ky_findings_options *options)
{
	const char *kind = ky_fd_kind_name((uint8_t)one->fd_kind);

	(void)options;
	ky_text(out, "were blocked writing logs");
	if (*kind) {
		ky_text(out, " to a ");
		ky_text(out, kind);
	}
}

/* The kernel's work for it, and that of the formatting. */
static bool fits_busy(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	*confidence = KY_CONFIDENCE_LIKELY;
	return one->row_count >= KY_FIND_SAMPLES_MIN &&
	       ky_poll_case_called_ppm(one, ky_line_writes_logs) >= KY_FIND_HALF_PPM;
}

static void say_busy(struct ky_buf *out, const struct ky_poll_case *one,
		     const struct ky_findings_options *options)
{
	(void)one;
	(void)options;
	ky_text(out, "ran on CPU to write logs");
}

#define ACTION                                                                                     \
	"Write logs on a thread of their own (tracing_appender::non_blocking, say), or give what " \
	"reads them more speed: a full pipe or terminal blocks the worker."

const struct ky_poll_rule ky_rule_log_writing_busy = {.id = KY_FINDING_LOG_WRITING,
						      .is_blocked = false,
						      .fits = fits_busy,
						      .say = say_busy,
						      .action = ACTION};

const struct ky_poll_rule ky_rule_log_writing = {.id = KY_FINDING_LOG_WRITING,
						 .is_blocked = true,
						 .fits = fits,
						 .say = say,
						 .action = ACTION};
