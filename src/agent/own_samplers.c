/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/own_samplers.h>

#include <base/now.h>
#include <errno.h>
#include <probe/perf_event.h>
#include <record/emit/bell.h>
#include <record/emit/emit_engine.h>
#include <record/sample/sampler.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Stacks of linked programs as deep as that are whole; each sample takes so much of a ring. */
#define STACK_BYTES 16384u
#define SAMPLE_RING_BYTES (1u << 18)
/* Some 4,000 records a CPU; beside the samples' less than the unprivileged may lock. */
#define SWITCH_RING_BYTES (1u << 17)
#define SECOND_NS UINT64_C(1000000000)
#define RATE_MAX 1000u

/* What a forked child closes. */
struct descriptors {
	uint32_t count; /* atomic */
	int fds[KY_OWN_FDS_MAX];
};

static struct {
	uint32_t option_hz;  /* atomic: as the recorder was opened */
	uint32_t is_refused; /* atomic: timers do it */
	uint32_t is_started; /* atomic: a ring is live */
	struct descriptors samples, switches;
	const struct ky_still_threads *still; /* atomic; NULL: none */
} shared;

/* ---- what the engine calls, in the program's threads ---- */

static void apply(uint32_t rate_hz)
{
	__atomic_store_n(&shared.option_hz, rate_hz, __ATOMIC_RELAXED);
	__atomic_store_n(&shared.is_started, 1, __ATOMIC_RELEASE);
	if (__atomic_load_n(&shared.is_refused, __ATOMIC_ACQUIRE))
		ky_timer_source.apply(rate_hz);
	else
		ky_bell_ring(ky_engine_ring());
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

static void close_copies(struct descriptors *of)
{
	uint32_t count = __atomic_exchange_n(&of->count, 0, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++)
		ky_perf_event_close_copy(of->fds[i]);
}

/* Its own copies of our descriptors, before anything of the child's is among them. */
static void fork_child(void)
{
	const struct ky_still_threads *still = __atomic_exchange_n(&shared.still, NULL,
								   __ATOMIC_ACQUIRE);

	ky_perf_event_ask(!ky_engine_is_under_filter());
	close_copies(&shared.samples);
	close_copies(&shared.switches);
	if (still)
		ky_still_close_files(still);
}

static bool is_on(void)
{
	return ky_timer_source.is_on();
}

const struct ky_sampler_hooks ky_own_samplers_hooks = {
	apply, ky_timer_thread_begin, ky_timer_thread_end, stop, forget,
	is_on, ky_timer_leave_signal, fork_child};

/* ---- the library's thread: descriptors ---- */

static uint32_t taken(const struct descriptors *of)
{
	return __atomic_load_n(&of->count, __ATOMIC_RELAXED);
}

uint32_t ky_own_samplers_fds(void)
{
	uint32_t switches = taken(&shared.switches);

	return taken(&shared.samples) + switches + (switches ? KY_STILL_MAX : 0);
}

/* What is left of those that the library may take. */
static uint32_t fds_left(void *ctx)
{
	uint32_t most = KY_OWN_FDS_MAX, count = ky_own_samplers_fds();
	struct rlimit limit;

	(void)ctx;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 0;
	if (limit.rlim_cur / 4 < most)
		most = (uint32_t)(limit.rlim_cur / 4);
	return count < most ? most - count : 0;
}

/* None before they are closed: a child must not close what has taken their numbers. */
static void note_samples(void *ctx, const struct ky_perf *perf)
{
	uint32_t count = perf ? ky_perf_fds(perf, shared.samples.fds, KY_OWN_FDS_MAX) : 0;

	(void)ctx;
	__atomic_store_n(&shared.samples.count, count, __ATOMIC_RELEASE);
}

static void note_switches(const struct ky_switch_windows *windows)
{
	uint32_t count = 0;

	if (windows)
		count = ky_switch_windows_fds(windows, shared.switches.fds, KY_OWN_FDS_MAX);
	__atomic_store_n(&shared.still, windows ? ky_switch_windows_still(windows) : NULL,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&shared.switches.count, count, __ATOMIC_RELEASE);
}

/* ---- CPU samples ---- */

/* Of the process; counted over a quarter of a second at least. */
static uint64_t switches_per_s(void *ctx)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC), ns, count;
	struct ky_own_samplers *own = ctx;
	struct rusage usage;

	ns = now_ns - own->counted_ns;
	if (ns < SECOND_NS / 4 || getrusage(RUSAGE_SELF, &usage) != 0)
		return own->switches_per_s;
	count = (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
	/* Each time off a CPU is two switches. */
	if (own->counted_ns)
		own->switches_per_s = (uint64_t)((double)(count - own->switch_count) * 2 *
						 (double)SECOND_NS / (double)ns);
	own->switch_count = count;
	own->counted_ns = now_ns;
	return own->switches_per_s;
}

