/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* host_words.h - reads words of the host's memory that may not be there.
 *
 * No word is followed before the kernel has read what it points to; it says no where we would
 * fault.
 *
 * Threads: any.      Cost: a system call per page.
 */
#ifndef KY_TOKIO_HOST_WORDS_H
#define KY_TOKIO_HOST_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* It may be the address of a word. */
bool ky_tokio_is_address(uint64_t word);

/* Returns how many of the words at `address` could be read, `count` at most. */
size_t ky_tokio_read_words(uintptr_t address, uint64_t *out, size_t count);

/* An Arc's target starts with two counts. */
bool ky_tokio_is_arc(uintptr_t address);

#endif
