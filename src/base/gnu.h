/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* gnu.h - first include of a source that needs more of libc than POSIX names: the host's side must
 * build with a bare compiler, where no build system defines this.
 */
#ifndef KY_BASE_GNU_H
#define KY_BASE_GNU_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#endif
