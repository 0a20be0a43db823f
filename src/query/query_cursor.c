/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <query/query_cursor.h>

#include <base/alloc.h>
#include <base/out_text.h>
#include <query/query_calls.h>
#include <read/custom.h>
#include <string.h>

/* How rows are read: idxNum of SQLite. */
enum plan {
	PLAN_BY_SITE = 1u << 0,
	PLAN_BY_TASK = 1u << 1,
	PLAN_HAS_KEY = 1u << 2, /* of these the arguments, in this order */
	PLAN_HAS_WORKER = 1u << 3,
	PLAN_HAS_FROM = 1u << 4,
	PLAN_HAS_TO = 1u << 5,
	PLAN_DESCENDS = 1u << 6,
	PLAN_NAMES_CODE = 1u << 7
};

struct query_vtab {
	sqlite3_vtab base;
	struct ky_query_shared *shared;
	const struct ky_query_table *table;
	int site, task, worker; /* columns; -1 */
};

struct query_aux {
	struct ky_query_shared *shared;
	const struct ky_query_table *table;
};

struct query_cursor {
	sqlite3_vtab_cursor base;
	bool is_at_end, is_read, is_descending;
	/* By worker: lanes[lane_at] and its rows [row, row_end). */
	uint32_t lane_at, lane_end;
	uint64_t row, row_end, from_ns, to_ns;
	bool has_worker;
	int64_t worker_id;
	/* By site or task: orders->rows[at .. end), of the key at key_at. */
	const struct ky_row_order *order;
	uint32_t at, end, key_at;
	bool is_by_site;
	uint32_t worker;     /* of the row */
	const uint8_t *rows; /* of an array, row is the index */
	struct ky_event_line event;
	union {
		struct ky_poll poll;
		struct ky_park_line park;
		struct ky_wake wake;
		struct ky_inner_line inner;
	} line;
};

static const struct ky_row_order *order_of(struct ky_query_shared *shared, uint8_t rows,
					   bool is_by_site)
{
	struct ky_row_order *order =
		&shared->orders[rows == KY_ROWS_WAKES ? 1 : 0][is_by_site ? 0 : 1];

	if (!order->rows && ky_row_order_make(order, shared->source.trace, rows,
					      is_by_site ? KY_KEY_SITE : KY_KEY_TASK))
		return NULL;
	return order;
}

/* ---- the table ---- */

static int column_named(const struct ky_query_table *table, const char *name)
{
	for (uint32_t i = 0; i < table->column_count; i++)
		if (strcmp(table->columns[i].name, name) == 0)
			return (int)i;
	return -1;
}

static int connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **out,
		   char **error)
{
	const struct query_aux *given = aux;
	const struct ky_query_table *table = given->table;
	struct query_vtab *vtab;
	struct ky_buf text;
	int code;

	(void)argc;
	(void)argv;
	(void)error;
	ky_buf_init(&text, 0);
	ky_out_text(&text, "CREATE TABLE x(");
	for (uint32_t i = 0; i < table->column_count; i++)
		ky_out_format(&text, "%s%s %s", i ? ", " : "", table->columns[i].name,
			      ky_query_sql_type(&table->columns[i]));
	ky_out_text(&text, ")");
	(void)ky_buf_append(&text, "", 1);
	code = text.failed ? SQLITE_NOMEM : sqlite3_declare_vtab(db, (const char *)text.bytes);
	ky_buf_release(&text);
	vtab = code ? NULL : ky_alloc(sizeof(*vtab));
	if (!vtab)
		return code ? code : SQLITE_NOMEM;
	vtab->shared = given->shared;
	vtab->table = table;
	vtab->site = table->keys & KY_KEY_SITE ? column_named(table, "site") : -1;
	vtab->task = table->keys & KY_KEY_TASK ? column_named(table, "task") : -1;
	vtab->worker = table->keys & KY_KEY_WORKER ? column_named(table, "worker") : -1;
	*out = &vtab->base;
	return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *base)
{
	ky_free(base);
	return SQLITE_OK;
}

