/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* symbol_rows.h - names of all code addresses of a trace, as SymbolTableEntry events that are
 * written into it.
 *
 *   ky_symbol_rows_open(&rows, input, &options);      reads the input once: which addresses
 *   ky_symbol_rows_name(&rows);                       opens their files
 *   ky_rewrite_run() with .keep = ky_symbol_rows_keep, .tail = ky_symbol_rows_write and
 *   .hook_ctx = &rows                                 the old rows go, then come all
 *
 * Memory:  of code_addresses.h and symbol_table.h.
 * Threads: owner.
 */
#ifndef KY_EDIT_SYMBOL_ROWS_H
#define KY_EDIT_SYMBOL_ROWS_H

#include <analyze/code_addresses.h>
#include <edit/redact.h>
#include <edit/trace_symbols.h>
#include <wire/chunk.h>

#define KY_SYMBOL_UNNAMED_MAX 20u

/* Addresses of one module that have no name, for one reason. */
struct ky_symbol_unnamed {
	uint32_t module; /* UINT32_MAX: none */
	uint32_t why;
	uint64_t count;
	bool is_kernel;
};

struct ky_symbol_rows {
	struct ky_redact *redact; /* the caller's, of names and files; NULL: they stay */
	struct ky_trace_symbols symbols;
	struct ky_code_addresses addresses;
	uint64_t had, named, not_named; /* addresses */
	uint64_t row_count;             /* of those that are named */
	struct ky_symbol_unnamed unnamed[KY_SYMBOL_UNNAMED_MAX];
	uint32_t unnamed_count;

	struct ky_symbol_target *targets; /* its own */
	uint32_t target_count, target_capacity;
};

/* rows: zeros, but for redact. Returns 0 or a negative error, with its sentence in input->error;
 * KYMO_E_LIMIT: more addresses than code_addresses.h takes. */
int ky_symbol_rows_open(struct ky_symbol_rows *rows, struct ky_input *input,
			const struct ky_trace_symbols_options *options);
void ky_symbol_rows_name(struct ky_symbol_rows *rows);
/* Hooks of a ky_rewrite; ctx: the rows. */
bool ky_symbol_rows_keep(void *ctx, const struct ky_event *event);
int ky_symbol_rows_write(void *ctx, ky_chunk_fn chunk, void *chunk_ctx);
/* The module of such a row, or what else lies there. */
const char *ky_symbol_rows_place(struct ky_symbol_rows *rows,
				 const struct ky_symbol_unnamed *unnamed);
void ky_symbol_rows_release(struct ky_symbol_rows *rows); /* of zeros, too */

#endif
