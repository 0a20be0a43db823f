/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/own_probes.h>

#include <base/now.h>
#include <errno.h>
#include <record/emit/bell.h>
#include <record/emit/emit_engine.h>
#include <agent/probe_switches.h>
#include <probe/perf_walk.h>
#include <record/sample/sampler.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Stacks of linked programs as deep as that are whole; each sample takes so much of a ring. */
#define STACK_BYTES 16384u
#define RING_BYTES (1u << 18)
#define SECOND_NS UINT64_C(1000000000)
#define RATE_MAX 1000u

static struct {
	uint32_t option_hz;  /* atomic: as the recorder was opened */
	uint32_t is_refused; /* atomic: timers do it */
	uint32_t is_started; /* atomic: a ring is live */
	uint32_t fd_count;   /* atomic */
	int fds[KY_OWN_SAMPLER_FDS_MAX];
} shared;

/* ---- what the engine tells, in the program's threads ---- */

static void look(uint32_t rate_hz)
{
	__atomic_store_n(&shared.option_hz, rate_hz, __ATOMIC_RELAXED);
	__atomic_store_n(&shared.is_started, 1, __ATOMIC_RELEASE);
	if (__atomic_load_n(&shared.is_refused, __ATOMIC_ACQUIRE))
		ky_timer_source.look(rate_hz);
	else
		ky_bell_ring(ky_engine_ring());
}

static void thread_begin(uint32_t tid)
{
	ky_timer_source.thread_begin(tid);
}

static void thread_end(uint32_t tid)
{
	ky_timer_source.thread_end(tid);
}

static void stop(void)
{
	__atomic_store_n(&shared.is_started, 0, __ATOMIC_RELEASE);
	ky_timer_source.stop();
}

static void forget(void)
{
	__atomic_store_n(&shared.is_started, 0, __ATOMIC_RELEASE);
	ky_timer_source.forget();
}

static void leave_signal(void)
{
	ky_timer_source.leave_signal();
}

/* Its own copies of our descriptors, before anything of the child's is among them. */
static void fork_child(void)
{
	uint32_t count = __atomic_exchange_n(&shared.fd_count, 0, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++)
		close(shared.fds[i]);
	ky_own_switches_fork_child();
}

static bool is_on(void)
{
	return ky_timer_source.is_on();
}

const struct ky_sampler_hooks ky_own_sampler_hooks = {look,  thread_begin, thread_end, stop, forget,
						      is_on, leave_signal, fork_child};

/* ---- the library's thread ---- */

static bool has_confined_itself(void)
{
	return __atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED);
}

/* As the settings say, which win over the options; 0: none. */
static uint32_t wanted_rate(const struct ky_ring *ring)
{
	uint32_t rate_hz = ky_settings_sample_hz(&ring->control->settings);

	if (rate_hz == KY_SETTING_OFF || !__atomic_load_n(&shared.is_started, __ATOMIC_ACQUIRE))
		return 0;
	rate_hz = rate_hz ? rate_hz : __atomic_load_n(&shared.option_hz, __ATOMIC_RELAXED);
	return rate_hz < RATE_MAX ? rate_hz : RATE_MAX;
}

uint32_t ky_own_sampler_fds_left(void)
{
	uint32_t most = KY_OWN_SAMPLER_FDS_MAX, taken;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 0;
	if (limit.rlim_cur / 4 < most)
		most = (uint32_t)(limit.rlim_cur / 4);
	taken = __atomic_load_n(&shared.fd_count, __ATOMIC_RELAXED) + ky_own_switches_fds();
	return taken < most ? most - taken : 0;
}

static void close_events(struct ky_own_sampler *sampler)
{
	/* Before they are closed: a child must not close what has taken their numbers. */
	__atomic_store_n(&shared.fd_count, 0, __ATOMIC_RELEASE);
	ky_perf_close(sampler->perf);
	sampler->perf = NULL;
	sampler->rate_hz = 0;
	sampler->lost_told = 0;
}

/* A child that is forked meanwhile closes them, as it does the others. */
static void try_cost(struct ky_own_sampler *sampler)
{
	struct ky_perf *perf = NULL;

	if (sampler->switch_cost_ns)
		return;
	if (ky_sample_cost_open(&perf, &sampler->how) == 0)
		__atomic_store_n(&shared.fd_count,
				 ky_perf_fds(perf, shared.fds, KY_OWN_SAMPLER_FDS_MAX),
				 __ATOMIC_RELEASE);
	sampler->switch_cost_ns = ky_sample_cost_ns(perf);
	__atomic_store_n(&shared.fd_count, 0, __ATOMIC_RELEASE);
	ky_perf_close(perf);
}

