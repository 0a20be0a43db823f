/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* live.h - the words that were changed, and changing them while the program's threads run.
 *
 * Invariants:  each word is one aligned store: who reads it meanwhile gets the old value or the
 *              new one.
 *              Read-only pages are made writable once for all words of an object and sealed again;
 *              they stay readable all the time. An object that is gone is left out.
 * Threads:     one at a time; in the constructor the only one.
 */
#ifndef KY_TOKIO_LIVE_H
#define KY_TOKIO_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#define KY_TOKIO_WORDS_MAX 16384u

/* Remembers that this word is, or is to be, `ours` in place of `theirs`. False: no room. */
bool ky_tokio_live_note(uintptr_t *word, uintptr_t theirs, uintptr_t ours);

/* Stores our value into every word that still has theirs. Returns 0; -errno when memory could not
 * be made writable: then none has changed. */
int ky_tokio_live_apply(void);

/* Stores theirs into every word that still has ours, and forgets all. Returns 0, or the first
 * -errno: what could not be restored is kept for another try. */
int ky_tokio_live_restore(void);

uint32_t ky_tokio_live_count(void);

#endif
