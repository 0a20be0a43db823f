/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* cpu_sampler.h - CPU samples of the processes of a set of rings: one set of perf events, read
 * and walked here, put into the sample area of the ring of the process they are of.
 *
 * Where threads switch so often that perf_event would cost more than its budget, and the caller
 * allows it, the processes are left to sample themselves (timer_source.c), and no event is open.
 *
 * The events are common to all rings: they count at the largest rate that a ring wants, and are
 * paused while none wants any. What ran, what was refused and what was lost stands in the areas.
 * Threads: owner. What touches a ring of another process runs inside ky_ring_guard().
 */
#ifndef KY_AGENT_CPU_SAMPLER_H
#define KY_AGENT_CPU_SAMPLER_H

#include <agent/sampled_rings.h>
#include <probe/perf_source.h>
#include <probe/sample_duty.h>
#include <sys/types.h>

struct ky_cpu_sampler_options {
	struct ky_sampled_rings *rings; /* outlives the sampler */
	struct ky_perf_options how;     /* rate_hz: for rings that name none */
	/* A ring that wants samples is enough to open the events; else _start() or _attach() comes
	 * first. */
	bool opens_by_itself;
	/* Once perf_event refused a rate, none is tried any more; else the former one stays, and
	 * the refused one is tried again after it was switched off. */
	bool is_refusal_final;
	/* Leaves sampling to the process of this ring, at this rate, or takes it back (0). NULL: it
	 * is never left. */
	void (*leave)(void *ctx, struct ky_sampled_ring *ring, uint32_t rate_hz);
	/* Of the sampled threads, in all the time since the last call; with `leave`. */
	uint64_t (*counted_switches_per_s)(void *ctx);
	/* The same of late; 0: unknown. */
	uint64_t (*switches_per_s)(void *ctx);
	/* CPU time that the sampled processes have used. NULL: no caller waits for the events to
	 * report samples. */
	uint64_t (*cpu_ns)(void *ctx);
	/* Descriptors that the events may take; NULL: any number. */
	uint32_t (*fds_left)(void *ctx);
	/* These events are open now; NULL: they are about to be closed. NULL function: of no
	 * interest. */
	void (*has_opened)(void *ctx, const struct ky_perf *perf);
	void *ctx;
};

/* Who samples where that is chosen by what it costs. */
enum ky_cpu_choice {
	KY_CPU_PERF = 0, /* the events here */
	KY_CPU_ASKED,    /* the processes were asked to; the events stay until all of them do */
	KY_CPU_TIMERS    /* each process by its own timers; no event is open */
};

struct ky_cpu_sampler {
	struct ky_cpu_sampler_options options;
	struct ky_perf_options how; /* as the events are */
	struct ky_perf *perf;       /* NULL: none are open */
	/* -errno of perf_event, at the last rate that was asked for, or the caller's own; 0: none.
	 */
	int refusal;
	uint32_t rate_hz;    /* the events' now; 0: paused */
	uint32_t refused_hz; /* wanted, and perf_event refused it; 0: none */
	bool is_tested;
	bool may_open; /* at a rate that is not refused */
	uint64_t lost_reported;
	uint64_t due_ns; /* CLOCK_MONOTONIC: the kernel's rings are half full at the latest */
	/* The processes hardly run: the kernel is asked once a second, and reports when a ring
	 * fills none the less. */
	bool is_resting, is_mute;     /* is_mute: it reports something else */
	uint64_t cpu_ns, measured_ns; /* of the processes, and when */
	struct ky_sample_duty duty;
	bool is_cost_known;
	enum ky_cpu_choice choice;
	uint64_t judged_ns;   /* when the choice was last judged, CLOCK_MONOTONIC */
	uint32_t verdicts;    /* in a row against the choice */
	uint32_t ring_count;  /* that were asked */
	uint64_t settled_ns;  /* no other choice before then */
	bool is_leave_denied; /* a process could not: the events stay */
};

void ky_cpu_sampler_init(struct ky_cpu_sampler *sampler,
			 const struct ky_cpu_sampler_options *options);
void ky_cpu_sampler_close(struct ky_cpu_sampler *sampler);

/* Finds out what this machine allows, and what a sampled switch costs. Returns 0, or the refusal:
 * then nothing is opened any more. */
int ky_cpu_sampler_test(struct ky_cpu_sampler *sampler);
/* Opens the events for a process that waits for its exec, and for all threads of one that runs.
 * Returns 0, or the refusal. */
int ky_cpu_sampler_start(struct ky_cpu_sampler *sampler, uint32_t pid);
int ky_cpu_sampler_attach(struct ky_cpu_sampler *sampler, uint32_t pid);

/* A ring has come: what its area says about the source. */
void ky_cpu_sampler_describe(const struct ky_cpu_sampler *sampler,
			     const struct ky_sampled_ring *ring);

/* Reads what there is, follows the rings' wishes, keeps within the budget. Returns when it wants
 * to be called again, CLOCK_MONOTONIC; UINT64_MAX: no time is too late. */
uint64_t ky_cpu_sampler_step(struct ky_cpu_sampler *sampler);

/* While it rests: descriptors that are readable when it wants to be called at once, at most max.
 * Returns how many. */
uint32_t ky_cpu_sampler_fds(struct ky_cpu_sampler *sampler, int *out, uint32_t max);
/* One of them reported something that is no sample. */
void ky_cpu_sampler_is_mute(struct ky_cpu_sampler *sampler);

/* What there is up to now. */
void ky_cpu_sampler_fetch(struct ky_cpu_sampler *sampler);
/* The same if that is due: between two pieces of work that take longer than the kernel's rings
 * last. */
void ky_cpu_sampler_between(struct ky_cpu_sampler *sampler);
/* The same at a ring's end: the kernel is asked for what it lost. */
void ky_cpu_sampler_fetch_last(struct ky_cpu_sampler *sampler);

#endif
