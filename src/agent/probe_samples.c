/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/probe_samples.h>

#include <base/now.h>
#include <errno.h>
#include <probe/perf_walk.h>
#include <stdatomic.h>
#include <wire/ring_image.h>

#define SECOND_NS UINT64_C(1000000000)

void ky_probe_samples_init(struct ky_probe_samples *probe,
			   const struct ky_probe_samples_options *options)
{
	*probe = (struct ky_probe_samples){.options = *options,
					   .how = options->how,
					   .may_open = options->opens_by_itself,
					   .due_ns = UINT64_MAX};
}

/* ---- the events ---- */

static void report_open(const struct ky_probe_samples *probe, const struct ky_perf *perf)
{
	if (probe->options.has_opened)
		probe->options.has_opened(probe->options.ctx, perf);
}

static void close_events(struct ky_probe_samples *probe)
{
	if (!probe->perf)
		return;
	report_open(probe, NULL);
	ky_perf_close(probe->perf);
	probe->perf = NULL;
	probe->lost_reported = 0;
}

void ky_probe_samples_close(struct ky_probe_samples *probe)
{
	close_events(probe);
	*probe = (struct ky_probe_samples){.due_ns = UINT64_MAX};
}

static int take_descriptors(struct ky_probe_samples *probe)
{
	if (!probe->options.fds_left)
		return 0;
	probe->how.fds_max = probe->options.fds_left(probe->options.ctx);
	return probe->how.fds_max ? 0 : -EMFILE;
}

static void init_duty(struct ky_probe_samples *probe)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC), cost_ns;
	struct ky_perf *perf = NULL;

	if (ky_sample_cost_open(&perf, &probe->how) == 0)
		report_open(probe, perf);
	cost_ns = ky_sample_cost_ns(perf);
	report_open(probe, NULL);
	ky_perf_close(perf);
	ky_sample_duty_init(&probe->duty, cost_ns, ky_sample_cpus(), now_ns);
	ky_sample_duty_start(&probe->duty, now_ns);
}

int ky_probe_samples_test(struct ky_probe_samples *probe)
{
	int err = take_descriptors(probe);

	if (!err)
		err = ky_perf_test(&probe->how);
	probe->refusal = err;
	if (err)
		return err;
	probe->is_tested = true;
	init_duty(probe);
	return 0;
}

static int add_process(struct ky_probe_samples *probe, uint32_t pid)
{
	return ky_perf_add_all(&probe->perf, &probe->how, (pid_t)pid);
}

/* Those of all processes, or none. */
static int open_all(struct ky_probe_samples *probe, uint32_t rate_hz)
{
	const struct ky_probed_rings *rings = probe->options.rings;
	int err = probe->is_tested ? take_descriptors(probe) : ky_probe_samples_test(probe);

	probe->how.rate_hz = rate_hz;
	for (uint32_t i = 0; i < rings->count && !err; i++)
		err = add_process(probe, rings->list[i]->pid);
	if (!err && !probe->perf)
		err = -ESRCH;
	if (err)
		close_events(probe);
	else
		report_open(probe, probe->perf);
	return err;
}

static int begin(struct ky_probe_samples *probe, int err)
{
	if (!err && !probe->perf)
		err = -ESRCH;
	probe->refusal = err;
	if (err) {
		close_events(probe);
		return err;
	}
	probe->rate_hz = probe->how.rate_hz;
	report_open(probe, probe->perf);
	return 0;
}

int ky_probe_samples_start(struct ky_probe_samples *probe, uint32_t pid)
{
	int err = probe->refusal;

	if (err)
		return err;
	probe->how.is_at_exec = true;
	err = ky_perf_open(&probe->perf, &probe->how, (pid_t)pid);
	probe->how.is_at_exec = false;
	return begin(probe, err);
}

int ky_probe_samples_attach(struct ky_probe_samples *probe, uint32_t pid)
{
	return probe->refusal ? probe->refusal : begin(probe, add_process(probe, pid));
}

/* ---- what the areas say ---- */

