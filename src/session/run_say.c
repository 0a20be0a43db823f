/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/out_text.h>
#include <session/run_say.h>
#include <stdarg.h>
#include <unistd.h>

void ky_run_say(const char *format, ...)
{
	struct ky_buf text, line;
	va_list args;

	ky_buf_init(&text, 0);
	ky_buf_init(&line, 0);
	va_start(args, format);
	ky_out_format_list(&text, format, args);
	va_end(args);
	ky_out_text(&line, "kymo: ");
	ky_out_safe(&line, (const char *)text.bytes, text.used);
	ky_out_text(&line, "\n");
	/* Standard error may be closed or full; there is no other place to report to. */
	if (!text.failed && !line.failed && write(STDERR_FILENO, line.bytes, line.used) < 0)
		line.used = 0;
	ky_buf_release(&text);
	ky_buf_release(&line);
}
