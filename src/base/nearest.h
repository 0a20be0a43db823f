/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* nearest.h - what a mistyped name was meant to be.
 * Threads: any.
 */
#ifndef KY_BASE_NEAREST_H
#define KY_BASE_NEAREST_H

#include <stddef.h>

/* Candidate closest to what was typed, NULL when none is close (edit distance above a third). */
const char *ky_nearest(const char *typed, const char *const *candidates, size_t count);

#endif
