/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/span_groups.h>

#include <analyze/report.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

/* A span, or a histogram of them. */
struct span_part {
	uint32_t name, at;
	bool is_histogram;
};

static bool is_part_before(const void *a, const void *b, const void *ctx)
{
	const struct span_part *x = a, *y = b;

	(void)ctx;
	return x->name < y->name;
}

static bool is_group_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_span_group *x = a, *y = b;
	const struct ky_trace *trace = ctx;

	if (x->lengths.total != y->lengths.total)
		return x->lengths.total > y->lengths.total;
	if (x->open_count != y->open_count)
		return x->open_count > y->open_count;
	return strcmp(ky_trace_name(trace, x->name), ky_trace_name(trace, y->name)) < 0;
}

static uint64_t collect(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
			struct span_part *parts)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < trace->span_count; i++) {
		const struct ky_trace_span *span = &trace->spans[i];

		if (span->start_ns >= from_ns && span->start_ns < to_ns)
			parts[count++] = (struct span_part){span->name, i, false};
	}
	for (uint32_t i = 0; i < trace->histogram_count; i++) {
		const struct ky_trace_histogram *reported = &trace->histograms[i];

		if (reported->kind == KY_COUNTED_SPAN && reported->from_ns >= from_ns &&
		    reported->from_ns < to_ns)
			parts[count++] = (struct span_part){reported->name, i, true};
	}
	ky_sort(parts, count, sizeof(*parts), is_part_before, NULL);
	return count;
}

static void add(const struct ky_trace *trace, const struct span_part *part,
		const struct ky_span_split *splits, struct ky_histogram *histogram,
		struct ky_span_group *group)
{
	group->name = part->name;
	if (part->is_histogram) {
		ky_report_join(histogram, trace, part->at);
		group->counted_count += trace->histograms[part->at].count;
	} else if (trace->spans[part->at].is_open) {
		group->open_count++;
	} else {
		ky_histogram_add(histogram, trace->spans[part->at].duration_ns);
		ky_span_split_add(&group->split, &splits[part->at]);
	}
}

/* Parts of one name are one after the other. Returns the number of groups, -ENOMEM. */
static int64_t group_all(const struct ky_trace *trace, const struct span_part *parts,
			 uint64_t count, const struct ky_span_split *splits,
			 struct ky_span_group *groups)
{
	struct ky_histogram histogram;
	int64_t group_count = 0;

	for (uint64_t i = 0; i < count; group_count++) {
		uint64_t first = i;

		if (ky_histogram_init(&histogram))
			return -ENOMEM;
		for (; i < count && parts[i].name == parts[first].name; i++)
			add(trace, &parts[i], splits, &histogram, &groups[group_count]);
		ky_histogram_quantiles(&histogram, &groups[group_count].lengths);
		ky_histogram_release(&histogram);
	}
	return group_count;
}

static uint64_t count_names(const struct span_part *parts, uint64_t count)
{
	uint64_t names = 0;

	for (uint64_t i = 0; i < count; i++)
		names += i == 0 || parts[i].name != parts[i - 1].name;
	return names;
}

int ky_span_groups(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
		   struct ky_span_group **out, uint32_t *count)
{
	size_t room = (size_t)trace->span_count + trace->histogram_count + 1;
	struct span_part *parts = ky_alloc(room * sizeof(*parts));
	struct ky_span_split *splits = NULL;
	uint64_t part_count;
	int64_t got = -ENOMEM;

	*out = NULL;
	*count = 0;
	if (!parts)
		return -ENOMEM;
	part_count = collect(trace, from_ns, to_ns ? to_ns : UINT64_MAX, parts);
	*out = ky_alloc((count_names(parts, part_count) + 1) * sizeof(**out));
	if (*out && part_count && ky_span_splits(trace, &splits) == 0)
		got = group_all(trace, parts, part_count, splits, *out);
	else if (*out && !part_count)
		got = 0;
	ky_free(splits);
	ky_free(parts);
	if (got < 0) {
		ky_free(*out);
		*out = NULL;
		return -ENOMEM;
	}
	*count = (uint32_t)got;
	ky_sort(*out, *count, sizeof(**out), is_group_before, trace);
	return 0;
}
