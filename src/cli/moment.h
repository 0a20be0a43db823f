/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* moment.h - points in time as people write them on a command line.
 *
 *   1.5s 20ms 3us 7ns 2m 1h     after the start of the trace (a DURATION, base/quantity.h)
 *   @123456789                  nanoseconds of the trace's own clock
 *   2026-05-18T12:30:00.25Z     wall clock, UTC; the Z may be missing, a space may stand for the T
 */
#ifndef KY_CLI_MOMENT_H
#define KY_CLI_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

enum ky_moment_kind {
	KY_MOMENT_NONE,
	KY_MOMENT_RELATIVE,
	KY_MOMENT_ABSOLUTE,
	KY_MOMENT_WALL
};

struct ky_moment {
	uint32_t kind; /* enum ky_moment_kind */
	uint64_t ns;
};

/* Returns 0, -EINVAL, -ERANGE. */
int ky_moment_parse(struct ky_moment *out, const char *text);

/* In the trace's clock. sync: one reading of the wall clock, both 0: none.
 * Returns 0; -ENODATA: wall clock wanted and unknown. Moments before clock 0 become 0. */
int ky_moment_resolve(const struct ky_moment *moment, uint64_t start_ns, uint64_t sync_monotonic_ns,
		      uint64_t sync_realtime_ns, uint64_t *out);

#endif