static void store(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

void ky_probe_samples_describe(const struct ky_probe_samples *probe,
			       const struct ky_probed_ring *ring)
{
	struct ky_sample_class_head *head = ring->cpu.head;

	if (!ring->cpu.slot_count)
		return;
	store(&head->refusals[KY_SOURCE_PERF], (uint32_t)-probe->refusal);
	/* Else the rate is the timers'. */
	if (probe->perf || probe->may_open)
		store(&head->rate_hz, ring->wanted_hz == KY_SETTING_OFF ? 0 : probe->rate_hz);
	if (!probe->perf)
		return;
	atomic_fetch_or_explicit(&head->source, 1u << KY_SOURCE_PERF, memory_order_relaxed);
	store(&head->limits, probe->how.has_kernel ? 0 : KY_SAMPLE_NO_KERNEL);
	store(&head->share_ppm, ky_sample_duty_share_ppm(&probe->duty));
}

static void describe_all(const struct ky_probe_samples *probe)
{
	const struct ky_probed_rings *rings = probe->options.rings;

	for (uint32_t i = 0; i < rings->count; i++)
		ky_probe_samples_describe(probe, rings->list[i]);
}

/* ---- reading ---- */

static void on_sample(void *ctx, const struct ky_perf_sample *sample)
{
	struct ky_probe_samples *probe = ctx;
	struct ky_probed_rings *rings = probe->options.rings;
	struct ky_probed_ring *ring = ky_probed_rings_find(rings, sample->pid, sample->ns);
	struct ky_perf_sample weighed;
	struct ky_unwind_view view;

	/* Of a process that records nothing, or not yet. */
	if (!ring || !ring->cpu.slot_count || ring->wanted_hz == KY_SETTING_OFF)
		return;
	rings->last = ring;
	view = ky_probed_ring_tables(ring);
	weighed = ky_sample_duty_weigh(&probe->duty, sample);
	ky_perf_put(&ring->cpu, &view, &weighed);
}

/* What the kernel had no room for is of the process that was sampled last, as far as is known. */
static void note_lost(struct ky_probe_samples *probe)
{
	const struct ky_probed_ring *last = probe->options.rings->last;
	struct ky_perf_about about;

	ky_perf_about(probe->perf, &about);
	if (about.lost_count > probe->lost_reported && last && last->cpu.slot_count)
		atomic_fetch_add_explicit(&last->cpu.head->lost_count,
					  about.lost_count - probe->lost_reported,
					  memory_order_relaxed);
	probe->lost_reported = about.lost_count;
}

/* The kernel's rings are half full by then at most. */
static void set_due(struct ky_probe_samples *probe)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC), half_ns, duty_ns;
	struct ky_perf_about about;

	probe->due_ns = UINT64_MAX;
	if (!probe->perf || !probe->rate_hz)
		return;
	ky_perf_about(probe->perf, &about);
	half_ns = about.ring_bytes / about.record_bytes * SECOND_NS / probe->rate_hz / 2;
	duty_ns = ky_sample_duty_pace_ns(&probe->duty, now_ns);
	probe->due_ns = now_ns + (half_ns < duty_ns ? half_ns : duty_ns);
}

void ky_probe_samples_fetch(struct ky_probe_samples *probe)
{
	if (!probe->perf)
		return;
	(void)ky_perf_read(probe->perf, on_sample, probe);
	note_lost(probe);
	set_due(probe);
}

void ky_probe_samples_between(struct ky_probe_samples *probe)
{
	if (probe->perf && ky_now_ns(CLOCK_MONOTONIC) >= probe->due_ns)
		ky_probe_samples_fetch(probe);
}

void ky_probe_samples_fetch_last(struct ky_probe_samples *probe)
{
	if (!probe->perf)
		return;
	(void)ky_perf_read(probe->perf, on_sample, probe);
	ky_perf_count_lost(probe->perf);
	note_lost(probe);
}

/* ---- what the rings want, and what it may cost ---- */

/* At another rate: events keep the one they were made with. */
static void reopen(struct ky_probe_samples *probe, uint32_t rate_hz)
{
	bool is_final = probe->options.is_refusal_final;
	int err;

	if (probe->perf) {
		(void)ky_perf_pause(probe->perf, true);
		ky_probe_samples_fetch_last(probe);
	}
	close_events(probe);
	probe->may_open = true;
	err = open_all(probe, rate_hz);
	if (!err)
		probe->rate_hz = rate_hz;
	else if (is_final || !probe->rate_hz || open_all(probe, probe->rate_hz) != 0)
		probe->rate_hz = 0;
	probe->refused_hz = err ? rate_hz : 0;
	probe->refusal = err;
}

static uint32_t wanted_rate(const struct ky_probe_samples *probe)
{
	const struct ky_probed_rings *rings = probe->options.rings;
	uint32_t rate_hz = rings->count ? 0 : probe->rate_hz;

	for (uint32_t i = 0; i < rings->count; i++) {
		uint32_t wanted = rings->list[i]->wanted_hz;

		wanted = wanted == KY_SETTING_OFF ? 0 :
			 wanted                   ? wanted :
						    probe->options.how.rate_hz;
		if (wanted > rate_hz)
			rate_hz = wanted;
	}
	return rate_hz;
}

static void follow_settings(struct ky_probe_samples *probe)
{
	uint32_t rate_hz = wanted_rate(probe);

	/* Switched off and on again, it is tried again. */
	if (!rate_hz)
		probe->refused_hz = 0;
	if (rate_hz == probe->rate_hz || (rate_hz && rate_hz == probe->refused_hz))
		return;
	if (!rate_hz || (probe->perf && rate_hz == probe->how.rate_hz)) {
		if (probe->perf)
			(void)ky_perf_pause(probe->perf, !rate_hz);
		probe->rate_hz = rate_hz;
	} else {
		reopen(probe, rate_hz);
	}
	/* Always, for now. */
	ky_sample_duty_start(&probe->duty, ky_now_ns(CLOCK_MONOTONIC));
	describe_all(probe);
}

/* What it costs to be sampled at each switch is kept within bounds. */
static void follow_duty(struct ky_probe_samples *probe)
{
	uint64_t rate = probe->options.switches_per_s(probe->options.ctx);
	uint32_t share_ppm = ky_sample_duty_share_ppm(&probe->duty);

	/* Of the window that is over, up to this very moment. */
	if (ky_sample_duty_apply(&probe->duty, probe->perf, rate) && !probe->duty.is_open)
		ky_probe_samples_fetch(probe);
	if (ky_sample_duty_share_ppm(&probe->duty) != share_ppm)
		describe_all(probe);
}

uint64_t ky_probe_samples_step(struct ky_probe_samples *probe)
{
	if (probe->refusal && probe->options.is_refusal_final)
		return UINT64_MAX;
	ky_probe_samples_fetch(probe);
	if (probe->perf && probe->rate_hz)
		follow_duty(probe);
	if (probe->perf || probe->may_open)
		follow_settings(probe);
	set_due(probe);
	return probe->due_ns;
}
