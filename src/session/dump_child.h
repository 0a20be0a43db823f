/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* dump_child.h - makes the dumps of a ring in processes that are forked for it, so that neither the
 * drain nor the watchdog waits; what became of each is an event, of the child where it can.
 *
 * Threads: owner.
 */
#ifndef KY_SESSION_DUMP_CHILD_H
#define KY_SESSION_DUMP_CHILD_H

#include <agent/agent_options.h>
#include <agent/dumps.h>
#include <agent/named_dump.h>

struct ky_dump_child {
	const struct ky_agent_options *options;
	struct ky_open_ring ring;
	uint32_t pid; /* of the recorded process */
	const char *service, *source;
	bool is_dead; /* the process is gone */
	char path[KY_DUMP_PATH_BYTES];
};

#define KY_DUMP_DIRECTORY_BYTES (KY_DUMP_PATH_BYTES - KY_DUMP_NAME_BYTES)

/* Where dumps of rules are: chosen, else (NULL) the output's name and ".dumps". out_bytes:
 * KY_DUMP_DIRECTORY_BYTES. */
void ky_dump_child_directory(char *out, size_t out_bytes, const char *chosen, const char *output);

/* Of struct ky_rules_options: OUTPUT.dumps/SERVICE-PID-UTC-N.trc, or in --dump-dir; ctx is the
 * child. */
const char *ky_dump_child_path(void *ctx, uint32_t n);

struct ky_dump_maker ky_dump_child_maker(struct ky_dump_child *child);

#endif
