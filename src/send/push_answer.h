/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* push_answer.h - what a receiver says of what it was sent, which is not trusted.
 *
 * Both read at most `count` bytes, and copy at most out_bytes - 1.
 * Threads: any.
 */
#ifndef KY_SEND_PUSH_ANSWER_H
#define KY_SEND_PUSH_ANSWER_H

#include <stddef.h>
#include <stdint.h>

/* Spans or points that a receiver took the request without: ExportTraceServiceResponse and
 * ExportMetricsServiceResponse, partial_success. 0: none, or the answer is no such message. */
uint64_t ky_push_answer_rejected(const uint8_t *bytes, size_t count);

/* The longest piece of printable ASCII of an answer, which may be JSON, text, or a Status in
 * protobuf; "": there is none of four letters. */
void ky_push_answer_text(const uint8_t *bytes, size_t count, char *out, size_t out_bytes);

#endif