static int open_events(struct ky_own_sampler *sampler, uint32_t rate_hz)
{
	uint32_t left = ky_own_sampler_fds_left(), count;
	int err;

	if (!left)
		return -EMFILE;
	sampler->how = (struct ky_perf_options){.rate_hz = rate_hz,
						.stack_bytes = STACK_BYTES,
						.ring_bytes_max = RING_BYTES,
						.fds_max = left,
						.is_of_threads = true,
						.has_kernel = true};
	err = sampler->is_tested ? 0 : ky_perf_test(&sampler->how);
	if (!err) {
		try_cost(sampler);
		err = ky_perf_add_all(&sampler->perf, &sampler->how, getpid());
	}
	if (!err && !sampler->perf)
		err = -ESRCH;
	if (err) {
		close_events(sampler);
		return err;
	}
	sampler->is_tested = true;
	count = ky_perf_fds(sampler->perf, shared.fds, KY_OWN_SAMPLER_FDS_MAX);
	__atomic_store_n(&shared.fd_count, count, __ATOMIC_RELEASE);
	sampler->rate_hz = rate_hz;
	return 0;
}

/* What the trace says about it. */
static void describe(struct ky_own_sampler *sampler)
{
	struct ky_sample_class_head *head = sampler->slots.head;

	if (sampler->refusal) {
		atomic_store_explicit(&head->refusals[KY_SOURCE_PERF], (uint32_t)-sampler->refusal,
				      memory_order_relaxed);
		return;
	}
	atomic_fetch_or_explicit(&head->source, 1u << KY_SOURCE_PERF, memory_order_relaxed);
	atomic_store_explicit(&head->limits, sampler->how.has_kernel ? 0 : KY_SAMPLE_NO_KERNEL,
			      memory_order_relaxed);
	atomic_store_explicit(&head->rate_hz, sampler->rate_hz, memory_order_relaxed);
	atomic_store_explicit(&head->share_ppm, ky_sample_duty_share_ppm(&sampler->duty),
			      memory_order_relaxed);
}

static void refuse(struct ky_own_sampler *sampler, int err)
{
	sampler->refusal = err;
	describe(sampler);
	__atomic_store_n(&shared.is_refused, 1, __ATOMIC_RELEASE);
	ky_timer_source.look(__atomic_load_n(&shared.option_hz, __ATOMIC_RELAXED));
}

static void start_duty(struct ky_own_sampler *sampler)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	ky_sample_duty_init(&sampler->duty, sampler->switch_cost_ns, ky_sample_processors(),
			    now_ns);
	ky_sample_duty_start(&sampler->duty, now_ns);
}

static void follow(struct ky_own_sampler *sampler, uint32_t rate_hz)
{
	int err;

	if (sampler->perf && !rate_hz) {
		(void)ky_perf_pause(sampler->perf, true);
		sampler->rate_hz = 0;
	} else if (sampler->perf && rate_hz == sampler->how.rate_hz) {
		(void)ky_perf_pause(sampler->perf, false);
		sampler->rate_hz = rate_hz;
	} else {
		close_events(sampler);
		err = open_events(sampler, rate_hz);
		if (err) {
			refuse(sampler, err);
			return;
		}
	}
	start_duty(sampler);
	describe(sampler);
}

