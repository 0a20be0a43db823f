/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* input.h - the traces a command reads: paths into sources, progress, notices, limits.
 *
 * Every reading command takes the same options for its input (ky_input_argp, shared_options.h).
 * What it is at is shown as progress.h says, from ky_input_open() to ky_input_close().
 */
#ifndef KY_EDIT_INPUT_H
#define KY_EDIT_INPUT_H

#include <base/byte_source.h>
#include <analyze/unsealed.h>
#include <read/trace.h>
#include <ship/inflate.h>
#include <ship/trace_paths.h>

#define KY_INPUT_ERROR_BYTES 640u

#define KY_INPUT_NOTICES_MAX 10u

struct ky_input {
	char **arguments; /* as named on the command line, of argv */
	size_t argument_count;
	struct ky_inflate_options inflate;
	uint64_t memory_bytes_max; /* 0: the engine's default */
	struct ky_trace_paths paths;
	struct ky_input_file *files;
	struct ky_byte_source *sources; /* what the engine gets */
	size_t count;
	struct ky_input_progress *progress;
	uint64_t notice_count;
	bool is_damaged; /* something could not be read, other than a tail that was cut off */
};

/* Opens the sources behind `arguments`. Returns an exit code; trouble has been said. */
int ky_input_open(struct ky_input *input);
void ky_input_close(struct ky_input *input);

/* Reads the sources into a trace. Returns an exit code; trouble has been said. */
int ky_input_trace(struct ky_input *input, struct ky_trace **out);

/* After the results: says what was damaged, which files of ours lack their seal (but for live
 * segments, named .active), and which limit cut the trace. Returns an exit code: a tail that was
 * cut off is no trouble, since a killed recorder leaves one; other damage is. */
int ky_input_say_damage(struct ky_input *input, const struct ky_trace *trace);

/* Names the files that lack their seal, if they are ours. */
void ky_input_say_unsealed(struct ky_input *input, const struct ky_unsealed *unsealed);

/* True when a limit (--max-bytes, --max-ratio, window) ended a source early: says which, as an
 * error. */
bool ky_input_is_limited(struct ky_input *input);

/* A sentence about the input, on stderr; the first KY_INPUT_NOTICES_MAX are shown. */
void ky_input_notice(struct ky_input *input, const char *text);

#endif
