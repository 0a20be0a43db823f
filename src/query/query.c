/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <query/query.h>

#include <analyze/catalog.h>
#include <base/alloc.h>
#include <base/nearest.h>
#include <base/now.h>
#include <base/out_text.h>
#include <errno.h>
#include <kymo/base.h>
#include <query/query_cursor.h>
#include <query/query_functions.h>
#include <read/sort.h>
#include <stdio.h>
#include <string.h>

#define ERROR_BYTES 640u
#define STEPS_PER_CHECK 10000
#define SQL_BYTES_MAX 1000000
#define VALUE_BYTES_MAX (16 << 20)
#define SORT_PAGES "PRAGMA temp_store = MEMORY"

struct ky_query {
	struct ky_query_options options;
	struct ky_query_shared shared;
	sqlite3 *db;
	sqlite3_stmt *statement;
	uint64_t deadline_ns;
	bool is_late;
	bool are_events_known;
	char denied[64]; /* what the authorizer refused last */
	char error[ERROR_BYTES];
};

/* ---- a file system without files ---- */

static int open_nothing(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
			int *out_flags)
{
	(void)vfs;
	(void)name;
	(void)flags;
	(void)out_flags;
	file->pMethods = NULL;
	return SQLITE_CANTOPEN;
}

static const char *no_files(void)
{
	static const char name[] = "kymo-no-files";
	static sqlite3_vfs vfs;

	if (!vfs.zName) {
		const sqlite3_vfs *usual = sqlite3_vfs_find(NULL);

		if (!usual)
			return NULL;
		vfs = *usual;
		vfs.pNext = NULL;
		vfs.zName = name;
		vfs.xOpen = open_nothing;
	}
	return sqlite3_vfs_register(&vfs, 0) == SQLITE_OK ? name : NULL;
}

/* ---- what may run ---- */

static int authorize(void *ctx, int action, const char *one, const char *two, const char *database,
		     const char *trigger)
{
	struct ky_query *query = ctx;

	(void)database;
	(void)trigger;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		if (two && sqlite3_stricmp(two, "load_extension") != 0 &&
		    sqlite3_stricmp(two, "fts3_tokenizer") != 0)
			return SQLITE_OK;
		(void)snprintf(query->denied, sizeof(query->denied), "%s()", two ? two : "?");
		return SQLITE_DENY;
	default:
		(void)snprintf(query->denied, sizeof(query->denied), "%s",
			       action == SQLITE_PRAGMA ? "PRAGMA" :
			       action == SQLITE_ATTACH ? "ATTACH" :
			       action == SQLITE_DETACH ? "DETACH" :
			       action == SQLITE_INSERT ? "INSERT" :
			       action == SQLITE_UPDATE ? "UPDATE" :
			       action == SQLITE_DELETE ? "DELETE" :
							 "what is no SELECT");
		(void)one;
		return SQLITE_DENY;
	}
}

static int check_time(void *ctx)
{
	struct ky_query *query = ctx;

	query->is_late = ky_now_ns(CLOCK_MONOTONIC) >= query->deadline_ns;
	return query->is_late;
}

/* ---- open ---- */

static int name_code(void *ctx)
{
	struct ky_query *query = ctx;

	if (!query->options.name_code)
		return 0;
	return query->options.name_code(query->options.ctx, &query->shared.source.stacks);
}

static int find(void *ctx)
{
	struct ky_query *query = ctx;

	if (!query->options.find)
		return 0;
	return query->options.find(query->options.ctx, &query->shared.findings);
}

static int make_views(sqlite3 *db)
{
	int code = SQLITE_OK;

	for (uint32_t i = 0; i < ky_query_view_count && !code; i++) {
		char *sql = sqlite3_mprintf("CREATE TEMP VIEW %s AS %s", ky_query_views[i].name,
					    ky_query_views[i].select);

		code = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
		sqlite3_free(sql);
	}
	return code;
}

/* A table is declared when it is named first, which the authorizer would refuse. */
static int name_tables(sqlite3 *db)
{
	int code = SQLITE_OK;

	for (uint32_t i = 0; i < ky_query_table_count && !code; i++) {
		char *sql = sqlite3_mprintf("SELECT 1 FROM %s LIMIT 0", ky_query_tables[i].name);

		code = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
		sqlite3_free(sql);
	}
	return code;
}

static void set_limits(sqlite3 *db)
{
	(void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX);
	(void)sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX);
	(void)sqlite3_limit(db, SQLITE_LIMIT_COLUMN, (int)KY_QUERY_COLUMNS_MAX);
	(void)sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
	(void)sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000);
	(void)sqlite3_limit(db, SQLITE_LIMIT_WORKER_THREADS, 0);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
}

