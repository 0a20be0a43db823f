/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* request_bodies.h - a trace analysed, as the bodies of requests that receivers take: OpenTelemetry
 * and the push of profiles.
 *
 * Home directories in texts are "~"; what export/otlp.h leaves out does not come in.
 * Threads: owner.
 */
#ifndef KY_CLI_REQUEST_BODIES_H
#define KY_CLI_REQUEST_BODIES_H

#include <export/export.h>
#include <export/otlp.h>
#include <send/push.h>

struct ky_request_bodies {
	struct ky_push_body bodies[KY_PUSH_SIGNALS]; /* by signal */
	struct ky_otlp otlp;                         /* what they have; its pointers are over */
	uint64_t profile_count, sample_count;
};

void ky_request_bodies_init(struct ky_request_bodies *bodies);
void ky_request_bodies_release(struct ky_request_bodies *bodies);

/* What of the trace: export's time; of profiles also task, worker, and its kind, or all kinds that
 * there are. symbols: NULL: none. Returns 0; -ENOMEM, KYMO_E_LIMIT. */
int ky_request_bodies_otlp(struct ky_request_bodies *out, const struct ky_export *export,
			   struct ky_symbol_table *symbols);
/* Adds OpenTelemetry's profiles: all kinds of samples. */
int ky_request_bodies_profiles(struct ky_request_bodies *out, struct ky_export *export,
			       struct ky_symbol_table *symbols);
int ky_request_bodies_pprof(struct ky_request_bodies *out, struct ky_export *export,
			    struct ky_symbol_table *symbols, bool are_all_kinds);

/* Ends the process with a sentence where this is no address, or a variable is wrong. */
void ky_request_bodies_check(const char *url, bool is_pprof);
/* Sends them, with retries for so long. url as in push_target.h, of push_target_read().
 * Returns an exit code; trouble has been said. */
int ky_request_bodies_push(struct ky_request_bodies *bodies, const char *url, bool is_pprof,
			   uint64_t timeout_ns);

#endif
