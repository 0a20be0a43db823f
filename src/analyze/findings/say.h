/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* say.h - pieces of a finding's sentences, without printf: they are also put together where there
 * is no C library. Errors: kept in buf->failed.
 * Threads: owner.
 */
#ifndef KY_ANALYZE_FINDINGS_SAY_H
#define KY_ANALYZE_FINDINGS_SAY_H

#include <analyze/code_stacks.h>
#include <base/buf.h>

void ky_say_ns(struct ky_buf *out, uint64_t ns);       /* 1.23 ms: three digits, rounded */
void ky_say_bytes(struct ky_buf *out, uint64_t bytes); /* 1.23 MB */
void ky_say_ahead(struct ky_buf *out, uint64_t ns);    /* "3 s", "50 min", "7 h": whole ones */
void ky_say_ppm(struct ky_buf *out, uint32_t ppm);     /* 12.3 % */
void ky_say_count(struct ky_buf *out, uint64_t count); /* 572,815 */
/* "1 poll", "2,000 polls". */
void ky_say_many(struct ky_buf *out, uint64_t count, const char *one, const char *many);
/* A name of a type or function, shortened, without the closures at its end; "an unnamed task" of
 * KY_NONE. */
void ky_say_kind(struct ky_buf *out, const struct ky_trace *trace, uint32_t name);
void ky_say_function(struct ky_buf *out, const struct ky_code_line *line);
/* " at src/report.rs:41"; nothing where the file is not known. */
void ky_say_line(struct ky_buf *out, const struct ky_code_line *line);

#endif
