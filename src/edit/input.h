/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* input.h - the traces that are read together: paths into sources, limits, and what is wrong with
 * them.
 *
 * Every reading command takes the same options for its input (ky_input_argp, shared_options.h).
 * Errors:  a function that fails returns a negative error and leaves one sentence in `error`.
 *          Nothing is printed: `view` gets what a user may see meanwhile.
 * Threads: owner.
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

/* Shows what happens; each function may be NULL. */
struct ky_input_view {
	void (*notice)(const char *text); /* the work continues */
	void (*step)(const char *what);   /* "reading", a literal */
	/* How far that step is; total 0: not known. */
	void (*count)(uint64_t done_bytes, uint64_t total_bytes);
};

struct ky_input {
	char **arguments; /* as named on the command line, of argv */
	size_t argument_count;
	bool has_words_before; /* the command takes the arguments apart itself */
	struct ky_inflate_options inflate;
	uint64_t memory_bytes_max; /* 0: the engine's default */
	uint64_t fetch_bytes_max;  /* of what comes from elsewhere; 0: its own default */
	uint64_t pid;              /* read what is of this process alone, if has_pid */
	bool has_pid;
	const char *service, *host; /* the same: NULL is all */
	/* For messages: what each argument was called where it came from; NULL: as it is. */
	const char *const *shown_names;
	/* Called when the input is closed, after its files; may be NULL. */
	void (*release)(void *ctx);
	void *release_ctx;
	struct ky_input_view view;
	struct ky_trace_paths paths;
	struct ky_input_file *files;
	struct ky_byte_source *opened; /* all of them, those of one process together */
	size_t opened_count;
	struct ky_byte_source *sources; /* what the engine gets: all, or those of one process */
	size_t count;
	struct ky_input_process *processes; /* of more than one file, or with a pid */
	size_t process_count;
	struct ky_input_progress *progress;
	uint64_t notice_count;
	bool is_damaged; /* something could not be read, other than a truncated tail */
	char error[KY_INPUT_ERROR_BYTES];
};

struct ky_input_process;

/* Opens the sources that `arguments` name, and finds their processes. */
int ky_input_open(struct ky_input *input);
/* What was read of the sources does not count: they are read from their beginning. */
void ky_input_restart(struct ky_input *input);
void ky_input_close(struct ky_input *input);

/* Reads the sources into a trace. */
int ky_input_trace(struct ky_input *input, struct ky_trace **out);

/* After the results: notices of what was damaged, and of the files of ours that lack their seal,
 * but for live segments, named .active. A truncated tail is no damage, since a killed
 * recorder leaves one. */
void ky_input_note_damage(struct ky_input *input, const struct ky_trace *trace);
void ky_input_note_unsealed(struct ky_input *input, const struct ky_unsealed *unsealed);

/* Which limit (--max-bytes, --max-ratio, window) ended a source early; NULL: none did. */
const char *ky_input_limit(const struct ky_input *input, size_t source);
bool ky_input_is_limited(const struct ky_input *input);

/* A sentence about the input; the first KY_INPUT_NOTICES_MAX are shown. */
void ky_input_notice(struct ky_input *input, const char *text);
/* One that is always shown. */
__attribute__((format(printf, 2, 3))) void ky_input_say(const struct ky_input *input,
							const char *format, ...);
void ky_input_step(const struct ky_input *input, const char *what);

/* Leaves the sentence. Returns `code`. */
__attribute__((format(printf, 3, 4))) int ky_input_fail(struct ky_input *input, int code,
							const char *format, ...);
/* Leaves the text of `result`, unless it is 0 or there is a sentence. Returns `result`. */
int ky_input_result(struct ky_input *input, int result);

#endif
