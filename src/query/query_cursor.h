/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* query_cursor.h - the tables as virtual tables of SQLite: rows are read where they lie, nothing is
 * imported.
 *
 * Invariants:  what SQLite passes as a bound only narrows what is read; SQLite checks every row
 *              itself, so that a bound of another type than its column costs time alone.
 * Threads:     owner.
 */
#ifndef KY_QUERY_QUERY_CURSOR_H
#define KY_QUERY_QUERY_CURSOR_H

#include <analyze/span_tail.h>
#include <analyze/findings/findings.h>
#include <analyze/tokio_metrics.h>
#include <query/query_table.h>
#include <query/row_order.h>
#include <query/sqlite_library.h>

/* What the tables of one query share. */
struct ky_query_shared {
	struct ky_query_source source;
	struct ky_byte_source *sources; /* of the events; NULL: they are not read again */
	size_t source_count;
	bool is_streaming;     /* a cursor reads them */
	uint32_t *lanes;       /* workers in the order of the column `worker`: NULL first */
	uint32_t *lane_begins; /* number of their first row, by kind of rows and worker */
	struct ky_row_order orders[2][2]; /* POLLS, WAKES; SITE, TASK; made when asked for */
	/* Before the first row with code is read: fills source.stacks. May be NULL. */
	int (*name_code)(void *ctx);
	bool is_code_named;
	/* Before the first finding is read: fills findings. May be NULL. */
	int (*find)(void *ctx);
	const struct ky_findings *findings;
	struct ky_span_tail tail;
	bool has_tail;
	struct ky_queue_fill *queues;
	/* TASK_METRICS, RUNTIME_METRICS, LINTS. */
	struct ky_tokio_sums tokio;
	struct ky_metric_rows metrics[3];
	bool has_metrics;
	void *ctx; /* of both */
};

/* Makes what all tables need. Returns 0, -ENOMEM. */
int ky_query_shared_init(struct ky_query_shared *shared, const struct ky_trace *trace);
void ky_query_shared_release(struct ky_query_shared *shared);

/* Names the code, once. Returns 0, -ENOMEM. */
int ky_query_shared_name_code(struct ky_query_shared *shared);
/* Rows of a table for which ky_query_is_array() holds. Returns a code of SQLite. */
int ky_query_shared_array(struct ky_query_shared *shared, const struct ky_query_table *table,
			  const uint8_t **rows, uint64_t *count);
/* Number of the first row of each worker, of POLLS, PARKS or WAKES; one more at the end. */
uint32_t *ky_query_shared_begins(const struct ky_query_shared *shared, uint8_t rows);

/* Declares every table to the connection. Returns a code of SQLite. */
int ky_query_tables_declare(sqlite3 *db, struct ky_query_shared *shared);

#endif
