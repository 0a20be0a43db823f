/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/type_groups.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

static bool is_before_by_name(const void *left, const void *right, const void *ctx)
{
	const struct ky_type_row *a = left, *b = right;

	(void)ctx;
	return strcmp(a->name, b->name) < 0;
}

static bool is_same_group(const struct ky_type_row *a, const struct ky_type_row *b)
{
	return a->prefix_bytes && a->prefix_bytes == b->prefix_bytes &&
	       memcmp(a->name, b->name, a->prefix_bytes) == 0;
}

static bool is_more_frequent(const void *left, const void *right, const void *ctx)
{
	const struct ky_type_row *a = left, *b = right;

	(void)ctx;
	if (a->group_count != b->group_count)
		return a->group_count > b->group_count;
	if (!is_same_group(a, b) || a->count == b->count)
		return strcmp(a->name, b->name) < 0;
	return a->count > b->count;
}

static uint32_t prefix_bytes(const char *name)
{
	const char *colon = memchr(name, ':', strlen(name));

	return colon ? (uint32_t)(colon - name) : 0;
}

/* Rows of equal names become one. */
static void merge_names(struct ky_type_rows *rows)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < rows->count; i++) {
		if (kept && strcmp(rows->rows[kept - 1].name, rows->rows[i].name) == 0) {
			rows->rows[kept - 1].count += rows->rows[i].count;
			rows->rows[kept - 1].schema_count++;
		} else {
			rows->rows[kept++] = rows->rows[i];
		}
	}
	rows->count = kept;
}

/* Sorted by name, the names of one prefix stand together. */
static void sum_groups(struct ky_type_rows *rows)
{
	uint32_t start = 0;

	while (start < rows->count) {
		uint32_t end = start + 1;
		uint64_t total = rows->rows[start].count;

		while (end < rows->count && is_same_group(&rows->rows[start], &rows->rows[end]))
			total += rows->rows[end++].count;
		for (uint32_t i = start; i < end; i++) {
			rows->rows[i].group_count = total;
			rows->rows[i].group_names = end - start;
		}
		start = end;
	}
}

int ky_type_rows_make(struct ky_type_rows *out, const struct ky_trace *trace)
{
	out->count = 0;
	out->rows = ky_alloc(((size_t)trace->type_count + 1) * sizeof(*out->rows));
	if (!out->rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < trace->type_count; i++) {
		const struct ky_event_type *type = &trace->types[i];

		if (!type->count)
			continue;
		out->rows[out->count++] = (struct ky_type_row){
			.name = type->name,
			.prefix_bytes = prefix_bytes(type->name),
			.schema_count = 1,
			.count = type->count,
		};
	}
	ky_sort(out->rows, out->count, sizeof(*out->rows), is_before_by_name, NULL);
	merge_names(out);
	sum_groups(out);
	ky_sort(out->rows, out->count, sizeof(*out->rows), is_more_frequent, NULL);
	return 0;
}

void ky_type_rows_release(struct ky_type_rows *rows)
{
	ky_free(rows->rows);
	rows->rows = NULL;
	rows->count = 0;
}
