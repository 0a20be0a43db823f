/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* task_type.h - from a demangled function of Tokio's to the future it was compiled for.
 * Threads: any.
 */
#ifndef KY_SYMBOL_TASK_TYPE_H
#define KY_SYMBOL_TASK_TYPE_H

#include <stdbool.h>
#include <stddef.h>

/* Finds T in "...task::core::Cell<T, S>...", CoreStage<T>, Stage<T>, Harness<T, S>, raw::poll::<T,
 * S>.
 *
 * out      points into `text`; not NUL-terminated
 * is_cell  the evidence was a Cell: the task's whole allocation
 * Returns  bytes of T, 0 when the function names no future
 */
size_t ky_task_type(const char *text, const char **out, bool *is_cell);

/* Is it worth following calls of this (mangled) symbol on the way to one that names the future? */
bool ky_task_type_is_on_the_way(const char *symbol);

#endif