static int set_up(struct ky_query *query)
{
	const char *vfs = no_files();
	int code;

	if (!vfs)
		return SQLITE_ERROR;
	code = sqlite3_open_v2(
		":memory:", &query->db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY | SQLITE_OPEN_PRIVATECACHE, vfs);
	if (!code)
		code = sqlite3_exec(query->db, SORT_PAGES, NULL, NULL, NULL);
	if (!code)
		code = ky_query_tables_declare(query->db, &query->shared);
	if (!code)
		code = ky_query_functions_declare(query->db, query->options.trace);
	if (!code)
		code = name_tables(query->db);
	if (!code)
		code = make_views(query->db);
	if (code)
		return code;
	/* SQLite declares these tables when they are first named, which later looks like a change.
	 * One without them has only these two less. */
	(void)sqlite3_exec(query->db, "SELECT 1 FROM json_each('[]'), json_tree('[]')", NULL, NULL,
			   NULL);
	set_limits(query->db);
	return sqlite3_set_authorizer(query->db, authorize, query);
}

int ky_query_open(struct ky_query **out, const struct ky_query_options *options)
{
	struct ky_query *query;
	int code;

	*out = NULL;
	if (!ky_sqlite_library_load())
		return -ELIBACC;
	query = ky_alloc(sizeof(*query));
	if (!query)
		return -ENOMEM;
	query->options = *options;
	query->shared.sources = options->sources;
	query->shared.source_count = options->source_count;
	query->shared.name_code = name_code;
	query->shared.find = find;
	query->shared.ctx = query;
	if (!query->options.memory_bytes_max)
		query->options.memory_bytes_max = UINT64_C(1) << 30;
	if (!query->options.time_max_ns)
		query->options.time_max_ns = KY_QUERY_TIME_MAX_NS;
	code = ky_query_shared_init(&query->shared, options->trace) ? SQLITE_NOMEM : SQLITE_OK;
	if (!code)
		code = set_up(query);
	if (code) {
		ky_query_close(query);
		return code == SQLITE_NOMEM ? -ENOMEM : -EIO;
	}
	(void)sqlite3_hard_heap_limit64((sqlite3_int64)query->options.memory_bytes_max);
	*out = query;
	return 0;
}

void ky_query_close(struct ky_query *query)
{
	if (!query)
		return;
	(void)sqlite3_finalize(query->statement);
	(void)sqlite3_close(query->db);
	ky_query_shared_release(&query->shared);
	ky_free(query);
}

/* ---- errors ---- */

__attribute__((format(printf, 3, 4))) static int fail(struct ky_query *query, int code,
						      const char *format, ...)
{
	struct ky_buf text;
	va_list args;

	ky_buf_init(&text, 0);
	va_start(args, format);
	ky_out_format_list(&text, format, args);
	va_end(args);
	(void)ky_buf_append(&text, "", 1);
	(void)snprintf(query->error, sizeof(query->error), "%s",
		       text.failed ? "out of memory" : (const char *)text.bytes);
	ky_buf_release(&text);
	return code;
}

/* Name of a table or a column closest to `typed`; NULL: none is close. */
static const char *nearest_name(const char *typed, bool is_table)
{
	const char *names[400];
	size_t count = 0;

	for (uint32_t i = 0; i < ky_query_table_count; i++) {
		if (is_table)
			names[count++] = ky_query_tables[i].name;
		for (uint32_t k = 0; !is_table && k < ky_query_tables[i].column_count; k++)
			if (count < sizeof(names) / sizeof(names[0]))
				names[count++] = ky_query_tables[i].columns[k].name;
	}
	for (uint32_t i = 0; is_table && i < ky_query_view_count; i++)
		names[count++] = ky_query_views[i].name;
	return ky_nearest(typed, names, count);
}

static int fail_unknown(struct ky_query *query, const char *message, const char *where)
{
	bool is_table = strncmp(message, "no such table", 13) == 0;
	const char *name = strrchr(message, ' '), *nearest;
	const char *dot;

	name = name ? name + 1 : message;
	dot = strrchr(name, '.');
	nearest = nearest_name(dot ? dot + 1 : name, is_table);
	return fail(query, -EINVAL,
		    "%s%s%s%s%s; `kymo query --schema` lists the tables and columns", message,
		    where, nearest ? "; did you mean " : "", nearest ? nearest : "",
		    nearest ? "?" : "");
}

