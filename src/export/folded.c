/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <errno.h>
#include <export/export.h>
#include <read/text.h>
#include <string.h>

/* ';' parts frames and a line ends a stack; a '#' at its start would be a comment for inferno. */
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

/* Root first: the walk goes from the leaf, so lines are kept by number and put backwards. */
static int put_stack(struct ky_buf *out, const struct ky_export *export, uint32_t stack,
		     uint64_t value, struct ky_buf *lines)
{
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	size_t i;

	ky_buf_clear(lines);
	ky_code_walk_begin(&walk, export->code, stack);
	while ((line = ky_code_walk_next(&walk)))
		ky_buf_append(lines, &line, sizeof(line));
	if (lines->failed)
		return lines->failed;
	for (i = lines->used / sizeof(line); i-- > 0;) {
		memcpy(&line, lines->bytes + i * sizeof(line), sizeof(line));
		if (*line->name == '#' && (i + 1) * sizeof(line) == lines->used)
			ky_text(out, "_");
		put_name(out, line->name);
		if (i)
			ky_text(out, ";");
	}
	if (!lines->used)
		ky_text(out, "(no stack)");
	ky_text(out, " ");
	ky_text_u64(out, value);
	ky_text(out, "\n");
	return out->failed;
}

int ky_export_folded(struct ky_buf *out, const struct ky_export *export)
{
	const struct ky_samples *samples = &export->trace->samples;
	uint64_t *sums = ky_alloc(((size_t)samples->stack_count + 1) * sizeof(*sums));
	struct ky_buf lines;
	uint32_t i;

	if (!sums)
		return -ENOMEM;
	ky_buf_init(&lines, 0);
	for (i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];

		if (ky_export_has(export, row))
			sums[row->stack == KY_NONE ? samples->stack_count : row->stack] +=
				ky_export_value(export, row);
	}
	for (i = 0; i <= samples->stack_count && !out->failed; i++)
		if (sums[i])
			out->failed = put_stack(out, export, i < samples->stack_count ? i : KY_NONE,
						sums[i], &lines);
	ky_buf_release(&lines);
	ky_free(sums);
	return out->failed;
}
