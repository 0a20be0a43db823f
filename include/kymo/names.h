/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* names.h - traces that this program writes itself name tasks by the type of their future, and
 * other code by its function, as those of `kymo run` and `kymo dump` do. Without it they have
 * addresses.
 *
 * Needs     symbols in the program's file; ky_blaze_demangle() of src/symbol/blaze.h, which the
 *           program brings (the crate kymo-sys does).
 */
#ifndef KYMO_NAMES_H
#define KYMO_NAMES_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before kymo_recorder_open(). The recorder's own thread reads the program's file when a type of
 * task is written the first time. is_on: 0: from here on it does not.
 *
 * Memory   16 bytes a symbol, and the file mapped read-only; none in flight mode up to a dump
 * Threads  one at a time.      Signals: unsafe.      Since 0.1
 */
KYMO_API void kymo_names_enable(int is_on);

#ifdef __cplusplus
}
#endif

#endif