/* Which constraints can be used; -1: none. */
struct bounds {
	int site, task, worker, from, to;
};

static void find_bounds(const struct query_vtab *vtab, sqlite3_index_info *info, struct bounds *out)
{
	*out = (struct bounds){-1, -1, -1, -1, -1};
	for (int i = 0; i < info->nConstraint; i++) {
		int column = info->aConstraint[i].iColumn, op = info->aConstraint[i].op;
		bool is_equal = op == SQLITE_INDEX_CONSTRAINT_EQ;

		if (!info->aConstraint[i].usable || column < 0)
			continue;
		if (column == vtab->site && is_equal &&
		    strcmp(sqlite3_vtab_collation(info, i), "BINARY") == 0)
			out->site = i;
		else if (column == vtab->task && is_equal)
			out->task = i;
		else if (column == vtab->worker && is_equal)
			out->worker = i;
		else if (column == 0 && !ky_query_is_array(vtab->table)) {
			if (op == SQLITE_INDEX_CONSTRAINT_GE || op == SQLITE_INDEX_CONSTRAINT_GT)
				out->from = i;
			if (op == SQLITE_INDEX_CONSTRAINT_LE || op == SQLITE_INDEX_CONSTRAINT_LT)
				out->to = i;
		}
	}
}

static int pass(sqlite3_index_info *info, int constraint, int *next, int bit)
{
	if (constraint < 0)
		return 0;
	info->aConstraintUsage[constraint].argvIndex = ++*next;
	return bit;
}

/* The order that is asked for, of those that cost no sorting. */
static int wanted_order(const struct query_vtab *vtab, const sqlite3_index_info *info)
{
	int column = info->nOrderBy == 1 ? info->aOrderBy[0].iColumn : -1;

	if (column < 0 || (column != vtab->site && column != vtab->task && column != vtab->worker))
		return -1;
	return column;
}

static double row_estimate(const struct query_vtab *vtab)
{
	const struct ky_trace *trace = vtab->shared->source.trace;
	const uint8_t *rows;

	if (vtab->table->rows == KY_ROWS_EVENTS)
		return (double)trace->event_count * 20;
	if (vtab->table->rows == KY_ROWS_CUSTOM_VALUES)
		return (double)trace->custom_value_count;
	if (vtab->table->rows == KY_ROWS_QUEUE_SAMPLES)
		return (double)trace->event_count;
	if (ky_query_is_array(vtab->table))
		return vtab->table->rows != KY_ROWS_ARRAY ?
			       1.0 :
			       (double)ky_query_array(vtab->table, trace, &rows);
	return (double)ky_query_lane_rows(trace, vtab->table->rows);
}

/* Does the query use a column that names functions? */
static bool names_code(const struct ky_query_table *table, sqlite3_uint64 used)
{
	for (uint32_t i = 0; i < table->column_count; i++)
		if (table->columns[i].is_code && used >> (i < 63 ? i : 63) & 1)
			return true;
	return false;
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
	const struct query_vtab *vtab = (const struct query_vtab *)base;
	int order = wanted_order(vtab, info), plan = 0, next = 0;
	double rows = row_estimate(vtab) + 1;
	bool has_orders = rows < (double)UINT32_MAX;
	struct bounds bounds;

	find_bounds(vtab, info, &bounds);
	if (has_orders && bounds.task >= 0)
		plan = PLAN_BY_TASK | pass(info, bounds.task, &next, PLAN_HAS_KEY);
	else if (has_orders && bounds.site >= 0)
		plan = PLAN_BY_SITE | pass(info, bounds.site, &next, PLAN_HAS_KEY);
	else if (has_orders && order >= 0 && order == vtab->site)
		plan = PLAN_BY_SITE;
	else if (has_orders && order >= 0 && order == vtab->task)
		plan = PLAN_BY_TASK;
	if (!plan) {
		plan |= pass(info, bounds.worker, &next, PLAN_HAS_WORKER);
		plan |= pass(info, bounds.from, &next, PLAN_HAS_FROM);
		plan |= pass(info, bounds.to, &next, PLAN_HAS_TO);
	}
	if (order >= 0 && order == (plan & PLAN_BY_SITE ? vtab->site :
				    plan & PLAN_BY_TASK ? vtab->task :
							  vtab->worker)) {
		info->orderByConsumed = 1;
		plan |= info->aOrderBy[0].desc ? PLAN_DESCENDS : 0;
	}
	plan |= names_code(vtab->table, info->colUsed) ? PLAN_NAMES_CODE : 0;
	rows /= plan & PLAN_HAS_KEY ? 50 : 1;
	rows /= plan & PLAN_HAS_WORKER ? 4 : 1;
	rows /= plan & (PLAN_HAS_FROM | PLAN_HAS_TO) ? 4 : 1;
	info->idxNum = plan;
	info->estimatedCost = rows * (plan & (PLAN_BY_SITE | PLAN_BY_TASK) ? 1.2 : 1);
	info->estimatedRows = (sqlite3_int64)rows;
	return SQLITE_OK;
}

