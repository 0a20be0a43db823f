/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_facts.h - what a list of traces says of one: whose it is, when, how much, the worst delay.
 *
 * The file is read as every command reads it, so that the figures are those of `kymo info` and of
 * `kymo report`. It is untrusted.
 * Memory:  KY_FACTS_MEMORY_MAX while it is read; then what is in the struct.
 * Threads: owner.
 */
#ifndef KY_SERVE_TRACE_FACTS_H
#define KY_SERVE_TRACE_FACTS_H

#include <base/buf.h>
#include <stdbool.h>
#include <stdint.h>

#define KY_FACTS_MEMORY_MAX (UINT64_C(1) << 30)
#define KY_FACTS_TEXT_BYTES 64u
#define KY_FACTS_SENTENCE_BYTES 640u
#define KY_FACTS_INFO_BYTES_MAX (4u << 20)

struct ky_trace_facts {
	char service[KY_FACTS_TEXT_BYTES], host[KY_FACTS_TEXT_BYTES], pid[KY_FACTS_TEXT_BYTES];
	uint64_t start_unix_ns; /* 0: not known */
	uint64_t duration_ns;   /* from the first poll, park or wake to the last */
	uint64_t event_count, poll_count, lost_count;
	uint64_t worst_delay_ns, worst_poll_ns;
	uint64_t delay_count;
	bool is_torn; /* ends without its seal, or is damaged */
	char *info;   /* JSON as `kymo info --json` prints it, NUL-terminated; NULL: too much */
	char sentence[KY_FACTS_SENTENCE_BYTES]; /* why it cannot be read; "": it can */
};

/* fd: of a regular file, at any offset; stays open. name: for sentences.
 * Returns 0; KYMO_E_NOT_TRACE and others: `sentence` says why. Release it in either case. */
int ky_trace_facts_read(struct ky_trace_facts *out, int fd, const char *name);
void ky_trace_facts_release(struct ky_trace_facts *facts);

#endif
