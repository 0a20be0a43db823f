/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The four requests whose signatures AWS publishes, and the rules at their edges. */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"

#include <errno.h>
#include <kymo/base.h>
#include <send/sigv4.h>
#include <string.h>

#define NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define DATE "20130524T000000Z"
#define HOST "examplebucket.s3.amazonaws.com"

static const struct ky_sigv4_key key = {
	"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1", "s3"};

static int sign(const struct ky_sigv4_request *request, char *out, size_t out_bytes)
{
	struct ky_buf buf;
	int err;

	ky_buf_init(&buf, 0);
	err = ky_sigv4_sign(&buf, request, &key);
	if (!err) {
		assert_true(buf.used < out_bytes);
		memcpy(out, buf.bytes, buf.used);
		out[buf.used] = '\0';
	}
	ky_buf_release(&buf);
	return err;
}

static void assert_signature(const struct ky_sigv4_request *request, const char *names,
			     const char *signature)
{
	char out[1024];

	assert_int_equal(sign(request, out, sizeof(out)), 0);
	assert_string_equal(strstr(out, "Signature=") + 10, signature);
	assert_memory_equal(strstr(out, "SignedHeaders=") + 14, names, strlen(names));
}

static void sigv4__gives_what_aws_publishes(void **state)
{
	const struct ky_sigv4_pair get[] = {{"x-amz-date", DATE},
					    {"range", "bytes=0-9"},
					    {"x-amz-content-sha256", NOTHING},
					    {"host", HOST}};
	const char *body = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
	const struct ky_sigv4_pair put[] = {{"host", HOST},
					    {"date", "Fri, 24 May 2013 00:00:00 GMT"},
					    {"x-amz-date", DATE},
					    {"x-amz-content-sha256", body},
					    {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
	const struct ky_sigv4_pair plain[] = {
		{"host", HOST}, {"x-amz-content-sha256", NOTHING}, {"x-amz-date", DATE}};
	const struct ky_sigv4_pair lifecycle = {"lifecycle", NULL};
	const struct ky_sigv4_pair list[] = {{"prefix", "J"}, {"max-keys", "2"}};

	(void)state;
	assert_signature(&(const struct ky_sigv4_request){"GET", "/test.txt", NULL, 0, get, 4,
							  NOTHING, DATE},
			 "host;range;x-amz-content-sha256;x-amz-date,",
			 "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
	assert_signature(&(const struct ky_sigv4_request){"PUT", "/test$file.text", NULL, 0, put, 5,
							  body, DATE},
			 "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class,",
			 "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
	assert_signature(&(const struct ky_sigv4_request){"GET", "/", &lifecycle, 1, plain, 3,
							  NOTHING, DATE},
			 "host;x-amz-content-sha256;x-amz-date,",
			 "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
	assert_signature(&(const struct ky_sigv4_request){"GET", "/", list, 2, plain, 3, NOTHING,
							  DATE},
			 "host;x-amz-content-sha256;x-amz-date,",
			 "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void target__encodes_once_and_sorts_by_name(void **state)
{
	const struct ky_sigv4_pair query[] = {
		{"a-", "1"}, {"a", "2"}, {"a", "1/ +"}, {"uploads", NULL}};
	struct ky_buf out;

	(void)state;
	ky_buf_init(&out, 0);
	assert_int_equal(ky_sigv4_target(&out, "/b/x=1:*+ %/\xc3\xa4~", query, 4), 0);
	assert_int_equal(ky_buf_append(&out, "", 1), 0);
	assert_string_equal((const char *)out.bytes,
			    "/b/x%3D1%3A%2A%2B%20%25/%C3%A4~?a=1%2F%20%2B&a=2&a-=1&uploads=");
	ky_buf_release(&out);
}

/* What other tools sign is a value without blanks at its ends and with one between its words. */
static void sign__takes_one_blank_for_many(void **state)
{
	const struct ky_sigv4_pair loose[] = {{"host", "h"}, {"x-amz-meta-a", "  one \t two  "}},
				   tight[] = {{"host", "h"}, {"x-amz-meta-a", "one two"}};
	char a[1024], b[1024];

	(void)state;
	assert_int_equal(sign(&(const struct ky_sigv4_request){"PUT", "/k", NULL, 0, loose, 2,
							       KY_SIGV4_UNSIGNED, DATE},
			      a, sizeof(a)),
			 0);
	assert_int_equal(sign(&(const struct ky_sigv4_request){"PUT", "/k", NULL, 0, tight, 2,
							       KY_SIGV4_UNSIGNED, DATE},
			      b, sizeof(b)),
			 0);
	assert_string_equal(a, b);
}

static void sign__has_limits_and_survives_want_of_memory(void **state)
{
	static struct ky_sigv4_pair many[KY_SIGV4_PAIRS_MAX + 1];
	const struct ky_sigv4_pair host = {"host", "h"};
	struct ky_sigv4_request request = {"GET", "/", &host, 1, &host, 1, NOTHING, DATE};
	char out[1024];

	(void)state;
	for (size_t i = 0; i < KY_SIGV4_PAIRS_MAX + 1; i++)
		many[i] = host;
	for (uint64_t n = 0;; n++) {
		int err;

		test_alloc_fail_at(n);
		err = sign(&request, out, sizeof(out));
		test_alloc_normal();
		if (!err)
			break;
		assert_int_equal(err, -ENOMEM);
	}
	request.query = many;
	request.query_count = KY_SIGV4_PAIRS_MAX + 1;
	assert_int_equal(sign(&request, out, sizeof(out)), KYMO_E_LIMIT);
}

static void date__is_utc(void **state)
{
	char text[KY_SIGV4_DATE_BYTES];

	(void)state;
	ky_sigv4_date(text, UINT64_C(1369353600) * 1000000000u);
	assert_string_equal(text, DATE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sigv4__gives_what_aws_publishes),
		cmocka_unit_test(target__encodes_once_and_sorts_by_name),
		cmocka_unit_test(sign__takes_one_blank_for_many),
		cmocka_unit_test(sign__has_limits_and_survives_want_of_memory),
		cmocka_unit_test(date__is_utc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
