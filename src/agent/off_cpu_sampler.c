/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/off_cpu_sampler.h>

#include <base/now.h>
#include <errno.h>
#include <kymo/emit.h>

#define FETCH_NS UINT64_C(20000000)

/* ---- where the times go ---- */

static const struct ky_sample_ring *cells_of(const struct ky_sampled_ring *ring)
{
	if (!ring || !ring->off_cpu.cell_count ||
	    !(__atomic_load_n(ring->gates, __ATOMIC_RELAXED) & KYMO_GATE_OFF_CPU))
		return NULL;
	return &ring->off_cpu;
}

static const struct ky_sample_ring *cells_at(const void *ctx, uint32_t i)
{
	const struct ky_sampled_rings *rings = ctx;

	return cells_of(rings->list[i]);
}

static const struct ky_sample_ring *find_cells(const void *ctx, uint32_t pid, uint64_t ns)
{
	return cells_of(ky_sampled_rings_find(ctx, pid, ns));
}

static bool find_tables(const void *ctx, uint32_t pid, uint64_t ns, struct ky_unwind_view *out)
{
	const struct ky_sampled_ring *ring = ky_sampled_rings_find(ctx, pid, ns);

	if (!ring)
		return false;
	*out = ky_sampled_ring_tables(ring);
	return out->area != NULL;
}

static uint32_t pid_at(const void *ctx, uint32_t i)
{
	const struct ky_sampled_rings *rings = ctx;

	return rings->list[i]->pid;
}

static struct ky_switch_places places_of(const struct ky_off_cpu_sampler *sampler)
{
	uint32_t count = sampler->rings ? sampler->rings->count : 0;

	return (struct ky_switch_places){sampler->rings, count, cells_at, find_cells, find_tables};
}

/* ---- the windows ---- */

int ky_off_cpu_sampler_open(struct ky_off_cpu_sampler *sampler,
			    const struct ky_sampled_rings *rings, const struct ky_perf_options *how,
			    bool can_rest)
{
	sampler->rings = rings;
	if (ky_switch_windows_open(&sampler->windows, how, can_rest) != 0)
		return -ENOMEM;
	/* A forked child would keep what they open. */
	if (!can_rest) {
		ky_switch_windows_add_wakes(sampler->windows, pid_at);
		ky_switch_windows_leave_between(sampler->windows, pid_at);
	}
	return 0;
}

void ky_off_cpu_sampler_close(struct ky_off_cpu_sampler *sampler)
{
	ky_switch_windows_close(sampler->windows);
	*sampler = (struct ky_off_cpu_sampler){.windows = NULL};
}

void ky_off_cpu_sampler_describe(const struct ky_off_cpu_sampler *sampler,
				 const struct ky_sampled_ring *ring)
{
	if (sampler->windows && ring->off_cpu.cell_count)
		ky_switch_windows_describe(sampler->windows, ring->off_cpu.head);
}

uint64_t ky_off_cpu_sampler_step(struct ky_off_cpu_sampler *sampler)
{
	struct ky_switch_places places = places_of(sampler);
	uint64_t rest_ns = ky_switch_windows_step(sampler->windows, &places);

	return rest_ns == UINT64_MAX ? UINT64_MAX : ky_now_ns(CLOCK_MONOTONIC) + rest_ns;
}

void ky_off_cpu_sampler_fetch(struct ky_off_cpu_sampler *sampler)
{
	struct ky_switch_places places = places_of(sampler);

	ky_switch_windows_fetch(sampler->windows, &places);
	sampler->fetched_ns = ky_now_ns(CLOCK_MONOTONIC);
}

void ky_off_cpu_sampler_between(struct ky_off_cpu_sampler *sampler)
{
	if (sampler->windows && ky_now_ns(CLOCK_MONOTONIC) - sampler->fetched_ns >= FETCH_NS)
		ky_off_cpu_sampler_fetch(sampler);
}

void ky_off_cpu_sampler_report_gap(const struct ky_off_cpu_sampler *sampler)
{
	struct ky_switch_places places = places_of(sampler);

	ky_switch_windows_report_gap(sampler->windows, &places);
}

void ky_off_cpu_sampler_end(struct ky_off_cpu_sampler *sampler)
{
	struct ky_switch_places places = places_of(sampler);

	ky_switch_windows_report_gap(sampler->windows, &places);
	ky_switch_windows_stop(sampler->windows, &places);
}
