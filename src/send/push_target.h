/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* push_target.h - a receiver of what is made of traces: its address, and the headers that the
 * field's own variables name.
 *
 *   otlp   OpenTelemetry over HTTP: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT, _COMPRESSION,
 *          and each with TRACES_, METRICS_ or PROFILES_ before its last word;
 *          OTEL_TRACES_EXPORTER=none and OTEL_METRICS_EXPORTER=none turn one of them off
 *   pprof  Pyroscope's and Parca's push.v1.PusherService/Push: KYMO_PPROF_HEADERS
 *
 * Secrets:  are in headers alone, and no sentence has one; an address with a user and password is
 *           refused, because other users see the words of a process.
 * Threads:  owner.
 */
#ifndef KY_SEND_PUSH_TARGET_H
#define KY_SEND_PUSH_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_PUSH_URL_BYTES 512u
#define KY_PUSH_HEADERS_MAX 16u
#define KY_PUSH_WHY_BYTES 256u

enum ky_push_signal {
	KY_PUSH_TRACES,
	KY_PUSH_METRICS,
	KY_PUSH_PROFILES, /* OpenTelemetry's, in development */
	KY_PUSH_PPROF,
	KY_PUSH_SIGNALS
};

struct ky_push_place {
	char url[KY_PUSH_URL_BYTES + 64];
	char *headers[KY_PUSH_HEADERS_MAX]; /* "name: value" */
	uint32_t header_count;
	uint32_t timeout_ms;
	bool is_plain; /* not packed with gzip */
	bool is_off;   /* it is not wanted there */
};

struct ky_push_target {
	bool is_pprof;
	char name[KY_PUSH_URL_BYTES + 80]; /* for sentences: "otlp:http://127.0.0.1:4318" */
	struct ky_push_place places[KY_PUSH_SIGNALS];
};

/* url: "http://HOST:PORT[/PATH]", https as well; "": of the environment, else
 * http://localhost:4318. variable: a test's; NULL: of the environment. Returns 0; -EINVAL, and why
 * (KY_PUSH_WHY_BYTES) says what is wrong; -ENOMEM. Either way it is to be released. */
typedef const char *(*ky_push_variable_fn)(const char *name);
int ky_push_target_read(struct ky_push_target *out, bool is_pprof, const char *url,
			ky_push_variable_fn variable, char *why);
void ky_push_target_release(struct ky_push_target *target);

#endif
