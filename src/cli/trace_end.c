/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/trace_end.h>

#include <read/trace.h>
#include <ship/inflate.h>
#include <ship/trace_paths.h>
#include <string.h>

static uint64_t end_of_file(const char *path)
{
	const struct ky_trace_options options = {.raw_bytes_max = 0};
	struct ky_byte_source source;
	struct ky_trace *trace = NULL;
	uint64_t last_ns = 0;

	if (ky_inflate_open(&source, path, NULL, NULL, 0) != 0)
		return 0;
	if (ky_trace_open(&trace, &source, 1, &options) == 0) {
		last_ns = trace->last_ns;
		ky_trace_close(trace);
	}
	source.close(source.ctx);
	return last_ns;
}

uint64_t ky_trace_end_ns(const char *path)
{
	const struct ky_inflate_options inflate = {.ratio_max = 0};
	struct ky_trace_paths paths;
	uint64_t last_ns = 0;
	size_t at;

	memset(&paths, 0, sizeof(paths));
	/* The newest segment may have been begun and hold nothing yet. */
	if (ky_trace_paths_add(&paths, path, &inflate, NULL, 0) == 0)
		for (at = paths.count; at > 0 && last_ns == 0; at--)
			last_ns = end_of_file(paths.paths[at - 1]);
	ky_trace_paths_release(&paths);
	return last_ns;
}
