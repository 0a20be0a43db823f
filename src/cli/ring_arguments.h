/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_arguments.h - one ring named on the command line by pid or service, opened or refused with a
 * sentence.
 * Threads: owner.
 */
#ifndef KY_CLI_RING_ARGUMENTS_H
#define KY_CLI_RING_ARGUMENTS_H

#include <argp.h>
#include <report/dump_text.h>
#include <ring/ring_finder.h>

/* For argp: the one process that the command line names, in *process, else a refusal. Returns what
 * argp's parser does; ARGP_ERR_UNKNOWN of any other key. */
error_t ky_ring_argument_parse(int key, char *text, const char **process);

/* Finds and opens. Returns KY_EXIT_OK, or KY_EXIT_TROUBLE after one sentence on stderr. */
int ky_ring_argument_open(struct ky_open_ring *out, struct ky_found_ring *found,
			  const struct ky_ring_query *query, const char *pid_or_service,
			  bool is_dead_wanted, bool is_writable);

/* Text for people; never NULL. */
const char *ky_ring_state_text(const struct ky_found_ring *ring);
const char *ky_ring_mode_text(uint32_t mode); /* enum ky_ring_mode, resolved */

/* This machine's clocks; those of the ring's beginning where it is of another boot. */
void ky_ring_clock(struct ky_dump_clock *out, const struct ky_found_ring *found);

/* How long ago it was made: by the monotonic clock of this boot, else by the wall clock. */
uint64_t ky_ring_age_ns(const struct ky_found_ring *ring);
/* How long it had recorded when it was stopped. */
uint64_t ky_ring_stopped_after_ns(const struct ky_found_ring *ring);

#endif
