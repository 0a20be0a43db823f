/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_switches.h - when threads of the recorded processes were off a processor, by the kernel's own
 * records: windows of them in duty cycles that take 0.3 % of a processor at most, made into times
 * off it, and put into the sample area of the ring of the process they are of. Who was being polled
 * the drain finds out.
 *
 * What was watched, and what that stands for, is put beside them, so the reader knows what he did
 * not see. More than KY_SWITCHES_HZ_MAX a second are kept by their length, with their weight.
 * Threads: owner. What touches a ring's area runs inside ky_ring_guard().
 */
#ifndef KY_CLI_RUN_SWITCHES_H
#define KY_CLI_RUN_SWITCHES_H

#include <stdint.h>
#include <sys/types.h>
#include <wire/sample_area.h>

#define KY_SWITCHES_HZ_MAX 500u

struct ky_run_switches;
struct ky_run_sampled;

/* Tests on ourselves what this machine allows. Returns 0, also where that is nothing; -ENOMEM. */
int ky_run_switches_open(struct ky_run_switches **out);
void ky_run_switches_close(struct ky_run_switches *switches); /* NULL: no-op */

/* Of CMD while it waits for its exec, and of all threads of a process that runs. Nothing comes of
 * it before the first step. */
void ky_run_switches_start(struct ky_run_switches *switches, pid_t pid);
void ky_run_switches_attach(struct ky_run_switches *switches, pid_t pid);

/* What the trace says about the source. */
void ky_run_switches_describe(const struct ky_run_switches *switches,
			      struct ky_sample_class_head *head);

/* Opens and shuts windows, and puts what they showed. sampled: the rings there are. Returns within
 * how many nanoseconds it wants to be called again; UINT64_MAX: whenever. */
uint64_t ky_run_switches_step(struct ky_run_switches *switches,
			      struct ky_run_sampled *const *sampled, uint32_t count);

/* What there is up to now, so that a drain finds it before the records behind it. */
void ky_run_switches_fetch(struct ky_run_switches *switches, struct ky_run_sampled *const *sampled,
			   uint32_t count);

/* At a ring's end: the time behind the last window as one in which nothing was observed. */
void ky_run_switches_tell_gap(const struct ky_run_switches *switches,
			      struct ky_run_sampled *const *sampled, uint32_t count);

#endif
