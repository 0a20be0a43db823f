/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* http_library.h - libmicrohttpd, loaded when the server is opened: no other command pays for its
 * eleven libraries (GnuTLS among them; 2.6 ms of each start).
 *
 * The names of its functions are those pointers here. None may be called before.
 */
#ifndef KY_SERVE_HTTP_LIBRARY_H
#define KY_SERVE_HTTP_LIBRARY_H

#include <microhttpd.h>
#include <stdbool.h>

extern struct ky_http_library {
	__typeof__(&MHD_start_daemon) start_daemon;
	__typeof__(&MHD_stop_daemon) stop_daemon;
	__typeof__(&MHD_get_connection_info) get_connection_info;
	__typeof__(&MHD_get_connection_values) get_connection_values;
	__typeof__(&MHD_lookup_connection_value) lookup_connection_value;
	__typeof__(&MHD_create_response_from_buffer) create_response_from_buffer;
	__typeof__(&MHD_create_response_from_fd_at_offset64) create_response_from_fd_at_offset64;
	__typeof__(&MHD_add_response_header) add_response_header;
	__typeof__(&MHD_queue_response) queue_response;
	__typeof__(&MHD_destroy_response) destroy_response;
} ky_http_library;

#define MHD_start_daemon ky_http_library.start_daemon
#define MHD_stop_daemon ky_http_library.stop_daemon
#define MHD_get_connection_info ky_http_library.get_connection_info
#define MHD_get_connection_values ky_http_library.get_connection_values
#define MHD_lookup_connection_value ky_http_library.lookup_connection_value
#define MHD_create_response_from_buffer ky_http_library.create_response_from_buffer
#define MHD_create_response_from_fd_at_offset64 ky_http_library.create_response_from_fd_at_offset64
#define MHD_add_response_header ky_http_library.add_response_header
#define MHD_queue_response ky_http_library.queue_response
#define MHD_destroy_response ky_http_library.destroy_response

/* False: it is not installed. Threads: any, once. */
bool ky_http_library_load(void);

#endif
