/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <query/sqlite_library.h>

#include <base/library.h>

/* Of every version 3: the number is that of its binary interface. */
#define LIBRARY "libsqlite3.so.0"

struct ky_sqlite_library ky_sqlite_library;

bool ky_sqlite_library_load(void)
{
	struct ky_sqlite_library *sqlite = &ky_sqlite_library;
	const struct ky_library_function wanted[] = {
#define WANTED(name) {&sqlite->name, "sqlite3_" #name},
		KY_SQLITE_FUNCTIONS(WANTED)
#undef WANTED
	};

	return ky_library_find(dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), wanted,
			       sizeof(wanted) / sizeof(wanted[0]));
}
