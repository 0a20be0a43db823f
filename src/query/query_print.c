/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <query/query_print.h>

#include <analyze/json_keys.h>
#include <base/json_write.h>
#include <base/out_text.h>
#include <errno.h>
#include <inttypes.h>
#include <query/query_view.h>
#include <report/event_format.h>
#include <analyze/short_name.h>
#include <stdio.h>
#include <string.h>

#define TABLE_ROWS_MAX 1000u
#define FLUSH_BYTES 65536u
#define TEXT_COLUMNS_MAX 60u

struct printer {
	struct ky_query *query;
	const struct ky_rows_options *options;
	uint32_t column_count;
	uint8_t units[KY_QUERY_COLUMNS_MAX];
	char align[KY_QUERY_COLUMNS_MAX + 1];
	struct ky_json_keys keys;
	bool are_keys_other;
	struct ky_buf out;
	uint64_t row_count;
	bool is_cut; /* there are more than options->limit */
};

static const char *const unit_names[KY_UNITS] = {
	[KY_UNIT_ID] = "id",         [KY_UNIT_COUNT] = "number", [KY_UNIT_NS] = "ns",
	[KY_UNIT_TIME] = "ns",       [KY_UNIT_BYTES] = "bytes",  [KY_UNIT_TEXT] = "text",
	[KY_UNIT_SENTENCE] = "text", [KY_UNIT_FLAG] = "number",  [KY_UNIT_PLAIN] = "number",
	[KY_UNIT_ANY] = "any",
};

/* ---- text ---- */

static const char *real_text(char *cell, double value)
{
	(void)snprintf(cell, KY_OUT_CELL_BYTES, "%.15g", value);
	return cell;
}

static void number_cell(const struct printer *printer, struct ky_table *table, uint32_t unit,
			int64_t number)
{
	const uint64_t start = printer->options->start_ns;
	char cell[KY_OUT_CELL_BYTES];
	uint64_t value = number < 0 ? 0 : (uint64_t)number;

	if (!printer->options->table || number < 0 || unit == KY_UNIT_ID || unit == KY_UNIT_PLAIN ||
	    unit == KY_UNIT_ANY || unit == KY_UNIT_TEXT || unit == KY_UNIT_SENTENCE) {
		ky_table_format(table, "%" PRId64, number);
	} else if (unit == KY_UNIT_NS) {
		ky_table_duration(table, value);
	} else if (unit == KY_UNIT_BYTES) {
		ky_table_cell(table, ky_out_bytes(cell, value));
	} else if (unit == KY_UNIT_FLAG) {
		ky_table_cell(table, value ? "yes" : "-");
	} else if (unit == KY_UNIT_TIME) {
		(void)ky_out_seconds(cell, value >= start ? value - start : start - value);
		ky_table_format(table, "%s%.*s", value >= start ? "+" : "-", (int)strlen(cell) - 3,
				cell);
	} else {
		ky_table_count(table, value);
	}
}

/* Names of types are shortened; of "name (file:line)" the name is. */
static void text_cell(const struct printer *printer, struct ky_table *table, uint32_t unit,
		      const struct ky_query_cell *value)
{
	char name[KY_SHORT_NAME_BYTES], whole[KY_SHORT_NAME_BYTES];
	const char *place = memmem(value->text, value->text_bytes, " (", 2);
	const size_t bytes = place ? (size_t)(place - value->text) : value->text_bytes;

	if (!printer->options->table || unit == KY_UNIT_SENTENCE || bytes >= sizeof(whole)) {
		ky_table_format(table, "%.*s", (int)value->text_bytes, value->text);
		return;
	}
	(void)snprintf(whole, sizeof(whole), "%.*s", (int)bytes, value->text);
	ky_table_format(table, "%s%.*s", ky_short_name(name, whole, TEXT_COLUMNS_MAX),
			(int)(value->text_bytes - bytes), place ? place : "");
}

