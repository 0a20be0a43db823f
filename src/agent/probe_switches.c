/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/probe_switches.h>

#include <base/now.h>
#include <errno.h>
#include <kymo/emit.h>

#define FETCH_NS UINT64_C(20000000)

/* ---- where the times go ---- */

static const struct ky_sample_ring *slots_of(const struct ky_probed_ring *ring)
{
	if (!ring || !ring->off_cpu.slot_count ||
	    !(__atomic_load_n(ring->gates, __ATOMIC_RELAXED) & KYMO_GATE_OFF_CPU))
		return NULL;
	return &ring->off_cpu;
}

static const struct ky_sample_ring *slots_at(const void *ctx, uint32_t i)
{
	const struct ky_probed_rings *rings = ctx;

	return slots_of(rings->list[i]);
}

static const struct ky_sample_ring *find_slots(const void *ctx, uint32_t pid, uint64_t ns)
{
	return slots_of(ky_probed_rings_find(ctx, pid, ns));
}

static bool find_tables(const void *ctx, uint32_t pid, uint64_t ns, struct ky_unwind_view *out)
{
	const struct ky_probed_ring *ring = ky_probed_rings_find(ctx, pid, ns);

	if (!ring)
		return false;
	*out = ky_probed_ring_tables(ring);
	return out->area != NULL;
}

static uint32_t pid_at(const void *ctx, uint32_t i)
{
	const struct ky_probed_rings *rings = ctx;

	return rings->list[i]->pid;
}

static struct ky_switch_places places_of(const struct ky_probe_switches *probe)
{
	uint32_t count = probe->rings ? probe->rings->count : 0;

	return (struct ky_switch_places){probe->rings, count, slots_at, find_slots, find_tables};
}

/* ---- the windows ---- */

int ky_probe_switches_open(struct ky_probe_switches *probe, const struct ky_probed_rings *rings,
			   const struct ky_perf_options *how, bool can_rest)
{
	probe->rings = rings;
	if (ky_switch_windows_open(&probe->windows, how, can_rest) != 0)
		return -ENOMEM;
	/* A forked child would keep what they open. */
	if (!can_rest)
		ky_switch_windows_add_wakes(probe->windows, pid_at);
	return 0;
}

void ky_probe_switches_close(struct ky_probe_switches *probe)
{
	ky_switch_windows_close(probe->windows);
	*probe = (struct ky_probe_switches){.windows = NULL};
}

void ky_probe_switches_describe(const struct ky_probe_switches *probe,
				const struct ky_probed_ring *ring)
{
	if (probe->windows && ring->off_cpu.slot_count)
		ky_switch_windows_describe(probe->windows, ring->off_cpu.head);
}

uint64_t ky_probe_switches_step(struct ky_probe_switches *probe)
{
	struct ky_switch_places places = places_of(probe);
	uint64_t rest_ns = ky_switch_windows_step(probe->windows, &places);

	return rest_ns == UINT64_MAX ? UINT64_MAX : ky_now_ns(CLOCK_MONOTONIC) + rest_ns;
}

void ky_probe_switches_fetch(struct ky_probe_switches *probe)
{
	struct ky_switch_places places = places_of(probe);

	ky_switch_windows_fetch(probe->windows, &places);
	probe->fetched_ns = ky_now_ns(CLOCK_MONOTONIC);
}

void ky_probe_switches_between(struct ky_probe_switches *probe)
{
	if (probe->windows && ky_now_ns(CLOCK_MONOTONIC) - probe->fetched_ns >= FETCH_NS)
		ky_probe_switches_fetch(probe);
}

void ky_probe_switches_report_gap(const struct ky_probe_switches *probe)
{
	struct ky_switch_places places = places_of(probe);

	ky_switch_windows_report_gap(probe->windows, &places);
}

void ky_probe_switches_end(struct ky_probe_switches *probe)
{
	struct ky_switch_places places = places_of(probe);

	ky_switch_windows_report_gap(probe->windows, &places);
	ky_switch_windows_stop(probe->windows, &places);
}
