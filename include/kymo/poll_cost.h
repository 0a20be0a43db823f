/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* poll_cost.h - what a long poll cost: CPU time, run delay, page faults, context switches.
 *
 * For adapters, around an outermost poll:
 *
 *   begin = kymo_poll_begin();  counts = kymo_poll_cost_self.counts;
 *   kymo_poll_cost_begin(begin, depth);  the poll, in which wakes and nested polls are counted
 *   end = kymo_poll_end();  kymo_poll_cost_end(begin, end, counts, depth);
 *
 * How it is known: the kernel clears a word of the thread's rseq area when it takes the thread off
 * its CPU. A poll at whose end our mark still stands there was on CPU all the time. Else the
 * thread's CPU clock and then its schedstat are read at the end of the poll and compared with the
 * last reading, taken at the first poll after a switch, at most every 100 us a thread (1.6 ms where
 * no long poll needs it). What of the time between that reading and the poll's begin is not known
 * to have been on CPU is the record's gap.
 * Cost      per poll some ten instructions, per wake one; a reading is three system calls, 1.1 us.
 *           At most 64 descriptors a process, one a thread, none where the limit of descriptors is
 *           near. No call at all after kymo_recorder_confine().
 * Threads   any.      Signals  unsafe.      Since 0.1
 */
#ifndef KYMO_POLL_COST_H
#define KYMO_POLL_COST_H

#include <kymo/emit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KYMO_POLL_COST_NS_MIN 1000000u

struct kymo_poll_cost {
	const uint64_t *mark; /* the word that the kernel clears; never NULL */
	uint64_t counts;      /* of the thread so far: wakes | nested polls << 32 */
};
#define KYMO_POLL_COST_WAKE UINT64_C(1)
#define KYMO_POLL_COST_NESTED (UINT64_C(1) << 32)

KYMO_API extern __thread struct kymo_poll_cost kymo_poll_cost_self KYMO_TLS_MODEL;
/* What stands at `mark` while the thread was not switched out; 0: nothing is read. */
KYMO_API extern uint64_t kymo_poll_cost_marked;
/* Ticks of the shortest poll to record; UINT64_MAX: none is. */
KYMO_API extern uint64_t kymo_poll_cost_ticks_min;

/* What the inline functions decline. */
KYMO_API __attribute__((cold)) void kymo_poll_cost_look(uint64_t ticks, uint32_t depth);
KYMO_API __attribute__((cold)) void kymo_poll_cost_write(uint64_t begin, uint64_t end,
							 uint64_t counts, uint32_t depth);

/* Right after kymo_poll_begin(), with what it returned. depth: of polls open on the thread, this
 * one included; only outermost ones are recorded. */
static inline void kymo_poll_cost_begin(uint64_t begin, uint32_t depth)
{
	if (KYMO_UNLIKELY(__atomic_load_n(kymo_poll_cost_self.mark, __ATOMIC_RELAXED) !=
			  __atomic_load_n(&kymo_poll_cost_marked, __ATOMIC_RELAXED)))
		kymo_poll_cost_look(begin, depth);
}

/* Right after kymo_poll_end(), with what it returned. counts: as they were at the begin. */
static inline void kymo_poll_cost_end(uint64_t begin, uint64_t end, uint64_t counts, uint32_t depth)
{
	if (KYMO_UNLIKELY(end - begin >=
			  __atomic_load_n(&kymo_poll_cost_ticks_min, __ATOMIC_RELAXED)))
		kymo_poll_cost_write(begin, end, counts, depth);
}

#ifdef __cplusplus
}
#endif

#endif
