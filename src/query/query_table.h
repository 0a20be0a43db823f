/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* query_table.h - the tables that `kymo view` and `kymo query` show, each column with its name,
 * unit and meaning: the one list of text, JSON, CSV, SQL and docs/sql.md.
 *
 * Invariants:  a name that ends in _ns is a duration or a moment, as its unit says; one that ends
 *              in _bytes is in bytes. A column that the trace does not know is NULL, never 0.
 * Threads:     owner.
 */
#ifndef KY_QUERY_QUERY_TABLE_H
#define KY_QUERY_QUERY_TABLE_H

#include <analyze/code_stacks.h>
#include <analyze/queue_fill.h>
#include <analyze/span_split.h>
#include <analyze/wake_cause.h>
#include <base/buf.h>

enum ky_unit {
	KY_UNIT_ID,
	KY_UNIT_COUNT,
	KY_UNIT_NS,
	KY_UNIT_TIME, /* ns of the trace's own clock */
	KY_UNIT_BYTES,
	KY_UNIT_TEXT,
	KY_UNIT_SENTENCE, /* a text that is not a name */
	KY_UNIT_FLAG,
	KY_UNIT_PLAIN, /* a number that is not known better */
	KY_UNIT_ANY,   /* a number or a text */
	KY_UNITS
};

enum ky_value_type {
	KY_VALUE_NULL,
	KY_VALUE_NUMBER,
	KY_VALUE_TEXT,
	KY_VALUE_REAL
};

struct ky_query_value {
	uint8_t type;    /* enum ky_value_type */
	bool is_passing; /* text: it is valid until the next value alone */
	int64_t number;  /* ids beyond 63 bits are negative; all else ends at INT64_MAX */
	double real;
	const char *text; /* ends in NUL */
};

/* Where a value stands in its row. */
enum ky_column_store {
	KY_STORE_U64,
	KY_STORE_U64_OR, /* `arg` is NULL */
	KY_STORE_U32,
	KY_STORE_U32_OR,
	KY_STORE_U16_OR,
	KY_STORE_U8,
	KY_STORE_I32_OR,
	KY_STORE_I64,
	KY_STORE_BOOL,
	KY_STORE_NAME,      /* u32, name index */
	KY_STORE_TASK,      /* u32, index in tasks: its id */
	KY_STORE_TASK_NAME, /* u32, index in tasks: its name */
	KY_STORE_WORKER, /* u32, index in workers: its id; that of a thread without one is NULL */
	KY_STORE_MASK,   /* u32, any bit of `arg` */
	KY_STORE_MASK8,  /* u8, the same */
	KY_STORE_CALL    /* call() */
};

struct ky_query_source;

typedef void (*ky_query_call)(const struct ky_query_source *source, const void *row,
			      struct ky_query_value *out);

struct ky_query_column {
	const char *name, *doc;
	uint8_t unit, store;
	uint16_t offset;
	uint64_t arg;
	ky_query_call call;
	bool is_code; /* it names functions */
};

enum ky_query_rows {
	KY_ROWS_ARRAY,        /* elements of an array of the trace */
	KY_ROWS_FINDINGS,     /* the same of what was concluded from it, when first asked for */
	KY_ROWS_TAIL,         /* the same of the slow spans */
	KY_ROWS_TASK_METRICS, /* the same of tokio-metrics and tokio-console */
	KY_ROWS_RUNTIME_METRICS,
	KY_ROWS_LINTS,
	KY_ROWS_QUEUES, /* the same of queues */
	KY_ROWS_POLLS,  /* by worker, then by time */
	KY_ROWS_PARKS,
	KY_ROWS_WAKES,
	KY_ROWS_QUEUE_SAMPLES, /* by queue, then by time */
	KY_ROWS_CUSTOM_VALUES, /* by event of the program, then by field */
	KY_ROWS_EVENTS         /* read anew from the bytes */
};

/* What a table can be ordered by without being sorted; bits. */
enum ky_query_key {
	KY_KEY_SITE = 1u << 0,
	KY_KEY_TASK = 1u << 1,
	KY_KEY_WORKER = 1u << 2
};

struct ky_query_table {
	const char *name, *doc;
	const struct ky_query_column *columns; /* the first is the time, where it has one */
	uint32_t column_count;
	uint8_t rows; /* enum ky_query_rows */
	uint8_t keys; /* enum ky_query_key; of POLLS, PARKS and WAKES */
	/* Of an array: where it and its length stand in the trace, the bytes of an element, and,
	 * where filter_offset is not 0, the byte there that its rows have. */
	uint16_t row_bytes, filter_offset;
	uint32_t array_offset, count_offset;
	uint8_t filter;
	/* In `kymo view`: the columns shown (NULL: all), and the order, "-duration_ns". */
	const char *shown, *order;
};

extern const struct ky_query_table ky_query_tables[];
extern const uint32_t ky_query_table_count;

/* SELECTs over the tables, with names. */
struct ky_query_view {
	const char *name, *doc, *select, *order;
};
extern const struct ky_query_view ky_query_views[];
extern const uint32_t ky_query_view_count;

struct ky_worker_sum {
	uint64_t busy_ns, parked_ns;
};

/* What rows are read from. */
struct ky_query_source {
	const struct ky_trace *trace;
	const struct ky_code_stacks *stacks; /* NULL: code has no names */
	const struct ky_worker_sum *sums;    /* by worker */
	struct ky_span_split *splits;        /* by span */
	struct ky_wake_namer *wakes;         /* NULL: nothing has a name */
	struct ky_buf *scratch;              /* of texts that are passing */
};

static inline bool ky_query_is_array(const struct ky_query_table *table)
{
	return table->rows < KY_ROWS_POLLS;
}

/* Rows of an array, filtered or not; none of FINDINGS. */
uint32_t ky_query_array(const struct ky_query_table *table, const struct ky_trace *trace,
			const uint8_t **rows);
/* A value of a row: of a struct ky_poll, ky_park_line, ky_wake, or of an element. */
void ky_query_value(const struct ky_query_source *source, const struct ky_query_column *column,
		    const void *row, struct ky_query_value *out);

/* A park with whose it is. */
struct ky_park_line {
	struct ky_park park;
	uint32_t worker;
};

/* A row within one of an array: a sample of a queue, a field of an event. */
struct ky_inner_line {
	uint32_t outer;
	uint64_t inner;
};

/* "TEXT", "INTEGER"; "" for what may be both. */
const char *ky_query_sql_type(const struct ky_query_column *column);

/* A table by its name, with '-' for '_'. NULL: there is none. */
const struct ky_query_table *ky_query_table_find(const char *name);

#endif
