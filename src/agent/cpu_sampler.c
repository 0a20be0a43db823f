/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/cpu_sampler.h>

#include <base/now.h>
#include <errno.h>
#include <probe/perf_walk.h>
#include <stdatomic.h>
#include <wire/ring_image.h>

#define SECOND_NS UINT64_C(1000000000)

void ky_cpu_sampler_init(struct ky_cpu_sampler *sampler,
			 const struct ky_cpu_sampler_options *options)
{
	*sampler = (struct ky_cpu_sampler){.options = *options,
					   .how = options->how,
					   .may_open = options->opens_by_itself,
					   .due_ns = UINT64_MAX};
}

/* ---- the events ---- */

static void report_open(const struct ky_cpu_sampler *sampler, const struct ky_perf *perf)
{
	if (sampler->options.has_opened)
		sampler->options.has_opened(sampler->options.ctx, perf);
}

static void close_events(struct ky_cpu_sampler *sampler)
{
	if (!sampler->perf)
		return;
	report_open(sampler, NULL);
	ky_perf_close(sampler->perf);
	sampler->perf = NULL;
	sampler->lost_reported = 0;
}

void ky_cpu_sampler_close(struct ky_cpu_sampler *sampler)
{
	close_events(sampler);
	*sampler = (struct ky_cpu_sampler){.due_ns = UINT64_MAX};
}

static int take_descriptors(struct ky_cpu_sampler *sampler)
{
	if (!sampler->options.fds_left)
		return 0;
	sampler->how.fds_max = sampler->options.fds_left(sampler->options.ctx);
	return sampler->how.fds_max ? 0 : -EMFILE;
}

/* What a sampled switch costs, tried on ourselves. */
static uint64_t find_cost(const struct ky_cpu_sampler *sampler)
{
	struct ky_perf *perf = NULL;
	uint64_t cost_ns;

	if (ky_sample_cost_open(&perf, &sampler->how) == 0 && !sampler->perf)
		report_open(sampler, perf);
	cost_ns = ky_sample_cost_ns(perf);
	if (!sampler->perf)
		report_open(sampler, NULL);
	ky_perf_close(perf);
	return cost_ns;
}

/* A process that samples itself has no events open at this moment, so that a forked child knows
 * all that it has to close. Others find it out once switches are so many that it matters. */
static void init_duty(struct ky_cpu_sampler *sampler)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	sampler->is_cost_known = sampler->options.has_opened != NULL;
	ky_sample_duty_init(&sampler->duty, sampler->is_cost_known ? find_cost(sampler) : 0,
			    ky_sample_cpus(), now_ns);
	ky_sample_duty_start(&sampler->duty, now_ns);
}

int ky_cpu_sampler_test(struct ky_cpu_sampler *sampler)
{
	int err = take_descriptors(sampler);

	if (!err)
		err = ky_perf_test(&sampler->how);
	sampler->refusal = err;
	if (err)
		return err;
	sampler->is_tested = true;
	init_duty(sampler);
	return 0;
}

static int add_process(struct ky_cpu_sampler *sampler, uint32_t pid)
{
	return ky_perf_add_all(&sampler->perf, &sampler->how, (pid_t)pid);
}

/* Those of all processes, or none. */
static int open_all(struct ky_cpu_sampler *sampler, uint32_t rate_hz)
{
	const struct ky_sampled_rings *rings = sampler->options.rings;
	int err = sampler->is_tested ? take_descriptors(sampler) : ky_cpu_sampler_test(sampler);

	sampler->how.rate_hz = rate_hz;
	for (uint32_t i = 0; i < rings->count && !err; i++)
		err = add_process(sampler, rings->list[i]->pid);
	if (!err && !sampler->perf)
		err = -ESRCH;
	if (err)
		close_events(sampler);
	else
		report_open(sampler, sampler->perf);
	return err;
}

static int begin(struct ky_cpu_sampler *sampler, int err)
{
	if (!err && !sampler->perf)
		err = -ESRCH;
	sampler->refusal = err;
	if (err) {
		close_events(sampler);
		return err;
	}
	sampler->rate_hz = sampler->how.rate_hz;
	report_open(sampler, sampler->perf);
	return 0;
}