static void text_row(const struct printer *printer, struct ky_table *table)
{
	struct ky_query_cell value;
	char cell[KY_OUT_CELL_BYTES];

	for (uint32_t i = 0; i < printer->column_count; i++) {
		ky_query_cell(printer->query, i, &value);
		if (value.type == KY_CELL_NULL)
			ky_table_cell(table, "-");
		else if (value.type == KY_CELL_NUMBER)
			number_cell(printer, table, printer->units[i], value.number);
		else if (value.type == KY_CELL_REAL)
			ky_table_cell(table, real_text(cell, value.real));
		else
			text_cell(printer, table, printer->units[i], &value);
	}
}

static void begin_table(const struct printer *printer, struct ky_table *table)
{
	struct ky_buf heads;

	ky_buf_init(&heads, 0);
	for (uint32_t i = 0; i < printer->column_count; i++) {
		const char *name = ky_query_column_name(printer->query, i);

		ky_out_text(&heads, i ? "|" : "");
		for (; *name; name++)
			ky_out_format(&heads, "%c", *name == '|' ? '/' : *name);
	}
	(void)ky_buf_append(&heads, "", 1);
	ky_table_begin(table, printer->align, heads.failed ? "" : (const char *)heads.bytes);
	ky_buf_release(&heads);
}

/* Numbers stand to the right: by the first row, where there is one. */
static void set_align(struct printer *printer, bool has_row)
{
	struct ky_query_cell value;

	for (uint32_t i = 0; i < printer->column_count; i++) {
		bool is_text = printer->units[i] == KY_UNIT_TEXT ||
			       printer->units[i] == KY_UNIT_SENTENCE;

		if (has_row) {
			ky_query_cell(printer->query, i, &value);
			is_text |= value.type == KY_CELL_TEXT;
		}
		printer->align[i] = is_text ? 'l' : 'r';
	}
}

/* Returns 1: there is a row that may be printed. */
static int next_row(struct printer *printer)
{
	int result = ky_query_next(printer->query);

	if (result == 1 && printer->options->limit &&
	    printer->row_count == printer->options->limit) {
		printer->is_cut = true;
		return 0;
	}
	printer->row_count += result == 1;
	return result;
}

static int flush(struct printer *printer, size_t used_min, bool *is_flush)
{
	int code = 0;

	if (printer->out.used >= used_min || printer->out.failed) {
		code = printer->options->flush(&printer->out);
		*is_flush = code != 0;
	}
	return code;
}

static int print_text(struct printer *printer, bool *is_flush)
{
	int result = next_row(printer), code = 0;
	struct ky_table table;

	if (result < 0)
		return result;
	set_align(printer, result == 1);
	do {
		begin_table(printer, &table);
		for (uint32_t i = 0; i < TABLE_ROWS_MAX && result == 1; i++) {
			text_row(printer, &table);
			result = next_row(printer);
		}
		ky_table_end(&table, &printer->out, 0, printer->options->is_coloured);
		code = flush(printer, 1, is_flush);
	} while (result == 1 && !code);
	if (!code && printer->row_count == 0)
		ky_out_text(&printer->out, "no rows\n");
	if (!code && printer->is_cut)
		ky_out_format(&printer->out,
			      "... and more; --limit %" PRIu64 " shows twice as many, "
			      "--limit 0 all\n",
			      2 * printer->options->limit);
	return code ? code : result < 0 ? result : 0;
}

/* ---- JSON and CSV ---- */

/* The key of a column: its name, or another where two are equal. */
static void json_key(struct printer *printer, uint32_t column)
{
	const char *name = ky_query_column_name(printer->query, column);
	size_t bytes = strlen(name);

	if (printer->are_keys_other)
		name = ky_json_keys_get(&printer->keys, column, &bytes);
	ky_json_string(&printer->out, name, bytes);
}

static void json_row(struct printer *printer)
{
	struct ky_query_cell value;
	char cell[KY_OUT_CELL_BYTES];

	/* What stands before it may be flushed and gone. */
	ky_out_text(&printer->out, printer->row_count == 1 ? "{" : ",{");
	for (uint32_t i = 0; i < printer->column_count; i++) {
		ky_out_text(&printer->out, i ? "," : "");
		json_key(printer, i);
		ky_out_text(&printer->out, ":");
		ky_query_cell(printer->query, i, &value);
		if (value.type == KY_CELL_NUMBER)
			ky_out_format(&printer->out, "%" PRId64, value.number);
		else if (value.type == KY_CELL_REAL && value.real - value.real == 0)
			ky_out_text(&printer->out, real_text(cell, value.real));
		else if (value.type == KY_CELL_TEXT)
			ky_json_string(&printer->out, value.text, value.text_bytes);
		else
			ky_out_text(&printer->out, "null");
	}
	ky_json_close(&printer->out, "}");
}

