/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* demangle.h - Rust symbol names, legacy (_ZN…17h<hash>E) and v0 (_R…), as text.
 *
 * Our own, because symbols come from files nobody vouches for: time is bounded by a step budget,
 * depth by a limit, memory by the caller's buffer. (v0 back-references make output exponential in
 * the input; the C implementation that distributions ship bounds depth only.) The hash and crate
 * disambiguators are dropped; identifiers in punycode are shown as punycode{...}.
 * Threads: any.      Signals: safe.
 */
#ifndef KY_SYMBOL_DEMANGLE_H
#define KY_SYMBOL_DEMANGLE_H

#include <stddef.h>

/* Returns bytes written behind which a NUL stands; 0 when it is no Rust symbol, is malformed, or
 * does not fit. What a compiler appends (".llvm.123", ".cold") is ignored. */
size_t ky_demangle(const char *symbol, size_t symbol_bytes, char *out, size_t capacity);

/* demangle_v0.c: the part for "_R". */
size_t ky_demangle_v0(const char *symbol, size_t symbol_bytes, char *out, size_t capacity);

#endif
