/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* query_print.h - the rows of a prepared query as text, JSON or CSV.
 *
 * Text is printed in tables of up to 1,000 rows, so that memory stays bounded. JSON is one object:
 *   {"columns":[{"name":"task","unit":"id"},..],"rows":[{"task":1,..},..],"is_cut":false}
 * Threads: owner.
 */
#ifndef KY_QUERY_QUERY_PRINT_H
#define KY_QUERY_QUERY_PRINT_H

#include <query/query.h>

enum ky_rows_format {
	KY_ROWS_TEXT,
	KY_ROWS_JSON,
	KY_ROWS_CSV
};

struct ky_rows_options {
	uint32_t format;   /* enum ky_rows_format */
	const char *table; /* units are those of its columns; NULL: numbers stand as they are */
	uint64_t start_ns; /* text: moments are from here on */
	uint64_t limit;    /* 0: all */
	bool is_coloured;
	/* Writes and clears. Returns 0 or a negative error. */
	int (*flush)(struct ky_buf *out);
};

/* Returns 0, a negative error of the query (ky_query_error()), or of flush: then *is_flush. */
int ky_query_print(struct ky_query *query, const struct ky_rows_options *options, bool *is_flush);

#endif
