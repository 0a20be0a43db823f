/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* switch_windows.h - when threads of recorded processes were off CPU, by the kernel's own
 * records, for their watcher (`kymo run` and attach from outside, the library's thread from
 * within): windows of them in duty cycles that take 0.3 % of a CPU at most, made into times off it,
 * and put into the sample area of the ring of the process they are of. Which task was being polled
 * the drain finds out.
 *
 * What was watched, and what that stands for, is put beside them, so the reader knows what was not
 * seen. More than KY_SWITCHES_HZ_MAX a second are kept by their length, with their weight.
 * Threads: owner. From outside, what touches a ring's area runs inside ky_ring_guard().
 */
#ifndef KY_PROBE_SWITCH_WINDOWS_H
#define KY_PROBE_SWITCH_WINDOWS_H

#include <probe/perf_source.h>
#include <probe/still_threads.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unwind/unwind_table.h>
#include <wire/sample_area.h>

#define KY_SWITCHES_HZ_MAX 500u

struct ky_switch_windows;

/* The processes that are watched: where their times go. */
struct ky_switch_places {
	const void *ctx;
	uint32_t count;
	/* NULL: this one wants none now. */
	const struct ky_sample_ring *(*at)(const void *ctx, uint32_t i);
	/* Of a process at that moment; NULL: none, or it wants none now. */
	const struct ky_sample_ring *(*find)(const void *ctx, uint32_t pid, uint64_t ns);
	/* Its unwind tables. False: there are none; the whole function NULL: of none. */
	bool (*tables)(const void *ctx, uint32_t pid, uint64_t ns, struct ky_unwind_view *out);
};

/* Tests on ourselves what this machine allows. how: with is_switches. can_rest: in the process that
 * is watched; while it does nothing, no thread is to be woken for it. A window continues then
 * until the next step, whenever that comes. Returns 0, also where nothing is allowed; -ENOMEM. */
int ky_switch_windows_open(struct ky_switch_windows **out, const struct ky_perf_options *how,
			   bool can_rest);

/* Asks for wake-ups, too, where this machine allows it: what of a wait was blocked is known exactly
 * then, and who ended it. Only from outside: a forked child would keep what is opened.
 * pid: of the i-th of the places. */
typedef uint32_t (*ky_switch_pid_fn)(const void *places_ctx, uint32_t i);

void ky_switch_windows_add_wakes(struct ky_switch_windows *switches, ky_switch_pid_fn pid);

/* Between windows no event is to be open on any thread: one makes each switch dearer, also where it
 * is disabled. Each window opens those of the threads that there are then, up to 512 of them on all
 * CPUs; where there are more they stay open. Before _start() and _attach(). */
void ky_switch_windows_leave_between(struct ky_switch_windows *switches, ky_switch_pid_fn pid);

void ky_switch_windows_close(struct ky_switch_windows *switches); /* NULL: no-op */

/* Of CMD while it waits for its exec, and of all threads of a process that runs. Nothing comes of
 * it before the first step. */
void ky_switch_windows_start(struct ky_switch_windows *switches, pid_t pid);
void ky_switch_windows_attach(struct ky_switch_windows *switches, pid_t pid);

/* Why nothing comes of it: -errno; 0: something does. */
int ky_switch_windows_refusal(const struct ky_switch_windows *switches);
/* A window is open that no time ends: the process did nothing in the last one. */
bool ky_switch_windows_is_resting(const struct ky_switch_windows *switches);
/* For who closes in a forked child what is open: the descriptors of perf_event, at most `max`, and
 * those that come and go. */
uint32_t ky_switch_windows_fds(const struct ky_switch_windows *switches, int *out, uint32_t max);
/* For a caller that waits for more than the time: windows in which nothing happens last up to
 * KY_DUTY_WINDOW_NS_QUIET from now on. Returns how many descriptors, of at most `max`, are readable
 * when the next step must come at once. max 0: it does not wait for them any more. */
uint32_t ky_switch_windows_watch(struct ky_switch_windows *switches, int *out, uint32_t max);
const struct ky_still_threads *ky_switch_windows_still(const struct ky_switch_windows *switches);

/* Switches that a second of the last window had; 0: unknown. */
uint64_t ky_switch_windows_rate(const struct ky_switch_windows *switches);

/* What the trace says about the source. */
void ky_switch_windows_describe(const struct ky_switch_windows *switches,
				struct ky_sample_class_head *head);

/* Opens and shuts windows, and puts what they showed. Returns within
 * how many nanoseconds it wants to be called again; UINT64_MAX: whenever. */
uint64_t ky_switch_windows_step(struct ky_switch_windows *switches,
				const struct ky_switch_places *places);

/* What there is up to now, so that a drain finds it before the records after it. */
void ky_switch_windows_fetch(struct ky_switch_windows *switches,
			     const struct ky_switch_places *places);

/* It is not wanted any more, or not now: what is not watched from here on is no loss. */
void ky_switch_windows_stop(struct ky_switch_windows *switches,
			    const struct ky_switch_places *places);

/* At a ring's end: the time after the last window as one in which nothing was observed. */
void ky_switch_windows_report_gap(const struct ky_switch_windows *switches,
				  const struct ky_switch_places *places);

#endif
