/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* query_run.h - what `kymo view` and `kymo query` share: options, and a query opened on each
 * process of the input.
 * Returns: each function an exit code; trouble has been said.
 * Threads: owner.
 */
#ifndef KY_CLI_QUERY_RUN_H
#define KY_CLI_QUERY_RUN_H

#include <argp.h>
#include <edit/input.h>
#include <edit/trace_symbols.h>
#include <query/query_print.h>

struct ky_query_run {
	struct ky_input input;
	struct ky_trace_symbols_options names;
	uint32_t format; /* enum ky_rows_format */
	bool has_format, is_json;
	uint64_t time_max_ns;
	/* Of the process that is being read. */
	struct ky_trace *trace;
	struct ky_query *query;
	struct ky_trace_symbols symbols;
	struct ky_code_stacks stacks;
	bool is_named, has_symbols;
	struct ky_report *report; /* these three when findings are asked for */
	struct ky_stack_profile *profile;
	struct ky_findings *findings;
	/* What is done with each: returns an exit code. */
	int (*each)(struct ky_query_run *run, void *ctx);
	void *ctx;
};

/* --format, --max-time: a struct ky_query_run. */
extern const struct argp ky_query_argp;

/* Opens the input and calls each() for every process. */
int ky_query_run(struct ky_query_run *run);
/* Prints what is prepared. table: as of struct ky_rows_options. */
int ky_query_run_print(struct ky_query_run *run, const char *table, uint64_t limit);
/* What the query says is wrong; code: of a function of it. */
int ky_query_run_code(const struct ky_query_run *run, int code);

#endif
