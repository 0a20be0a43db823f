/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_dump.h - one ring becomes one file: what `kymo dump`, `kymo recover` and a trigger of
 * `kymo run` have in common.
 *
 * Invariants: the file appears under its name only when it is whole and synced; nothing is left
 *             behind otherwise. It is its user's alone (0600).
 * Threads:    one at a time in the process (ring_guard.h).
 */
#ifndef KY_AGENT_RING_DUMP_H
#define KY_AGENT_RING_DUMP_H

#include <base/buf.h>
#include <ring/ring_finder.h>
#include <drain/cut.h>
#include <ship/stage.h>

#define KY_DUMP_PATH_BYTES 768u
#define KY_DUMP_NAME_BYTES 160u /* of what is chosen in a directory, with its "/" */
#define KY_DUMP_PAIRS_MAX 80u

/* Two readings of the same moment: turns CLOCK_MONOTONIC of a ring's boot into wall time. */
struct ky_dump_clock {
	uint64_t monotonic_ns, unix_ns;
};

/* Called once a second. to_go_ns: of the recording, which are not written yet. */
typedef void (*ky_dump_progress_fn)(uint64_t file_bytes, uint64_t to_go_ns);

struct ky_ring_dump {
	const struct ky_open_ring *ring;
	const char *path;
	bool may_replace; /* else a name that is taken gets ".2" and so on before its ending */
	ky_dump_progress_fn progress; /* NULL: none */
	/* Once the copy is taken the calling thread gives way to all others, for good. */
	bool gives_way;
	struct ky_stage_factory stage;
	/* Range, pairs and notes are the caller's; image, names and sink are set here. */
	struct ky_cut_options cut;
	/* results */
	struct ky_cut_report report;
	uint64_t file_bytes;
	char written[KY_DUMP_PATH_BYTES];
};

/* Returns 0; -ENODATA: the ring has no event of that range, there is no file; KYMO_E_* about the
 * ring; -errno about the file (is_file_trouble tells which). */
int ky_ring_dump(struct ky_ring_dump *dump, bool *is_file_trouble);

/* SERVICE-PID-20260518T123000Z with the ending of `stage` behind `directory` ("": here). */
void ky_dump_name(char *out, size_t out_bytes, const char *directory, const char *service,
		  uint32_t pid, uint64_t unix_ns, const struct ky_stage_factory *stage);

/* The compression a file's name asks for, zstd where it says nothing. Returns 0; -EINVAL: the name
 * is no trace's (.trc, .trc.zst, .trc.gz), or contradicts what --compress asked for. */
int ky_dump_choose_stage(const char *path, bool has_stage, struct ky_stage_factory *stage);

/* This machine's clocks; those of the ring's beginning where it is of another boot. */
void ky_dump_clock(struct ky_dump_clock *out, const struct ky_found_ring *found);

/* "12,345 events, FROM to TO UTC (30.0 s), nothing lost; ..." without a full stop. asked_ns: how
 * far back the range was to reach; 0: as far as there is. */
void ky_dump_summary(struct ky_buf *out, const struct ky_ring_dump *dump,
		     const struct ky_dump_clock *clock, uint64_t asked_ns);
/* "; recording was stopped at ..." where it was: what is missing behind it is neither lost nor a
 * sign of an idle process. */
void ky_dump_stopped(struct ky_buf *out, const struct ky_ring_dump *dump,
		     const struct ky_dump_clock *clock);
/* Has the ring never overwritten anything? */
bool ky_dump_has_all(const struct ky_cut_report *report);
/* The summary as members of a JSON object, without its braces. */
void ky_dump_summary_json(struct ky_buf *out, const struct ky_ring_dump *dump,
			  const struct ky_dump_clock *clock);
/* A line for each poll that was open, longest first, behind `indent` spaces. at_ns: the moment. */
void ky_dump_polls(struct ky_buf *out, const struct ky_cut_report *report, uint64_t at_ns,
		   uint32_t indent);

#endif
