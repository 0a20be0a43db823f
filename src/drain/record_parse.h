/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* record_parse.h - the copied words of a sub-buffer into the queues of their threads, one record
 * after the other; for the files of the copy stage.
 * Threads: owner.
 */
#ifndef KY_DRAIN_RECORD_PARSE_H
#define KY_DRAIN_RECORD_PARSE_H

#include <drain/copy_stage.h>

/* Takes whole records from the first `count` of copy->words, which are the cursor's. A record that
 * changes the thread changes the cursor's. Returns words taken; KYMO_E_CORRUPT; -ENOMEM. */
int ky_parse_records(struct ky_copy *copy, struct ky_slot_cursor *cursor, uint32_t count);

#endif
