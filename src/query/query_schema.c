/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <query/query.h>

#include <base/out_text.h>
#include <query/query_functions.h>

static const char *const units[KY_UNITS] = {
	[KY_UNIT_ID] = "id",         [KY_UNIT_COUNT] = "number",
	[KY_UNIT_NS] = "ns",         [KY_UNIT_TIME] = "moment",
	[KY_UNIT_BYTES] = "bytes",   [KY_UNIT_TEXT] = "text",
	[KY_UNIT_SENTENCE] = "text", [KY_UNIT_FLAG] = "0 or 1",
	[KY_UNIT_PLAIN] = "number",  [KY_UNIT_ANY] = "number or text",
};

static void put_table(struct ky_buf *out, const struct ky_query_table *table)
{
	ky_out_format(out, "\n### %s\n\n%s.\n\n| Column | Unit | What it is |\n|---|---|---|\n",
		      table->name, table->doc);
	for (uint32_t i = 0; i < table->column_count; i++)
		ky_out_format(out, "| `%s` | %s | %s |\n", table->columns[i].name,
			      units[table->columns[i].unit], table->columns[i].doc);
}

void ky_query_schema(struct ky_buf *out)
{
	ky_out_text(out,
		    "# SQL\n\nPrinted by `kymo query --schema`, from the list of "
		    "`src/query/query_tables.c`; do not edit.\n\n"
		    "A moment is nanoseconds of the trace's own clock, as `@N` of `--from`; "
		    "`moment - trace_start_ns()` is the time since its start. What a trace does "
		    "not know is NULL. Ids beyond 63 bits are negative.\n\n"
		    "No table is sorted for `GROUP BY` or `ORDER BY` of one of `site`, `task` and "
		    "`worker` of polls and wakes, or of `worker` of parks; `site =`, `task =`, "
		    "`worker =` and bounds of the first column read only what they name.\n\n"
		    "A type of event is a view, too, with a column a field: "
		    "`SELECT * FROM MyEvent`.\n\n## Tables\n");
	for (uint32_t i = 0; i < ky_query_table_count; i++)
		put_table(out, &ky_query_tables[i]);
	ky_out_text(out, "\n## Views\n");
	for (uint32_t i = 0; i < ky_query_view_count; i++)
		ky_out_format(out, "\n%s:\n\n```sql\nCREATE VIEW %s AS %s;\n```\n",
			      ky_query_views[i].doc, ky_query_views[i].name,
			      ky_query_views[i].select);
	ky_out_text(out, "\n## Functions\n\nBeside SQLite's own:\n\n| Function | What it is |\n"
			 "|---|---|\n");
	for (uint32_t i = 0; i < ky_query_function_count; i++)
		ky_out_format(out, "| `%s` | %s |\n", ky_query_functions[i].name,
			      ky_query_functions[i].doc);
}