/* ---- the cursor ---- */

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
	struct query_cursor *cursor = ky_alloc(sizeof(*cursor));

	(void)base;
	if (!cursor)
		return SQLITE_NOMEM;
	*out = &cursor->base;
	return SQLITE_OK;
}

static void end_stream(struct query_cursor *cursor)
{
	struct query_vtab *vtab = (struct query_vtab *)cursor->base.pVtab;

	if (!cursor->event.stream)
		return;
	ky_event_stream_close(cursor->event.stream);
	cursor->event.stream = NULL;
	vtab->shared->is_streaming = false;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
	end_stream((struct query_cursor *)base);
	ky_free(base);
	return SQLITE_OK;
}

/* The rows of the lane that are asked for; moves on to the next that has some. */
static void enter_lane(struct query_cursor *cursor, const struct query_vtab *vtab)
{
	const struct ky_query_shared *shared = vtab->shared;
	uint32_t count = shared->source.trace->worker_count;

	for (; cursor->lane_at < cursor->lane_end; cursor->lane_at++) {
		const struct ky_column *column;
		const struct ky_worker *worker;

		cursor->worker = shared->lanes[cursor->is_descending ? count - 1 - cursor->lane_at :
								       cursor->lane_at];
		worker = &shared->source.trace->workers[cursor->worker];
		column = ky_query_lane(worker, vtab->table->rows);
		if (cursor->has_worker &&
		    (worker->is_thread_lane || (int64_t)worker->id != cursor->worker_id))
			continue;
		cursor->row = cursor->from_ns ? ky_column_find(column, cursor->from_ns) : 0;
		cursor->row_end = cursor->to_ns == UINT64_MAX ?
					  column->row_count :
					  ky_column_find(column, cursor->to_ns + 1);
		if (cursor->row < cursor->row_end)
			return;
	}
	cursor->is_at_end = true;
}

/* Where the row at orders->rows[at] stands. */
static void enter_row(struct query_cursor *cursor, const struct query_vtab *vtab)
{
	const struct ky_row_order *order = cursor->order;
	const uint32_t *begins = ky_query_shared_begins(vtab->shared, vtab->table->rows);
	uint32_t number, low, high, at = cursor->at;

	if (cursor->at >= cursor->end) {
		cursor->is_at_end = true;
		return;
	}
	if (cursor->is_descending)
		at = order->row_count - 1 - at;
	number = order->rows[at];
	if (number < begins[cursor->worker] || number >= begins[cursor->worker + 1]) {
		low = 0;
		high = vtab->shared->source.trace->worker_count;
		while (high - low > 1) {
			uint32_t middle = low + (high - low) / 2;

			if (begins[middle] <= number)
				low = middle;
			else
				high = middle;
		}
		cursor->worker = low;
	}
	cursor->row = number - begins[cursor->worker];
	if (cursor->is_descending)
		while (at < order->begins[cursor->key_at])
			cursor->key_at--;
	else
		while (at >= order->begins[cursor->key_at + 1])
			cursor->key_at++;
}

