/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unsealed.h - which files of a trace of ours lack the index that ends a whole one.
 *
 * A torn tail has its own notice, and the live segment of a run, named .active, cannot have one.
 * Threads: owner.
 */
#ifndef KY_ANALYZE_UNSEALED_H
#define KY_ANALYZE_UNSEALED_H

#include <stdbool.h>
#include <stdint.h>

struct ky_unsealed {
	const char *first; /* name of the first one, the caller's */
	uint32_t count;
	bool is_kymo; /* an event was met that only we write: others know no seal */
};

/* A kind of event (KY_EV_) that was met. */
void ky_unsealed_event(struct ky_unsealed *unsealed, uint32_t event);

/* One file, read to its end. */
void ky_unsealed_note(struct ky_unsealed *unsealed, const char *name, bool is_sealed, bool is_torn,
		      uint64_t event_count);

#endif
