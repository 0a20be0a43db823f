/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rewrite.h - traces written anew as one file: events sorted and encoded in chunks of our size, or
 * frames copied as they are; with events left out and chunks added where a command wants that.
 *
 * The file appears under its name when it is whole; where every file of the input was sealed, the
 * result is. What is wrong with the input becomes notices of it.
 * Threads: owner.
 */
#ifndef KY_EDIT_REWRITE_H
#define KY_EDIT_REWRITE_H

#include <edit/index_maker.h>
#include <edit/input.h>
#include <edit/redact.h>
#include <ship/out_file.h>
#include <ship/compressor.h>

struct ky_rewrite {
	struct ky_input *input; /* open */
	const char *output;     /* a file's name; where it goes to a descriptor, for sentences */
	int fd;                 /* 0: none; else written there, and left open */
	uint64_t level;         /* of the compression; 0: the kind's own */
	uint32_t compression;   /* enum kymo_compression; DEFAULT: by the name of `output` */
	bool is_recompress;     /* frame by frame: no hooks are asked */
	bool is_forced;         /* replace what has the name */
	bool is_mix;            /* several processes are fine */
	bool is_stored_order;   /* events stay where they stand, so that little memory is needed */

	struct ky_redact *redact; /* not with is_recompress; NULL: all stays */
	/* False: the event is left out. NULL: all stay. */
	bool (*keep)(void *ctx, const struct ky_event *event);
	/* Chunks after all others, before the index. NULL: none. Returns 0 or a negative error. */
	int (*tail)(void *ctx, ky_chunk_fn chunk, void *chunk_ctx);
	void *hook_ctx;

	/* what came of it */
	uint64_t events, chunks, raw_bytes, stored_bytes;
	bool is_indexed;
	bool is_partial; /* part of the input could not be read */

	/* its own */
	struct ky_out_file file;
	struct ky_compressor_factory factory;
	struct ky_compressor compressor;
	struct ky_index_maker index;
	uint64_t late, mended, undefined, indexes;
};

/* Before the input is opened: what the options ask for can be done. Returns 0; -EINVAL, with its
 * sentence in input->error. */
int ky_rewrite_prepare(struct ky_rewrite *rewrite);
/* Returns 0 or a negative error, with its sentence in input->error; KYMO_E_LIMIT: ky_input_limit()
 * says which, too. */
int ky_rewrite_run(struct ky_rewrite *rewrite);

#endif
