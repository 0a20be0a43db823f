/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unfinished_file.h - what has to go when a signal ends us: a file that is not whole, a directory for one.
 *
 * Signals that somebody ignores or handles (nohup, `kymo run`, `kymo attach`) are left alone. Ours
 * removes what is noted, the last first, and then does what the signal does.
 * Threads: owner.
 */
#ifndef KY_SHIP_UNFINISHED_FILE_H
#define KY_SHIP_UNFINISHED_FILE_H

#define KY_LEFTOVERS_MAX 8u /* what comes on top is not noted */

/* path: the caller's; stays as it is until it is dropped. A child that is forked meanwhile removes
 * nothing. */
void ky_leftover_note(const char *path);
void ky_leftover_drop(const char *path); /* one that was not noted, too */

#endif
