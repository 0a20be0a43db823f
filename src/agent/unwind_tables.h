/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_tables.h - keeps the unwind tables of one ring's process: reads what it has mapped, takes
 * out what has gone, in the unwind area of its ring.
 *
 * Reads /proc/PID/maps and the mapped files; takes no lock of the loader. Trouble never reaches the
 * process or the trace's events: without tables its stacks are short.
 * Threads: owner.
 */
#ifndef KY_AGENT_UNWIND_TABLES_H
#define KY_AGENT_UNWIND_TABLES_H

#include <agent/probes.h>
#include <agent/ring_access.h>
#include <unwind/unwind_keeper.h>
#include <wire/ring_image.h>

struct ky_unwind_tables {
	/* the owner's, the others begin with zeros */
	struct ky_ring_area area;
	uint32_t pid;     /* in our namespace */
	bool is_hasty;    /* at first ten times as often: a program loads most when it starts */
	bool follows_cpu; /* only when the process has run */
	bool (*is_wanted)(const void *ctx); /* NULL: always */
	int (*between)(void *ctx); /* after a few thousand rows; not 0 ends the step. NULL: none */
	void *ctx;
	const char *early; /* see struct ky_unwind_target */

	struct ky_unwind_keeper *keeper;
	uint64_t began_ns, due_ns;
	uint64_t clock_ns; /* CPU time of the process, just before the last reading; 0: unknown */
	bool is_resting;   /* the process has not run since */
	int error;         /* why there is no keeper */
	struct ky_unwind_stats stats;
};

/* Of another process's ring: area and process as its header says. fd: open for writing. */
void ky_unwind_tables_init(struct ky_unwind_tables *tables, int fd,
			   const struct ky_ring_header *header);

/* Its step reads what is mapped, every second. */
struct ky_probe ky_unwind_tables_probe(struct ky_unwind_tables *tables);

/* "14 modules, 93120 rows" for the trace, or why there are none. */
void ky_unwind_tables_text(const struct ky_unwind_stats *stats, char *out, size_t capacity);

#endif
