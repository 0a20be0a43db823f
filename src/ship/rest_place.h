/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rest_place.h - where what a dead process left in its ring belongs: the next segment of the run
 * that its recorder wrote to, when that is below a directory of traces.
 *
 * Invariants:  the run's lock is held, so that no recorder writes to it, and no sender seals what
 *              is still to be trimmed.
 * Threads:     owner.
 */
#ifndef KY_SHIP_REST_PLACE_H
#define KY_SHIP_REST_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct ky_rest_place {
	int run_fd, lock_fd;
};

/* run: as the ring notes it. Returns 0; -ENOENT: it is no run below `directory`; -EBUSY: a process
 * records into it, or recovers; -errno. */
int ky_rest_place_open(struct ky_rest_place *place, const char *directory, const char *run);
void ky_rest_place_close(struct ky_rest_place *place); /* of one that is not open, too */

/* A number after those of all segments that are there. Returns 0, -errno. */
int ky_rest_place_next(const struct ky_rest_place *place, uint32_t *number);
/* Whatever it is packed as. */
bool ky_rest_place_has(const struct ky_rest_place *place, uint32_t number);

#endif
