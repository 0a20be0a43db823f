/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* destinations.h - where segments are sent: the options that `kymo run` and `kymo upload` share.
 *
 * Memory:  the words are argv's.
 * Errors:  wrong words end the process with a sentence (ky_option_error()).
 */
#ifndef KY_CLI_DESTINATIONS_H
#define KY_CLI_DESTINATIONS_H

#include <argp.h>
#include <cli/outgoing.h>
#include <send/layout.h>
#include <send/sender.h>

#define KY_UPLOAD_TIMEOUT_NS UINT64_C(30000000000)

struct ky_destinations {
	const char *words[KY_SENDER_STAGES_MAX]; /* s3://..., or a command */
	bool are_commands[KY_SENDER_STAGES_MAX];
	uint32_t count;
	const char *to_option; /* NULL: --to; for sentences */
	enum ky_layout layout;
	bool has_layout;
	uint64_t timeout_ns;
	struct ky_outgoing_choice outgoing;
};

/* --to, --exec, --layout, --upload-timeout, --redact, --no-symbols: a struct ky_destinations.
 */
extern const struct argp ky_destinations_argp;

/* The same without --to, of a command where that is a time. Its words come from
 * ky_destinations_add(). */
extern const struct argp ky_destinations_but_to_argp;
/* word: a URL, or a command. Ends the process where there are too many. */
void ky_destinations_add(struct ky_destinations *destinations, const char *word, bool is_command);

/* Fills filter, stages and stage_count; `destinations` outlives them. Ends the process where a word
 * is wrong. */
void ky_destinations_make(struct ky_destinations *destinations, struct ky_sender_options *options);

#endif
