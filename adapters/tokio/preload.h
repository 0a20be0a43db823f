/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* preload.h - starting and stopping in a process that runs already; preload.c starts before main.
 *
 * Threads: the one that `kymo attach` made; never two at a time.
 */
#ifndef KY_TOKIO_PRELOAD_H
#define KY_TOKIO_PRELOAD_H

#include <kymo/attach.h>

/* block: what is wished for; its text gets the one word and a sentence of a status file.
 * Returns 0; KYMO_E_ACTIVE: something records here already; KYMO_E_UNSUPPORTED: nothing that can be
 * recorded; what the recorder or mprotect() refused. Nothing is changed unless it returns 0. */
int ky_preload_start(struct kymo_attach_block *block);

/* Also what began before main. Returns 0; KYMO_E_CLOSED: nothing records; -errno: a word could not
 * be restored, and recording continues. */
int ky_preload_stop(struct kymo_attach_block *block);

#endif
