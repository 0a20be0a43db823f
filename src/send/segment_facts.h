/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* segment_facts.h - what a destination needs to know of a segment, from its path and first chunk.
 * Threads: owner.
 */
#ifndef KY_SEND_SEGMENT_FACTS_H
#define KY_SEND_SEGMENT_FACTS_H

#include <kymo/stage.h>
#include <send/dump_name.h>

struct ky_segment_facts {
	struct kymo_segment segment; /* its strings are below, but for the path */
	char service[65], run[64], name[128], boot[96], host[128], directory[1024],
		dump_id[KY_DUMP_ID_BYTES];
	/* Of the content, for a dump. */
	char boot_id[16], start_ticks[24], own_service[65], pid[16];
};

/* path: of the file, the caller's. service: "" for a dump, which says itself whose it is. fd: open
 * there. Returns 0, -errno. Content that cannot be read leaves the time at the date of the file,
 * and the host's name empty. */
int ky_segment_facts_read(struct ky_segment_facts *facts, const char *path, const char *service,
			  const char *run, const char *name, int fd);

#endif
