/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* pool_users.h - whose closures have the threads of the blocking pool.
 * Threads:     any.
 */
#ifndef KY_ANALYZE_FINDINGS_POOL_USERS_H
#define KY_ANALYZE_FINDINGS_POOL_USERS_H

#include <analyze/findings/facts.h>

/* Name index of those that had half of the time of these threads in the range, or more: of the
 * closure itself, or where Tokio made it (tokio::fs, a look-up of a name) or the linker folded it
 * with others, of the task that awaits it, if one does. in_line: name of those that stand in line,
 * which a folded name must not have among its own. share_ppm: of the time of all closures. KY_NONE:
 * none has. */
uint32_t ky_pool_user(const struct ky_facts *facts, uint32_t in_line, uint32_t *share_ppm);

#endif
