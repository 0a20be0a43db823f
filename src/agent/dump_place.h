/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* dump_place.h - where a dump of a program that links the library goes: the place that its request
 * names, else DIRECTORY/SERVICE/dump-UTC-PID-REASON.trc.
 *
 * Threads: one at a time.
 */
#ifndef KY_AGENT_DUMP_PLACE_H
#define KY_AGENT_DUMP_PLACE_H

#include <agent/dump_request.h>
#include <record/emit/ring_file.h>
#include <ship/compressor.h>
#include <wire/chunk.h>

struct ky_dump_place {
	const char *directory; /* where the request names no place */
	const char *service;
	uint64_t age_min_ns;
	const struct ky_compressor_factory *compressor; /* where no name says another */
	/* By enum kymo_compression. Returns 0, KYMO_E_UNSUPPORTED. */
	int (*choose_compressor)(struct ky_compressor_factory *out, uint32_t compression);
	ky_name_fn name; /* of struct ky_cut_options */
	void *name_ctx;
	/* Of struct ky_dump_job: for who cannot wait for the whole dump; NULL: not called. */
	void (*between)(void *ctx, uint64_t bytes, const struct ky_chunk *chunk);
	void *between_ctx;
};

/* ring: NULL, nothing is recorded yet. Fills request->result; its err is what is returned. */
int ky_dump_make(struct ky_dump_request *request, const struct ky_dump_place *place,
		 const struct ky_ring *ring);

#endif
