/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* debug_symbols.h - the symbols of a stripped file, from where systems and debuginfod keep them, or
 * where its link says.
 * Threads: owner.
 */
#ifndef KY_SYMBOL_DEBUG_SYMBOLS_H
#define KY_SYMBOL_DEBUG_SYMBOLS_H

#include <symbol/task_names.h>
#include <wire/symbol_source.h>

/* A ky_add_symbols_fn (ring_names.h). Adds nothing where the file is not stripped or no debug file
 * is found. pid: of the process while it lives. */
void ky_debug_symbols_add(struct ky_task_names *file, const struct ky_code_place *place,
			  uint32_t pid);

#endif
