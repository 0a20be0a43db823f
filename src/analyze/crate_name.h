/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* crate_name.h - what the name of a Rust function says about its origin.
 * Threads: any.
 */
#ifndef KY_ANALYZE_CRATE_NAME_H
#define KY_ANALYZE_CRATE_NAME_H

#include <stdbool.h>

/* Of the type or function that a name is about, without what a type begins with: for
 * "<&mut a::B as C>::d" that is "a::B as C>::d". Where the type is a mere parameter, "<T as C>::d",
 * it is the trait's, "C>::d". Points into name. */
const char *ky_crate_name_begin(const char *name);

/* Rust's own library, the runtime, and crates that are only the way to a program's own code: a line
 * of these is no place in the program. */
bool ky_crate_name_is_library(const char *name);

/* A task that is no task of the program: the closure that is a worker's whole life. */
bool ky_crate_name_is_runtime_task(const char *name);

#endif
