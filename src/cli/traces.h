/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* traces.h - the traces of a command: opened with progress, what is wrong with them on stderr.
 *
 * Returns: each function an exit code; trouble has been said.
 * Threads: owner.
 */
#ifndef KY_CLI_TRACES_H
#define KY_CLI_TRACES_H

#include <cli/shared_options.h>
#include <edit/input.h>
#include <edit/rewrite.h>
#include <edit/trace_symbols.h>

/* result: of a function that leaves its sentence in input->error. */
int ky_traces_code(const struct ky_input *input, int result);

int ky_traces_open(struct ky_input *input);
/* The same of a time: what lies in a bucket is fetched for it alone. range: NULL is all. */
int ky_traces_open_in(struct ky_input *input, const struct ky_time_range *range);
/* One file, by its path. */
int ky_traces_open_file(struct ky_input *input, char **path);
/* The same, then the names of its code; each sees every event. */
int ky_traces_open_named(struct ky_input *input, struct ky_trace_symbols *symbols, char **path,
			 ky_trace_symbols_fn each, void *ctx);
/* Opens what is of one process; of several it says which, and refuses. instead: what else can be
 * done, such as ", or ..."; may be "". */
int ky_traces_open_one(struct ky_input *input, const struct ky_time_range *range,
		       const char *instead);
/* For each process of an open input: print(ctx), which returns an exit code, under a heading where
 * there are several and it is text. Returns the worst of the codes. */
int ky_traces_each(struct ky_input *input, bool is_json, int (*print)(void *ctx), void *ctx);
/* Reads an open input into a trace. */
int ky_traces_load(struct ky_input *input, struct ky_trace **out);
void ky_traces_close(struct ky_input *input);

/* After the results: says what was damaged and which limit cut the trace. */
int ky_traces_say_damage(struct ky_input *input, const struct ky_trace *trace);
/* The limits alone; is_damaged of the input counts, too. */
int ky_traces_say_limits(const struct ky_input *input);

int ky_traces_rewrite(struct ky_rewrite *rewrite);

#endif