/* As the settings say, which win over the options. */
static uint32_t wanted_rate(const struct ky_ring *ring)
{
	uint32_t rate_hz = ky_settings_sample_hz(&ring->control->settings);

	if (!__atomic_load_n(&shared.is_started, __ATOMIC_ACQUIRE))
		return KY_SETTING_OFF;
	if (!rate_hz)
		rate_hz = __atomic_load_n(&shared.option_hz, __ATOMIC_RELAXED);
	if (!rate_hz || rate_hz == KY_SETTING_OFF)
		return KY_SETTING_OFF;
	return rate_hz < RATE_MAX ? rate_hz : RATE_MAX;
}

static void start_timers(void)
{
	__atomic_store_n(&shared.is_refused, 1, __ATOMIC_RELEASE);
	ky_timer_source.apply(__atomic_load_n(&shared.option_hz, __ATOMIC_RELAXED));
}

/* The mapping is ours to write, whatever the pointer to its description says. */
static bool make_cells(const struct ky_own_samplers *own, uint32_t which,
		       struct ky_sample_ring *out)
{
	return ky_ring_samples((struct ky_ring *)(uintptr_t)own->ring, which, out);
}

static uint64_t step_samples(struct ky_own_samplers *own)
{
	struct ky_sampled_ring *sampled = &own->sampled;
	uint64_t due_ns = UINT64_MAX;

	sampled->wanted_hz = wanted_rate(own->ring);
	if (own->samples.refusal || (sampled->wanted_hz == KY_SETTING_OFF && !own->samples.perf))
		return UINT64_MAX;
	if (!sampled->cpu.cell_count &&
	    (__atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED) ||
	     !make_cells(own, KY_SAMPLES_CPU, &sampled->cpu)))
		return UINT64_MAX;
	/* The filter that the process was started under, as most containers have one, may kill for
	 * perf_event_open(); no container that runs services does for timers. */
	if (ky_engine.confinement) {
		own->samples.refusal = -EPERM;
		ky_cpu_sampler_describe(&own->samples, sampled);
	} else {
		due_ns = ky_cpu_sampler_step(&own->samples);
	}
	if (own->samples.refusal)
		start_timers();
	return due_ns;
}

/* ---- off-CPU times ---- */

static void close_switches(struct ky_own_samplers *own)
{
	ky_perf_event_ask(!ky_engine_is_under_filter());
	note_switches(NULL);
	ky_off_cpu_sampler_close(&own->switches);
}

static int open_windows(struct ky_own_samplers *own)
{
	struct ky_perf_options how = {.is_switches = true,
				      .is_of_threads = true,
				      .has_kernel = true,
				      .ring_bytes_max = SWITCH_RING_BYTES,
				      .without_tid = (uint32_t)syscall(SYS_gettid)};
	uint32_t left = fds_left(NULL);
	int err;

	if (left <= KY_STILL_MAX)
		return -EMFILE;
	how.fds_max = left - KY_STILL_MAX;
	err = ky_off_cpu_sampler_open(&own->switches, &own->rings, &how, true);
	if (err)
		return err;
	ky_switch_windows_attach(own->switches.windows, getpid());
	return ky_switch_windows_refusal(own->switches.windows);
}

