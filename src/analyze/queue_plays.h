/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* queue_plays.h - the polls of all workers with what they waited for, as queue_replay.h plays them
 * again: the poll in which their task was woken, the task's poll before, what the worker took
 * between two polls and how fast it was when it was idle.
 *
 * Memory:      40 bytes for each poll of a worker, 16 for each wake outside of polls; 88 for each
 *              task while they are made.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_QUEUE_PLAYS_H
#define KY_ANALYZE_QUEUE_PLAYS_H

#include <read/trace.h>

/* A delay that the runtime itself measured (dial9's scheduling_delay_ns) begins some 0.1 to 0.5 us
 * beside the event of its wake. */
#define KY_PLAY_NEAR_NS UINT64_C(2000)
#define KY_PLAY_NONE UINT32_MAX
#define KY_PLAY_NO_HOME 255u
#define KY_PLAY_NOT_IDLE UINT32_MAX /* its worker was in a poll when it became ready */
#define KY_PLAY_OWN_WAY UINT16_MAX  /* the delay was measured from a wake inside that poll */

/* A poll, by its number: first_polls[worker] + row. */
struct ky_play {
	uint64_t ready_ns;      /* as far as what has been played says */
	uint32_t woken;         /* first poll that a wake inside this one makes ready */
	uint32_t next;          /* of the polls that the same one makes ready */
	uint32_t after;         /* the task's next poll */
	uint32_t into_ns;       /* how far in that one it is woken */
	uint32_t gap_ns;        /* its worker took so long until its next poll, parks left out */
	uint32_t reaction_ns;   /* from ready to the first poll of its idle worker; NOT_IDLE */
	uint16_t early_ns;      /* its wake is so much before the end of the poll before; OWN_WAY */
	uint8_t home;           /* worker from whose queue it was stolen; NO_HOME */
	uint8_t wait_count : 2; /* of: what makes it ready, the task's poll before */
	uint8_t is_done : 1;
	uint8_t is_held : 1; /* its worker begins it when it did, at the earliest */
};

struct ky_timed_play {
	uint64_t at_ns;
	uint32_t number; /* KY_PLAY_NONE: a wake that made none ready */
};
struct ky_timed_plays {
	struct ky_timed_play *items;
	uint32_t count, capacity, at;
};

struct ky_queue_plays {
	const struct ky_trace *trace;
	struct ky_play *plays;
	uint32_t play_count;
	uint32_t *first_polls; /* by worker */
	uint32_t worker_count;
	/* Made ready by what is outside of polls, in the order of the wakes; by nothing that is
	 * recorded, in the order of their begin. */
	struct ky_timed_plays outside, kept;
	/* Medians: from the wake to the poll of a parked worker; from its last poll to its park;
	 * between two polls without one. */
	uint64_t reaction_ns, search_ns, gap_ns;
};

/* Is it a worker whose polls are plays? */
bool ky_queue_plays_has(const struct ky_trace *trace, uint32_t worker);

/* Returns 0, -ENOMEM; release in any case. */
int ky_queue_plays_make(struct ky_queue_plays *out, const struct ky_trace *trace);
void ky_queue_plays_release(struct ky_queue_plays *plays);

/* The worker of a play; the poll as recorded. */
uint32_t ky_queue_plays_worker(const struct ky_queue_plays *plays, uint32_t number);
void ky_queue_plays_poll(const struct ky_queue_plays *plays, uint32_t number, struct ky_poll *out);

#endif
