/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* labels.h - what the program and `kymo mark` said of a moment: values of counters and annotations.
 *
 * Memory:      24 bytes each, at most 2^22 of counters and 2^20 of annotations.
 */
#ifndef KY_READ_LABELS_H
#define KY_READ_LABELS_H

#include <stdint.h>

/* A reading of a counter; CounterEvent. */
struct ky_trace_counter {
	uint64_t time_ns;
	int64_t value;
	uint32_t name;   /* index */
	uint32_t serial; /* in the order of the files */
};

/* See AnnotationEvent. */
struct ky_trace_annotation {
	uint64_t time_ns;
	uint32_t label; /* name index */
	uint32_t tid;   /* 0: set by another process */
	uint32_t serial;
};

#endif
