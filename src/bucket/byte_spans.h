/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* byte_spans.h - which bytes of a file are there: ascending spans that do not touch.
 *
 * Memory:  a row for each span, at most KY_BYTE_SPANS_MAX.
 * Pure. Threads: owner.
 */
#ifndef KY_BUCKET_BYTE_SPANS_H
#define KY_BUCKET_BYTE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#define KY_BYTE_SPANS_MAX 65536u

struct ky_byte_span {
	uint64_t from, to; /* without the second */
};

struct ky_byte_spans {
	struct ky_byte_span *all;
	uint32_t count, capacity;
	uint64_t bytes; /* of all of them */
};

/* What is there now, too. Returns 0; -ENOMEM: it is as it was. */
int ky_byte_spans_add(struct ky_byte_spans *spans, uint64_t from, uint64_t to);

/* The first of these bytes that are not there. False: all are. */
bool ky_byte_spans_gap(const struct ky_byte_spans *spans, uint64_t from, uint64_t to,
		       struct ky_byte_span *gap);

void ky_byte_spans_release(struct ky_byte_spans *spans);

#endif
