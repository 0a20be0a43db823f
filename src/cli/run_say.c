/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/run_say.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void ky_run_say(const char *format, ...)
{
	static const char prefix[] = "kymo: ";
	char line[2048];
	va_list args;
	int bytes;
	size_t count;

	memcpy(line, prefix, sizeof(prefix) - 1);
	va_start(args, format);
	bytes = vsnprintf(line + sizeof(prefix) - 1, sizeof(line) - sizeof(prefix), format, args);
	va_end(args);
	if (bytes < 0)
		return;
	count = strlen(line);
	line[count++] = '\n';
	/* Standard error may be closed or full; there is nobody else to tell. */
	if (write(STDERR_FILENO, line, count) < 0)
		return;
}
