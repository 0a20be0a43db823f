/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_symbols.h - the symbol table of what a command reads: fed from its input, and from files
 * where the command may open them.
 * Threads: owner.
 */
#ifndef KY_EDIT_TRACE_SYMBOLS_H
#define KY_EDIT_TRACE_SYMBOLS_H

#include <edit/crash_stack.h>
#include <edit/input.h>
#include <read/event_stream.h>
#include <read/symbol_table.h>
#include <symbol/symbolizer.h>

#define KY_TRACE_CRASHES_MAX 4u

struct ky_trace_symbols_options {
	const char *debug_dirs[KY_DEBUG_DIRS_MAX];
	size_t debug_dir_count;
	bool is_without_hot; /* `each` does not see polls and wakes */
	bool is_sorted;      /* of symbolizer.h */
	bool has_no_files;   /* what the trace itself says, and modules with offsets */
};

struct ky_trace_symbols {
	struct ky_symbol_table *table;
	struct ky_symbolizer *symbolizer; /* NULL: has_no_files */
	bool is_damaged;                  /* part of the input could not be read */
	bool has_entries, has_map;        /* the trace names code; it says where modules lay */
	struct ky_crash_copy *crashes;    /* the first KY_TRACE_CRASHES_MAX */
	uint32_t crash_count;
	uint64_t sync_ns, sync_wall_ns; /* the last ClockSyncEvent; 0: none yet */
};

/* Any event of the input, in the order of the files. Returns 0 or a negative error. */
typedef int (*ky_trace_symbols_fn)(void *ctx, const struct ky_event *event);

/* Reads the input once. each: NULL, or sees every event. Returns 0 or a negative error, with its
 * sentence in input->error. */
int ky_trace_symbols_open(struct ky_trace_symbols *out, struct ky_input *input,
			  const struct ky_trace_symbols_options *options, ky_trace_symbols_fn each,
			  void *ctx);
/* For the few addresses of crashes and stuck threads: reads the input again and may open files only
 * when the trace has such; otherwise out->table stays NULL. Returns the same. */
int ky_trace_symbols_of(struct ky_trace_symbols *out, struct ky_input *input,
			const struct ky_trace *trace,
			const struct ky_trace_symbols_options *options);
/* Walks the stack of a crash of the trace. Returns 0; KYMO_E_UNSUPPORTED; -ENOMEM; -EINVAL: no
 * files. */
int ky_trace_symbols_crash(const struct ky_trace_symbols *symbols, uint32_t index,
			   struct ky_crash_stack *out);
/* For texts; valid until close. */
struct ky_code_names ky_trace_symbols_names(struct ky_trace_symbols *symbols);
void ky_trace_symbols_close(struct ky_trace_symbols *symbols);

/* "the file at its path is another one by now": enum ky_symbol_why in words. */
const char *ky_symbol_why_text(uint32_t why);

#endif
