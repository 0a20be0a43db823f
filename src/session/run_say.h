/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_say.h - one line on standard error, in one write, so that it does not tear CMD's own output.
 * Threads: any.
 */
#ifndef KY_SESSION_RUN_SAY_H
#define KY_SESSION_RUN_SAY_H

__attribute__((format(printf, 1, 2))) void ky_run_say(const char *format, ...);

#endif
