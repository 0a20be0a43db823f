/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/http_library.h>

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

/* Of version 0.9.75, as Debian 12 has it; the number is that of its binary interface. */
#define LIBRARY "libmicrohttpd.so.12"

static struct {
	__typeof__(&MHD_start_daemon_va) start_daemon_va;
	__typeof__(&MHD_stop_daemon) stop_daemon;
	__typeof__(&MHD_get_connection_info) get_connection_info;
	__typeof__(&MHD_get_connection_values) get_connection_values;
	__typeof__(&MHD_lookup_connection_value) lookup_connection_value;
	__typeof__(&MHD_create_response_from_buffer) create_response_from_buffer;
	__typeof__(&MHD_create_response_from_fd_at_offset64) create_response_from_fd_at_offset64;
	__typeof__(&MHD_add_response_header) add_response_header;
	__typeof__(&MHD_queue_response) queue_response;
	__typeof__(&MHD_destroy_response) destroy_response;
} mhd;

static bool find(void *library, void *out, const char *name)
{
	void *found = dlsym(library, name);

	memcpy(out, &found, sizeof(found));
	return found != NULL;
}

bool ky_http_library_load(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	return library && find(library, &mhd.start_daemon_va, "MHD_start_daemon_va") &&
	       find(library, &mhd.stop_daemon, "MHD_stop_daemon") &&
	       find(library, &mhd.get_connection_info, "MHD_get_connection_info") &&
	       find(library, &mhd.get_connection_values, "MHD_get_connection_values") &&
	       find(library, &mhd.lookup_connection_value, "MHD_lookup_connection_value") &&
	       find(library, &mhd.create_response_from_buffer, "MHD_create_response_from_buffer") &&
	       find(library, &mhd.create_response_from_fd_at_offset64,
		    "MHD_create_response_from_fd_at_offset64") &&
	       find(library, &mhd.add_response_header, "MHD_add_response_header") &&
	       find(library, &mhd.queue_response, "MHD_queue_response") &&
	       find(library, &mhd.destroy_response, "MHD_destroy_response");
}

struct MHD_Daemon *ky_http_start_daemon(unsigned int flags, uint16_t port,
					MHD_AcceptPolicyCallback accept, void *accept_ctx,
					MHD_AccessHandlerCallback handler, void *handler_ctx, ...)
{
	struct MHD_Daemon *daemon;
	va_list options;

	va_start(options, handler_ctx);
	daemon = mhd.start_daemon_va(flags, port, accept, accept_ctx, handler, handler_ctx,
				     options);
	va_end(options);
	return daemon;
}

void ky_http_stop_daemon(struct MHD_Daemon *daemon)
{
	mhd.stop_daemon(daemon);
}

const union MHD_ConnectionInfo *ky_http_get_connection_info(struct MHD_Connection *connection,
							    enum MHD_ConnectionInfoType type, ...)
{
	return mhd.get_connection_info(connection, type);
}

int ky_http_get_connection_values(struct MHD_Connection *connection, enum MHD_ValueKind kind,
				  MHD_KeyValueIterator each, void *ctx)
{
	return mhd.get_connection_values(connection, kind, each, ctx);
}

const char *ky_http_lookup_connection_value(struct MHD_Connection *connection,
					    enum MHD_ValueKind kind, const char *key)
{
	return mhd.lookup_connection_value(connection, kind, key);
}

struct MHD_Response *ky_http_create_response_from_buffer(size_t bytes, void *buffer,
							 enum MHD_ResponseMemoryMode mode)
{
	return mhd.create_response_from_buffer(bytes, buffer, mode);
}

struct MHD_Response *ky_http_create_response_from_fd_at_offset64(uint64_t bytes, int fd,
								 uint64_t offset)
{
	return mhd.create_response_from_fd_at_offset64(bytes, fd, offset);
}

enum MHD_Result ky_http_add_response_header(struct MHD_Response *response, const char *name,
					    const char *value)
{
	return mhd.add_response_header(response, name, value);
}

enum MHD_Result ky_http_queue_response(struct MHD_Connection *connection, unsigned int status,
				       struct MHD_Response *response)
{
	return mhd.queue_response(connection, status, response);
}

void ky_http_destroy_response(struct MHD_Response *response)
{
	mhd.destroy_response(response);
}
