/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* http_library.h - libmicrohttpd, loaded when the server is opened: no other command pays for its
 * eleven libraries (GnuTLS among them; 2.6 ms of each start).
 *
 * Ours are functions of the same names, which jump into the library. None may be called before.
 */
#ifndef KY_SERVE_HTTP_LIBRARY_H
#define KY_SERVE_HTTP_LIBRARY_H

#include <stdbool.h>

/* False: it is not installed. Threads: any, once. */
bool ky_http_library_load(void);

#endif