static int print_json(struct printer *printer, bool *is_flush)
{
	int result, code = 0;

	ky_json_open(&printer->out, NULL, "{");
	ky_json_open(&printer->out, "columns", "[");
	for (uint32_t i = 0; i < printer->column_count; i++) {
		ky_json_open(&printer->out, NULL, "{");
		ky_out_text(&printer->out, "\"name\":");
		json_key(printer, i);
		ky_json_text(&printer->out, "unit", unit_names[printer->units[i]]);
		ky_json_close(&printer->out, "}");
	}
	ky_json_close(&printer->out, "]");
	ky_json_open(&printer->out, "rows", "[");
	while ((result = next_row(printer)) == 1 && !code) {
		json_row(printer);
		code = flush(printer, FLUSH_BYTES, is_flush);
	}
	ky_json_close(&printer->out, "]");
	ky_json_flag(&printer->out, "is_cut", printer->is_cut);
	ky_json_close(&printer->out, "}");
	ky_out_text(&printer->out, "\n");
	return code ? code : result;
}

static int print_csv(struct printer *printer, bool *is_flush)
{
	struct ky_query_cell value;
	char cell[KY_OUT_CELL_BYTES];
	int result, code = 0;

	for (uint32_t i = 0; i < printer->column_count; i++) {
		const char *name = ky_query_column_name(printer->query, i);

		ky_out_text(&printer->out, i ? "," : "");
		ky_csv_cell(&printer->out, name, strlen(name));
	}
	ky_out_text(&printer->out, "\n");
	while ((result = next_row(printer)) == 1 && !code) {
		for (uint32_t i = 0; i < printer->column_count; i++) {
			ky_out_text(&printer->out, i ? "," : "");
			ky_query_cell(printer->query, i, &value);
			if (value.type == KY_CELL_NUMBER)
				ky_out_format(&printer->out, "%" PRId64, value.number);
			else if (value.type == KY_CELL_REAL)
				ky_out_text(&printer->out, real_text(cell, value.real));
			else if (value.type == KY_CELL_TEXT)
				ky_csv_cell(&printer->out, value.text, value.text_bytes);
		}
		ky_out_text(&printer->out, "\n");
		code = flush(printer, FLUSH_BYTES, is_flush);
	}
	return code ? code : result;
}

int ky_query_print(struct ky_query *query, const struct ky_rows_options *options, bool *is_flush)
{
	struct printer printer = {.query = query, .options = options};
	int code;

	*is_flush = false;
	printer.column_count = ky_query_columns(query);
	if (printer.column_count > KY_QUERY_COLUMNS_MAX)
		printer.column_count = KY_QUERY_COLUMNS_MAX;
	ky_buf_init(&printer.out, 0);
	ky_json_keys_init(&printer.keys);
	for (uint32_t i = 0; i < printer.column_count; i++) {
		const char *name = ky_query_column_name(query, i);

		printer.units[i] = (uint8_t)ky_view_unit(options->table, name);
		ky_json_keys_add(&printer.keys, name, strlen(name));
	}
	code = ky_json_keys_finish(&printer.keys);
	printer.are_keys_other = code == 1;
	if (code >= 0)
		code = options->format == KY_ROWS_JSON ? print_json(&printer, is_flush) :
		       options->format == KY_ROWS_CSV  ? print_csv(&printer, is_flush) :
							 print_text(&printer, is_flush);
	/* What is there is printed, also before an error. */
	if (!*is_flush && flush(&printer, 1, is_flush) && !code)
		code = -EIO;
	ky_json_keys_release(&printer.keys);
	ky_buf_release(&printer.out);
	return code;
}
