/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <stdlib.h>

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

void ky_free(void *memory)
{
	free(memory);
}
