/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/ascending.h>

#include <read/sort.h>

static bool is_below(const void *a, const void *b, const void *ctx)
{
	(void)ctx;
	return *(const uint64_t *)a < *(const uint64_t *)b;
}

void ky_ascending_sort(uint64_t *values, uint32_t count)
{
	ky_sort(values, count, sizeof(*values), is_below, NULL);
}

uint32_t ky_ascending_below(const uint64_t *values, uint32_t count, uint64_t value)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (values[middle] < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t ky_ascending_up_to(const uint64_t *values, uint32_t count, uint64_t value)
{
	return value == UINT64_MAX ? count : ky_ascending_below(values, count, value + 1);
}
