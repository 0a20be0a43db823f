/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/json_write.h>
#include <analyze/report.h>
#include <base/alloc.h>
#include <export/export.h>
#include <kymo/base.h>
#include <base/text.h>
#include <string.h>

static void quoted(struct ky_buf *out, const char *text)
{
	ky_json_string(out, text, strlen(text));
}

static void put_frames(struct ky_buf *out, const struct ky_export *export)
{
	const struct ky_code_stacks *code = export->code;
	char cell[KY_EXPORT_CELL_BYTES];
	uint32_t i;

	for (i = 0; i < code->function_count; i++) {
		const struct ky_code_line *line = &code->lines[code->function_lines[i]];

		ky_text(out, i ? ",{\"name\":" : "{\"name\":");
		quoted(out, line->name);
		if (*line->file) {
			ky_text(out, ",\"file\":");
			quoted(out, line->file);
		}
		ky_text(out, "}");
	}
	for (; i < ky_export_function_count(export); i++) {
		ky_text(out, i ? ",{\"name\":" : "{\"name\":");
		quoted(out, ky_export_function_name(cell, export, i));
		ky_text(out, "}");
	}
}

/* Root first. */
static int put_stack(struct ky_buf *out, const struct ky_export *export,
		     const struct ky_stack_row *row, const struct ky_export_part *part,
		     struct ky_buf *functions)
{
	uint32_t function;
	size_t i;

	ky_export_stack(functions, export, row->stack, part);
	ky_text(out, "[");
	for (i = functions->used / sizeof(function); i-- > 0;) {
		memcpy(&function, functions->bytes + i * sizeof(function), sizeof(function));
		ky_text_u64(out, function);
		if (i)
			ky_text(out, ",");
	}
	ky_text(out, "]");
	return functions->failed;
}

static int put_profile(struct ky_buf *out, const struct ky_export *export, uint32_t tid)
{
	const struct ky_samples *samples = &export->trace->samples;
	struct ky_buf weights, functions;
	struct ky_export_part parts[KY_STATES];
	char cell[96];
	uint64_t sum = 0;
	uint32_t i, k;

	ky_buf_init(&weights, 0);
	ky_buf_init(&functions, 0);
	ky_text(out, "{\"type\":\"sampled\",\"name\":");
	quoted(out, ky_export_thread_name(cell, export, tid));
	ky_text(out, ",\"unit\":\"");
	ky_text(out, export->is_counted             ? "none" :
		     export->kind == KY_STACK_ALLOC ? "bytes" :
						      "nanoseconds");
	ky_text(out, "\",\"samples\":[");
	for (i = 0; i < samples->row_count && !out->failed; i++) {
		const struct ky_stack_row *row = &samples->rows[i];
		uint32_t count = 0;

		if (row->tid == tid && ky_export_has(export, row))
			count = ky_export_parts(export, row, parts);
		for (k = 0; k < count; k++) {
			if (weights.used) {
				ky_text(out, ",");
				ky_text(&weights, ",");
			}
			ky_text_u64(&weights, parts[k].value);
			sum += parts[k].value;
			if (put_stack(out, export, row, &parts[k], &functions))
				out->failed = functions.failed;
		}
	}
	ky_text(out, "],\"weights\":[");
	ky_buf_append(out, weights.bytes, weights.used);
	ky_text(out, "],\"startValue\":0,\"endValue\":");
	ky_text_u64(out, sum);
	ky_text(out, "}");
	if (!out->failed)
		out->failed = weights.failed;
	ky_buf_release(&weights);
	ky_buf_release(&functions);
	return out->failed;
}

int ky_export_speedscope(struct ky_buf *out, const struct ky_export *export)
{
	const char *service = ky_trace_metadata(export->trace, "service");
	uint32_t *tids;
	int64_t count = ky_export_threads(export, &tids), i;

	if (count < 0)
		return (int)count;
	ky_text(out, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
		     "\"version\":\"0.6.0\",\"exporter\":\"kymo " KYMO_VERSION_STRING
		     "\",\"activeProfileIndex\":0,\"name\":");
	quoted(out, service ? service : "kymo");
	ky_text(out, ",\"shared\":{\"frames\":[");
	put_frames(out, export);
	ky_text(out, "]},\"profiles\":[");
	for (i = 0; i < count && !out->failed; i++) {
		if (i)
			ky_text(out, ",");
		put_profile(out, export, tids[i]);
	}
	ky_text(out, "]}\n");
	ky_free(tids);
	return out->failed;
}
