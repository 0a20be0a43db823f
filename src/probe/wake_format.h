/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* wake_format.h - how the kernel writes that a thread is about to be woken: the number and the
 * layout of its tracepoint sched_waking, as tracefs has them.
 */
#ifndef KY_PROBE_WAKE_FORMAT_H
#define KY_PROBE_WAKE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

struct ky_wake_format {
	uint32_t id;
	uint32_t flags_at; /* a byte: in an interrupt? */
	uint32_t pid_at;   /* four bytes: thread id of who is woken, in the first pid namespace */
	uint32_t bytes;    /* of a record, at least */
};

/* text: of the tracepoint's file `format`. False: what is needed does not stand there. */
bool ky_wake_format_parse(struct ky_wake_format *out, const char *text);

/* Where tracefs is usually mounted. Returns 0; -EACCES, -ENOENT ...: of the place that went
 * furthest; -EPROTO: it can be read, and means nothing to us. */
int ky_wake_format_read(struct ky_wake_format *out);

#endif
