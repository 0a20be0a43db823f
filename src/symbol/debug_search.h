/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* debug_search.h - finds the file a module was, and its debug information, by build id and path.
 *
 * Layouts of a debug directory DIR, for build id ab12...:
 *   DIR/.build-id/ab/12....debug      distributions
 *   DIR/buildid/ab/12....debug
 *   DIR/ab12.../debuginfo, executable a debuginfod client's cache
 *   DIR/buildid/ab12.../debuginfo     what a debuginfod server serves
 *   DIR/PATH/NAME.debug, DIR/NAME     by .gnu_debuglink, or a copy under its own name
 *
 * Invariants:  nothing is returned that ky_object_read_fd() does not call sane, and nothing whose
 *              build id is another one; without a build id, a debug file needs the CRC of the link.
 * Threads:     owner.
 */
#ifndef KY_SYMBOL_DEBUG_SEARCH_H
#define KY_SYMBOL_DEBUG_SEARCH_H

#include <limits.h>
#include <symbol/object_file.h>
#include <wire/symbol_source.h>

#define KY_SEARCH_DIRS_MAX 24u

struct ky_debug_search {
	char *dirs[KY_SEARCH_DIRS_MAX];
	size_t dir_count;
	uint32_t pid; /* the recorded process while it lives; 0: it does not */
};

struct ky_debug_file {
	int fd;
	struct ky_object object;
	char path[PATH_MAX]; /* opens the very same file: its name, or one below /proc/self/fd */
	char name[PATH_MAX]; /* what to call it */
};

/* Returns 0, -ENOMEM; more than KY_SEARCH_DIRS_MAX are left out. */
int ky_debug_search_add(struct ky_debug_search *search, const char *dir);
/* What systems have: /usr/lib/debug and the debuginfod client's cache. */
int ky_debug_search_add_system(struct ky_debug_search *search);
void ky_debug_search_release(struct ky_debug_search *search);

/* The file the module was mapped from. Returns 0; -ENOENT with *why. */
int ky_debug_search_module(const struct ky_debug_search *search, const struct ky_code_place *place,
			   struct ky_debug_file *out, uint32_t *why);

/* A file with its DWARF. module: NULL when it was not found. Returns 0; -ENOENT. */
int ky_debug_search_debug(const struct ky_debug_search *search, const struct ky_code_place *place,
			  const struct ky_debug_file *module, struct ky_debug_file *out);
void ky_debug_file_close(struct ky_debug_file *file);

#endif
