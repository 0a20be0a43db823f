/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/probes.h>

uint64_t ky_probes_step(const struct ky_probe *probes, size_t count,
			const struct ky_probe_moment *moment)
{
	uint64_t first_ns = UINT64_MAX;

	for (size_t i = 0; i < count; i++) {
		uint64_t next_ns = probes[i].step ? probes[i].step(probes[i].self, moment) :
						    UINT64_MAX;

		first_ns = next_ns < first_ns ? next_ns : first_ns;
	}
	return first_ns;
}

void ky_probes_describe(const struct ky_probe *probes, size_t count, struct ky_drain *drain)
{
	for (size_t i = 0; i < count; i++)
		if (probes[i].describe)
			probes[i].describe(probes[i].self, drain);
}

void ky_probes_close(struct ky_probe *probes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (probes[i].close)
			probes[i].close(probes[i].self);
		probes[i] = (struct ky_probe){0};
	}
}
