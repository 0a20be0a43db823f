/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rechunk.h - any events, known or not, written anew as self-contained chunks of our size.
 *
 * Every field and annotation survives; ids of types and pools are given anew. A pool id that is
 * not defined stays so, under an id of its own, counted down from UINT32_MAX.
 * Text that is not UTF-8, which readers may refuse a trace for, is mended. What others shall not
 * read is replaced, where `redact` is set.
 * Threads: owner.
 */
#ifndef KY_EDIT_RECHUNK_H
#define KY_EDIT_RECHUNK_H

#include <analyze/catalog.h>
#include <edit/redact.h>
#include <read/event_stream.h>
#include <read/id_map.h>
#include <wire/chunk.h>
#include <wire/trc_enc.h>

struct ky_rechunk {
	struct ky_trc_enc enc;
	struct ky_buf out;
	struct ky_buf pool_ids; /* u32 each: of the pooled values of one event, in order */
	struct ky_buf frames;   /* aligned copy of one stack */
	struct ky_buf fields;   /* struct ky_trc_field_def: of one schema */
	uint8_t *has_schema;    /* by shape, of this chunk */
	const struct ky_catalog *catalog;
	uint64_t first_ns, last_ns, chunk_count, event_count;
	uint64_t mended_count;    /* texts and names that were not UTF-8: '?' for each such byte */
	size_t pool_id_at;        /* next of pool_ids */
	uint64_t undefined_count; /* values with a pool id that is not defined */
	struct ky_pages undefined_pages;
	struct ky_redact *redact;       /* the caller's; NULL: all stays */
	struct ky_id_map undefined;     /* of source, pool and id to what counts them down */
	uint32_t undefined_ids, source; /* of the event */
	const struct ky_schema *schema; /* the same */
	uint16_t field;                 /* of it, that is being written */
	ky_chunk_fn chunk;
	void *chunk_ctx;
};

/* Returns 0, -ENOMEM. */
int ky_rechunk_init(struct ky_rechunk *rechunk, const struct ky_catalog *catalog, ky_chunk_fn chunk,
		    void *chunk_ctx);
void ky_rechunk_release(struct ky_rechunk *rechunk);

/* Adds one event; passes a full chunk on first. shape: of the catalog. Returns 0 or a negative
 * error. */
int ky_rechunk_event(struct ky_rechunk *rechunk, struct ky_event_stream *stream,
		     const struct ky_event *event, uint32_t shape);
/* Passes on what is left. */
int ky_rechunk_flush(struct ky_rechunk *rechunk);

#endif
