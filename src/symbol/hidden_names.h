/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* hidden_names.h - what a file without debug information says of its code beyond the symbol that
 * covers it: the type that a boxed future's function was compiled for (object_methods.h), and who
 * gave back what a task of Tokio's waited for.
 *
 * A guard's or permit's drop ends in a jump, so it is on no stack; the call that led to it names it
 * (elf/call_target.h), and stands as a function that is inlined there.
 *
 * Memory:   the file's functions and pointers, read when the first name asks for them.
 * Threads:  owner.
 */
#ifndef KY_SYMBOL_HIDDEN_NAMES_H
#define KY_SYMBOL_HIDDEN_NAMES_H

#include <wire/symbol_source.h>

struct ky_hidden_names;

/* fd stays the caller's, and open as long. Returns NULL when memory is out. */
struct ky_hidden_names *ky_hidden_names_open(int fd);
void ky_hidden_names_close(struct ky_hidden_names *names);

/* Rows of the function at an address of code, the return address of a call less 1, pass through
 * ky_hidden_names_row() with `names` as its context; end says how many rows it added. */
void ky_hidden_names_begin(struct ky_hidden_names *names, uint64_t address, ky_symbol_fn report,
			   void *ctx);
void ky_hidden_names_row(void *names, const struct ky_symbol_row *row);
int ky_hidden_names_end(struct ky_hidden_names *names);

#endif