int ky_cpu_sampler_start(struct ky_cpu_sampler *sampler, uint32_t pid)
{
	int err = sampler->refusal;

	if (err)
		return err;
	sampler->how.is_at_exec = true;
	err = ky_perf_open(&sampler->perf, &sampler->how, (pid_t)pid);
	sampler->how.is_at_exec = false;
	return begin(sampler, err);
}

int ky_cpu_sampler_attach(struct ky_cpu_sampler *sampler, uint32_t pid)
{
	return sampler->refusal ? sampler->refusal : begin(sampler, add_process(sampler, pid));
}

/* ---- what the areas say ---- */

static void store(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

void ky_cpu_sampler_describe(const struct ky_cpu_sampler *sampler,
			     const struct ky_sampled_ring *ring)
{
	struct ky_sample_class_head *head = ring->cpu.head;

	if (!ring->cpu.cell_count)
		return;
	store(&head->refusals[KY_SOURCE_PERF], (uint32_t)-sampler->refusal);
	store(&head->switch_ns, ky_sample_duty_cost_ns(&sampler->duty));
	/* Else the rate is the timers'. */
	if (sampler->choice != KY_CPU_TIMERS && (sampler->perf || sampler->may_open))
		store(&head->rate_hz, ring->wanted_hz == KY_SETTING_OFF ? 0 : sampler->rate_hz);
	if (sampler->choice == KY_CPU_TIMERS)
		store(&head->share_ppm, 0);
	if (!sampler->perf)
		return;
	if (sampler->choice == KY_CPU_PERF)
		store(&head->now, KY_SOURCE_PERF);
	atomic_fetch_or_explicit(&head->source, 1u << KY_SOURCE_PERF, memory_order_relaxed);
	store(&head->limits, sampler->how.has_kernel ? 0 : KY_SAMPLE_NO_KERNEL);
	store(&head->share_ppm, ky_sample_duty_share_ppm(&sampler->duty));
}

static void describe_all(const struct ky_cpu_sampler *sampler)
{
	const struct ky_sampled_rings *rings = sampler->options.rings;

	for (uint32_t i = 0; i < rings->count; i++)
		ky_cpu_sampler_describe(sampler, rings->list[i]);
}

/* Its timers run. What it says, it says in memory that it writes: it may be wrong, and then has the
 * samples that it deserves. */
static bool samples_itself(const struct ky_sampled_ring *ring)
{
	return atomic_load_explicit(&ring->cpu.head->now, memory_order_acquire) == KY_SOURCE_TIMER;
}

/* ---- reading ---- */

static void on_sample(void *ctx, const struct ky_perf_sample *sample)
{
	struct ky_cpu_sampler *sampler = ctx;
	struct ky_sampled_rings *rings = sampler->options.rings;
	struct ky_sampled_ring *ring = ky_sampled_rings_find(rings, sample->pid, sample->ns);
	struct ky_perf_sample weighed;
	struct ky_unwind_view view;

	/* Of a process that records nothing, or not yet. */
	if (!ring || !ring->cpu.cell_count || ring->wanted_hz == KY_SETTING_OFF)
		return;
	/* Its own timers have begun. */
	if (sampler->choice != KY_CPU_PERF && samples_itself(ring))
		return;
	rings->last = ring;
	view = ky_sampled_ring_tables(ring);
	weighed = ky_sample_duty_weigh(&sampler->duty, sample);
	ky_perf_put(&ring->cpu, &view, &weighed);
}

/* What the kernel had no room for is of the process that was sampled last, as far as is known. */
static void note_lost(struct ky_cpu_sampler *sampler)
{
	const struct ky_sampled_ring *last = sampler->options.rings->last;
	struct ky_perf_about about;

	ky_perf_about(sampler->perf, &about);
	if (about.lost_count > sampler->lost_reported && last && last->cpu.cell_count)
		atomic_fetch_add_explicit(&last->cpu.head->lost_count,
					  about.lost_count - sampler->lost_reported,
					  memory_order_relaxed);
	sampler->lost_reported = about.lost_count;
}

/* Of 1/200 of a CPU no sample comes for seconds. */
#define REST_INVERSE 200u
#define MEASURE_NS (SECOND_NS / 10)

static void measure(struct ky_cpu_sampler *sampler)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC), past_ns = now_ns - sampler->measured_ns;
	uint64_t cpu_ns, used_ns;

	if (!sampler->options.cpu_ns || past_ns < MEASURE_NS)
		return;
	cpu_ns = sampler->options.cpu_ns(sampler->options.ctx);
	/* One that ended took its time along. */
	used_ns = cpu_ns > sampler->cpu_ns ? cpu_ns - sampler->cpu_ns : 0;
	sampler->is_resting = !sampler->is_mute && sampler->measured_ns &&
			      sampler->choice == KY_CPU_PERF &&
			      !ky_sample_duty_share_ppm(&sampler->duty) &&
			      used_ns < past_ns / REST_INVERSE;
	sampler->cpu_ns = cpu_ns;
	sampler->measured_ns = now_ns;
}

