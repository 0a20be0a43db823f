/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* query_functions.h - functions of kymo's own in SQL: percentiles as aggregates.
 * Threads: owner.
 */
#ifndef KY_QUERY_QUERY_FUNCTIONS_H
#define KY_QUERY_QUERY_FUNCTIONS_H

#include <query/sqlite_library.h>
#include <read/trace.h>

struct ky_query_function {
	const char *name, *doc;
	uint64_t numerator, denominator; /* of a percentile; 0: the start of the trace */
};
extern const struct ky_query_function ky_query_functions[];
extern const uint32_t ky_query_function_count;

/* Declares them. Returns a code of SQLite. */
int ky_query_functions_declare(sqlite3 *db, const struct ky_trace *trace);

#endif
