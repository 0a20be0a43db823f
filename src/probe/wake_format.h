/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* wake_format.h - how the kernel writes that a thread is about to be woken, and that a processor
 * goes from one to another: the numbers and the layouts of its tracepoints sched_waking and
 * sched_switch, as tracefs tells them.
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

struct ky_switch_format {
	uint32_t id;
	uint32_t prev_at, next_at; /* four bytes: thread ids of who goes and who comes */
	uint32_t state_at;         /* eight bytes: of who goes; the low ones first */
	uint32_t bytes;
};

/* The same of sched_switch. */
bool ky_switch_format_parse(struct ky_switch_format *out, const char *text);
int ky_switch_format_read(struct ky_switch_format *out);

#endif
