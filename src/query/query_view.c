/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <query/query_view.h>

#include <base/nearest.h>
#include <base/out_text.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES 128u
#define SUMS_MAX 3u /* columns that are added up in groups */

struct select_text {
	struct ky_query *query;
	const struct ky_view_options *options;
	const struct ky_query_table *table; /* NULL: a view or a type of event */
	const struct ky_query_view *view;
	struct ky_buf sql;
	size_t where_begin, where_end; /* of the user's expression in it */
	const char *order;
};

static const struct ky_query_view *view_named(const char *name)
{
	for (uint32_t i = 0; i < ky_query_view_count; i++)
		if (strcmp(ky_query_views[i].name, name) == 0)
			return &ky_query_views[i];
	return NULL;
}

/* The next of "a,b"; false at the end. */
static bool next_word(const char **list, char name[NAME_BYTES])
{
	size_t bytes = strcspn(*list, ",");

	if (!**list)
		return false;
	(void)snprintf(name, NAME_BYTES, "%.*s", (int)bytes, *list);
	*list += bytes + ((*list)[bytes] == ',');
	return true;
}

static bool is_ending(const char *name, const char *end)
{
	size_t bytes = strlen(name), end_bytes = strlen(end);

	return bytes >= end_bytes && strcmp(name + bytes - end_bytes, end) == 0;
}

static const struct ky_query_column *column_named(const char *table, const char *name)
{
	const struct ky_query_table *known = table ? ky_query_table_find(table) : NULL;

	for (uint32_t i = 0; known && i < known->column_count; i++)
		if (strcmp(known->columns[i].name, name) == 0)
			return &known->columns[i];
	return NULL;
}

uint32_t ky_view_unit(const char *table, const char *column)
{
	static const char *const moments[] = {"time_ns", "start_ns", "end_ns", "first_ns",
					      "last_ns", "from_ns",  "to_ns"};
	const struct ky_query_column *known = column_named(table, column);

	if (known)
		return known->unit;
	for (uint32_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++)
		if (strcmp(column, moments[i]) == 0)
			return KY_UNIT_TIME;
	return is_ending(column, "_ns")    ? KY_UNIT_NS :
	       is_ending(column, "_bytes") ? KY_UNIT_BYTES :
					     KY_UNIT_PLAIN;
}

static void quoted(struct ky_buf *out, const char *name)
{
	ky_out_text(out, "\"");
	for (; *name; name++)
		ky_out_format(out, *name == '"' ? "\"\"" : "%c", *name);
	ky_out_text(out, "\"");
}

/* Length and bytes are added up; of lengths percentiles count, too. */
static void put_sums(struct ky_buf *out, const struct ky_query_column *column)
{
	ky_out_format(out, ", sum(%s) AS sum_%s", column->name, column->name);
	if (column->unit == KY_UNIT_NS)
		ky_out_format(out, ", p50(%s) AS p50_%s, p99(%s) AS p99_%s", column->name,
			      column->name, column->name, column->name);
	if (column->unit != KY_UNIT_COUNT)
		ky_out_format(out, ", max(%s) AS max_%s", column->name, column->name);
}

static bool is_in_list(const char *list, const char *name)
{
	char word[NAME_BYTES];

	while (next_word(&list, word))
		if (strcmp(word, name) == 0)
			return true;
	return false;
}

static void put_groups(struct select_text *text)
{
	const char *list = text->options->group;
	const struct ky_query_table *table = text->table;
	char name[NAME_BYTES];
	uint32_t sum_count = 0;

	ky_out_text(&text->sql, "count(*) AS rows");
	for (uint32_t i = 0; table && i < table->column_count && sum_count < SUMS_MAX; i++) {
		const struct ky_query_column *column = &table->columns[i];
		const char *shown = text->options->columns ? text->options->columns : table->shown;

		if ((column->unit == KY_UNIT_NS || column->unit == KY_UNIT_BYTES ||
		     column->unit == KY_UNIT_COUNT) &&
		    !is_in_list(text->options->group, column->name) &&
		    (!shown || is_in_list(shown, column->name))) {
			put_sums(&text->sql, column);
			sum_count++;
		}
	}
	while (next_word(&list, name)) {
		ky_out_text(&text->sql, ", ");
		quoted(&text->sql, name);
	}
	text->order = "-rows";
}

