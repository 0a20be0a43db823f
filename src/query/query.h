/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* query.h - SQL over a trace: the tables of query_table.h through SQLite, read-only.
 *
 * Invariants:  nothing but SELECT runs. The authorizer refuses writes, ATTACH, PRAGMA and
 *              extensions; SQLite has a file system that opens no file at all, so that nothing can
 *              be written or read even where the authorizer would err. What is sorted stays in
 *              memory.
 * Memory:      SQLite's own is bounded by memory_bytes_max; beyond: KYMO_E_LIMIT.
 * Time:        bounded by time_max_ns, whatever the SQL; beyond: -ETIME.
 * Errors:      negative, with one sentence in ky_query_error().
 * Threads:     owner; one query at a time in a process.
 */
#ifndef KY_QUERY_QUERY_H
#define KY_QUERY_QUERY_H

#include <analyze/findings/findings.h>
#include <base/byte_source.h>
#include <query/query_table.h>

#define KY_QUERY_TIME_MAX_NS UINT64_C(600000000000)
#define KY_QUERY_COLUMNS_MAX 100u

struct ky_query;

struct ky_query_options {
	const struct ky_trace *trace;
	struct ky_byte_source *sources; /* of the table `events`; NULL: it cannot be read */
	size_t source_count;
	uint64_t memory_bytes_max; /* 0: 1 GiB */
	uint64_t time_max_ns;      /* 0: 10 minutes */
	/* Gives the names of the code where a query asks for them, at most once. Returns 0, or a
	 * negative error, whose sentence is the caller's. May be NULL. */
	int (*name_code)(void *ctx, const struct ky_code_stacks **out);
	/* The same for the table `findings`. */
	int (*find)(void *ctx, const struct ky_findings **out);
	void *ctx; /* of both */
};

/* Loads SQLite. -ELIBACC: it is not installed. */
int ky_query_open(struct ky_query **out, const struct ky_query_options *options);
void ky_query_close(struct ky_query *query);

/* Prepares one SELECT. shown: the part of `sql` that a user wrote, whose positions count, ending
 * before shown_end; NULL: all of it. */
int ky_query_prepare(struct ky_query *query, const char *sql, const char *shown,
		     const char *shown_end);
/* Returns 1: a row; 0: no more. */
int ky_query_next(struct ky_query *query);
const char *ky_query_error(const struct ky_query *query);

uint32_t ky_query_columns(const struct ky_query *query);
const char *ky_query_column_name(const struct ky_query *query, uint32_t column);

enum ky_cell_type {
	KY_CELL_NULL,
	KY_CELL_NUMBER,
	KY_CELL_REAL,
	KY_CELL_TEXT, /* bytes of a blob, too */
};
struct ky_query_cell {
	uint32_t type; /* enum ky_cell_type */
	int64_t number;
	double real;
	const char *text; /* until the next row */
	size_t text_bytes;
};
void ky_query_cell(const struct ky_query *query, uint32_t column, struct ky_query_cell *out);

/* Is there a table or view of that name, or a type of event? Of the latter it makes a view with a
 * column a field. Returns 1, 0, or a negative error. */
int ky_query_knows(struct ky_query *query, const char *name);

/* Sentences about names that are not there. Return -EINVAL. */
int ky_query_fail_view(struct ky_query *query, const char *name);
int ky_query_fail_column(struct ky_query *query, const char *option, const char *name,
			 const char *view);

/* Every table, view, column and function as Markdown: docs/sql.md. */
void ky_query_schema(struct ky_buf *out);

#endif
