/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* http_library.h - libmicrohttpd, loaded when the server is opened: no other command pays for its
 * eleven libraries (GnuTLS among them; 2.6 ms of each start).
 *
 * Its functions have names of ours here, which jump into it. None may be called before.
 */
#ifndef KY_SERVE_HTTP_LIBRARY_H
#define KY_SERVE_HTTP_LIBRARY_H

#include <microhttpd.h>
#include <stdbool.h>

extern __typeof__(MHD_start_daemon) ky_http_start_daemon;
extern __typeof__(MHD_stop_daemon) ky_http_stop_daemon;
extern __typeof__(MHD_get_connection_info) ky_http_get_connection_info;
extern __typeof__(MHD_get_connection_values) ky_http_get_connection_values;
extern __typeof__(MHD_lookup_connection_value) ky_http_lookup_connection_value;
extern __typeof__(MHD_create_response_from_buffer) ky_http_create_response_from_buffer;
extern __typeof__(MHD_create_response_from_fd_at_offset64)
	ky_http_create_response_from_fd_at_offset64;
extern __typeof__(MHD_add_response_header) ky_http_add_response_header;
extern __typeof__(MHD_queue_response) ky_http_queue_response;
extern __typeof__(MHD_destroy_response) ky_http_destroy_response;

#define MHD_start_daemon ky_http_start_daemon
#define MHD_stop_daemon ky_http_stop_daemon
#define MHD_get_connection_info ky_http_get_connection_info
#define MHD_get_connection_values ky_http_get_connection_values
#define MHD_lookup_connection_value ky_http_lookup_connection_value
#define MHD_create_response_from_buffer ky_http_create_response_from_buffer
#define MHD_create_response_from_fd_at_offset64 ky_http_create_response_from_fd_at_offset64
#define MHD_add_response_header ky_http_add_response_header
#define MHD_queue_response ky_http_queue_response
#define MHD_destroy_response ky_http_destroy_response

/* False: it is not installed. Threads: any, once. */
bool ky_http_library_load(void);

#endif
