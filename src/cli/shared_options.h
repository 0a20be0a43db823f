/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* shared_options.h - the options that commands share, each written once: every command composes its
 * argp from these children and from what it alone has. docs/cli.md lists them all.
 *
 * Errors:  a wrong word ends the process with a sentence on stderr and argp_err_exit_status.
 * Threads: owner.
 */
#ifndef KY_CLI_SHARED_OPTIONS_H
#define KY_CLI_SHARED_OPTIONS_H

#include <argp.h>
#include <cli/moment.h>
#include <edit/redact.h>
#include <kymo/recorder.h>
#include <ship/compressor.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keys of options without a letter: those of a command begin here. */
#define KY_OPTION_KEY_OWN 0x200
#define KY_OPTION_PAIRS_MAX 64u

/* What TIME is, for the text of a command that takes it. */
#define KY_OPTION_TIME_TEXT                                                                        \
	"TIME is 1.5s, 20ms, 3us, 2m or 1h after the start, @N nanoseconds of the trace's clock, " \
	"or a time in UTC such as 2026-05-18T12:30:00.25."

/* Parses argv. Every command has -h, -V, -q, --usage and --color, so argp must have ky_common_argp
 * among its children. flags: of argp_parse(). Returns KY_EXIT_OK or KY_EXIT_TROUBLE. */
int ky_option_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

/* What is wrong with which option and what it takes; ends the process with argp_err_exit_status. */
__attribute__((format(printf, 1, 2), noreturn)) void ky_option_error(const char *format, ...);

/* --color, -q, -h, --usage, -V: no input. */
extern const struct argp ky_common_argp;

/* --json: a bool. */
extern const struct argp ky_json_argp;

/* --service, --host, --max-fetch: a struct ky_input. */
extern const struct argp ky_choice_argp;

/* The same, FILE|DIRECTORY..., --max-bytes, --max-ratio, --max-memory: a struct ky_input. */
extern const struct argp ky_input_argp;

/* --from, --to, --last */
struct ky_time_range {
	struct ky_moment from, to;
	uint64_t last_ns; /* 0: not given */
};
extern const struct argp ky_time_range_argp;

/* What a trace says of its time: begin and end of its run, one reading of the wall clock (both 0:
 * none). */
struct ky_time_span {
	uint64_t start_ns, end_ns;
	uint64_t sync_monotonic_ns, sync_realtime_ns;
};

/* --clock: a bool, true for the wall clock. */
extern const struct argp ky_clock_argp;
/* Of a trace that has no reading of it; give_instead: an option. Returns KY_EXIT_TROUBLE. */
int ky_say_no_wall_clock(const char *give_instead);

/* In the trace's clock: from *from_ns, 0 for all, up to but without *to_ns, 0 for all. Returns an
 * exit code; trouble has been said. */
int ky_time_range_resolve(const struct ky_time_range *range, const struct ky_time_span *span,
			  uint64_t *from_ns, uint64_t *to_ns);

/* --task, --worker */
struct ky_filter {
	uint64_t task, worker;
	bool has_task, has_worker;
};
extern const struct argp ky_filter_argp;

/* -o FILE, --force. The caller sets the default. */
struct ky_output {
	const char *path;
	bool may_replace;
};
extern const struct argp ky_output_argp;
/* A trace goes to no terminal, and does not mix with JSON. Returns KY_EXIT_OK; KY_EXIT_USAGE after
 * a sentence. */
int ky_output_check(const struct ky_output *output, bool is_json);

/* --debug-dir: a struct ky_trace_symbols_options. */
extern const struct argp ky_debug_dir_argp;

/* --compress. level 0: not given. compressor is that of a recording, with level 1 unless given. */
struct ky_compression {
	struct ky_compressor_factory compressor;
	uint32_t kind; /* enum kymo_compression */
	uint32_t level;
	bool is_chosen;
};
extern const struct argp ky_compression_argp;

/* --redact, --keep. The caller sets the default level. */
struct ky_redact_choice {
	uint32_t level, kept; /* enum ky_redact_class */
};
extern const struct argp ky_redact_argp;
static inline uint32_t ky_redact_chosen(const struct ky_redact_choice *choice)
{
	return choice->level & ~choice->kept;
}
#define KY_OPTION_REDACT_TEXT                                                                      \
	"args replaces home directories (paths), metadata of the program and reasons of dumps "    \
	"(args), and empties the stack of a crash (memory). values replaces fields of spans and "  \
	"of the program's events, and marks, too. names replaces all names by keyed hashes, too. " \
	"Numbers stay."

/* --metadata: "key=value" is cut at its "=". */
struct ky_pairs {
	struct kymo_key_value pairs[KY_OPTION_PAIRS_MAX];
	size_t count;
};
extern const struct argp ky_pairs_argp;

/* --ring-dir of the commands that search rings: a struct ky_ring_query. */
extern const struct argp ky_ring_argp;

#endif
