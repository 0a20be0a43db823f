/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* testpoint.h - named places where a test may stop or step in; nothing at all in ordinary builds.
 *
 * A test build defines KY_TESTPOINTS and provides ky_testpoint(), which is called with the name.
 */
#ifndef KY_BASE_TESTPOINT_H
#define KY_BASE_TESTPOINT_H

#if defined(KY_TESTPOINTS)
void ky_testpoint(const char *name);
#define KY_TESTPOINT(name) ky_testpoint(name)
#else
#define KY_TESTPOINT(name) ((void)0)
#endif

#endif
