/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* short_name.h - the name of a future or a function in few columns.
 *
 * From the outside in: what only wraps the future goes first (Pin<Box<..>>, Instrumented<..>,
 * Unconstrained<..>, BlockingTask<..>), then segments in the middle of the path, then what stands
 * in its angle brackets. The crate and the last segments stay. Of "A or B" each is shortened alone.
 *
 * Threads: any.
 */
#ifndef KY_ANALYZE_SHORT_NAME_H
#define KY_ANALYZE_SHORT_NAME_H

#include <stddef.h>
#include <stdint.h>

#define KY_SHORT_NAME_BYTES 1024u /* enough for any name that is not shortened */

/* columns: UINT32_MAX leaves all but a name of more than KY_SHORT_NAME_BYTES as it is, with what
 * wraps it. Returns out. */
const char *ky_short_name(char out[KY_SHORT_NAME_BYTES], const char *name, uint32_t columns);

#endif
