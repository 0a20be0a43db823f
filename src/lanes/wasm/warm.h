/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* warm.h - a trace of its own, made, read and thrown away before there is a file.
 *
 * A browser runs the engine in quick and slow code until it has seen which functions run much, and
 * writes better code for those only then, beside it. Reading ten million events takes a fifth to a
 * third longer when that happens in the middle of it.
 * Memory:      some 100 bytes an event, given back before it returns.
 * Threads:     owner.
 */
#ifndef KY_LANES_WARM_H
#define KY_LANES_WARM_H

#include <stdint.h>

/* Returns how many polls were read of it; -ENOMEM; what reading it says. */
int32_t ky_warm(uint32_t events);

#endif