static void put_columns(struct select_text *text)
{
	const char *list = text->options->columns;
	char name[NAME_BYTES];
	bool is_first = true;

	if (!list && text->table)
		list = text->table->shown;
	text->order = text->table ? text->table->order : text->view ? text->view->order : NULL;
	if (!list) {
		ky_out_text(&text->sql, "*");
		return;
	}
	while (next_word(&list, name)) {
		ky_out_text(&text->sql, is_first ? "" : ", ");
		quoted(&text->sql, name);
		is_first = false;
	}
}

/* The user's expression stands on lines of its own, so that a comment in it ends there. */
static void put_where(struct select_text *text)
{
	if (!text->options->where)
		return;
	ky_out_text(&text->sql, " WHERE (\n");
	text->where_begin = text->sql.used;
	ky_out_text(&text->sql, text->options->where);
	text->where_end = text->sql.used;
	ky_out_text(&text->sql, "\n)");
}

static void put_names(struct ky_buf *out, const char *before, const char *list)
{
	char name[NAME_BYTES];

	while (next_word(&list, name)) {
		bool is_descending = name[0] == '-';

		ky_out_text(out, before);
		quoted(out, name + is_descending);
		ky_out_text(out, is_descending ? " DESC NULLS LAST" : "");
		before = ", ";
	}
}

/* Each column that the user names exists; "a" that SQLite does not know would be a text to it. */
static int check_names(struct select_text *text, const char *list, const char *option,
		       const char *relation)
{
	char name[NAME_BYTES];
	struct ky_buf sql;
	int code = 0;

	while (!code && list && next_word(&list, name)) {
		ky_buf_init(&sql, 0);
		ky_out_text(&sql, "SELECT r.");
		quoted(&sql, name + (name[0] == '-'));
		ky_out_format(&sql, " FROM %s AS r LIMIT 0", relation);
		(void)ky_buf_append(&sql, "", 1);
		code = sql.failed ?
			       sql.failed :
			       ky_query_prepare(text->query, (const char *)sql.bytes, NULL, NULL);
		if (code == -EINVAL)
			code = ky_query_fail_column(text->query, option, name + (name[0] == '-'),
						    text->options->name);
		ky_buf_release(&sql);
	}
	return code;
}

/* As SQL has to call it. Returns 0, or what is wrong with the name. */
static int find_relation(struct select_text *text, char relation[2 * NAME_BYTES])
{
	char name[NAME_BYTES];
	const char *given = text->options->name;
	int known;

	text->table = ky_query_table_find(given);
	if (text->table)
		given = text->table->name;
	(void)snprintf(name, sizeof(name), "%s", given);
	for (char *at = name; !text->table && *at; at++)
		*at = (char)(*at == '-' ? '_' : *at);
	text->view = text->table ? NULL : view_named(name);
	if (text->view)
		given = text->view->name;
	known = strchr(given, '"') || strlen(given) >= NAME_BYTES ?
			0 :
			ky_query_knows(text->query, given);
	if (known < 0)
		return known;
	if (!known)
		return ky_query_fail_view(text->query, text->options->name);
	(void)snprintf(relation, 2 * NAME_BYTES, "\"%s\"", given);
	return 0;
}

