/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unfinished_file.h - removes unfinished files, and directories made for them, when a signal ends
 * the program.
 *
 * Signals that are ignored or handled already (nohup, `kymo run`, `kymo attach`) stay as they are.
 * Our handler removes what is noted, the last first, and then does what the signal does.
 * Threads: owner.
 */
#ifndef KY_SHIP_UNFINISHED_FILE_H
#define KY_SHIP_UNFINISHED_FILE_H

#define KY_UNFINISHED_MAX 8u /* what comes on top is not noted */

/* path: the caller's; stays as it is until it is dropped. A child that is forked meanwhile removes
 * nothing. */
void ky_unfinished_note(const char *path);
void ky_unfinished_drop(const char *path); /* one that was not noted, too */

#endif
