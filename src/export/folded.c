/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <errno.h>
#include <export/export.h>
#include <read/sort.h>
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

/* What one line stands for. */
struct line {
	uint64_t value;
	uint32_t stack; /* KY_NONE: without */
	uint32_t reason, state;
};

static bool is_line_before(const void *a, const void *b, const void *ctx)
{
	const struct line *one = a, *other = b;

	(void)ctx;
	if (one->stack != other->stack)
		return one->stack < other->stack;
	if (one->reason != other->reason)
		return one->reason < other->reason;
	return one->state < other->state;
}

/* Returns how many lines there are, sorted and each once; *lines is the caller's to ky_free();
 * negative: -ENOMEM. */
static int64_t find_lines(const struct ky_export *export, struct line **lines)
{
	const struct ky_samples *samples = &export->trace->samples;
	size_t most = export->row_count * (export->kind == KY_STACK_OFF_CPU ? KY_STATES : 1);
	struct line *list = ky_alloc((most + 1) * sizeof(*list));
	struct ky_export_part parts[KY_STATES];
	uint32_t i, k, count = 0, kept = 0;

	*lines = list;
	if (!list)
		return -ENOMEM;
	for (i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];
		uint32_t part_count = ky_export_has(export, row) ?
					      ky_export_parts(export, row, parts) :
					      0;

		for (k = 0; k < part_count; k++)
			list[count++] = (struct line){parts[k].value, row->stack, parts[k].reason,
						      parts[k].state};
	}
	ky_sort(list, count, sizeof(*list), is_line_before, NULL);
	for (i = 0; i < count; i++) {
		if (i && !is_line_before(&list[kept - 1], &list[i], NULL))
			list[kept - 1].value += list[i].value;
		else
			list[kept++] = list[i];
	}
	return kept;
}

/* Root first. A '#' at the start of a line would be a comment for inferno. */
static int put_line(struct ky_buf *out, const struct ky_export *export, const struct line *line,
		    struct ky_buf *functions)
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
	struct line *lines;
	int64_t count = find_lines(export, &lines), i;

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
