/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <bucket/byte_spans.h>

#include <base/alloc.h>
#include <base/earlier.h>
#include <errno.h>
#include <string.h>

/* The first that ends at or behind `at`. */
static uint32_t find(const struct ky_byte_spans *spans, uint64_t at)
{
	uint32_t low = 0, high = spans->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (spans->all[middle].to < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int ky_byte_spans_add(struct ky_byte_spans *spans, uint64_t from, uint64_t to)
{
	uint32_t first = find(spans, from), end = first;

	if (from >= to)
		return 0;
	if (spans->count == KY_BYTE_SPANS_MAX ||
	    ky_grow(&spans->all, &spans->capacity, spans->count + 1, sizeof(*spans->all)))
		return -ENOMEM;
	for (; end < spans->count && spans->all[end].from <= to; end++) {
		from = ky_earlier(from, spans->all[end].from);
		to = ky_later(to, spans->all[end].to);
		spans->bytes -= spans->all[end].to - spans->all[end].from;
	}
	memmove(&spans->all[first + 1], &spans->all[end],
		(spans->count - end) * sizeof(*spans->all));
	spans->all[first] = (struct ky_byte_span){from, to};
	spans->count = spans->count - (end - first) + 1;
	spans->bytes += to - from;
	return 0;
}

bool ky_byte_spans_gap(const struct ky_byte_spans *spans, uint64_t from, uint64_t to,
		       struct ky_byte_span *gap)
{
	uint32_t i = find(spans, from);

	if (i < spans->count && spans->all[i].from <= from) {
		from = spans->all[i].to;
		i++;
	}
	if (i < spans->count && spans->all[i].from < to)
		to = spans->all[i].from;
	*gap = (struct ky_byte_span){from, to};
	return from < to;
}

void ky_byte_spans_release(struct ky_byte_spans *spans)
{
	ky_free(spans->all);
	*spans = (struct ky_byte_spans){.all = NULL};
}
