/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/emit/clock.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define CALIBRATE_NS 100000u
#define BATCH 64u

static bool kernel_uses(const char *name)
{
	char text[64];
	size_t name_bytes = strlen(name);
	ssize_t count;
	int fd;

	if (!name_bytes)
		return true;
	fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		  O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	count = read(fd, text, sizeof(text) - 1);
	close(fd);
	return count >= (ssize_t)name_bytes && memcmp(text, name, name_bytes) == 0 &&
	       ((size_t)count == name_bytes || text[name_bytes] == '\n');
}

static bool counter_is_allowed(void)
{
#if defined(PR_GET_TSC) && defined(__x86_64__)
	int mode = 0;

	if (prctl(PR_GET_TSC, &mode) == 0 && mode == PR_TSC_SIGSEGV)
		return false;
#endif
	return true;
}

/* A counter that traps (sandboxes, record-replay, some confidential guests) costs a microsecond. */
static bool counter_is_trapped(void)
{
	uint64_t best_ns = UINT64_MAX;
	uint32_t high;

	for (int round = 0; round < 4; round++) {
		uint64_t before = ky_now_ns(CLOCK_MONOTONIC), after;

		for (uint32_t i = 0; i < BATCH; i++)
			(void)kymo_arch_ticks(&high);
		after = ky_now_ns(CLOCK_MONOTONIC);
		if (after - before < best_ns)
			best_ns = after - before;
	}
	return best_ns > (uint64_t)KYMO_ARCH_TRAPPED_NS * BATCH;
}

void ky_clock_choose(struct ky_clock *clock)
{
	const char *wish = secure_getenv("KYMO_CLOCK");

	memset(clock, 0, sizeof(*clock));
	clock->is_os = (wish && strcmp(wish, "monotonic") == 0) || !KYMO_ARCH_HAS_TICKS ||
		       !kymo_arch_ticks_are_invariant() || !counter_is_allowed() ||
		       !kernel_uses(KYMO_ARCH_CLOCKSOURCE) || counter_is_trapped();
	ky_clock_anchor(clock, &clock->first);
}

void ky_clock_calibrate(struct ky_clock *clock)
{
	struct ky_clock_anchor now = clock->first;
	uint64_t ticks, ns;

	if (clock->is_os) {
		clock->ticks_per_second = 1000000000u;
		return;
	}
	do {
		ky_clock_anchor(clock, &now);
		ns = now.monotonic_ns - clock->first.monotonic_ns;
	} while (ns < CALIBRATE_NS);
	ticks = now.ticks_before - clock->first.ticks_before;
	clock->ticks_per_second = (uint64_t)((double)ticks * 1e9 / (double)ns);
	if (clock->ticks_per_second < 1000000u) {
		clock->is_os = true;
		clock->ticks_per_second = 1000000000u;
		ky_clock_anchor(clock, &clock->first);
	}
}

void ky_clock_anchor(const struct ky_clock *clock, struct ky_clock_anchor *out)
{
	uint64_t narrowest = 0;

	if (clock->is_os) {
		out->monotonic_ns = ky_now_ns(CLOCK_MONOTONIC);
		out->ticks_before = out->ticks_after = out->monotonic_ns;
		out->realtime_ns = ky_realtime_at_ns(out->monotonic_ns);
		return;
	}
	for (int i = 0; i < 3; i++) {
		uint32_t high;
		uint64_t before = kymo_arch_ticks(&high);
		uint64_t ns = ky_now_ns(CLOCK_MONOTONIC);
		uint64_t after = kymo_arch_ticks(&high);

		if (i && after - before >= narrowest)
			continue;
		narrowest = after - before;
		out->ticks_before = before;
		out->monotonic_ns = ns;
		out->ticks_after = after;
	}
	out->realtime_ns = ky_realtime_at_ns(out->monotonic_ns);
}