uint32_t ky_cpu_sampler_fds(struct ky_cpu_sampler *sampler, int *out, uint32_t max)
{
	struct ky_perf_about about;

	if (!sampler->perf || !sampler->is_resting)
		return 0;
	ky_perf_about(sampler->perf, &about);
	if (about.cpu_count > max) {
		ky_cpu_sampler_is_mute(sampler);
		return 0;
	}
	return ky_perf_fds(sampler->perf, out, about.cpu_count);
}

void ky_cpu_sampler_is_mute(struct ky_cpu_sampler *sampler)
{
	sampler->is_mute = true;
	sampler->is_resting = false;
	sampler->due_ns = 0;
}

/* The kernel's rings are half full by then at most. */
static void set_due(struct ky_cpu_sampler *sampler)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC), half_ns, duty_ns;
	struct ky_perf_about about;

	sampler->due_ns = UINT64_MAX;
	if (!sampler->perf || !sampler->rate_hz)
		return;
	ky_perf_about(sampler->perf, &about);
	half_ns = about.ring_bytes / about.record_bytes * SECOND_NS / sampler->rate_hz / 2;
	duty_ns = ky_sample_duty_pace_ns(&sampler->duty, now_ns);
	if (sampler->is_resting)
		half_ns = duty_ns = SECOND_NS;
	sampler->due_ns = now_ns + (half_ns < duty_ns ? half_ns : duty_ns);
}

void ky_cpu_sampler_fetch(struct ky_cpu_sampler *sampler)
{
	if (!sampler->perf)
		return;
	(void)ky_perf_read(sampler->perf, on_sample, sampler);
	note_lost(sampler);
	set_due(sampler);
}

void ky_cpu_sampler_between(struct ky_cpu_sampler *sampler)
{
	if (sampler->perf && ky_now_ns(CLOCK_MONOTONIC) >= sampler->due_ns)
		ky_cpu_sampler_fetch(sampler);
}

void ky_cpu_sampler_fetch_last(struct ky_cpu_sampler *sampler)
{
	if (!sampler->perf)
		return;
	(void)ky_perf_read(sampler->perf, on_sample, sampler);
	ky_perf_count_lost(sampler->perf);
	note_lost(sampler);
}

/* ---- what the rings want, and what it may cost ---- */

/* At another rate: events keep the one they were made with. */
static void reopen(struct ky_cpu_sampler *sampler, uint32_t rate_hz)
{
	bool is_final = sampler->options.is_refusal_final;
	int err;

	if (sampler->perf) {
		(void)ky_perf_pause(sampler->perf, true);
		ky_cpu_sampler_fetch_last(sampler);
	}
	close_events(sampler);
	sampler->may_open = true;
	err = open_all(sampler, rate_hz);
	if (!err)
		sampler->rate_hz = rate_hz;
	else if (is_final || !sampler->rate_hz || open_all(sampler, sampler->rate_hz) != 0)
		sampler->rate_hz = 0;
	sampler->refused_hz = err ? rate_hz : 0;
	sampler->refusal = err;
}

