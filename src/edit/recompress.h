/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* recompress.h - traces copied frame by frame: nothing is sorted and nothing decoded anew.
 *
 * Torn and damaged stretches are left out, with a notice. An index that stands at the end of its
 * stream names offsets: it stays only when nothing before it has moved, that is, when it is the
 * only one, ends the only file, and nothing was left out. Else all are left out, and where every
 * file ended in one, a new one of all streams ends the result.
 * Memory:  as struct ky_index_maker, and one gathered chunk.
 * Threads: owner.
 */
#ifndef KY_EDIT_RECOMPRESS_H
#define KY_EDIT_RECOMPRESS_H

#include <cli/input.h>
#include <wire/chunk.h>

struct ky_recompress_result {
	uint64_t events; /* written */
	bool is_indexed; /* the last of them is an index */
};

/* Says that several processes do not go into one file without --mix: nothing there would tell their
 * ids apart. text: of struct ky_processes. Returns KYMO_E_UNSUPPORTED. */
int ky_recompress_refuse_mix(const char *text);

/* chunk: takes whole streams, several at a time. Says what was damaged, that several processes are
 * mixed, and when indexes are gone without a new one. Returns 0, -ENOMEM, the sink's error;
 * KYMO_E_UNSUPPORTED without may_mix: several processes, which has been said. */
int ky_recompress(struct ky_input *input, bool may_mix, ky_chunk_fn chunk, void *chunk_ctx,
		  struct ky_recompress_result *out);

#endif