/* What SQLite says of SQL that it does not prepare. */
static int fail_prepare(struct ky_query *query, const char *sql, const char *shown,
			const char *shown_end)
{
	const char *message = sqlite3_errmsg(query->db);
	int offset = sqlite3_error_offset(query->db);
	const char *at = offset >= 0 ? sql + offset : NULL;
	char where[64] = "";

	if (query->denied[0])
		return fail(query, -EPERM, "%s is refused: a trace is only read, by one SELECT",
			    query->denied);
	if (at && shown && at < shown)
		at = NULL;
	if (at && shown && at >= shown_end)
		(void)snprintf(where, sizeof(where), " (at its end)");
	else if (at)
		(void)snprintf(where, sizeof(where), " (at character %zu)",
			       (size_t)(at - (shown ? shown : sql)) + 1);
	if (strncmp(message, "no such table", 13) == 0 ||
	    strncmp(message, "no such column", 14) == 0)
		return fail_unknown(query, message, where);
	return fail(query, -EINVAL, "%s%s", message, where);
}

int ky_query_fail_view(struct ky_query *query, const char *name)
{
	const char *nearest = nearest_name(name, true);

	return fail(query, -EINVAL,
		    "there is no view and no type of event '%s'%s%s%s; `kymo view` lists the views",
		    name, nearest ? "; did you mean '" : "", nearest ? nearest : "",
		    nearest ? "'?" : "");
}

int ky_query_fail_column(struct ky_query *query, const char *option, const char *name,
			 const char *view)
{
	const struct ky_query_table *table = ky_query_table_find(view);
	struct ky_buf list;
	int code;

	ky_buf_init(&list, 0);
	for (uint32_t i = 0; table && i < table->column_count; i++)
		ky_out_format(&list, "%s%s", i ? ", " : "; it has ", table->columns[i].name);
	(void)ky_buf_append(&list, "", 1);
	code = fail(query, -EINVAL, "%s: %s has no column '%s'%s", option, view, name,
		    list.failed ? "" : (const char *)list.bytes);
	ky_buf_release(&list);
	return code;
}

/* ---- types of events as views ---- */

static bool is_plain(const char *name, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (name[i] == '"' || name[i] == '\'' || name[i] == '\\' ||
		    (unsigned char)name[i] < ' ')
			return false;
	return bytes > 0;
}

/* The fields of all shapes of a name, each once. */
struct view_text {
	struct ky_buf sql;
	const char *names[KY_QUERY_COLUMNS_MAX];
	size_t name_bytes[KY_QUERY_COLUMNS_MAX];
	uint32_t count;
};

static void add_field(struct view_text *view, const char *name, size_t name_bytes)
{
	for (uint32_t i = 0; i < view->count; i++)
		if (view->name_bytes[i] == name_bytes &&
		    memcmp(view->names[i], name, name_bytes) == 0)
			return;
	if (view->count == KY_QUERY_COLUMNS_MAX - 2 || !is_plain(name, name_bytes))
		return;
	view->names[view->count] = name;
	view->name_bytes[view->count++] = name_bytes;
	ky_out_format(&view->sql, ", fields->>'$.\"%.*s\"' AS \"%.*s\"", (int)name_bytes, name,
		      (int)name_bytes, name);
}

static void add_shape(struct view_text *view, const struct ky_shape *shape)
{
	const char *at = shape->body, *name;
	size_t name_bytes;
	uint8_t type;

	for (uint16_t i = 0; i < shape->field_count; i++) {
		at = ky_shape_field(at, &type, &name, &name_bytes);
		add_field(view, name, name_bytes);
	}
}

static bool is_shape_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_catalog *catalog = ctx;
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
	int order = strcmp(catalog->shapes[one].name, catalog->shapes[other].name);

	return order ? order < 0 : one < other;
}

static void make_event_views(struct ky_query *query, const struct ky_catalog *catalog,
			     const uint32_t *order, uint32_t count)
{
	struct view_text view;

	ky_buf_init(&view.sql, 0);
	for (uint32_t i = 0, end; i < count; i = end) {
		const char *name = catalog->shapes[order[i]].name;

		ky_buf_clear(&view.sql);
		view.count = 0;
		ky_out_format(&view.sql, "CREATE TEMP VIEW \"%s\" AS SELECT time_ns", name);
		for (end = i; end < count && strcmp(catalog->shapes[order[end]].name, name) == 0;
		     end++)
			add_shape(&view, &catalog->shapes[order[end]]);
		ky_out_format(&view.sql, " FROM events WHERE type = '%s'", name);
		(void)ky_buf_append(&view.sql, "", 1);
		/* One that is there already stays without. */
		if (!view.sql.failed)
			(void)sqlite3_exec(query->db, (const char *)view.sql.bytes, NULL, NULL,
					   NULL);
	}
	ky_buf_release(&view.sql);
}

