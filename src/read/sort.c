/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/sort.h>
#include <stdint.h>
#include <string.h>

static void swap(uint8_t *a, uint8_t *b, size_t bytes)
{
	uint8_t scratch[64];

	while (bytes > 0) {
		size_t part = bytes < sizeof(scratch) ? bytes : sizeof(scratch);

		memcpy(scratch, a, part);
		memcpy(a, b, part);
		memcpy(b, scratch, part);
		a += part;
		b += part;
		bytes -= part;
	}
}

void ky_sort(void *elements, size_t count, size_t element_bytes, ky_is_before_fn is_before,
	     const void *ctx)
{
	uint8_t *array = elements;
	size_t start = count / 2, end = count, at, child;

	while (end > 1) { /* heap sort: first build, then take the last one off, again and again */
		if (start > 0)
			start--;
		else
			swap(array, array + --end * element_bytes, element_bytes);
		for (at = start; (child = 2 * at + 1) < end; at = child) {
			if (child + 1 < end && is_before(array + child * element_bytes,
							 array + (child + 1) * element_bytes, ctx))
				child++;
			if (!is_before(array + at * element_bytes, array + child * element_bytes,
				       ctx))
				break;
			swap(array + at * element_bytes, array + child * element_bytes,
			     element_bytes);
		}
	}
}
