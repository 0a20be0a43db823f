/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Quicksort with the middle of three (of nine where there are many) as pivot, after Bentley and
 * McIlroy, Engineering a sort function, 1993. Where an input defeats that, the part is left to heap
 * sort (Musser, Introspective sorting, 1997), so no order of the elements takes quadratic time.
 */
#include <read/sort.h>
#include <stdint.h>
#include <string.h>

#define SMALL 12u /* elements that insertion sorts faster */
#define MANY 128u /* from here on the pivot is the middle of nine */
#define PARTS 64u /* the longer part waits, so each is half of the one before at most */

struct sorting {
	uint8_t *array;
	size_t bytes; /* of an element */
	ky_is_before_fn is_before;
	const void *ctx;
};

struct sort_part {
	size_t from, to;
	uint32_t depth; /* splits until heap sort takes over */
};

static uint8_t *at(const struct sorting *sorting, size_t index)
{
	return sorting->array + index * sorting->bytes;
}

static bool is_before(const struct sorting *sorting, size_t a, size_t b)
{
	return sorting->is_before(at(sorting, a), at(sorting, b), sorting->ctx);
}

static void swap(const struct sorting *sorting, size_t first, size_t second)
{
	uint8_t *a = at(sorting, first), *b = at(sorting, second);
	size_t bytes = sorting->bytes;
	uint64_t one, other;
	uint8_t byte;

	for (; bytes >= sizeof(one); bytes -= sizeof(one)) {
		memcpy(&one, a, sizeof(one));
		memcpy(&other, b, sizeof(other));
		memcpy(a, &other, sizeof(one));
		memcpy(b, &one, sizeof(one));
		a += sizeof(one);
		b += sizeof(one);
	}
	for (; bytes > 0; bytes--) {
		byte = *a;
		*a++ = *b;
		*b++ = byte;
	}
}

static void insert(const struct sorting *sorting, struct sort_part part)
{
	for (size_t i = part.from + 1; i < part.to; i++)
		for (size_t k = i; k > part.from && is_before(sorting, k, k - 1); k--)
			swap(sorting, k, k - 1);
}

static void heap_sort(const struct sorting *sorting, struct sort_part part)
{
	size_t base = part.from, end = part.to - part.from, start = end / 2, root, child;

	while (end > 1) { /* first build, then take the last one off, again and again */
		if (start > 0)
			start--;
		else
			swap(sorting, base, base + --end);
		for (root = start; (child = 2 * root + 1) < end; root = child) {
			if (child + 1 < end && is_before(sorting, base + child, base + child + 1))
				child++;
			if (!is_before(sorting, base + root, base + child))
				break;
			swap(sorting, base + root, base + child);
		}
	}
}

static size_t middle_of(const struct sorting *sorting, size_t a, size_t b, size_t c)
{
	if (is_before(sorting, a, b)) {
		if (is_before(sorting, b, c))
			return b;
		return is_before(sorting, a, c) ? c : a;
	}
	if (is_before(sorting, a, c))
		return a;
	return is_before(sorting, b, c) ? c : b;
}

static size_t choose_pivot(const struct sorting *sorting, struct sort_part part)
{
	size_t count = part.to - part.from, middle = part.from + count / 2, last = part.to - 1;
	size_t step = count / 8;

	if (count < MANY)
		return middle_of(sorting, part.from, middle, last);
	return middle_of(sorting,
			 middle_of(sorting, part.from, part.from + step, part.from + 2 * step),
			 middle_of(sorting, middle - step, middle, middle + step),
			 middle_of(sorting, last - 2 * step, last - step, last));
}

/* Elements before the pivot to its left, the others to its right. Returns where it stands. */
static size_t split(const struct sorting *sorting, struct sort_part part)
{
	size_t pivot = part.from, left = pivot, right = part.to;

	swap(sorting, pivot, choose_pivot(sorting, part));
	for (;;) {
		do
			left++;
		while (left < part.to && is_before(sorting, left, pivot));
		do
			right--;
		while (right > pivot && is_before(sorting, pivot, right));
		if (left >= right)
			break;
		swap(sorting, left, right);
	}
	swap(sorting, pivot, right);
	return right;
}

static bool is_sorted(const struct sorting *sorting, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (is_before(sorting, i, i - 1))
			return false;
	return true;
}

void ky_sort(void *elements, size_t count, size_t element_bytes, ky_is_before_fn is_before_fn,
	     const void *ctx)
{
	const struct sorting sorting = {elements, element_bytes, is_before_fn, ctx};
	struct sort_part parts[PARTS], part = {0, count, 0}, longer;
	uint32_t waiting = 0;
	size_t pivot;

	if (is_sorted(&sorting, count))
		return;
	for (size_t rest = count; rest > 0; rest /= 2)
		part.depth += 2;
	for (;;) {
		while (part.to - part.from > SMALL && part.depth > 0) {
			pivot = split(&sorting, part);
			part.depth--;
			longer = (struct sort_part){pivot + 1, part.to, part.depth};
			part.to = pivot;
			if (longer.to - longer.from < part.to - part.from) {
				struct sort_part shorter = longer;

				longer = part;
				part = shorter;
			}
			parts[waiting++] = longer;
		}
		if (part.to - part.from > SMALL)
			heap_sort(&sorting, part);
		else
			insert(&sorting, part);
		if (waiting == 0)
			return;
		part = parts[--waiting];
	}
}