static int begin_order(struct query_cursor *cursor, struct query_vtab *vtab, int plan,
		       sqlite3_value *key)
{
	const struct ky_trace *trace = vtab->shared->source.trace;
	const struct ky_row_order *order;
	uint32_t place;

	cursor->is_by_site = plan & PLAN_BY_SITE;
	cursor->order = order = order_of(vtab->shared, vtab->table->rows, cursor->is_by_site);
	if (!order)
		return SQLITE_NOMEM;
	cursor->at = 0;
	cursor->end = order->row_count;
	cursor->worker = 0;
	cursor->key_at = cursor->is_descending && order->key_count ? order->key_count - 1 : 0;
	if (key && sqlite3_value_type(key) == (cursor->is_by_site ? SQLITE_TEXT : SQLITE_INTEGER)) {
		place = cursor->is_by_site ?
				ky_row_order_site(order, trace,
						  (const char *)sqlite3_value_text(key)) :
				ky_row_order_task(order, trace, sqlite3_value_int64(key));
		cursor->is_descending = false;
		cursor->key_at = place;
		cursor->at = place < order->key_count ? order->begins[place] : 0;
		cursor->end = place < order->key_count ? order->begins[place + 1] : 0;
	}
	enter_row(cursor, vtab);
	return SQLITE_OK;
}

static void begin_lanes(struct query_cursor *cursor, const struct query_vtab *vtab, int plan,
			sqlite3_value **values)
{
	sqlite3_value *value;

	cursor->order = NULL;
	cursor->from_ns = 0;
	cursor->to_ns = UINT64_MAX;
	cursor->has_worker = false;
	if (plan & PLAN_HAS_WORKER) {
		value = *values++;
		cursor->has_worker = sqlite3_value_type(value) == SQLITE_INTEGER;
		cursor->worker_id = sqlite3_value_int64(value);
	}
	if (plan & PLAN_HAS_FROM) {
		value = *values++;
		if (sqlite3_value_type(value) == SQLITE_INTEGER && sqlite3_value_int64(value) > 0)
			cursor->from_ns = (uint64_t)sqlite3_value_int64(value);
	}
	if (plan & PLAN_HAS_TO) {
		value = *values++;
		if (sqlite3_value_type(value) == SQLITE_INTEGER)
			cursor->to_ns = sqlite3_value_int64(value) < 0 ?
						0 :
						(uint64_t)sqlite3_value_int64(value);
	}
	cursor->lane_at = 0;
	cursor->lane_end = vtab->shared->source.trace->worker_count;
	enter_lane(cursor, vtab);
}

static void skip_others(struct query_cursor *cursor, const struct ky_query_table *table)
{
	while (table->filter_offset && cursor->row < cursor->row_end &&
	       cursor->rows[cursor->row * table->row_bytes + table->filter_offset] != table->filter)
		cursor->row++;
	cursor->is_at_end = cursor->row >= cursor->row_end;
}

static int next_event(struct query_cursor *cursor)
{
	int result = ky_event_stream_next(cursor->event.stream, &cursor->event.event);

	cursor->row++;
	cursor->is_at_end = result <= 0;
	return result < 0 ? SQLITE_NOMEM : SQLITE_OK;
}

static int begin_events(struct query_cursor *cursor, struct query_vtab *vtab)
{
	static const struct ky_event_stream_options options;
	struct ky_query_shared *shared = vtab->shared;

	end_stream(cursor);
	if (shared->is_streaming || !shared->sources) {
		sqlite3_free(vtab->base.zErrMsg);
		vtab->base.zErrMsg = sqlite3_mprintf("events can stand once in a query");
		return SQLITE_ERROR;
	}
	if (ky_event_stream_open(&cursor->event.stream, shared->sources, shared->source_count,
				 &options)) {
		sqlite3_free(vtab->base.zErrMsg);
		vtab->base.zErrMsg = sqlite3_mprintf(
			"events are read anew, which this input does not allow");
		return SQLITE_ERROR;
	}
	shared->is_streaming = true;
	return next_event(cursor);
}

