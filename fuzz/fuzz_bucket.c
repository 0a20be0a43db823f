/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes as a page of a bucket's listing, as the name of an object, and as the end of a segment.
 * Promises: what is read of a name fits; a time has its end after its begin; the rows of a map lie
 *           one after the other inside the file, and no more bytes of a segment's end are asked for
 *           than there are. */
#include "fuzz_target.h"

#include <bucket/listing_page.h>
#include <bucket/object_key.h>
#include <bucket/segment_map.h>
#include <string.h>

static void check_key(const char *key)
{
	struct ky_object_key facts;
	struct ky_object_long slow;

	if (ky_object_long_read(&slow, key)) {
		FUZZ_CHECK(memchr(slow.service, 0, sizeof(slow.service)));
		FUZZ_CHECK(slow.hours >= 2 && slow.hours <= KY_OBJECT_HOURS_MAX);
		FUZZ_CHECK(slow.hour_unix_ns < UINT64_MAX / 2);
	}
	if (!ky_object_key_read(&facts, key))
		return;
	FUZZ_CHECK(memchr(facts.service, 0, sizeof(facts.service)));
	FUZZ_CHECK(memchr(facts.host, 0, sizeof(facts.host)));
	FUZZ_CHECK(memchr(facts.run, 0, sizeof(facts.run)));
	FUZZ_CHECK(facts.form != KY_OBJECT_PLAIN || !facts.start_unix_ns);
	FUZZ_CHECK(!facts.end_unix_ns || facts.end_unix_ns > facts.start_unix_ns);
}

static int on_object(void *ctx, const struct ky_list_entry *entry)
{
	(void)ctx;
	FUZZ_CHECK(memchr(entry->key, 0, sizeof(entry->key)));
	FUZZ_CHECK(memchr(entry->etag, 0, sizeof(entry->etag)));
	FUZZ_CHECK(!strpbrk(entry->etag, "\r\n"));
	check_key(entry->key);
	return 0;
}

static int on_prefix(void *ctx, const char *prefix)
{
	(void)ctx;
	FUZZ_CHECK(strlen(prefix) < KY_LIST_KEY_BYTES);
	return 0;
}

static void check_map(const uint8_t *bytes, size_t count)
{
	struct ky_segment_map map;
	int64_t result = ky_segment_map_read(&map, bytes, count, count);

	FUZZ_CHECK(result <= 0 || (uint64_t)result <= count || count < 9);
	for (uint32_t i = 0; result == 0 && i < map.count; i++) {
		FUZZ_CHECK(map.chunks[i].stored_at + map.chunks[i].stored_bytes <= count);
		FUZZ_CHECK(i == 0 ||
			   map.chunks[i].stored_at ==
				   map.chunks[i - 1].stored_at + map.chunks[i - 1].stored_bytes);
	}
	ky_segment_map_release(&map);
	result = ky_segment_map_read(&map, bytes, count, UINT64_MAX / 2);
	FUZZ_CHECK(result != 0);
	ky_segment_map_release(&map);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static struct ky_listing_page page;
	char *text = malloc(count + 1);

	FUZZ_CHECK(text);
	if (count)
		memcpy(text, bytes, count);
	text[count] = '\0';
	check_key(text);
	free(text);
	page.object = on_object;
	page.prefix = on_prefix;
	FUZZ_CHECK(ky_listing_page_read(&page, bytes, count) == 0);
	FUZZ_CHECK(memchr(page.token, 0, sizeof(page.token)));
	check_map(bytes, count);
	return 0;
}
