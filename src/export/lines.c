/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <errno.h>
#include <export/export.h>
#include <read/sort.h>

static bool is_line_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_export_line *one = a, *other = b;

	(void)ctx;
	if (one->stack != other->stack)
		return one->stack < other->stack;
	if (one->reason != other->reason)
		return one->reason < other->reason;
	return one->state < other->state;
}

int64_t ky_export_lines(const struct ky_export *export, struct ky_export_line **lines)
{
	const struct ky_samples *samples = &export->trace->samples;
	size_t most = export->row_count * (export->kind == KY_STACK_OFF_CPU ? KY_STATES : 1);
	struct ky_export_line *list = ky_alloc((most + 1) * sizeof(*list));
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
			list[count++] = (struct ky_export_line){parts[k].value, row->stack,
								parts[k].reason, parts[k].state};
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
