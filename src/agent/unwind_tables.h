/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_tables.h - the library's own unwind tables: its thread makes them once a stack was wanted
 * or a sampler runs, and keeps them from then on. Under `kymo run` that process makes them instead.
 *
 * Reads /proc/self/maps and the mapped files; never takes the loader's lock. In a process that
 * has confined itself it does nothing.
 * Threads: the library's thread alone.
 */
#ifndef KY_AGENT_UNWIND_TABLES_H
#define KY_AGENT_UNWIND_TABLES_H

#include <record/emit/ring_file.h>

struct ky_unwind_keeper;

struct ky_table_maker {
	const struct ky_ring *ring; /* that the keeper writes into */
	struct ky_unwind_keeper *keeper;
	uint64_t due_ns;
	int32_t last_error;
	void (*between)(void *ctx); /* of the step at work */
	void *between_ctx;
};

/* between: called whenever a few thousand rows are made, for who cannot wait for all of them.
 * Returns when it wants to be called again; UINT64_MAX: nobody wants stacks. */
uint64_t ky_table_maker_step(struct ky_table_maker *maker, const struct ky_ring *ring,
			     void (*between)(void *ctx), void *between_ctx);
void ky_table_maker_close(struct ky_table_maker *maker);

#endif
