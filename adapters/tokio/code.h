/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* code.h - what a function can reach by direct calls: distinguishes a worker's launch from any
 * other closure, and one scheduler from another, where rustc's legacy mangling drops the type from
 * the name.
 *
 * Bounded: KY_TOKIO_CODE_FUNCTIONS_MAX functions of KY_TOKIO_CODE_BYTES_MAX bytes each.
 * Threads: setup-only.
 */
#ifndef KY_TOKIO_CODE_H
#define KY_TOKIO_CODE_H

#include "tokio_elf.h"

#define KY_TOKIO_CODE_FUNCTIONS_MAX 256u
#define KY_TOKIO_CODE_BYTES_MAX 65536u

/* Decides about one function on the way. Returns 0 to continue, anything else to stop with that. */
typedef int (*ky_tokio_visit_fn)(void *ctx, const char *name);

/* Walks breadth-first from the function at `start` (itself included) along direct calls, jumps and
 * addresses taken of code, through symbols that `elf` keeps.
 * Returns what visit returned, 0 when nothing was decided. */
int ky_tokio_code_walk(const struct ky_tokio_elf *elf, uintptr_t start, ky_tokio_visit_fn visit,
		       void *ctx);

/* The first address in `targets` that the code reachable from `start` mentions; 0 when none. */
uintptr_t ky_tokio_code_mention(const struct ky_tokio_elf *elf, uintptr_t start,
				const uintptr_t *targets, size_t target_count);

/* Reads the code of the first `count_max` functions on such a walk, until `read` returns true.
 * Returns whether it did. */
typedef bool (*ky_tokio_code_fn)(void *ctx, const uint8_t *code, size_t bytes);
bool ky_tokio_code_each(const struct ky_tokio_elf *elf, uintptr_t start, uint32_t count_max,
			ky_tokio_code_fn read, void *ctx);

#endif
