/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/http_server.h>

#include "../../../src/serve/http_server_absent.c"
#include "../../lib/cmocka_all.h"
#include <string.h>

static void without_the_library_one_sentence_says_what_to_install(void **state)
{
	struct ky_http_options options = {.address = "127.0.0.1"};
	struct ky_http_server *server = (void *)1;
	char error[256], url[8] = "x";

	(void)state;
	assert_int_equal(ky_http_open(&server, &options, error, sizeof(error)), -ENOSYS);
	assert_null(server);
	assert_non_null(strstr(error, "libmicrohttpd-dev"));
	assert_null(strchr(error, '\n'));
	ky_http_url(server, url, sizeof(url));
	assert_string_equal(url, "");
	ky_http_tend(server);
	ky_http_close(server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_library_one_sentence_says_what_to_install),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
