/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* agent_options.h - how one ring is recorded: where its trace goes, what is measured beside the
 * events, which rules make dumps.
 *
 * Memory: strings and rules are the caller's and outlive the agent.
 * Threads: owner; nothing changes while the agent is open.
 */
#ifndef KY_AGENT_AGENT_OPTIONS_H
#define KY_AGENT_AGENT_OPTIONS_H

#include <agent/agent_event.h>
#include <drain/drain.h>
#include <kymo/recorder.h>
#include <ship/background.h>
#include <ship/compressor.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <watch/rule.h>

#define KY_OUTPUT_METADATA_MAX 64u

/* Where traces go, in which pieces, and who writes them. */
struct ky_output_options {
	const char *directory;
	const char *file;    /* the one trace; NULL: segments below the directory */
	const char *service; /* NULL: the recorded program's own name */
	uint64_t segment_bytes_max, rotate_interval_ns; /* 0: the store's defaults */
	uint64_t total_bytes_max;                       /* the same; of a single file 0: no bound */
	struct ky_compressor_factory compressor;
	kymo_write_fn write; /* instead of a file; NULL: none */
	void *write_ctx;
	const struct ky_background_functions *queue; /* NULL: the thread that steps writes */
	struct kymo_key_value metadata[KY_OUTPUT_METADATA_MAX];
	size_t metadata_count;
};

enum ky_sampling_source {
	KY_SAMPLING_ANY = 0, /* perf_event, else timers */
	KY_SAMPLING_PERF,    /* or nothing */
	KY_SAMPLING_TIMERS
};

/* CPU samples and switch windows. */
struct ky_sampling_options {
	uint32_t hz;              /* samples per second of CPU time; 0: none */
	uint32_t source;          /* enum ky_sampling_source */
	bool is_without_switches; /* no switch windows */
};

/* What makes dumps by itself. */
struct ky_trigger_options {
	const struct ky_rule *rules;
	size_t rule_count;
	const char *dump_directory; /* NULL: beside the output */
};

struct ky_agent_options {
	bool is_flight; /* until the ring's settings say otherwise */
	struct ky_output_options output;
	struct ky_sampling_options sampling;
	struct ky_trigger_options triggers;
	struct ky_retain_policy retain; /* zeros: everything is written */
	uint32_t resource_ms;           /* between readings of resources; 0: none */
	ky_agent_event_fn event;        /* called by the thread that steps */
	void *event_ctx;
};

#endif
