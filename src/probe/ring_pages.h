/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_pages.h - the ring's pages are no memory of the program's.
 * Threads: any.
 */
#ifndef KY_PROBE_RING_PAGES_H
#define KY_PROBE_RING_PAGES_H

#include <proc/proc_reader.h>
#include <wire/resource_area.h>

/* Takes the ring's pages that the process has in its page tables off a row KY_RESOURCE_USAGE. The
 * peak is taken to have held as many of them as there are now; it is no less than what the process
 * has now. address 0: not known where it is. */
void ky_ring_pages_leave_out(struct ky_resource_row *row, const struct ky_proc_reader *reader,
			     uint64_t address, uint64_t bytes);

#endif
