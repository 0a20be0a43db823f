/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <stdlib.h>

_Bool (*ky_alloc_hook)(size_t bytes);

void *ky_alloc(size_t bytes)
{
	if (ky_alloc_hook && !ky_alloc_hook(bytes))
		return NULL;
	return calloc(1, bytes);
}

void *ky_realloc(void *old, size_t bytes)
{
	if (ky_alloc_hook && !ky_alloc_hook(bytes))
		return NULL;
	return realloc(old, bytes);
}

void ky_free(void *memory)
{
	free(memory);
}
