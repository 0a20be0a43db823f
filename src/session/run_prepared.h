/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_prepared.h - ring files that no process has recorded into yet.
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
 * or made in advance: false, to be read again next time; header then holds what is there. */
bool ky_run_prepared_read(int fd, const struct stat *st, struct ky_ring_header *header);

/* fd: the file `name` in the directory. One that a process of this session made in advance, and
 * that no process maps any more, goes; so do all of them at the end of the session, so that no
 * process starts to record what is not read. One that was recorded into stays: the next scan of the
 * directory, or `kymo recover`, finds a ring like any other. Of the others the tables for stacks
 * are made ahead, for the process's first polls are those that show where it waits for good. */
void ky_run_prepared_check(int directory_fd, const char *name, int fd, uint64_t session,
			   struct ky_table_thread **tables, bool is_last);

#endif
