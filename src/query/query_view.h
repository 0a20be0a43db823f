/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* query_view.h - a table, a view or a type of event as `kymo view` shows it: one SELECT.
 * Errors:  negative, with one sentence in ky_query_error().
 * Threads: owner.
 */
#ifndef KY_QUERY_QUERY_VIEW_H
#define KY_QUERY_QUERY_VIEW_H

#include <query/query.h>

struct ky_view_options {
	const char *name;    /* '-' and '_' are the same */
	const char *where;   /* an expression of SQL; NULL: none */
	const char *group;   /* columns, "site,worker"; NULL: none */
	const char *columns; /* NULL: those of the table */
	const char *sort;    /* "-duration_ns,task"; NULL: that of the table */
	uint64_t limit;      /* 0: all */
};

/* Prepares it: ky_query_next() gives its rows, one more than `limit` where there are more. */
int ky_view_prepare(struct ky_query *query, const struct ky_view_options *options);

/* Prepares the one row of one value: an aggregate such as "max(duration_ns)" over the rows of a
 * table or view for which `where` holds (NULL: all). */
int ky_view_prepare_value(struct ky_query *query, const char *name, const char *where,
			  const char *value);

/* "name  what it shows" of every table and view, line by line. */
void ky_view_list(struct ky_buf *out);

/* What a column of that name holds: enum ky_unit, by the list of tables, else by the name's end. */
uint32_t ky_view_unit(const char *table, const char *column);

#endif
