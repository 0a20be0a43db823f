/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* segment_copy.h - what is offered in place of a segment's file, and by what name its service and
 * host go then.
 *
 * What makes copies is the program's (symbols, redaction); here is how it is asked, and one copy a
 * destination, kept until that one has taken or refused it, so that to wait for a server makes
 * nothing anew.
 * Threads: owner.
 */
#ifndef KY_SEND_SEGMENT_COPY_H
#define KY_SEND_SEGMENT_COPY_H

#include <kymo/stage.h>
#include <send/origin.h>
#include <stdbool.h>

struct ky_segment_copy {
	char of[1152]; /* the path it is a copy of; "": there is none */
	int fd;        /* -1: nothing had to be changed, the file itself is sent */
	char origin[KY_ORIGIN_BYTES];
	char service[65], host[128], name[128];
	char path[32];
};

struct ky_segment_filter {
	void *ctx;
	/* Fills fd and origin, changes service, host and name. why: KYMO_STAGE_REASON_BYTES for a
	 * sentence. Returns 0; KYMO_E_*: it cannot be read; another negative error: later,
	 * perhaps. */
	int (*make)(void *ctx, const struct kymo_segment *segment, struct ky_segment_copy *copy,
		    char *why);
};

/* Puts the copy in the segment's place; made where `copy` is another's. filter.make NULL: all stays
 * as it is. Returns the same. */
int ky_segment_copy_use(struct ky_segment_copy *copy, const struct ky_segment_filter *filter,
			struct kymo_segment *segment, char *why);
void ky_segment_copy_release(struct ky_segment_copy *copy); /* of zeros, too */

#endif
