/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_tally.h - what a trace of a test program holds, by the public reader: uncompressed, in
 * memory or in a file. Fails the test on bytes that are no trace. Threads: owner.
 */
#ifndef KY_TEST_TRACE_TALLY_H
#define KY_TEST_TRACE_TALLY_H

#include <stddef.h>
#include <stdint.h>

struct trace_tally {
	uint64_t polls, ends, wakes, lost, triggers, stuck, open_polls;
	uint64_t last_task; /* of the last poll */
};

/* Both add to *tally. */
void trace_tally_memory(struct trace_tally *tally, const uint8_t *bytes, size_t count);
void trace_tally_file(struct trace_tally *tally, const char *path);

/* True when the file has this pair of metadata somewhere. */
int trace_file_has_pair(const char *path, const char *key, const char *value);

/* True when the file has this text somewhere. */
int trace_file_has(const char *path, const char *text);

#endif
