/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* symbol_table.h - what to call the code at an address of a trace.
 *
 * Names come from the SymbolTableEntry events of the trace, else from a struct ky_symbol_source,
 * else they are "module+0x1f2c", "kernel+0x..." or the address itself: there is always one. Each
 * address is searched for once.
 *
 *   ky_symbol_table_open(&table, 0);
 *   for every event: ky_symbol_table_event(table, schema, values);    others are passed over
 *   ky_symbol_table_source(table, &source);                           where files can be opened
 *   count = ky_symbol_table_find(table, address, time_ns, &frames);   frames[0]: innermost
 *
 * Invariants:  the trace's own entries come before those of any source.
 * Memory:      bounded by bytes_max; when it is spent, further addresses are named by number only.
 * Threads:     owner.
 */
#ifndef KY_READ_SYMBOL_TABLE_H
#define KY_READ_SYMBOL_TABLE_H

#include <read/code_map.h>

#define KY_SYMBOL_ROWS_MAX 1024u /* of one address */

struct ky_symbol_table;

struct ky_symbol_frame {
	const char *name; /* NUL-terminated, never NULL or empty */
	const char *file; /* "" unknown */
	uint32_t line;    /* 0 unknown */
	uint32_t depth;   /* 0: the function itself; n: inlined n deep */
	uint32_t why;     /* enum ky_symbol_why: KY_SYMBOL_FOUND, or why the name is a number */
	uint32_t number;  /* the same for equal names, so that folding compares numbers */
	uint64_t start;   /* absolute; 0 unknown */
	uint64_t code_bytes;
};

/* bytes_max: 0: 1 GiB. Returns 0, -ENOMEM. */
int ky_symbol_table_open(struct ky_symbol_table **out, uint64_t bytes_max);
void ky_symbol_table_close(struct ky_symbol_table *table);

/* Takes ProcessMapEvent and SymbolTableEntry; other events are passed over. All of them before the
 * first lookup. Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_symbol_table_event(struct ky_symbol_table *table, const struct ky_schema *schema,
			  const struct ky_value *values);

/* Asked from now on where the trace does not say; NULL: nothing. Used until close. */
void ky_symbol_table_source(struct ky_symbol_table *table, const struct ky_symbol_source *source);

/* The code at an address at a moment (0: any), innermost function first, in *frames, valid until
 * the next call. Returns how many, at least 1. */
uint32_t ky_symbol_table_find(struct ky_symbol_table *table, uint64_t address, uint64_t time_ns,
			      const struct ky_symbol_frame **frames);

struct ky_code_map *ky_symbol_table_map(struct ky_symbol_table *table);

/* True when the trace itself names this address at this moment. */
bool ky_symbol_table_has(struct ky_symbol_table *table, uint64_t address, uint64_t time_ns);

/* The trace's own entries, in the order of the file: for writing them on. Returns false after the
 * last. */
struct ky_symbol_entry {
	uint64_t address, code_bytes, depth;
	uint64_t from_ns, to_ns; /* 0, UINT64_MAX: always */
	const char *name, *file;
	uint64_t line;
};
bool ky_symbol_table_entry(const struct ky_symbol_table *table, uint32_t index,
			   struct ky_symbol_entry *out);

#endif
