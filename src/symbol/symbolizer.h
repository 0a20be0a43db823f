/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* symbolizer.h - names from files: a struct ky_symbol_source over ELF files, debug directories, the
 * kernel's list and perf maps.
 *
 * A file is used only when its build id is the module's: one that was replaced on disk gives no
 * names rather than wrong ones. Searched for, in this order: the recorded process while it lives
 * (/proc/PID/exe, map_files, its root), the path itself, the debug directories. Debug information
 * that the file lacks: by build id in the debug directories, then by .gnu_debuglink.
 *
 * Memory:   at most KY_SYMBOLIZER_OPEN_MAX files are open, fewer when they are large; ask for the
 *           addresses of one module together, and say so (is_sorted): then one module is open, it
 *           is begun anew where the units that were read of it have grown large, and the kernel's
 *           list keeps what ky_symbolizer_expect() named.
 * Threads:  owner; never one of the host's.
 */
#ifndef KY_SYMBOL_SYMBOLIZER_H
#define KY_SYMBOL_SYMBOLIZER_H

#include <stdbool.h>
#include <wire/symbol_source.h>

#define KY_SYMBOLIZER_OPEN_MAX 8u
#define KY_DEBUG_DIRS_MAX 16u

struct ky_symbolizer;

/* Whose addresses they are. Zeros: not known, then neither kernel nor run-time code has names. */
struct ky_symbol_process {
	uint32_t pid;
	uint64_t start_time_ticks; /* field 22 of /proc/PID/stat */
	char boot_id[40];
	uint64_t last_wall_ns; /* CLOCK_REALTIME of what is known of it last; 0: not known */
};

struct ky_symbolizer_options {
	const char *const *debug_dirs; /* searched first, before the system's */
	size_t debug_dir_count;        /* at most KY_DEBUG_DIRS_MAX */
	struct ky_symbol_process process;
	/* NULL: the system's. For tests. */
	const char *kallsyms_path;
	const char *perf_map_dir;
	const char *boot_id_path;
	bool has_no_system_dirs;
	bool is_sorted; /* addresses are asked for by module, ascending: memory before time */
};

/* options are copied. Returns 0, -ENOMEM. */
int ky_symbolizer_open(struct ky_symbolizer **out, const struct ky_symbolizer_options *options);
void ky_symbolizer_close(struct ky_symbolizer *symbolizer);

/* What to pass to a symbol table; valid until close. */
struct ky_symbol_source ky_symbolizer_source(struct ky_symbolizer *symbolizer);

/* The kernel's addresses that will be asked for, ascending and without equal ones: of its list only
 * what covers them is kept. Before the first of them is asked for. They are copied. Returns 0,
 * -ENOMEM. */
int ky_symbolizer_expect(struct ky_symbolizer *symbolizer, const uint64_t *addresses,
			 uint32_t count);

/* The file a module was mapped from, its build id being the recorded one. Returns a descriptor,
 * which the caller closes; -ENOENT. */
int ky_symbolizer_open_code(const struct ky_symbolizer *symbolizer,
			    const struct ky_code_place *place);

#endif
