/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/share.h>
#include <base/alloc.h>
#include <errno.h>
#include <export/export.h>
#include <read/sort.h>
#include <string.h>

#define THREAD_NAME_BYTES 96u

bool ky_export_has(const struct ky_export *export, const struct ky_stack_row *row)
{
	if (row->kind != export->kind || row->time_ns < export->from_ns ||
	    (export->to_ns && row->time_ns >= export->to_ns))
		return false;
	if (export->is_live && row->flags & KY_ROW_FREED &&
	    (!export->to_ns || row->end_ns < export->to_ns))
		return false;
	/* A wait at several points is one wait. */
	if (row->kind == KY_STACK_PLACE && row->reason != KY_PLACE_CAPTURED &&
	    !ky_place_has_time(row))
		return false;
	if (export->has_kind && (row->task >= export->trace->task_count ||
				 export->trace->tasks[row->task].name != export->kind_name))
		return false;
	return (export->task == KY_NONE || row->task == export->task) &&
	       (export->worker == KY_NONE || row->worker == export->worker);
}

uint64_t ky_export_value(const struct ky_export *export, const struct ky_stack_row *row)
{
	if (export->is_counted)
		return 1;
	return ky_whole(row->weight * (double)row->value);
}

int ky_export_prepare(struct ky_export *export)
{
	const struct ky_samples *samples = &export->trace->samples;
	uint32_t i;

	export->is_counted = false;
	export->row_count = export->value_sum = 0;
	for (i = 0; i < samples->row_count; i++)
		if (samples->rows[i].kind == KY_STACK_CPU && export->kind == KY_STACK_CPU &&
		    !samples->rows[i].value)
			export->is_counted = true;
	for (i = 0; i < samples->row_count; i++) {
		if (!ky_export_has(export, &samples->rows[i]))
			continue;
		export->row_count++;
		export->value_sum += ky_export_value(export, &samples->rows[i]);
	}
	return export->kind == KY_STACK_OFF_CPU ? ky_export_find_reasons(export) : 0;
}

void ky_export_release(struct ky_export *export)
{
	ky_free(export->reasons);
	export->reasons = NULL;
	export->reason_count = 0;
}

const char *ky_export_kind_name(uint32_t kind)
{
	static const char *const names[] = {"cpu", "off-cpu", "waiting", "heap"};

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "";
}

static bool is_tid_before(const void *a, const void *b, const void *ctx)
{
	(void)ctx;
	return *(const uint32_t *)a < *(const uint32_t *)b;
}

int64_t ky_export_threads(const struct ky_export *export, uint32_t **tids)
{
	const struct ky_samples *samples = &export->trace->samples;
	uint32_t *list = ky_alloc((export->row_count + 1) * sizeof(*list)), i, count = 0, kept = 0;

	*tids = list;
	if (!list)
		return -ENOMEM;
	for (i = 0; i < samples->row_count; i++)
		if (ky_export_has(export, &samples->rows[i]))
			list[count++] = samples->rows[i].tid;
	ky_sort(list, count, sizeof(*list), is_tid_before, NULL);
	for (i = 0; i < count; i++)
		if (i == 0 || list[i] != list[i - 1])
			list[kept++] = list[i];
	return kept;
}

const char *ky_export_thread_name(char *cell, const struct ky_export *export, uint32_t tid)
{
	const struct ky_trace *trace = export->trace;
	const char *name = tid ? "thread" : "all tasks";
	char digits[12];
	size_t used, at = sizeof(digits);
	uint32_t i;

	for (i = 0; tid && i < trace->thread_count; i++)
		if (trace->threads[i].tid == tid && trace->threads[i].name != KY_NONE)
			name = ky_trace_name(trace, trace->threads[i].name);
	used = strlen(name);
	if (used > THREAD_NAME_BYTES - sizeof(digits) - 2)
		used = THREAD_NAME_BYTES - sizeof(digits) - 2;
	memcpy(cell, name, used);
	digits[--at] = '\0';
	for (; tid; tid /= 10)
		digits[--at] = (char)('0' + tid % 10);
	if (digits[at])
		cell[used++] = ' ';
	memcpy(cell + used, digits + at, sizeof(digits) - at);
	return cell;
}
