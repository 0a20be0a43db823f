/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_options.h - the command lines of `kymo run` and `kymo attach`, read once, by concern.
 *
 * Of `kymo run` everything after the first word that is not an option, or after "--", belongs to
 * CMD and is not read.
 * Memory:  the strings are argv's.
 * Errors:  wrong words end the process with a sentence (ky_option_error()).
 */
#ifndef KY_CLI_RUN_OPTIONS_H
#define KY_CLI_RUN_OPTIONS_H

#include <cli/profile.h>
#include <drain/drain.h>
#include <kymo/recorder.h>
#include <watch/rule.h>
#include <ship/stage.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_RUN_DIRECTORY "kymo-traces" /* unless -o says another */
#define KY_RUN_METADATA_MAX 64u
#define KY_RUN_RING_DIRECTORY_BYTES 256u
#define KY_RUN_SAMPLE_HZ 99u
#define KY_RUN_ALLOC_SAMPLE_BYTES (UINT64_C(8) << 20)
#define KY_RUN_RESOURCE_MS 1000u

enum ky_run_source {
	KY_RUN_SOURCE_ANY = 0, /* perf_event, else timers */
	KY_RUN_SOURCE_PERF,    /* or nothing */
	KY_RUN_SOURCE_TIMERS
};

/* Where traces go, and in which pieces. */
struct ky_output_options {
	const char *directory;
	const char *file; /* the one trace; NULL: segments below the directory */
	uint64_t segment_bytes_max, rotate_interval_ns; /* 0: the store's defaults */
	uint64_t total_bytes_max;                       /* the same; of a single file 0: no bound */
	struct ky_stage_factory stage;
	bool has_stage; /* --compress was given */
	struct kymo_key_value metadata[KY_RUN_METADATA_MAX];
	size_t metadata_count;
};

/* What is measured beside the events. */
struct ky_sampling_options {
	uint32_t hz;              /* samples per second of CPU time; 0: none */
	bool has_hz;              /* --sample was given */
	uint32_t source;          /* enum ky_run_source */
	bool is_without_switches; /* --switches off */
	uint64_t bytes;           /* memory for samples; 0: the recorder's default */
	uint64_t alloc_bytes;     /* one of so many allocated bytes is sampled; 0: none */
	bool has_alloc_bytes;     /* --alloc was given */
	uint32_t resource_ms;     /* between readings of resources; 0: none */
	bool has_resource_ms;     /* --resources was given */
};

/* The ring of each process. */
struct ky_ring_options {
	const char *directory; /* NULL: /dev/shm/kymo-UID */
	uint64_t bytes;        /* 0: the recorder's default */
};

/* What makes dumps by itself: --trigger, KYMO_TRIGGERS, the profile. */
struct ky_trigger_options {
	const struct ky_rule *rules; /* valid until the next parse */
	size_t rule_count;
	const char *dump_directory; /* NULL: beside the output */
};

struct ky_run_options {
	bool is_flight;
	bool is_quiet;
	const char *service; /* NULL: the recorded program's own name */
	struct ky_output_options output;
	struct ky_sampling_options sampling;
	struct ky_ring_options ring;
	struct ky_trigger_options triggers;
	const char *profile_name;  /* NULL: none */
	struct ky_profile profile; /* zeros: everything is written, gates as they are */
	char **command;            /* NULL-terminated; NULL of an attach */
};

/* Reads what stands under the name of a single file: such a name makes one unless a directory has
 * it. Changes argv: "k=v" is cut at its "=". Returns an exit code. */
int ky_run_options_parse(struct ky_run_options *out, int argc, char **argv);

/* The same for `kymo attach`, which is in flight mode unless it is asked for a stream. */
int ky_attach_options_parse(struct ky_run_options *out, uint32_t *pid, bool *is_json, int argc,
			    char **argv);

/* A process id: 1 to INT32_MAX, digits alone. */
bool ky_run_parse_pid(const char *text, uint32_t *out);

#endif
