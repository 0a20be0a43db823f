/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sending.h - the sender of `kymo run`: from CMD's start until all is sent, or its time is over.
 *
 * What dead processes left in rings is read first, by a process of its own: it takes its time, and
 * a thread in the process has no other that does the same (ring_guard.h).
 * Threads: owner.
 */
#ifndef KY_CLI_SENDING_H
#define KY_CLI_SENDING_H

#include <cli/run_options.h>
#include <send/send_thread.h>
#include <session/dump_child.h>
#include <session/run_child.h>
#include <sys/types.h>

struct ky_sending {
	struct ky_send_thread *thread; /* NULL: nothing is sent */
	struct ky_run_options *options;
	bool is_quiet;
	char dumps[KY_DUMP_DIRECTORY_BYTES];
	pid_t recovery; /* the process that reads rings of dead ones; 0: none, or it has ended */
};

/* Without destinations nothing begins. ring_directory: where dead processes left their rings. */
void ky_sending_begin(struct ky_sending *sending, struct ky_run_options *options,
		      const char *ring_directory);
/* All segments are sealed. A terminating signal that reaches us now ends the sending. Says what was
 * sent, what is left and what was lost. lost_count: segments that the bound on disk deleted before
 * every destination had them. */
void ky_sending_end(struct ky_sending *sending, struct ky_run_child *child, uint64_t lost_count);

#endif
