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

#include <cli/destinations.h>
#include <session/session_options.h>
#include <stdbool.h>
#include <stdint.h>

#define KY_RUN_DIRECTORY "kymo-traces" /* unless -o says another */
#define KY_RUN_SAMPLE_HZ 99u
#define KY_RUN_ALLOC_SAMPLE_BYTES (UINT64_C(8) << 20)
#define KY_RUN_RESOURCE_MS 1000u

struct ky_run_options {
	struct ky_session_options session;
	/* What the command line, or for the rate the preset, says itself. */
	bool has_compressor, has_hz, has_alloc_bytes, has_resource_ms, has_mode;
	const char *profile_name;            /* NULL: none */
	struct ky_destinations destinations; /* of a run alone */
	char **command;                      /* NULL-terminated; NULL of an attach */
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
