/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GROWN_MIN 16u

_Bool (*ky_alloc_hook)(size_t bytes);

/* Tests change it beside our own threads. */
static _Bool is_refused(size_t bytes)
{
	_Bool (*hook)(size_t) = __atomic_load_n(&ky_alloc_hook, __ATOMIC_ACQUIRE);

	return hook && !hook(bytes);
}

void *ky_alloc(size_t bytes)
{
	if (is_refused(bytes))
		return NULL;
	return calloc(1, bytes);
}

void *ky_realloc(void *old, size_t bytes)
{
	if (is_refused(bytes))
		return NULL;
	return realloc(old, bytes);
}

int ky_grow(void *list, uint32_t *capacity, uint32_t wanted, size_t element_bytes)
{
	uint32_t count = *capacity ? *capacity : GROWN_MIN;
	uint8_t *array;

	if (wanted <= *capacity)
		return 0;
	while (count < wanted && count <= UINT32_MAX / 2)
		count *= 2;
	if (count < wanted)
		return -ENOMEM;
	memcpy(&array, list, sizeof(array));
	array = ky_realloc(array, count * element_bytes);
	if (!array)
		return -ENOMEM;
	memset(array + *capacity * element_bytes, 0, (count - *capacity) * element_bytes);
	memcpy(list, &array, sizeof(array));
	*capacity = count;
	return 0;
}

void ky_free(void *memory)
{
	free(memory);
}
