/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* running.h - starting and stopping while the program's threads run: for `kymo attach` (attached.c)
 * and for a program that starts its own recorder (inside.c).
 *
 * Order:    find, then the caller opens the recorder, then begin; end, then it closes the recorder.
 * Threads:  any, one at a time.
 */
#ifndef KY_TOKIO_RUNNING_H
#define KY_TOKIO_RUNNING_H

#include <stdbool.h>
#include <stddef.h>

/* One word and a sentence, as of a status file. */
struct ky_tokio_answer {
	char *text;
	size_t text_bytes;
};

__attribute__((format(printf, 3, 4))) int ky_tokio_say(const struct ky_tokio_answer *answer,
						       int result, const char *format, ...);

/* Looks through everything that is loaded. Nothing of the program is changed. Returns 0;
 * KYMO_E_ACTIVE: something records here already; KYMO_E_UNSUPPORTED: nothing that can be recorded;
 * KYMO_E_LIMIT. */
int ky_tokio_running_find(const struct ky_tokio_answer *answer);

/* Forgets what was found: the recorder could not be opened. */
void ky_tokio_running_forget(void);

/* Changes the words. Returns 0; -errno: memory could not be made writable, nothing is changed. */
int ky_tokio_running_begin(const struct ky_tokio_answer *answer);

/* Restores all words, also of what began before main. Polls that are under way continue through our
 * thunks, which stay. Returns 0; KYMO_E_CLOSED: nothing records; -errno: a word could not be
 * restored, and recording continues. */
int ky_tokio_running_end(const struct ky_tokio_answer *answer);

#endif
