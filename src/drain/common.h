/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* common.h - what the four stages of a drain share: the ring and its clock, which part of it is
 * wanted, and the tables into which the first stage puts what it finds.
 *
 * Each stage has a struct of its own besides, in a header that its files alone include; drain.c
 * calls one stage after the other, and no stage calls another one.
 *
 * Threads:     owner.
 */
#ifndef KY_DRAIN_COMMON_H
#define KY_DRAIN_COMMON_H

#include <base/timeline.h>
#include <drain/drain.h>
#include <drain/name_table.h>
#include <drain/note_list.h>
#include <ring/ring_view.h>
#include <drain/thread_table.h>
#include <drain/waiting_samples.h>
#include <drain/worker_table.h>

#define KY_HOLD_MAX_NS UINT64_C(200000000) /* how long a busy thread may hold the merge */

struct ky_drain_common {
	struct ky_ring_view ring;
	struct ky_timeline timeline;
	uint64_t step;
	uint64_t now_ns, now_ticks; /* of this step's anchor */
	uint64_t through_ticks;     /* T of this step */
	uint64_t late_ticks;        /* ... of the step before */
	bool is_final;
	bool is_watching; /* nothing is ever written (ky_drain_watch) */
	/* Which part of the ring; a stream wants all, or all that another has not (cut.c sets them
	 * otherwise). */
	bool is_cut;
	bool is_dead;        /* polls that are open are reported as open at the end */
	uint64_t from_ns;    /* until then nothing is written */
	uint64_t from_ticks; /* and for so many records of this stamp */
	uint32_t from_ties;
	uint64_t to_ns;         /* later records are dropped; UINT64_MAX: none */
	uint64_t busy_ticks;    /* cut: the least that a thread inside an event had published */
	uint64_t horizon_ticks; /* the ring's oldest sub-buffer began */
	uint64_t back_ticks;    /* ky_drain_resume() came at this moment; 0: never */
	bool has_flown;         /* a gap of cause KY_LOSS_FLIGHT was met */
	uint64_t flown_ticks;   /* the last of them ends here */
	/* What was found. */
	struct ky_thread_table threads;
	struct ky_note_list notes;
	struct ky_sample_list samples;
	struct ky_name_table names;
	struct ky_module_table modules;
	struct ky_pair_list pairs;
	struct ky_runtime_table runtimes;
	struct ky_launch_list launches;
	uint64_t directory_at; /* read up to here */
	bool is_directory_corrupt;
	uint64_t unsent_count; /* segments that were deleted unsent, and are not reported yet */
	struct ky_drain_stats stats;
};

/* The ring's view and the timeline are the caller's to fill in before. Returns 0, -ENOMEM. */
int ky_common_init(struct ky_drain_common *common);
void ky_common_release(struct ky_drain_common *common);

/* Into the queue of the notes, at a time that another process wrote. Takes the body over, also when
 * it fails. Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_common_note(struct ky_drain_common *common, const struct ky_note *note, uint64_t ns);

#endif
