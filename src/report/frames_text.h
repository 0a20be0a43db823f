/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* frames_text.h - stacks as text, by name.
 * Threads: any.
 */
#ifndef KY_REPORT_FRAMES_TEXT_H
#define KY_REPORT_FRAMES_TEXT_H

#include <base/buf.h>
#include <read/symbol_table.h>

/* "handle (src/handle.rs:12)", from the innermost function, which may be inlined, to the one that
 * was called. */
void ky_code_text(struct ky_buf *out, struct ky_symbol_table *symbols, uint64_t pc,
		  uint64_t time_ns);

/* A line each, the innermost first. is_whole: up to the thread's first function. */
void ky_frames_text(struct ky_buf *out, struct ky_symbol_table *symbols, const uint64_t *frames,
		    uint32_t count, uint64_t time_ns, bool is_whole, uint32_t indent);

/* An array "stack" of objects, in the same order; inlined functions stand for themselves. */
void ky_frames_json(struct ky_buf *out, struct ky_symbol_table *symbols, const uint64_t *frames,
		    uint32_t count, uint64_t time_ns);

#endif