static uint32_t wanted_rate(const struct ky_cpu_sampler *sampler)
{
	const struct ky_sampled_rings *rings = sampler->options.rings;
	uint32_t rate_hz = rings->count ? 0 : sampler->rate_hz;

	for (uint32_t i = 0; i < rings->count; i++) {
		uint32_t wanted = rings->list[i]->wanted_hz;

		wanted = wanted == KY_SETTING_OFF ? 0 :
			 wanted                   ? wanted :
						    sampler->options.how.rate_hz;
		if (wanted > rate_hz)
			rate_hz = wanted;
	}
	return rate_hz;
}

static void follow_settings(struct ky_cpu_sampler *sampler)
{
	uint32_t rate_hz = wanted_rate(sampler);

	/* Switched off and on again, it is tried again. */
	if (!rate_hz)
		sampler->refused_hz = 0;
	if (rate_hz == sampler->rate_hz || (rate_hz && rate_hz == sampler->refused_hz))
		return;
	if (!rate_hz || (sampler->perf && rate_hz == sampler->how.rate_hz)) {
		if (sampler->perf)
			(void)ky_perf_pause(sampler->perf, !rate_hz);
		sampler->rate_hz = rate_hz;
	} else {
		reopen(sampler, rate_hz);
	}
	/* Always, for now. */
	ky_sample_duty_start(&sampler->duty, ky_now_ns(CLOCK_MONOTONIC));
	describe_all(sampler);
}

static void know_cost(struct ky_cpu_sampler *sampler, uint64_t switches_per_s)
{
	if (sampler->is_cost_known || !ky_sample_duty_may_matter(switches_per_s))
		return;
	sampler->is_cost_known = true;
	ky_sample_duty_cost(&sampler->duty, find_cost(sampler));
}

/* What it costs to be sampled at each switch is kept within bounds. */
static void follow_duty(struct ky_cpu_sampler *sampler)
{
	uint64_t rate = sampler->options.switches_per_s(sampler->options.ctx);
	uint32_t share_ppm = ky_sample_duty_share_ppm(&sampler->duty);

	know_cost(sampler, rate);
	/* Of the window that is over, up to this very moment. */
	if (ky_sample_duty_apply(&sampler->duty, sampler->perf, rate) && !sampler->duty.is_open)
		ky_cpu_sampler_fetch(sampler);
	if (ky_sample_duty_share_ppm(&sampler->duty) != share_ppm)
		describe_all(sampler);
}

/* ---- who samples ---- */

#define JUDGE_NS (SECOND_NS / 2)
#define VERDICTS 3u /* in a row, before it changes */
#define REST_NS (10 * SECOND_NS)
#define CHEAP_PART 4u /* of the budget: events are taken again below this */

static bool wants_samples(const struct ky_sampled_ring *ring)
{
	return ring->cpu.cell_count && ring->wanted_hz != KY_SETTING_OFF;
}

static void leave_all(const struct ky_cpu_sampler *sampler, uint32_t rate_hz)
{
	const struct ky_sampled_rings *rings = sampler->options.rings;

	for (uint32_t i = 0; i < rings->count; i++)
		if (rings->list[i]->cpu.cell_count)
			sampler->options.leave(sampler->options.ctx, rings->list[i], rate_hz);
}

static void ask(struct ky_cpu_sampler *sampler)
{
	leave_all(sampler, sampler->rate_hz);
	sampler->ring_count = sampler->options.rings->count;
	sampler->choice = KY_CPU_ASKED;
}

