/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* file_name.h - text that came from outside made fit to be (part of) the name of a file.
 * Pure. Threads: any. Signals: safe.
 */
#ifndef KY_BASE_FILE_NAME_H
#define KY_BASE_FILE_NAME_H

#include <stdbool.h>

/* A letter, a digit, dot, dash or underscore; nothing that depends on a locale. */
static inline bool ky_is_file_name_byte(char byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
	       (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '_';
}

/* Every other byte becomes an underscore, and so does a dot in front: the name of a file that
 * all users see, and never "..". The length stays; "" stays "". */
static inline void ky_file_name_clean(char *name)
{
	if (*name == '.')
		*name = '_';
	for (; *name; name++)
		if (!ky_is_file_name_byte(*name))
			*name = '_';
}

#endif
