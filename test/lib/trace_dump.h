/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_dump.h - a trace as text, one line per frame: what the golden files and failing tests show.
 * Threads: owner.
 */
#ifndef KY_TEST_TRACE_DUMP_H
#define KY_TEST_TRACE_DUMP_H

#include <base/buf.h>

/* Decodes all of bytes and appends the text, NUL-terminated (not counted). The last line says how
 * it ended. window_bytes: the decoder gets no more at a time unless a frame needs it; 0:
 * everything. Returns what the decoder returned last. */
int test_trace_dump(struct ky_buf *out, const uint8_t *bytes, size_t count, size_t window_bytes);

#endif
