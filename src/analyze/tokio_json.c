/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/tokio_json.h>

#include <analyze/console_lints.h>
#include <base/json_write.h>

static void text_or_null(struct ky_buf *out, const char *key, const char *text)
{
	if (text)
		ky_json_text(out, key, text);
	else
		ky_json_null(out, key);
}

static void put_row(struct ky_buf *out, const struct ky_metric_row *row,
		    const struct ky_trace *trace, bool is_of_runtime)
{
	ky_json_open(out, NULL, "{");
	if (is_of_runtime)
		ky_json_number_or_null(
			out, "runtime", row->subject < trace->runtime_count,
			row->subject < trace->runtime_count ? trace->runtimes[row->subject].id : 0);
	else
		text_or_null(out, "site",
			     row->subject == KY_NONE ? NULL : ky_trace_name(trace, row->subject));
	ky_json_text(out, "name", row->name);
	if (row->bucket_ns != KY_METRIC_OPEN)
		ky_json_number(out, "bucket_ns", row->bucket_ns);
	ky_json_number_or_null(out, "value", row->value != KY_METRIC_OPEN, row->value);
	ky_json_number_or_null(out, "value_max", row->value_max != KY_METRIC_OPEN, row->value_max);
	ky_json_text(out, "unit", row->unit);
	ky_json_text(out, "state", ky_metric_state(row->state));
	text_or_null(out, "why", row->why);
	text_or_null(out, "note", row->note);
	ky_json_close(out, "}");
}

static void put_rows(struct ky_buf *out, const char *key, const struct ky_metric_rows *rows,
		     const struct ky_trace *trace, bool is_of_runtime)
{
	ky_json_open(out, key, "[");
	for (uint32_t i = 0; i < rows->count; i++)
		put_row(out, &rows->rows[i], trace, is_of_runtime);
	ky_json_close(out, "]");
}

int ky_tokio_json(struct ky_buf *out, const char *key, const struct ky_trace *trace)
{
	struct ky_metric_rows tasks = {0}, runtimes = {0}, lints = {0};
	struct ky_tokio_sums sums;
	int result = ky_tokio_sums_make(&sums, trace);

	if (!result)
		result = ky_task_metrics(&tasks, trace, &sums);
	if (!result)
		result = ky_runtime_metrics(&runtimes, trace, &sums);
	if (!result)
		result = ky_console_lints(&lints, &sums);
	if (!result) {
		ky_json_open(out, key, "{");
		put_rows(out, "tasks", &tasks, trace, false);
		put_rows(out, "runtimes", &runtimes, trace, true);
		put_rows(out, "lints", &lints, trace, false);
		ky_json_close(out, "}");
		result = out->failed;
	}
	ky_metric_rows_release(&tasks);
	ky_metric_rows_release(&runtimes);
	ky_metric_rows_release(&lints);
	ky_tokio_sums_release(&sums);
	return result;
}
