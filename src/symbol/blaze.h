/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* blaze.h - the crate `blazesym` in C functions (src/rust/src/blaze.rs): DWARF, ELF symbols,
 * inline frames, Rust and C++ demangling.
 *
 * What a damaged file makes of it: an error, or a panic that is caught and ends that lookup. The
 * caller has read the file first (object_file.h), because an allocation that fails would end
 * the program.
 * Memory:  the file is mapped; parsed units stay until close.
 * Threads: owner.
 */
#ifndef KY_SYMBOL_BLAZE_H
#define KY_SYMBOL_BLAZE_H

#include <stddef.h>
#include <stdint.h>
#include <wire/symbol_source.h>

enum ky_blaze_result {
	KY_BLAZE_UNREADABLE = -1,
	KY_BLAZE_PANICKED = -2
};

struct ky_blaze;

/* Opens nothing yet. debug: 0: symbol table alone, 1: also DWARF. Returns NULL when memory is out.
 */
struct ky_blaze *ky_blaze_open(const char *path, size_t path_bytes, uint32_t debug);
void ky_blaze_close(struct ky_blaze *blaze);

/* address: virtual, of the file. Returns rows reported, 0 none, enum ky_blaze_result. */
int ky_blaze_find(const struct ky_blaze *blaze, uint64_t address, ky_symbol_fn report, void *ctx);

/* From here on a caught panic prints nothing. */
void ky_blaze_quiet(void);

/* A symbol as people write it: without hash and disambiguators. One that is not mangled, is
 * malformed or longer than capacity stays as it is. Returns bytes written, without a NUL: at most
 * capacity, what does not fit is cut; 0: a panic was caught.
 * Threads: any. */
size_t ky_blaze_demangle(const char *symbol, size_t symbol_bytes, char *out, size_t capacity);

#endif
