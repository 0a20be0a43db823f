/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_prepared.h - ring files that nobody has recorded into yet.
 * Threads: owner.
 */
#ifndef KY_SESSION_RUN_PREPARED_H
#define KY_SESSION_RUN_PREPARED_H

#include <session/table_thread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <wire/ring_image.h>

/* The header of a ring file that has been begun with. Without its magic it is still being written,
 * or made in advance: false, look again next time; header then holds what is there. */
bool ky_run_prepared_read(int fd, const struct stat *st, struct ky_ring_header *header);

/* fd: the file `name` in the directory. One that a process of this session made in advance, and
 * that no process maps any more, goes; so do all of them at the end of the session, for nobody
 * shall start to record what nobody will read. One that was recorded into stays: the next look at
 * the directory, or `kymo recover`, finds a ring like any other.
 * Of the others the tables for stacks are made ahead, for the process's first polls are those that
 * tell where it waits for good. */
void ky_run_prepared_look(int directory_fd, const char *name, int fd, uint64_t session,
			  struct ky_table_thread **tables, bool is_last);

#endif
