/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* io_keys.h - which descriptor a poller's event is of. epoll_wait() returns the key that the
 * descriptor was registered with; Tokio's is the address of a ScheduledIo. Earlier versions number
 * theirs, each driver anew, and may register by a copy of the poller's descriptor: such a key says
 * nothing, nor does that of a driver's own eventfd.
 *
 * Known is the last descriptor of a key, by a table of hashes: one that finds its place taken
 * overwrites it, and the one before is not known any more. A hash has 44 bits beside its place. An
 * address that was freed and given out again is registered anew.
 *
 * Memory:   128 KiB of zeros, of which the kernel gives pages as they are used.
 * Threads:  any.      Signals: safe.
 */
#ifndef KY_TOKIO_IO_KEYS_H
#define KY_TOKIO_IO_KEYS_H

#include <kymo/emit.h>
#include <stdint.h>

/* It was registered with a poller. */
void ky_tokio_io_key_note(uint64_t key, int fd);

/* -1: not known. */
int ky_tokio_io_key_descriptor(uint64_t key);

#endif
