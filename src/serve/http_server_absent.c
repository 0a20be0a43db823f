/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* In place of http_server.c where libmicrohttpd is not installed. */
#include <serve/http_server.h>

#include <errno.h>
#include <stdio.h>

int ky_http_open(struct ky_http_server **out, const struct ky_http_options *options, char *error,
		 size_t error_bytes)
{
	(void)options;
	*out = NULL;
	(void)snprintf(error, error_bytes,
		       "this kymo was built without libmicrohttpd, so it cannot serve; install "
		       "libmicrohttpd-dev and build it again, or use `kymo open`");
	return -ENOSYS;
}

void ky_http_url(const struct ky_http_server *server, char *out, size_t out_bytes)
{
	(void)server;
	if (out_bytes)
		out[0] = '\0';
}

void ky_http_tend(struct ky_http_server *server)
{
	(void)server;
}

void ky_http_close(struct ky_http_server *server)
{
	(void)server;
}
