/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* upload_run.h - what `kymo upload` and `kymo dump --upload` have in common: what is there goes to
 * its destinations now, and what became of it is said.
 * Threads: owner.
 */
#ifndef KY_CLI_UPLOAD_RUN_H
#define KY_CLI_UPLOAD_RUN_H

#include <cli/destinations.h>

/* Of the process: memory goes back at once, and others on this machine come first. */
void ky_upload_set_up(void);

/* Fills in what is said; the rest is the caller's. Returns NULL after a sentence. */
struct ky_sender *ky_upload_open(struct ky_destinations *destinations,
				 struct ky_sender_options *options);
/* Sends until all is there or the time is over. what: the directory or the dump, for sentences.
 * Returns an exit code. */
int ky_upload_run(const struct ky_destinations *destinations, struct ky_sender *sender,
		  const char *what, bool is_json);

/* A receiver takes no dump. what: for the sentence. Returns KY_EXIT_OK, KY_EXIT_USAGE. */
int ky_upload_check_dump(const struct ky_destinations *destinations, const char *what);
/* A dump's file, as `kymo upload FILE` sends it. Returns an exit code. */
int ky_upload_dump(struct ky_destinations *destinations, const char *path, bool is_json);

#endif