/* The events again: a ring has come or gone, or they cost next to nothing now. */
static void take_back(struct ky_cpu_sampler *sampler, uint64_t now_ns)
{
	bool was_left = sampler->choice == KY_CPU_TIMERS;

	leave_all(sampler, 0);
	sampler->choice = KY_CPU_PERF;
	sampler->settled_ns = now_ns + REST_NS;
	sampler->verdicts = 0;
	if (was_left) {
		sampler->refusal = open_all(sampler, sampler->rate_hz);
		if (!sampler->refusal)
			(void)ky_perf_pause(sampler->perf, false);
		ky_sample_duty_start(&sampler->duty, now_ns);
	}
	describe_all(sampler);
}

/* All that want samples take them themselves: nothing is open any more, so no park pays. */
static void leave(struct ky_cpu_sampler *sampler)
{
	(void)ky_perf_pause(sampler->perf, true);
	ky_cpu_sampler_fetch_last(sampler);
	close_events(sampler);
	sampler->choice = KY_CPU_TIMERS;
	sampler->verdicts = 0;
	sampler->due_ns = UINT64_MAX;
	describe_all(sampler);
}

static void follow_asked(struct ky_cpu_sampler *sampler, uint64_t now_ns)
{
	const struct ky_sampled_rings *rings = sampler->options.rings;
	uint32_t waiting = 0;

	for (uint32_t i = 0; i < rings->count; i++) {
		const struct ky_sampled_ring *ring = rings->list[i];

		if (!wants_samples(ring))
			continue;
		if (atomic_load_explicit(&ring->cpu.head->refusals[KY_SOURCE_TIMER],
					 memory_order_relaxed))
			sampler->is_leave_denied = true;
		waiting += !samples_itself(ring);
	}
	if (sampler->is_leave_denied || rings->count != sampler->ring_count)
		take_back(sampler, now_ns);
	else if (!waiting)
		leave(sampler);
}

/* Now and then, by what switches cost at their present rate. */
static void judge(struct ky_cpu_sampler *sampler, uint64_t now_ns)
{
	uint64_t rate = sampler->options.counted_switches_per_s(sampler->options.ctx);
	bool is_left = sampler->choice == KY_CPU_TIMERS, is_against;

	sampler->judged_ns = now_ns;
	know_cost(sampler, rate);
	for (uint32_t i = 0; i < sampler->options.rings->count; i++)
		if (sampler->options.rings->list[i]->cpu.cell_count)
			store(&sampler->options.rings->list[i]->cpu.head->switches_per_s,
			      rate < UINT32_MAX ? (uint32_t)rate : UINT32_MAX);
	if (sampler->is_leave_denied || now_ns < sampler->settled_ns)
		return;
	is_against = is_left ? !ky_sample_duty_is_dear(&sampler->duty, rate * CHEAP_PART) :
			       ky_sample_duty_is_dear(&sampler->duty, rate);
	sampler->verdicts = is_against ? sampler->verdicts + 1 : 0;
	if (sampler->verdicts < VERDICTS)
		return;
	sampler->verdicts = 0;
	if (is_left)
		take_back(sampler, now_ns);
	else
		ask(sampler);
}

static void follow_choice(struct ky_cpu_sampler *sampler)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	if (sampler->choice == KY_CPU_ASKED)
		follow_asked(sampler, now_ns);
	else if (sampler->choice == KY_CPU_TIMERS &&
		 sampler->options.rings->count != sampler->ring_count)
		take_back(sampler, now_ns);
	else if (sampler->options.leave && now_ns - sampler->judged_ns >= JUDGE_NS)
		judge(sampler, now_ns);
}

uint64_t ky_cpu_sampler_step(struct ky_cpu_sampler *sampler)
{
	if (sampler->refusal && sampler->options.is_refusal_final)
		return UINT64_MAX;
	measure(sampler);
	ky_cpu_sampler_fetch(sampler);
	if (sampler->rate_hz && (sampler->perf || sampler->choice == KY_CPU_TIMERS))
		follow_choice(sampler);
	if (sampler->choice == KY_CPU_TIMERS) /* which follow the settings themselves */
		return UINT64_MAX;
	if (sampler->perf && sampler->rate_hz)
		follow_duty(sampler);
	if (sampler->perf || sampler->may_open)
		follow_settings(sampler);
	set_due(sampler);
	return sampler->due_ns;
}
