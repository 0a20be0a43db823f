/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* library.h - functions of a library that is loaded where it is needed. Threads: any. */
#ifndef KY_BASE_LIBRARY_H
#define KY_BASE_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct ky_library_function {
	void *out; /* where the pointer to it goes */
	const char *name;
};

/* library: of dlopen(); NULL: it could not be loaded. False: it lacks one of them, or is none. */
static inline bool ky_library_find(void *library, const struct ky_library_function *wanted,
				   size_t count)
{
	for (size_t i = 0; library && i < count; i++) {
		void *found = dlsym(library, wanted[i].name);

		memcpy(wanted[i].out, &found, sizeof(found));
		if (!found)
			library = NULL;
	}
	return library != NULL;
}

#endif
