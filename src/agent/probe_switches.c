/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/probe_switches.h>

#include <base/now.h>
#include <errno.h>
#include <record/emit/bell.h>
#include <record/emit/emit_engine.h>
#include <agent/own_probes.h>
#include <probe/switch_windows.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Some 4,000 records a processor; beside the sampler's less than the unprivileged may lock. */
#define RING_BYTES (1u << 17)
#define FETCH_NS UINT64_C(20000000)

/* What a forked child closes. */
static struct {
	uint32_t fd_count; /* atomic */
	int fds[KY_OWN_SAMPLER_FDS_MAX];
	const struct ky_still_threads *still; /* atomic; NULL: none */
} shared;

void ky_own_switches_fork_child(void)
{
	const struct ky_still_threads *still = __atomic_exchange_n(&shared.still, NULL,
								   __ATOMIC_ACQUIRE);
	uint32_t count = __atomic_exchange_n(&shared.fd_count, 0, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++)
		close(shared.fds[i]);
	if (still)
		ky_still_close_files(still);
}

uint32_t ky_own_switches_fds(void)
{
	uint32_t count = __atomic_load_n(&shared.fd_count, __ATOMIC_RELAXED);

	return count ? count + KY_STILL_MAX : 0;
}

/* The word that events look at, whether it is the ring's or stands beside it. */
static bool has_gate(void)
{
	return __atomic_load_n(&kymo_control.gates, __ATOMIC_RELAXED) & KYMO_GATE_OFF_CPU;
}

/* ---- where the times go ---- */

static const struct ky_sample_ring *ours(const struct ky_own_switches *own)
{
	return own->is_wanted && own->slots.slot_count ? &own->slots : NULL;
}

static const struct ky_sample_ring *at(const void *ctx, uint32_t i)
{
	(void)i;
	return ours(ctx);
}

/* Children are not watched, so whoever it is of is this process. */
static const struct ky_sample_ring *find(const void *ctx, uint32_t pid, uint64_t ns)
{
	(void)pid;
	(void)ns;
	return ours(ctx);
}

static struct ky_switch_places places_of(const struct ky_own_switches *own)
{
	return (struct ky_switch_places){own, 1, at, find, NULL};
}

/* ---- the windows ---- */

static void close_windows(struct ky_own_switches *own)
{
	/* Before they are closed: a child must not close what has taken their numbers. */
	__atomic_store_n(&shared.fd_count, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&shared.still, NULL, __ATOMIC_RELEASE);
	ky_switch_windows_close(own->windows);
	own->windows = NULL;
}

static int open_windows(struct ky_own_switches *own)
{
	uint32_t left = ky_own_sampler_fds_left();
	struct ky_perf_options how = {.is_switches = true,
				      .is_of_threads = true,
				      .has_kernel = true,
				      .ring_bytes_max = RING_BYTES,
				      .without_tid = (uint32_t)syscall(SYS_gettid)};
	int err;

	if (left <= KY_STILL_MAX)
		return -EMFILE;
	how.fds_max = left - KY_STILL_MAX;
	err = ky_switch_windows_open(&own->windows, &how, true);
	if (err)
		return err;
	ky_switch_windows_attach(own->windows, getpid());
	err = ky_switch_windows_refusal(own->windows);
	if (err)
		return err;
	__atomic_store_n(&shared.still, ky_switch_windows_still(own->windows), __ATOMIC_RELEASE);
	__atomic_store_n(&shared.fd_count,
			 ky_switch_windows_fds(own->windows, shared.fds, KY_OWN_SAMPLER_FDS_MAX),
			 __ATOMIC_RELEASE);
	return 0;
}

static void tell_refusal(const struct ky_own_switches *own, int err)
{
	atomic_store_explicit(&own->slots.head->refusals[KY_SOURCE_SWITCHES], (uint32_t)-err,
			      memory_order_relaxed);
}

/* The mapping is ours to write, whatever the pointer to its description says. */
static void open_all(struct ky_own_switches *own)
{
	struct ky_ring *ring = (struct ky_ring *)(uintptr_t)own->ring;
	int err;

	own->is_refused = true;
	if (ky_engine_is_under_filter() || !ky_ring_samples(ring, KY_SAMPLES_OFF_CPU, &own->slots))
		return;
	err = open_windows(own);
	if (err) {
		close_windows(own);
		tell_refusal(own, err);
		return;
	}
	ky_switch_windows_describe(own->windows, own->slots.head);
	own->is_refused = false;
}

uint64_t ky_own_switches_step(struct ky_own_switches *own, const struct ky_ring *ring,
			      bool is_streaming)
{
	struct ky_switch_places places = places_of(own);
	uint64_t rest_ns;

	if (ky_engine.options.switches != KYMO_SWITCHES_ON)
		return UINT64_MAX;
	if (own->ring != ring) { /* another recording: it may have another fate */
		ky_own_switches_close(own);
		own->ring = ring;
	}
	own->is_wanted = has_gate();
	if (!own->windows && own->is_wanted && !own->is_refused)
		open_all(own);
	/* Windows take calls that whoever has confined the process may not expect. */
	if (own->windows && ky_engine_is_under_filter()) {
		close_windows(own);
		own->is_refused = true;
	}
	if (!own->windows)
		return UINT64_MAX;
	rest_ns = ky_switch_windows_step(own->windows, &places);
	if (!is_streaming && ky_switch_windows_is_resting(own->windows))
		ky_bell_wish_for_events();
	return rest_ns == UINT64_MAX ? UINT64_MAX : ky_now_ns(CLOCK_MONOTONIC) + rest_ns;
}

void ky_own_switches_fetch(struct ky_own_switches *own)
{
	struct ky_switch_places places = places_of(own);

	if (!own->windows || !own->is_wanted)
		return;
	ky_switch_windows_fetch(own->windows, &places);
	own->fetched_ns = ky_now_ns(CLOCK_MONOTONIC);
}

void ky_own_switches_between(struct ky_own_switches *own)
{
	if (own->windows && !ky_engine_is_under_filter() &&
	    ky_now_ns(CLOCK_MONOTONIC) - own->fetched_ns >= FETCH_NS)
		ky_own_switches_fetch(own);
}

void ky_own_switches_end(struct ky_own_switches *own)
{
	struct ky_switch_places places = places_of(own);

	if (!own->windows || ky_engine_is_under_filter())
		return;
	ky_switch_windows_tell_gap(own->windows, &places);
	ky_switch_windows_stop(own->windows, &places);
}

void ky_own_switches_close(struct ky_own_switches *own)
{
	close_windows(own);
	memset(own, 0, sizeof(*own));
}

void ky_own_switches_forget(struct ky_own_switches *own)
{
	memset(own, 0, sizeof(*own));
}