static int prepare(struct select_text *text, const char *relation)
{
	const struct ky_view_options *options = text->options;
	const char *sql;

	ky_out_text(&text->sql, "SELECT ");
	if (options->group)
		put_groups(text);
	else
		put_columns(text);
	ky_out_format(&text->sql, " FROM %s", relation);
	put_where(text);
	if (options->group)
		put_names(&text->sql, " GROUP BY ", options->group);
	if (options->sort)
		text->order = options->sort;
	if (text->order)
		put_names(&text->sql, " ORDER BY ", text->order);
	if (options->limit)
		ky_out_format(&text->sql, " LIMIT %llu", (unsigned long long)options->limit + 1);
	(void)ky_buf_append(&text->sql, "", 1);
	if (text->sql.failed)
		return text->sql.failed;
	sql = (const char *)text->sql.bytes;
	if (!options->where)
		return ky_query_prepare(text->query, sql, NULL, NULL);
	return ky_query_prepare(text->query, sql, sql + text->where_begin, sql + text->where_end);
}

int ky_view_prepare(struct ky_query *query, const struct ky_view_options *options)
{
	struct select_text text = {.query = query, .options = options};
	char relation[2 * NAME_BYTES];
	int code = find_relation(&text, relation);

	ky_buf_init(&text.sql, 0);
	if (!code)
		code = check_names(&text, options->group, "--group-by", relation);
	if (!code)
		code = check_names(&text, options->columns, "--columns", relation);
	if (!code && !options->group)
		code = check_names(&text, options->sort, "--sort", relation);
	if (!code)
		code = prepare(&text, relation);
	ky_buf_release(&text.sql);
	return code;
}

/* "SELECT begin shown end". */
static int prepare_around(struct ky_query *query, const char *begin, const char *shown,
			  const char *end)
{
	struct ky_buf sql;
	size_t at;
	int code;

	ky_buf_init(&sql, 0);
	ky_out_text(&sql, begin);
	at = sql.used;
	ky_out_text(&sql, shown);
	ky_out_text(&sql, end);
	(void)ky_buf_append(&sql, "", 1);
	code = sql.failed;
	if (!code)
		code = ky_query_prepare(query, (const char *)sql.bytes,
					(const char *)sql.bytes + at,
					(const char *)sql.bytes + at + strlen(shown));
	ky_buf_release(&sql);
	return code;
}

int ky_view_prepare_value(struct ky_query *query, const char *name, const char *where,
			  const char *value)
{
	const struct ky_view_options options = {.name = name};
	struct select_text text = {.query = query, .options = &options};
	char relation[2 * NAME_BYTES];
	struct ky_buf begin, end;
	int code = find_relation(&text, relation);

	ky_buf_init(&begin, 0);
	ky_buf_init(&end, 0);
	/* First the condition alone, so that a position is one in it. */
	ky_out_format(&begin, "SELECT count(*) FROM %s WHERE (\n", relation);
	(void)ky_buf_append(&begin, "", 1);
	ky_out_format(&end, "\n) FROM %s", relation);
	if (where)
		ky_out_format(&end, " WHERE (\n%s\n)", where);
	(void)ky_buf_append(&end, "", 1);
	if (!code)
		code = begin.failed ? begin.failed : end.failed;
	if (!code && where)
		code = prepare_around(query, (const char *)begin.bytes, where, "\n)");
	if (!code)
		code = prepare_around(query, "SELECT (\n", value, (const char *)end.bytes);
	ky_buf_release(&begin);
	ky_buf_release(&end);
	return code;
}

void ky_view_list(struct ky_buf *out)
{
	struct ky_table table;

	ky_table_begin(&table, "ll", "View|What it shows");
	for (uint32_t i = 0; i < ky_query_table_count + ky_query_view_count; i++) {
		const bool is_table = i < ky_query_table_count;
		const uint32_t at = is_table ? i : i - ky_query_table_count;
		char name[NAME_BYTES];

		(void)snprintf(name, sizeof(name), "%s",
			       is_table ? ky_query_tables[at].name : ky_query_views[at].name);
		for (char *byte = name; *byte; byte++)
			*byte = (char)(*byte == '_' ? '-' : *byte);
		ky_table_cell(&table, name);
		ky_table_cell(&table, is_table ? ky_query_tables[at].doc : ky_query_views[at].doc);
	}
	ky_table_end(&table, out, 0, false);
}
