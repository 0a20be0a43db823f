/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/memory_growth.h>

#include <analyze/findings/finding.h>
#include <analyze/share.h>

#define PARTS 5u

static uint64_t resident(const struct ky_trace_resource *row)
{
	return row->kind == KY_RESOURCE_USAGE ? row->values[KY_USAGE_RSS] : UINT64_MAX;
}

/* Room that the cgroup with the least has left, and its limit. */
static uint64_t room_of(const struct ky_trace_resource *row, uint64_t *limit)
{
	uint64_t used = row->values[KY_CGROUP_MEMORY];

	*limit = row->values[KY_CGROUP_MEMORY_LIMIT];
	if (row->kind != KY_RESOURCE_CGROUP || used == UINT64_MAX || *limit == UINT64_MAX)
		return UINT64_MAX;
	return *limit > used ? *limit - used : 0;
}

static void find_limit(struct ky_memory_growth *out, const struct ky_trace *trace, uint64_t to_ns)
{
	uint64_t room = UINT64_MAX, time_ns = 0, limit, of;

	/* Of the last reading, which has a row for each cgroup. */
	for (uint32_t i = trace->resource_count; i-- > 0;) {
		const struct ky_trace_resource *row = &trace->resources[i];

		of = row->time_ns <= to_ns ? room_of(row, &limit) : UINT64_MAX;
		if (of == UINT64_MAX)
			continue;
		if (time_ns && row->time_ns != time_ns)
			break;
		time_ns = row->time_ns;
		if (of >= room)
			continue;
		room = of;
		out->limit_bytes = limit;
	}
	if (room == UINT64_MAX || !out->is_steady)
		return;
	of = ky_whole((double)room / (double)out->bytes * (double)out->lasted_ns);
	out->to_limit_ns = of ? of : 1;
}

/* From *at on; NULL: there is none up to `to`. */
static const struct ky_trace_resource *next_reading(const struct ky_trace *trace, uint32_t *at,
						    uint64_t to_ns)
{
	while (*at < trace->resource_count) {
		const struct ky_trace_resource *row = &trace->resources[(*at)++];

		if (row->time_ns > to_ns)
			break;
		if (resident(row) != UINT64_MAX)
			return row;
	}
	return NULL;
}

/* A backlog grows at the pace of what comes: of the `count` readings from `at` on, is the growth in
 * each equal part half of the mean or more? Pages that are touched by chance are not so even. */
static bool is_steady(const struct ky_trace *trace, uint32_t at, uint32_t count, uint64_t to_ns)
{
	uint32_t parts = count - 1 < PARTS ? count - 1 : PARTS, part = 0;
	uint64_t ends[PARTS + 1] = {0};

	for (uint32_t i = 0; i < count; i++) {
		const struct ky_trace_resource *row = next_reading(trace, &at, to_ns);

		if (row && i == (uint64_t)part * (count - 1) / parts)
			ends[part++] = resident(row);
	}
	for (uint32_t i = 1; i <= parts; i++)
		if (ends[i] <= ends[i - 1] ||
		    ends[i] - ends[i - 1] < (ends[parts] - ends[0]) / 2 / parts)
			return false;
	return true;
}

void ky_memory_growth_find(struct ky_memory_growth *out, const struct ky_facts *facts,
			   uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_trace *trace = facts->trace;
	const struct ky_trace_resource *row, *first = NULL, *last = NULL;
	uint32_t at = 0, second = 0, count = 0;

	*out = (struct ky_memory_growth){0};
	if (trace->has_processes)
		return;
	while ((row = next_reading(trace, &at, to_ns))) {
		if (!first || row->time_ns <= from_ns) {
			first = row;
			second = at;
			count = 0;
		}
		last = row;
		count++;
	}
	if (count < 2 || last->time_ns <= first->time_ns)
		return;
	out->reading_count = count;
	/* Without the first of them: it is from before, or of the start of the program. */
	out->is_steady = count >= KY_FIND_GROWTH_READINGS &&
			 is_steady(trace, second, count - 1, to_ns);
	out->bytes = resident(last) > resident(first) ? resident(last) - resident(first) :
							resident(first) - resident(last);
	out->is_less = resident(last) < resident(first);
	out->lasted_ns = last->time_ns - first->time_ns;
	find_limit(out, trace, to_ns);
}
