/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_drainer.h>

#include <ring/ring_keep.h>
#include <ring/ring_process.h>
#include <string.h>

void ky_ring_drainer_find(struct ky_ring_drainer *out, const struct ky_found_ring *found,
			  const struct ky_open_ring *ring)
{
	int claim = ky_ring_is_claimed(ring->fd);

	memset(out, 0, sizeof(*out));
	out->is_claimed = claim > 0;
	if (found->state != KY_FOUND_ALIVE)
		return;
	out->is_own = found->pid != 0 && ky_ring_process_has_thread(found->pid, KY_DRAIN_THREAD);
	/* A process that has merely opened it dumps or reads it. One without a file is drained
	 * unclaimed. */
	if (claim == 0 && !found->is_anonymous)
		return;
	out->holder = ky_ring_process_holder(found->device, found->inode, found->pid);
	if (out->holder != 0)
		ky_ring_process_command(out->holder, out->name);
}

bool ky_ring_is_drained(const struct ky_found_ring *found, const struct ky_open_ring *ring)
{
	struct ky_ring_drainer drainer;

	if (ky_ring_is_claimed(ring->fd) > 0)
		return true;
	ky_ring_drainer_find(&drainer, found, ring);
	return drainer.is_own || drainer.is_claimed || drainer.holder != 0;
}
