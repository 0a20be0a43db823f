/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/flame_json.h>

#include <base/alloc.h>
#include <base/json_write.h>
#include <errno.h>
#include <string.h>

/* Functions that are in a line, in the order in which they come. */
struct flame_names {
	uint32_t *numbers; /* by function: number + 1 */
	uint32_t *used;    /* by number */
	uint32_t count;
};

static uint32_t number_of(struct flame_names *names, uint32_t function)
{
	if (!names->numbers[function]) {
		names->used[names->count++] = function;
		names->numbers[function] = names->count;
	}
	return names->numbers[function] - 1;
}

static void put_lines(struct ky_buf *out, const struct ky_export *export, struct flame_names *names,
		      const struct ky_export_line *lines, int64_t count)
{
	struct ky_buf functions;

	ky_buf_init(&functions, 0);
	ky_json_open(out, "lines", "[");
	for (int64_t i = 0; i < count && !out->failed && !functions.failed; i++) {
		struct ky_export_part part = {.reason = lines[i].reason, .state = lines[i].state};
		uint32_t function;

		if (!lines[i].value)
			continue;
		ky_export_stack(&functions, export, lines[i].stack, &part);
		ky_json_open(out, NULL, "[");
		ky_json_number(out, NULL, lines[i].value);
		for (size_t k = functions.used / sizeof(function); k-- > 0;) {
			memcpy(&function, functions.bytes + k * sizeof(function), sizeof(function));
			ky_json_number(out, NULL, number_of(names, function));
		}
		ky_json_close(out, "]");
	}
	ky_json_close(out, "]");
	if (functions.failed)
		out->failed = functions.failed;
	ky_buf_release(&functions);
}

static void put_functions(struct ky_buf *out, const struct ky_export *export,
			  const struct flame_names *names)
{
	const struct ky_code_stacks *code = export->code;
	char cell[KY_EXPORT_CELL_BYTES];

	ky_json_open(out, "functions", "[");
	for (uint32_t i = 0; i < names->count; i++) {
		uint32_t function = names->used[i];
		const struct ky_code_line *line = NULL;

		ky_json_open(out, NULL, "{");
		if (function < code->function_count)
			line = &code->lines[code->function_lines[function]];
		ky_json_text(out, "name",
			     line ? line->name : ky_export_function_name(cell, export, function));
		if (line && line->file[0]) {
			ky_json_text(out, "file", line->file);
			ky_json_number(out, "line", line->line);
		}
		ky_json_flag(out, "is_own", line && ky_code_is_own(line));
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

void ky_flame_json(struct ky_buf *out, const struct ky_export *export)
{
	uint32_t room = ky_export_function_count(export) + 1;
	struct flame_names names = {ky_alloc(room * sizeof(uint32_t)),
				    ky_alloc(room * sizeof(uint32_t)), 0};
	struct ky_export_line *lines = NULL;
	int64_t count = ky_export_lines(export, &lines);

	if (!names.numbers || !names.used || count < 0) {
		out->failed = -ENOMEM;
	} else {
		ky_json_open(out, NULL, "{");
		ky_json_text(out, "unit",
			     export->is_counted             ? "samples" :
			     export->kind == KY_STACK_ALLOC ? "bytes" :
							      "ns");
		ky_json_number(out, "samples", export->row_count);
		ky_json_number(out, "sum", export->value_sum);
		put_lines(out, export, &names, lines, count);
		put_functions(out, export, &names);
		ky_json_close(out, "}");
	}
	ky_free(names.numbers);
	ky_free(names.used);
	ky_free(lines);
}
