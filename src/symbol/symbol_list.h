/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* symbol_list.h - names by address from text: /proc/kallsyms and the perf maps of compilers that
 * work at run time.
 *
 * Invariants:  the text is untrusted: lines that do not fit are passed over, names are cut at 512
 *              bytes, at most KY_SYMBOL_LIST_MAX symbols are kept. With ky_symbol_list_want(), what
 *              is found at a wanted address is what a whole list has there.
 * Memory:      24 B a symbol and its name; with ky_symbol_list_want() 48 B and a name for each
 *              wanted address, however long the text is.
 * Threads:     owner while it grows; any number of readers after ky_symbol_list_finish().
 */
#ifndef KY_SYMBOL_SYMBOL_LIST_H
#define KY_SYMBOL_SYMBOL_LIST_H

#include <base/buf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_SYMBOL_LIST_MAX (1u << 22)

struct ky_listed_symbol {
	uint64_t address, byte_count; /* byte_count 0: up to the next one */
	uint32_t name, name_bytes;    /* in names */
};

struct ky_symbol_list {
	struct ky_listed_symbol *symbols; /* by address, after finish */
	uint32_t count, capacity;
	bool is_hidden; /* there were lines, and all their addresses were 0 */
	bool has_code;  /* there was a symbol, kept or not */
	struct ky_buf names;
	struct ky_symbol_gap *gaps; /* NULL: all symbols are kept */
	uint32_t gap_count;
};

void ky_symbol_list_init(struct ky_symbol_list *list);
void ky_symbol_list_release(struct ky_symbol_list *list);

/* Before the first text: keep only what covers these addresses, ascending and without equal ones.
 * Of kallsyms alone. Returns 0, -ENOMEM. */
int ky_symbol_list_want(struct ky_symbol_list *list, const uint64_t *addresses, uint32_t count);

/* "ffffffff81000000 T name [module]": code only. Whole lines; what is left of the last one without
 * its end is taken as it is. Again for the next piece of the text. Returns 0, -ENOMEM. */
int ky_symbol_list_kallsyms(struct ky_symbol_list *list, const char *text, size_t byte_count);
/* "3ef414c0 398 name with blanks", hexadecimal; where lines overlap, the one that
 * begins last counts. */
int ky_symbol_list_perf_map(struct ky_symbol_list *list, const char *text, size_t byte_count);
void ky_symbol_list_finish(struct ky_symbol_list *list);

/* The symbol that covers an address, NULL: none. The name is not NUL-terminated. */
const struct ky_listed_symbol *ky_symbol_list_find(const struct ky_symbol_list *list,
						   uint64_t address, const char **name);

#endif
