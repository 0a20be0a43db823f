/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <bucket/listing_page.h>
#include <stdio.h>
#include <string.h>

static struct {
	struct ky_list_entry entries[4];
	char prefixes[4][KY_LIST_KEY_BYTES];
	uint32_t count, prefix_count;
} seen;

static int on_object(void *ctx, const struct ky_list_entry *entry)
{
	(void)ctx;
	if (seen.count < 4)
		seen.entries[seen.count] = *entry;
	seen.count++;
	return 0;
}

static int on_prefix(void *ctx, const char *prefix)
{
	(void)ctx;
	if (seen.prefix_count < 4)
		snprintf(seen.prefixes[seen.prefix_count], KY_LIST_KEY_BYTES, "%s", prefix);
	seen.prefix_count++;
	return 0;
}

static struct ky_listing_page page;

static void read_text(const char *text)
{
	memset(&seen, 0, sizeof(seen));
	page.object = on_object;
	page.prefix = on_prefix;
	assert_int_equal(ky_listing_page_read(&page, (const uint8_t *)text, strlen(text)), 0);
}

static void a_page__is_read_whole(void **state)
{
	(void)state;
	read_text("<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/\">"
		  "<Name>b</Name><Prefix>pre/</Prefix><KeyCount>2</KeyCount>"
		  "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
		  "<NextContinuationToken>1/a&amp;b=</NextContinuationToken>"
		  "<Contents><ETag>&quot;0a1b&quot;</ETag><Key>pre/a%20b+c%2Bd%3D1.trc</Key>"
		  "<Size>42</Size></Contents>"
		  "<Contents><Key>pre/x.trc.zst</Key><Size>18446744073709551615</Size></Contents>"
		  "<CommonPrefixes><Prefix>pre/service%3Dweb/</Prefix></CommonPrefixes>"
		  "</ListBucketResult>");
	assert_true(page.is_list);
	assert_true(page.is_more);
	assert_string_equal(page.token, "1/a&b=");
	assert_int_equal(page.odd_count, 0);
	assert_int_equal(seen.count, 2);
	assert_string_equal(seen.entries[0].key, "pre/a b c+d=1.trc");
	assert_string_equal(seen.entries[0].etag, "\"0a1b\"");
	assert_int_equal(seen.entries[0].bytes, 42);
	assert_string_equal(seen.entries[1].etag, "");
	assert_true(seen.entries[1].bytes == UINT64_MAX);
	assert_int_equal(seen.prefix_count, 1);
	assert_string_equal(seen.prefixes[0], "pre/service=web/");
}

static void without_encoding__a_percent_is_itself(void **state)
{
	(void)state;
	read_text("<ListBucketResult><IsTruncated>false</IsTruncated><Contents>"
		  "<Key>a+%20&lt;&#228;&#x20AC;&#x1F600;&gt;.trc</Key><Size>1</Size></Contents>"
		  "</ListBucketResult>");
	assert_false(page.is_more);
	assert_int_equal(seen.count, 1);
	assert_string_equal(seen.entries[0].key, "a+%20<\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80>.trc");
}

static void what_is_no_name__is_counted_and_left_out(void **state)
{
	static const char *const odd[] = {
		"<Key>a%00.trc</Key><Size>1</Size>",
		"<Key>a%2</Key><Size>1</Size>",
		"<Key>a&unknown;</Key><Size>1</Size>",
		"<Key>a&#0;</Key><Size>1</Size>",
		"<Key>a</Key><Size>-1</Size>",
		"<Key>a</Key><Size>1x</Size>",
		"<Key>a</Key>",
		"<Size>1</Size>",
		"<Key>a&#x110000;</Key><Size>1</Size>",
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		snprintf(text, sizeof(text),
			 "<ListBucketResult><EncodingType>url</EncodingType><Contents>%s"
			 "</Contents></ListBucketResult>",
			 odd[i]);
		read_text(text);
		assert_int_equal(seen.count, 0);
		assert_int_equal(page.odd_count, 1);
	}
}

static void a_key_longer_than_s3_allows__is_left_out(void **state)
{
	static char text[4096];
	char key[1026];

	(void)state;
	for (size_t bytes = 1024; bytes <= 1025; bytes++) {
		memset(key, 'k', bytes);
		key[bytes] = '\0';
		snprintf(text, sizeof(text),
			 "<ListBucketResult><Contents><Key>%s</Key><Size>1</Size></Contents>"
			 "</ListBucketResult>",
			 key);
		read_text(text);
		assert_int_equal(seen.count, bytes == 1024);
		assert_int_equal(page.odd_count, bytes == 1025);
	}
}

static void another_document__is_no_list(void **state)
{
	(void)state;
	read_text("<html><Contents><Key>a.trc</Key><Size>1</Size></Contents></html>");
	assert_false(page.is_list);
	assert_int_equal(seen.count, 0);
	read_text("<ListBucketResult><Contents><Key>a.trc</Key><Size>1</Size>");
	assert_true(page.is_list);
	assert_int_equal(seen.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page__is_read_whole),
		cmocka_unit_test(without_encoding__a_percent_is_itself),
		cmocka_unit_test(what_is_no_name__is_counted_and_left_out),
		cmocka_unit_test(a_key_longer_than_s3_allows__is_left_out),
		cmocka_unit_test(another_document__is_no_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