static void open_switches(struct ky_own_samplers *own)
{
	int err;

	own->are_switches_refused = true;
	if (ky_engine_is_under_filter() ||
	    !make_cells(own, KY_SAMPLES_OFF_CPU, &own->sampled.off_cpu))
		return;
	err = open_windows(own);
	if (err) {
		close_switches(own);
		atomic_store_explicit(&own->sampled.off_cpu.head->refusals[KY_SOURCE_SWITCHES],
				      (uint32_t)-err, memory_order_relaxed);
		return;
	}
	note_switches(own->switches.windows);
	ky_off_cpu_sampler_describe(&own->switches, &own->sampled);
	own->are_switches_refused = false;
}

static uint64_t step_switches(struct ky_own_samplers *own, bool is_streaming)
{
	uint64_t due_ns;

	if (ky_engine.options.switches != KYMO_SWITCHES_ON)
		return UINT64_MAX;
	own->gates = __atomic_load_n(&kymo_control.gates, __ATOMIC_RELAXED);
	if (!own->switches.windows && !own->are_switches_refused && own->gates & KYMO_GATE_OFF_CPU)
		open_switches(own);
	/* Windows take calls that a filter of the program's own may not expect. */
	if (own->switches.windows && ky_engine_is_under_filter()) {
		close_switches(own);
		own->are_switches_refused = true;
	}
	due_ns = ky_off_cpu_sampler_step(&own->switches);
	if (!is_streaming && own->switches.windows &&
	    ky_switch_windows_is_resting(own->switches.windows))
		ky_bell_wish_for_events();
	return due_ns;
}

/* ---- both ---- */

/* Another recording may have another fate. */
static void take_ring(struct ky_own_samplers *own, const struct ky_ring *ring)
{
	const struct ky_cpu_sampler_options options = {.rings = &own->rings,
						       .how = {.stack_bytes = STACK_BYTES,
							       .ring_bytes_max = SAMPLE_RING_BYTES,
							       .is_of_threads = true,
							       .has_kernel = true},
						       .opens_by_itself = true,
						       .is_refusal_final = true,
						       .switches_per_s = switches_per_s,
						       .fds_left = fds_left,
						       .has_opened = note_samples,
						       .ctx = own};

	ky_own_samplers_close(own);
	own->ring = ring;
	own->sampled = (struct ky_sampled_ring){.pid = (uint32_t)getpid(),
						.image = ring->base,
						.image_bytes = ring->mapped_bytes,
						.gates = &own->gates};
	(void)ky_sampled_rings_add(&own->rings, &own->sampled);
	own->rings.last = &own->sampled; /* what is lost is of no other */
	ky_cpu_sampler_init(&own->samples, &options);
}

uint64_t ky_own_samplers_step(struct ky_own_samplers *own, const struct ky_ring *ring,
			      bool is_streaming)
{
	uint64_t samples_ns, switches_ns;

	if (own->ring != ring)
		take_ring(own, ring);
	samples_ns = step_samples(own);
	switches_ns = step_switches(own, is_streaming);
	return samples_ns < switches_ns ? samples_ns : switches_ns;
}

void ky_own_samplers_fetch(struct ky_own_samplers *own)
{
	ky_cpu_sampler_fetch(&own->samples);
	ky_off_cpu_sampler_fetch(&own->switches);
}

void ky_own_samplers_between(struct ky_own_samplers *own)
{
	ky_cpu_sampler_between(&own->samples);
	if (!ky_engine_is_under_filter())
		ky_off_cpu_sampler_between(&own->switches);
}

void ky_own_samplers_end(struct ky_own_samplers *own)
{
	if (!ky_engine_is_under_filter())
		ky_off_cpu_sampler_end(&own->switches);
}

void ky_own_samplers_close(struct ky_own_samplers *own)
{
	ky_perf_event_ask(!ky_engine_is_under_filter());
	ky_cpu_sampler_close(&own->samples);
	close_switches(own);
	ky_own_samplers_forget(own);
}

void ky_own_samplers_forget(struct ky_own_samplers *own)
{
	memset(own, 0, sizeof(*own));
	__atomic_store_n(&shared.is_refused, 0, __ATOMIC_RELEASE);
}
