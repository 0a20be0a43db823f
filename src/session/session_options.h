/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* session_options.h - how a session records: the options of each ring's agent, and what CMD finds
 * in its environment.
 * Threads: owner; nothing changes while the session is open.
 */
#ifndef KY_SESSION_SESSION_OPTIONS_H
#define KY_SESSION_SESSION_OPTIONS_H

#include <agent/agent_options.h>
#include <ring/ring_progress.h>

#define KY_RING_DIRECTORY_BYTES 256u

struct ky_session_options {
	struct ky_agent_options agent;
	/* Rings that another recorder process drained continue where their traces on disk end:
	 * settles from which record on, of what the ring says. NULL: rings are new. */
	void (*settle)(struct ky_ring_tail *tail);
	bool is_quiet;                   /* no sentence on what went well */
	const char *ring_directory;      /* NULL: KYMO_RING_DIR, else /dev/shm/kymo-UID */
	uint64_t ring_bytes;             /* 0: the recorder's default */
	uint64_t sample_bytes;           /* memory for samples; 0: the recorder's default */
	uint64_t alloc_bytes;            /* one of so many allocated bytes is sampled; 0: none */
	uint32_t gates_set, gates_clear; /* enum kymo_gate */
};

#endif
