/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* library.h - functions of a library that is loaded where it is needed. Threads: any. */
#ifndef KY_BASE_LIBRARY_H
#define KY_BASE_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* out: where the pointer to the function goes. False: the library has none of this name. */
static inline bool ky_library_find(void *library, void *out, const char *name)
{
	void *found = dlsym(library, name);

	memcpy(out, &found, sizeof(found));
	return found != NULL;
}

#endif