static int begin_array(struct query_cursor *cursor, struct query_vtab *vtab)
{
	int code = ky_query_shared_array(vtab->shared, vtab->table, &cursor->rows,
					 &cursor->row_end);

	cursor->row = 0;
	if (!code)
		skip_others(cursor, vtab->table);
	return code;
}

/* ---- rows within rows ---- */

static uint64_t inner_count(const struct ky_trace *trace, uint8_t rows, uint64_t outer)
{
	return rows == KY_ROWS_QUEUE_SAMPLES ?
		       trace->queues[outer].rows.row_count :
		       trace->custom_types[trace->custom_rows[outer].type].field_count;
}

static void enter_outer(struct query_cursor *cursor, const struct query_vtab *vtab)
{
	const struct ky_trace *trace = vtab->shared->source.trace;

	while (cursor->row < cursor->row_end &&
	       cursor->line.inner.inner >= inner_count(trace, vtab->table->rows, cursor->row)) {
		cursor->row++;
		cursor->line.inner.inner = 0;
	}
	cursor->line.inner.outer = (uint32_t)cursor->row;
	cursor->is_at_end = cursor->row >= cursor->row_end;
}

static void begin_inner(struct query_cursor *cursor, const struct query_vtab *vtab)
{
	const struct ky_trace *trace = vtab->shared->source.trace;

	cursor->row = cursor->line.inner.inner = 0;
	cursor->row_end = vtab->table->rows == KY_ROWS_QUEUE_SAMPLES ? trace->queue_count :
								       trace->custom_row_count;
	enter_outer(cursor, vtab);
}

static bool is_inner(const struct ky_query_table *table)
{
	return table->rows == KY_ROWS_QUEUE_SAMPLES || table->rows == KY_ROWS_CUSTOM_VALUES;
}

static int filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc,
		  sqlite3_value **argv)
{
	struct query_cursor *cursor = (struct query_cursor *)base;
	struct query_vtab *vtab = (struct query_vtab *)base->pVtab;

	(void)text;
	(void)argc;
	cursor->is_at_end = cursor->is_read = false;
	cursor->is_descending = plan & PLAN_DESCENDS;
	if ((plan & PLAN_NAMES_CODE) && ky_query_shared_name_code(vtab->shared))
		return SQLITE_NOMEM;
	if (vtab->table->rows == KY_ROWS_EVENTS)
		return begin_events(cursor, vtab);
	if (is_inner(vtab->table)) {
		begin_inner(cursor, vtab);
		return SQLITE_OK;
	}
	if (ky_query_is_array(vtab->table))
		return begin_array(cursor, vtab);
	if (plan & (PLAN_BY_SITE | PLAN_BY_TASK))
		return begin_order(cursor, vtab, plan, plan & PLAN_HAS_KEY ? argv[0] : NULL);
	begin_lanes(cursor, vtab, plan, argv);
	return SQLITE_OK;
}

static int next(sqlite3_vtab_cursor *base)
{
	struct query_cursor *cursor = (struct query_cursor *)base;
	const struct query_vtab *vtab = (const struct query_vtab *)base->pVtab;

	cursor->is_read = false;
	if (vtab->table->rows == KY_ROWS_EVENTS)
		return next_event(cursor);
	if (is_inner(vtab->table)) {
		cursor->line.inner.inner++;
		enter_outer(cursor, vtab);
		return SQLITE_OK;
	}
	if (cursor->order) {
		cursor->at++;
		enter_row(cursor, vtab);
		return SQLITE_OK;
	}
	cursor->row++;
	if (ky_query_is_array(vtab->table)) {
		skip_others(cursor, vtab->table);
	} else if (cursor->row >= cursor->row_end) {
		cursor->lane_at++;
		enter_lane(cursor, vtab);
	}
	return SQLITE_OK;
}

static int is_at_end(sqlite3_vtab_cursor *base)
{
	return ((struct query_cursor *)base)->is_at_end;
}

