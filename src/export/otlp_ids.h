/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* otlp_ids.h - under which trace of OpenTelemetry something is shown that a task did at a moment.
 *
 * Where `tracing` knew the trace, a field of a span says it, or of an event in it: trace_id,
 * otel.trace_id or traceId with 32 hexadecimal digits, or traceparent as the W3C writes it.
 * span_id, otel.span_id or spanId beside it names the span above. Spans inside of such a one have
 * its trace. Fields are the span's own (dial9), or in an event of the program's that has the number
 * of its span, as kymo's layer of `tracing` writes them.
 * Memory:      48 bytes a span that has a trace; 32 a span while it is made.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_EXPORT_OTLP_IDS_H
#define KY_EXPORT_OTLP_IDS_H

#include <read/trace.h>

#define KY_OTLP_TRACE_BYTES 16u
#define KY_OTLP_SPAN_BYTES 8u

struct ky_otlp_id {
	uint8_t trace[KY_OTLP_TRACE_BYTES];
	uint8_t span[KY_OTLP_SPAN_BYTES];
	bool has_span;
};

struct ky_otlp_known; /* one span */

struct ky_otlp_ids {
	const struct ky_trace *trace;
	struct ky_otlp_known *list; /* by task, then start */
	uint32_t count;
	uint64_t seed; /* of this process: what is derived differs between two */
};

/* Returns 0, -ENOMEM. */
int ky_otlp_ids_make(struct ky_otlp_ids *out, const struct ky_trace *trace);
void ky_otlp_ids_release(struct ky_otlp_ids *ids);

/* What was recorded of the task (index) for [from, to]: of the span that covers most of it, of
 * several the last to begin. False: nothing was. */
bool ky_otlp_ids_find(const struct ky_otlp_ids *ids, uint32_t task, uint64_t from_ns,
		      uint64_t to_ns, struct ky_otlp_id *out);
/* 16 bytes for all that has none, by kind and number; never zeros. */
void ky_otlp_ids_derive_trace(const struct ky_otlp_ids *ids, const char *kind, uint64_t number,
			      uint8_t *out);
/* 8 bytes. */
void ky_otlp_ids_derive_span(const struct ky_otlp_ids *ids, const char *kind, uint64_t number,
			     uint64_t start_ns, uint8_t *out);

/* "4bf92f3577b34da6a3ce929d0e0e4736" or "00-4bf9..-00f067aa0ba902b7-01", in quotes or not, into
 * out. False: it is neither, or zeros. */
bool ky_otlp_id_parse(const char *text, struct ky_otlp_id *out);

#endif
