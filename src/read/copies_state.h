/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* copies_state.h - what copies.c finds out and copy_filter.c goes by. */
#ifndef KY_READ_COPIES_STATE_H
#define KY_READ_COPIES_STATE_H

#include <read/copies.h>
#include <read/processes.h>

/* A straight line of the counter's clock: CounterClockEvent. */
struct ky_clock_line {
	uint64_t ticks, ns, q48; /* q48 0: not known */
};

/* Stamps after lo, up to hi, are one group's. Their times at the two ends. */
struct ky_owned {
	uint64_t lo, hi, lo_ns, hi_ns;
	uint32_t group;
};

/* A process that calls exec has a ring for each of its programs. */
struct ky_copies_key {
	struct ky_process_key process;
	char ring[24];
};

struct ky_copies_process {
	struct ky_copies_key key;
	struct ky_owned *owned; /* ascending, none overlaps */
	uint32_t owned_count;
	struct ky_worker_id *workers; /* the ids that all of it gets */
	uint32_t worker_count;
};

struct ky_worker_id {
	uint64_t identity, id;
	uint64_t to; /* in a source: what it becomes */
};

/* An event that each part reports that saw it, at nearly the same time. */
struct ky_seen_event {
	uint64_t hash, ns;
	uint32_t source;
	bool is_taken;
};

struct ky_copies_source {
	struct ky_copies *copies;
	struct ky_copies_process *process; /* NULL: it gives everything */
	uint32_t index, group;
	struct ky_worker_id *workers;
	uint32_t worker_count;
	bool has_other_ids;
	struct ky_clock_line line;
	/* The last answer holds for these times, and what they become. */
	uint64_t from_ns, to_ns, least_ns, most_ns;
	bool is_taking;
	uint64_t copy_count;
};

struct ky_copies {
	struct ky_copies_source *sources;
	uint32_t source_count;
	struct ky_copies_process *processes;
	uint32_t process_count;
	struct ky_unrecorded *unrecorded;
	uint32_t unrecorded_count;
	struct ky_seen_event *seen;
	uint32_t seen_count, seen_capacity;
};

/* Time of these ticks on the line; saturates. */
uint64_t ky_clock_line_ns(const struct ky_clock_line *line, uint64_t ticks);
/* Reads a CounterClockEvent. Returns false when it says nothing. */
bool ky_clock_line_read(struct ky_clock_line *line, const struct ky_frame *frame);

#endif
