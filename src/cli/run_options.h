/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_options.h - the command line of `kymo run`, read once.
 *
 * Everything after the first word that is not an option, or after "--", belongs to CMD and is not
 * looked at. Memory: the strings are argv's.
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
#define KY_RUN_SAMPLE_HZ_MAX 1000u
#define KY_RUN_ALLOC_SAMPLE_BYTES (UINT64_C(8) << 20)
#define KY_RUN_RESOURCE_MS 1000u

enum ky_run_source {
	KY_RUN_SOURCE_ANY = 0, /* perf_event, else timers */
	KY_RUN_SOURCE_PERF,    /* or nothing */
	KY_RUN_SOURCE_TIMERS
};

struct ky_run_options {
	bool is_flight;
	bool is_quiet;
	bool wants_help;
	const char *directory;      /* of the traces */
	const char *file;           /* the one trace; NULL: segments below the directory */
	const char *service;        /* NULL: the recorded program's own name */
	const char *ring_directory; /* NULL: /dev/shm/kymo-UID */
	uint64_t ring_bytes;        /* 0: the recorder's default */
	uint32_t sample_hz;         /* samples per second of CPU time; 0: none */
	bool has_sample_hz;         /* --sample was given */
	uint32_t sample_source;     /* enum ky_run_source */
	bool is_without_switches;   /* --switches off */
	bool has_kernel_stacks;     /* --switches stacks */
	uint32_t resource_ms;       /* between looks at resources; 0: none */
	bool has_resource_ms;       /* --resources was given */
	uint64_t sample_bytes;      /* 0: the recorder's default */
	uint64_t alloc_bytes;       /* one of so many allocated bytes is sampled; 0: none */
	bool has_alloc_bytes;       /* --alloc was given */
	uint64_t segment_bytes_max, rotate_interval_ns; /* 0: the store's defaults */
	uint64_t total_bytes_max;                       /* the same; of a single file 0: no bound */
	const char *profile_name;                       /* NULL: none */
	struct ky_profile profile; /* zeros: everything is written, gates as they are */
	struct ky_stage_factory stage;
	bool has_stage; /* --compress was given */
	struct kymo_key_value metadata[KY_RUN_METADATA_MAX];
	size_t metadata_count;
	/* Of --trigger and KYMO_TRIGGERS; valid until the next parse. */
	const struct ky_rule *rules;
	size_t rule_count;
	const char *dump_directory; /* of what they dump; NULL: beside the output */
	char **command;             /* NULL-terminated */
};

/* Returns 0, or -EINVAL with one sentence in errbuf. Looks at what stands under the name of a
 * single file: such a name makes one unless a directory has it. Changes argv: "k=v" is cut at its
 * "=". */
int ky_run_options_parse(struct ky_run_options *out, int argc, char **argv, char *errbuf,
			 size_t errbuf_bytes);

/* The same where no CMD follows: options may stand behind other words. Orders argv so that
 * `command` has all that is none. */
int ky_run_options_parse_mixed(struct ky_run_options *out, int argc, char **argv, char *errbuf,
			       size_t errbuf_bytes);

/* "zstd", "zstd:3", "gzip", "gzip:6", "none". Returns 0 or -EINVAL. */
int ky_run_parse_compression(const char *text, struct ky_stage_factory *out);

/* "99", "off" (0). Returns false for anything else, and beyond 1,000. */
bool ky_run_parse_rate(const char *text, uint32_t *out);

/* "512K", "off" (0). Returns false for anything else, and beyond what there can be. */
bool ky_run_parse_alloc(const char *text, uint64_t *out);
/* "1s" to "1h" as milliseconds, "off" (0). Returns false for anything else. */
bool ky_run_parse_interval(const char *text, uint32_t *out_ms);

/* "key=value", cut at its "=". Returns 0 or -EINVAL, with the text as it was. */
int ky_run_parse_pair(char *text, struct kymo_key_value *out);

#endif