/* The types of events get views. */
static int learn_events(struct ky_query *query)
{
	struct ky_catalog catalog;
	uint32_t *order = NULL, count = 0;
	int code;

	if (query->are_events_known || !query->options.sources)
		return 0;
	query->are_events_known = true;
	code = ky_catalog_init(&catalog);
	if (!code)
		code = ky_catalog_read(&catalog, query->options.sources,
				       query->options.source_count);
	if (!code)
		order = ky_alloc((catalog.count + (size_t)1) * sizeof(*order));
	for (uint32_t i = 0; order && i < catalog.count; i++)
		if (catalog.shapes[i].count &&
		    is_plain(catalog.shapes[i].name, catalog.shapes[i].name_bytes))
			order[count++] = i;
	if (order) {
		ky_sort(order, count, sizeof(*order), is_shape_before, &catalog);
		(void)sqlite3_set_authorizer(query->db, NULL, NULL);
		make_event_views(query, &catalog, order, count);
		(void)sqlite3_set_authorizer(query->db, authorize, query);
	}
	if (!code && !order)
		code = -ENOMEM;
	ky_free(order);
	ky_catalog_release(&catalog);
	return code == -ENOMEM ? code : 0;
}

static bool has_relation(const struct ky_query *query, const char *name)
{
	sqlite3_stmt *statement = NULL;
	char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\" LIMIT 0", name);
	bool is_known = sql &&
			sqlite3_prepare_v2(query->db, sql, -1, &statement, NULL) == SQLITE_OK;

	(void)sqlite3_finalize(statement);
	sqlite3_free(sql);
	return is_known;
}

int ky_query_knows(struct ky_query *query, const char *name)
{
	int code;

	if (has_relation(query, name))
		return 1;
	code = learn_events(query);
	return code ? code : has_relation(query, name);
}

/* ---- run ---- */

int ky_query_prepare(struct ky_query *query, const char *sql, const char *shown,
		     const char *shown_end)
{
	const char *rest = "";
	int code;

	for (int attempt = 0; attempt < 2; attempt++) {
		(void)sqlite3_finalize(query->statement);
		query->statement = NULL;
		query->denied[0] = '\0';
		code = sqlite3_prepare_v2(query->db, sql, -1, &query->statement, &rest);
		if (!code || strncmp(sqlite3_errmsg(query->db), "no such table", 13) != 0)
			break;
		if (learn_events(query))
			return fail(query, -ENOMEM, "out of memory");
	}
	if (code)
		return fail_prepare(query, sql, shown, shown_end);
	if (!query->statement)
		return fail(query, -EINVAL, "there is no SQL in '%s'", sql);
	rest += strspn(rest, " \t\r\n;");
	if (*rest)
		return fail(query, -EINVAL, "one SELECT at a time: '%.40s' follows it", rest);
	if (!sqlite3_stmt_readonly(query->statement) || !sqlite3_column_count(query->statement))
		return fail(query, -EPERM, "a trace is only read, by one SELECT");
	query->is_late = false;
	query->deadline_ns = ky_now_ns(CLOCK_MONOTONIC) + query->options.time_max_ns;
	sqlite3_progress_handler(query->db, STEPS_PER_CHECK, check_time, query);
	return 0;
}

int ky_query_next(struct ky_query *query)
{
	char cell[KY_OUT_CELL_BYTES];
	int code = sqlite3_step(query->statement);

	if (code == SQLITE_ROW)
		return 1;
	if (code == SQLITE_DONE)
		return 0;
	if (query->is_late)
		return fail(query, -ETIME, "stopped after %s; --max-time raises the limit",
			    ky_out_duration(cell, query->options.time_max_ns));
	if (code == SQLITE_NOMEM)
		return fail(query, KYMO_E_LIMIT,
			    "the query needs more than %s of memory; --max-memory raises the limit",
			    ky_out_bytes(cell, query->options.memory_bytes_max));
	return fail(query, -EINVAL, "%s", sqlite3_errmsg(query->db));
}

const char *ky_query_error(const struct ky_query *query)
{
	return query->error;
}

uint32_t ky_query_columns(const struct ky_query *query)
{
	return (uint32_t)sqlite3_column_count(query->statement);
}

const char *ky_query_column_name(const struct ky_query *query, uint32_t column)
{
	const char *name = sqlite3_column_name(query->statement, (int)column);

	return name ? name : "";
}

void ky_query_cell(const struct ky_query *query, uint32_t column, struct ky_query_cell *out)
{
	const int at = (int)column;

	memset(out, 0, sizeof(*out));
	switch (sqlite3_column_type(query->statement, at)) {
	case SQLITE_INTEGER:
		out->type = KY_CELL_NUMBER;
		out->number = sqlite3_column_int64(query->statement, at);
		break;
	case SQLITE_FLOAT:
		out->type = KY_CELL_REAL;
		out->real = sqlite3_column_double(query->statement, at);
		break;
	case SQLITE_NULL:
		break;
	default:
		out->text = (const char *)sqlite3_column_blob(query->statement, at);
		out->text_bytes = (size_t)sqlite3_column_bytes(query->statement, at);
		out->type = KY_CELL_TEXT;
		if (!out->text)
			out->text = "";
	}
}