/* Over a quarter of a second at least. */
static void count_switches(struct ky_own_sampler *sampler, uint64_t now_ns)
{
	uint64_t ns = now_ns - sampler->counted_ns, count;
	struct rusage usage;

	if (ns < SECOND_NS / 4 || getrusage(RUSAGE_SELF, &usage) != 0)
		return;
	count = (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
	/* Each time off a processor is two switches. */
	if (sampler->counted_ns)
		sampler->switches_per_s = (uint64_t)((double)(count - sampler->switch_count) * 2 *
						     (double)SECOND_NS / (double)ns);
	sampler->switch_count = count;
	sampler->counted_ns = now_ns;
}

/* What it costs to be sampled at each switch is kept within bounds. */
static void follow_duty(struct ky_own_sampler *sampler)
{
	uint32_t share_ppm = ky_sample_duty_share_ppm(&sampler->duty);

	count_switches(sampler, ky_now_ns(CLOCK_MONOTONIC));
	/* Of the window that is over, up to this very moment. */
	if (ky_sample_duty_apply(&sampler->duty, sampler->perf, sampler->switches_per_s) &&
	    !sampler->duty.is_open)
		ky_own_sampler_fetch(sampler);
	if (ky_sample_duty_share_ppm(&sampler->duty) != share_ppm)
		describe(sampler);
}

static void on_sample(void *ctx, const struct ky_perf_sample *sample)
{
	const struct ky_own_sampler *sampler = ctx;
	struct ky_perf_sample weighed = ky_sample_duty_weigh(&sampler->duty, sample);
	struct ky_unwind_view view = {NULL, 0};

	if (atomic_load_explicit(&sampler->ring->header->unwind_ready, memory_order_acquire)) {
		view.area = sampler->ring->unwind;
		view.area_bytes = sampler->ring->unwind_bytes;
	}
	ky_perf_put(&sampler->slots, &view, &weighed);
}

/* Half full at the latest. */
static void set_due(struct ky_own_sampler *sampler)
{
	struct ky_perf_about about;
	uint64_t ns, now_ns, pace_ns;

	sampler->due_ns = UINT64_MAX;
	if (!sampler->perf || !sampler->rate_hz)
		return;
	ky_perf_about(sampler->perf, &about);
	ns = about.ring_bytes / about.record_bytes * SECOND_NS / sampler->rate_hz / 2;
	now_ns = ky_now_ns(CLOCK_MONOTONIC);
	pace_ns = ky_sample_duty_pace_ns(&sampler->duty, now_ns);
	sampler->due_ns = now_ns + (ns < pace_ns ? ns : pace_ns);
}

void ky_own_sampler_fetch(struct ky_own_sampler *sampler)
{
	struct ky_perf_about about;

	if (!sampler->perf || !sampler->slots.slot_count)
		return;
	(void)ky_perf_read(sampler->perf, on_sample, sampler);
	ky_perf_about(sampler->perf, &about);
	if (about.lost_count > sampler->lost_told)
		atomic_fetch_add_explicit(&sampler->slots.head->lost_count,
					  about.lost_count - sampler->lost_told,
					  memory_order_relaxed);
	sampler->lost_told = about.lost_count;
	set_due(sampler);
}

void ky_own_sampler_between(struct ky_own_sampler *sampler)
{
	if (sampler->perf && ky_now_ns(CLOCK_MONOTONIC) >= sampler->due_ns)
		ky_own_sampler_fetch(sampler);
}

uint64_t ky_own_sampler_step(struct ky_own_sampler *sampler, const struct ky_ring *ring)
{
	uint32_t rate_hz = wanted_rate(ring);

	if (sampler->ring != ring) { /* another recording: it may have another fate */
		ky_own_sampler_close(sampler);
		sampler->ring = ring;
	}
	if (sampler->refusal || (!rate_hz && !sampler->perf))
		return UINT64_MAX;
	/* The mapping is ours to write, whatever the pointer to its description says. */
	if (!sampler->slots.slot_count &&
	    (has_confined_itself() ||
	     !ky_ring_samples((struct ky_ring *)(uintptr_t)ring, KY_SAMPLES_CPU, &sampler->slots)))
		return UINT64_MAX;
	/* The filter that the process was started under, as most containers have one, may kill for
	 * perf_event_open(); no container that runs services does for timers. */
	if (ky_engine.confinement) {
		refuse(sampler, -EPERM);
		return UINT64_MAX;
	}
	ky_own_sampler_fetch(sampler);
	if (rate_hz != sampler->rate_hz)
		follow(sampler, rate_hz);
	else if (rate_hz)
		follow_duty(sampler);
	set_due(sampler);
	return sampler->perf ? sampler->due_ns : UINT64_MAX;
}

void ky_own_sampler_close(struct ky_own_sampler *sampler)
{
	close_events(sampler);
	memset(sampler, 0, sizeof(*sampler));
	__atomic_store_n(&shared.is_refused, 0, __ATOMIC_RELEASE);
}

void ky_own_sampler_forget(struct ky_own_sampler *sampler)
{
	memset(sampler, 0, sizeof(*sampler));
	__atomic_store_n(&shared.is_refused, 0, __ATOMIC_RELEASE);
}
