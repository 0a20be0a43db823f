/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* top_screen.h - a terminal that a command has for itself: another screen, keys without Enter.
 *
 * Invariants: however the process ends by itself or by a signal that can be caught, the terminal is
 *             as it was; Ctrl-Z gives it back and `fg` takes it again.
 * Threads:    owner; one in the process.
 */
#ifndef KY_CLI_TOP_SCREEN_H
#define KY_CLI_TOP_SCREEN_H

#include <base/buf.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns 0; -ENOTTY: standard input or output is no terminal. */
int ky_top_screen_open(void);
void ky_top_screen_close(void);

/* Its size as it is now. */
void ky_top_screen_size(uint32_t *columns, uint32_t *rows);

/* Shows the lines from the upper left corner on; what does not fit is cut. */
void ky_top_screen_show(const struct ky_buf *text);

/* Waits for a key for so long. Returns it; 0: none, or the size changed; -1: input has ended. */
int ky_top_screen_key(uint64_t wait_ns);

#endif