static const void *row_of(struct query_cursor *cursor, const struct query_vtab *vtab)
{
	const struct ky_trace *trace = vtab->shared->source.trace;

	if (vtab->table->rows == KY_ROWS_EVENTS)
		return &cursor->event;
	if (is_inner(vtab->table))
		return &cursor->line.inner;
	if (ky_query_is_array(vtab->table))
		return cursor->rows + cursor->row * vtab->table->row_bytes;
	if (!cursor->is_read) {
		cursor->is_read = true;
		if (vtab->table->rows == KY_ROWS_POLLS) {
			ky_trace_poll(trace, cursor->worker, cursor->row, &cursor->line.poll);
		} else if (vtab->table->rows == KY_ROWS_PARKS) {
			cursor->line.park.worker = cursor->worker;
			ky_trace_park(trace, cursor->worker, cursor->row, &cursor->line.park.park);
		} else {
			ky_trace_wake(trace, cursor->worker, cursor->row, &cursor->line.wake);
		}
	}
	return &cursor->line;
}

/* The site by which the rows are ordered is known without reading the row. */
static bool put_key(sqlite3_context *context, const struct query_cursor *cursor,
		    const struct query_vtab *vtab, int column)
{
	const struct ky_trace *trace = vtab->shared->source.trace;
	uint32_t key;

	if (!cursor->order || column != (cursor->is_by_site ? vtab->site : vtab->task))
		return false;
	key = cursor->order->keys[cursor->key_at];
	if (key == KY_NONE)
		sqlite3_result_null(context);
	else if (cursor->is_by_site)
		sqlite3_result_text(context, ky_trace_name(trace, key), -1, SQLITE_STATIC);
	else
		sqlite3_result_int64(context, (sqlite3_int64)trace->tasks[key].id);
	return true;
}

static int column_value(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
	struct query_cursor *cursor = (struct query_cursor *)base;
	const struct query_vtab *vtab = (const struct query_vtab *)base->pVtab;
	struct ky_query_value value;

	if (column < 0 || (uint32_t)column >= vtab->table->column_count ||
	    put_key(context, cursor, vtab, column))
		return SQLITE_OK;
	ky_query_value(&vtab->shared->source, &vtab->table->columns[column], row_of(cursor, vtab),
		       &value);
	if (value.type == KY_VALUE_NUMBER)
		sqlite3_result_int64(context, value.number);
	else if (value.type == KY_VALUE_REAL)
		sqlite3_result_double(context, value.real);
	else if (value.type == KY_VALUE_TEXT)
		sqlite3_result_text(context, value.text, -1,
				    value.is_passing ? SQLITE_TRANSIENT : SQLITE_STATIC);
	return SQLITE_OK;
}

static int row_id(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
	const struct query_cursor *cursor = (const struct query_cursor *)base;

	*out = (sqlite3_int64)((uint64_t)cursor->worker << 40 | cursor->row);
	if (is_inner(((const struct query_vtab *)base->pVtab)->table))
		*out = (sqlite3_int64)(cursor->row << 24 | cursor->line.inner.inner);
	return SQLITE_OK;
}

static const sqlite3_module module = {
	.xConnect = connect,
	.xBestIndex = best_index,
	.xDisconnect = disconnect,
	.xDestroy = disconnect,
	.xOpen = open_cursor,
	.xClose = close_cursor,
	.xFilter = filter,
	.xNext = next,
	.xEof = is_at_end,
	.xColumn = column_value,
	.xRowid = row_id,
};

int ky_query_tables_declare(sqlite3 *db, struct ky_query_shared *shared)
{
	int code = SQLITE_OK;

	for (uint32_t i = 0; i < ky_query_table_count && !code; i++) {
		struct query_aux *aux = ky_alloc(sizeof(*aux));

		if (!aux)
			return SQLITE_NOMEM;
		aux->shared = shared;
		aux->table = &ky_query_tables[i];
		code = sqlite3_create_module_v2(db, aux->table->name, &module, aux, ky_free);
	}
	return code;
}
