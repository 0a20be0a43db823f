/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* find.h - those that find: each adds what it has found, and says that memory was short by
 * findings->failed.
 */
#ifndef KY_ANALYZE_FINDINGS_FIND_H
#define KY_ANALYZE_FINDINGS_FIND_H

#include <analyze/findings/findings.h>
#include <analyze/findings/last_polls.h>

void ky_find_accept_delays(struct ky_findings *findings);
void ky_find_accept_queues(struct ky_findings *findings);
void ky_find_handovers(struct ky_findings *findings);
void ky_find_driver_gaps(struct ky_findings *findings);
void ky_find_held_resources(struct ky_findings *findings);
void ky_find_hot_workers(struct ky_findings *findings);
void ky_find_herds(struct ky_findings *findings);
void ky_find_long_polls(struct ky_findings *findings);  /* after the starvation */
void ky_find_lock_convoy(struct ky_findings *findings); /* after the long polls */
void ky_find_lost_wakes(struct ky_findings *findings, const struct ky_last_polls *polls);
void ky_find_overload(struct ky_findings *findings);
void ky_find_queue_growth(struct ky_findings *findings, const struct ky_last_polls *polls);
void ky_find_root_polls(struct ky_findings *findings); /* after the starvation */
void ky_find_recorder_losses(struct ky_findings *findings);
void ky_find_recorder_setup(struct ky_findings *findings);
void ky_find_redundant_wakes(struct ky_findings *findings);
void ky_find_self_wakes(struct ky_findings *findings);
void ky_find_starvation(struct ky_findings *findings);
void ky_find_stops(struct ky_findings *findings);
void ky_find_stuck_pool(struct ky_findings *findings,
			const struct ky_last_polls *polls); /* after the held resources */
void ky_find_task_leaks(struct ky_findings *findings, const struct ky_last_polls *polls);
void ky_find_throttling(struct ky_findings *findings);
void ky_find_timed_out_waits(struct ky_findings *findings); /* after the lost wakes */
void ky_find_unanswered(struct ky_findings *findings, const struct ky_last_polls *polls);
void ky_find_uninstrumented(struct ky_findings *findings);

/* Does a task that has this stack at its await point wait in accept()? */
bool ky_stack_accepts(const struct ky_code_stacks *code, uint32_t stack);

struct ky_stuck_locks;
/* longest_ns: of waits that a release ended, by enum ky_sync_what, of any lock at KY_SYNC_MUTEX.
 * waiting_ns: of all waits for what another task has. */
void ky_find_stuck_locks(struct ky_findings *findings, const struct ky_stuck_locks *stuck,
			 const uint64_t *longest_ns, uint64_t waiting_ns);

/* Can a worker have waited for a CPU that long? Tasks of the machine, or of the cgroup, waited for
 * half of the time, and the kernel counted as much of the workers' threads. */
bool ky_may_have_starved(const struct ky_facts *facts, uint64_t ns);

struct ky_poll_case;
/* Were most of these blocked polls blocked by a lock? */
bool ky_is_lock_case(const struct ky_poll_case *one);

#endif
