/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* chain_groups.h - links of a chain that say the same, added up while it is made.
 * Threads: owner.
 */
#ifndef KY_ANALYZE_CHAIN_GROUPS_H
#define KY_ANALYZE_CHAIN_GROUPS_H

#include <analyze/chain.h>

/* Each returns whether memory was short. */
/* A link of this poll, or of a part of it. */
bool ky_chain_groups_poll(struct ky_task_chain *chain, const struct ky_link *link,
			  const struct ky_poll *poll);
/* A whole delay of the task, by its parts. */
bool ky_chain_groups_ready(struct ky_task_chain *chain, uint32_t task,
			   const struct ky_delay *delay);
/* All links that are none of the two; then the order. */
bool ky_chain_groups_finish(struct ky_task_chain *chain);

#endif
