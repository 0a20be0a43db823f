/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <export/export.h>
#include <base/text.h>
#include <string.h>

/* ';' parts frames and a line ends a stack. */
static void put_name(struct ky_buf *out, const char *name)
{
	for (; *name; name++) {
		unsigned char byte = (unsigned char)*name;

		if (byte == ';')
			byte = ':';
		else if (byte < ' ' || byte == 0x7f)
			byte = '?';
		ky_buf_append(out, &byte, 1);
	}
}

/* Root first. A '#' at the start of a line would be a comment for inferno. */
static int put_line(struct ky_buf *out, const struct ky_export *export,
		    const struct ky_export_line *line, struct ky_buf *functions)
{
	struct ky_export_part part = {.reason = line->reason, .state = line->state};
	const struct ky_code_stacks *code = export->code;
	char cell[KY_EXPORT_CELL_BYTES];
	uint32_t function;
	size_t i;

	ky_export_stack(functions, export, line->stack, &part);
	for (i = functions->used / sizeof(function); i-- > 0;) {
		const char *name;

		memcpy(&function, functions->bytes + i * sizeof(function), sizeof(function));
		name = function < code->function_count ?
			       code->lines[code->function_lines[function]].name :
			       ky_export_function_name(cell, export, function);
		if (*name == '#' && (i + 1) * sizeof(function) == functions->used)
			ky_text(out, "_");
		put_name(out, name);
		if (i)
			ky_text(out, ";");
	}
	ky_text(out, " ");
	ky_text_u64(out, line->value);
	ky_text(out, "\n");
	return functions->failed ? functions->failed : out->failed;
}

int ky_export_folded(struct ky_buf *out, const struct ky_export *export)
{
	struct ky_buf functions;
	struct ky_export_line *lines;
	int64_t count = ky_export_lines(export, &lines), i;

	if (count < 0)
		return (int)count;
	ky_buf_init(&functions, 0);
	for (i = 0; i < count && !out->failed; i++)
		if (lines[i].value)
			out->failed = put_line(out, export, &lines[i], &functions);
	ky_buf_release(&functions);
	ky_free(lines);
	return out->failed;
}
