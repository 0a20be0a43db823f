/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_ring.h - one ring of a `kymo run` session, from the moment it is found until its file goes.
 *
 * run_rings.c finds rings and steps them in turn; run_ring.c does all that is done for one.
 * Threads: owner.
 */
#ifndef KY_SESSION_RUN_RING_H
#define KY_SESSION_RUN_RING_H

#include <agent/probe_filters.h>
#include <agent/probe_modules.h>
#include <agent/agent.h>
#include <ring/run_directory.h>
#include <ring/run_populate.h>
#include <session/dump_child.h>
#include <session/agent_text.h>
#include <session/run_samplers.h>
#include <session/run_rings.h>
#include <session/reading_thread.h>
#include <session/run_scan.h>
#include <session/table_thread.h>
#include <symbol/ring_names.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <wire/ring_image.h>

#define KY_RUN_RINGS_MAX 256u

/* One ring, and what is done for its process. */
struct ky_run_ring {
	struct ky_run_rings *owner;
	dev_t device;
	ino_t inode;
	int fd;
	char file_name[256];
	bool is_anonymous; /* it has no file that could be removed */
	bool is_foreign;   /* its pid counts in another namespace */
	const uint8_t *image;
	size_t image_bytes;
	uint32_t pid;
	uint64_t process_start_ticks;
	uint64_t made_ns; /* CLOCK_MONOTONIC */
	struct ky_agent agent;
	struct ky_ring_wish wish; /* of its settings */
	struct ky_ring_names *names;
	struct ky_proc_reader process;
	bool is_process_open;
	struct ky_dumps dumps;
	struct ky_dump_child maker;
	struct ky_reading reading;
	struct ky_probe_modules modules;
	struct ky_probe_filters filters;
	struct ky_run_populate populate;
	struct ky_run_sampled sampled;
	uint64_t dropped_count; /* by its writers; at the last step */
	bool is_finished;
};

/* How CMD, our own child, ended. */
struct ky_run_ended_child {
	uint32_t pid; /* 0: none is waited for */
	bool has_ended;
	uint32_t oom; /* enum ky_end_oom */
	int wait_status;
	uint64_t end_ns;
};

/* All rings of a session. */
struct ky_run_rings {
	struct ky_session_options options;
	struct ky_agent_text events;
	struct ky_run_directory names;
	char directory[512];
	uint64_t session, pid_namespace;
	struct ky_run_scan scan; /* for new rings */
	struct ky_run_ring *rings[KY_RUN_RINGS_MAX];
	uint32_t ring_count;
	struct ky_run_totals done; /* of finished rings */
	bool is_file_taken;        /* by a process that has the name as it was given */
	struct ky_run_ended_child child;
	struct ky_table_thread *tables;
	struct ky_reading_thread *readings;
	struct ky_child_states *states; /* of CMD; NULL: its state is looked at */
	struct ky_run_samplers *samplers;
	bool said_ring, said_too_many;
};

/* Maps the ring, begins to drain it, and to watch and sample its process. fd: becomes the ring's.
 * Returns 0, or a negative error: the ring is not recorded, and fd is closed. */
int ky_run_ring_open(struct ky_run_ring **out, struct ky_run_rings *rings, const char *name, int fd,
		     const struct stat *st, const struct ky_ring_header *header);
void ky_run_ring_close(struct ky_run_ring *ring);

/* Drains what is due; finishes a ring whose writer has gone, and with is_last any. Returns when the
 * next step is due. */
uint64_t ky_run_ring_step(struct ky_run_ring *ring, bool is_last);
/* A later program of the same process, which called exec. */
bool ky_run_ring_is_successor(const struct ky_run_ring *next, const struct ky_run_ring *ring);
void ky_run_ring_add_totals(struct ky_run_totals *out, const struct ky_run_ring *ring);

/* run_rings.c: says it, the first time. */
void ky_run_rings_trouble(struct ky_run_rings *rings, const char *name, int err);

#endif
