/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* dump_file.h - makes the trace of one request: cuts the ring, into a file that appears whole under
 * its name or not at all, or into a function.
 *
 * While it is written a file is called NAME.active, as segments are: readers take it, should we be
 * killed. Threads: one at a time.
 */
#ifndef KY_AGENT_DUMP_FILE_H
#define KY_AGENT_DUMP_FILE_H

#include <agent/dump_request.h>
#include <record/emit/ring_file.h>
#include <ship/stage.h>

struct ky_dump_place {
	const char *directory; /* where the request names no place */
	const char *service;
	uint64_t age_min_ns;
	const struct ky_stage_factory *stage; /* where no name says another */
	/* By enum kymo_compression. Returns 0, KYMO_E_UNSUPPORTED. */
	int (*choose_stage)(struct ky_stage_factory *out, uint32_t compression);
	/* Called behind each chunk, for who cannot wait for the whole dump; NULL: nobody. */
	void (*between)(void *ctx);
	void *between_ctx;
};

/* Fills request->result; its err is what is returned. */
int ky_dump_make(struct ky_dump_request *request, const struct ky_dump_place *place,
		 const struct ky_ring *ring);

#endif
