/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* dump_writer.h - one dump: cuts a ring, into a file that appears whole under its name or not at
 * all, or into a function.
 *
 * Invariants: a file has its name only once it is whole and synced; an error leaves nothing. It is
 *             its user's alone (0600).
 * Threads:    one at a time; with a guarded ring one in the process (ring_guard.h).
 */
#ifndef KY_AGENT_DUMP_WRITER_H
#define KY_AGENT_DUMP_WRITER_H

#include <drain/cut.h>
#include <ring/ring_finder.h>
#include <ship/compressor.h>

#define KY_DUMP_PATH_BYTES 768u

/* What becomes of a file that has the name already. */
enum ky_dump_taken {
	KY_DUMP_NUMBERED = 0, /* it stays; the dump gets ".2" and so on before its ending */
	KY_DUMP_REPLACED,     /* it goes */
	KY_DUMP_SET_ASIDE     /* a trace becomes NAME.old, anything else is refused */
};

struct ky_dump_job {
	/* The image, the range, what is written beside it; the chunk function is set here. */
	struct ky_cut_options cut;
	const struct ky_open_ring *guarded; /* faults in its image are errors; NULL: own ring */
	struct ky_compressor_factory compressor;
	const char *path;  /* with the compressor's ending */
	uint32_t taken;    /* enum ky_dump_taken */
	bool is_active;    /* called NAME.active meanwhile, directories above are made */
	ky_write_fn write; /* NULL: to the file */
	void *write_ctx;
	bool needs_records; /* without one: -ENODATA; else the ring's state is enough */
	/* Once the copy is taken the calling thread gives way to all others, for good. */
	bool gives_way;
	/* Called after each chunk, with the bytes written so far; NULL: not. */
	void (*between)(void *ctx, uint64_t bytes, const struct ky_chunk *chunk);
	void *between_ctx;
	/* results */
	struct ky_cut_report report;
	uint64_t bytes;                   /* of the file, or given to the function */
	char written[KY_DUMP_PATH_BYTES]; /* the name it got */
	bool is_file_trouble;             /* an error is about the file or the function */
};

/* Returns 0; KYMO_E_AGAIN: nothing is recorded yet; -ENODATA; KYMO_E_* about the ring; -errno about
 * the file, as ky_out_file_open() and ky_trace_file_check(); the function's error. */
int ky_dump_write(struct ky_dump_job *job);

#define KY_DUMP_UTC_BYTES 64u
/* "20261121T102233Z", with is_exact "20261121T102233.456Z". Needs no tables of the C library, whose
 * locks a forked child cannot trust. */
void ky_dump_utc(char out[KY_DUMP_UTC_BYTES], uint64_t unix_ns, bool is_exact);

#endif
