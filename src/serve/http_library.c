/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/http_library.h>

#include <base/library.h>

/* Of version 0.9.75, as Debian 12 has it; the number is that of its binary interface. */
#define LIBRARY "libmicrohttpd.so.12"

struct ky_http_library ky_http_library;

bool ky_http_library_load(void)
{
	struct ky_http_library *mhd = &ky_http_library;
	const struct ky_library_function wanted[] = {
		{&mhd->start_daemon, "MHD_start_daemon"},
		{&mhd->stop_daemon, "MHD_stop_daemon"},
		{&mhd->get_connection_info, "MHD_get_connection_info"},
		{&mhd->get_connection_values, "MHD_get_connection_values"},
		{&mhd->lookup_connection_value, "MHD_lookup_connection_value"},
		{&mhd->create_response_from_buffer, "MHD_create_response_from_buffer"},
		{&mhd->create_response_from_fd_at_offset64,
		 "MHD_create_response_from_fd_at_offset64"},
		{&mhd->add_response_header, "MHD_add_response_header"},
		{&mhd->queue_response, "MHD_queue_response"},
		{&mhd->destroy_response, "MHD_destroy_response"},
	};

	return ky_library_find(dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL), wanted,
			       sizeof(wanted) / sizeof(wanted[0]));
}
