/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes as a request of a browser: a line for the path, and one for each header that is read; or,
 * after "M", as a segment whose index is shown and cut.
 * Promises: what is read of a path lies in it; an id has its length and its letters; a range lies
 *           in the file; a foreign host is none of ours; a map is JSON of as many pieces as were
 *           asked for; the same bytes give the same map. */
#include "fuzz_target.h"

#include <serve/http_check.h>
#include <serve/http_place.h>
#include <serve/trace_map.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINES 6u
#define LINE_BYTES 4096u
#define PORT 8080u

/* ---- a request ---- */

static void check_ids(const char *list)
{
	const char *end = list + strlen(list);
	char id[KY_HTTP_ID_BYTES];
	uint32_t count = 0;

	while (ky_http_next_id(&list, id) == 1) {
		FUZZ_CHECK(strlen(id) == KY_HTTP_ID_BYTES - 1);
		FUZZ_CHECK(strspn(id, "0123456789abcdef") == KY_HTTP_ID_BYTES - 1);
		FUZZ_CHECK(list <= end);
		FUZZ_CHECK(++count <= LINE_BYTES);
	}
}

static void check_path(const char *path)
{
	const char *rest = NULL;
	uint64_t number = 0;
	enum ky_http_what what = ky_http_what(path, &rest);

	FUZZ_CHECK(what == KY_HTTP_NOTHING || rest == path + strlen(path) - strlen(rest));
	check_ids(path);
	if (what == KY_HTTP_MAP || what == KY_HTTP_MAP_PART)
		check_ids(rest);
	if (ky_http_number(path, 1000, &number))
		FUZZ_CHECK(number <= 1000 && strspn(path, "0123456789") == strlen(path));
}

static void check_host(const char *host)
{
	if (!ky_http_host_is_ours(host, "127.0.0.1", PORT))
		return;
	FUZZ_CHECK(strstr(host, "8080") != NULL);
	FUZZ_CHECK(strcspn(host, "/@? ") == strlen(host));
}

static void check_request(char lines[LINES][LINE_BYTES])
{
	uint64_t from = 0, count = 0, sizes[] = {0, 1, 4096, UINT64_MAX};

	check_path(lines[0]);
	check_host(lines[1]);
	if (ky_http_origin_is_ours(lines[2], "127.0.0.1", PORT))
		FUZZ_CHECK(strncmp(lines[2], "http://", 7) == 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (ky_http_range(lines[3], sizes[i], &from, &count) == KY_HTTP_PART)
			FUZZ_CHECK(count > 0 && from < sizes[i] && count <= sizes[i] - from);
	if (ky_http_accepts(lines[4], "zstd"))
		FUZZ_CHECK(strlen(lines[4]) >= 4);
	(void)ky_http_etag_is_in(lines[5], "\"0123-45-67\"");
	(void)ky_http_token_is(lines[0], "0123456789abcdef0123456789abcdef",
			       KY_HTTP_TOKEN_BYTES - 1);
}

static void cut_lines(char lines[LINES][LINE_BYTES], const uint8_t *bytes, size_t count)
{
	for (uint32_t i = 0; i < LINES && count; i++) {
		const uint8_t *end = memchr(bytes, '\n', count);
		size_t length = end ? (size_t)(end - bytes) : count;
		size_t kept = length < LINE_BYTES ? length : LINE_BYTES - 1;

		memcpy(lines[i], bytes, kept);
		length += end != NULL;
		bytes += length;
		count -= length;
	}
}

/* ---- a segment ---- */

static int make_file(const uint8_t *bytes, size_t count)
{
	int fd = memfd_create("segment", MFD_CLOEXEC);

	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(write(fd, bytes, count) == (ssize_t)count);
	return fd;
}

static uint64_t show_map(const uint8_t *bytes, size_t count)
{
	static const struct ky_map_view views[] = {{0, 0, 100}, {0, 1, 1}, {1000000, 2000000, 7}};
	struct ky_trace_map map = {.count = 0};
	const struct ky_served_file one = {.fd = make_file(bytes, count), .bytes = count};
	const struct ky_served_file other = {.fd = make_file(bytes, count), .bytes = count};
	uint64_t digest = 0;
	struct ky_buf out;
	int err = ky_trace_map_add(&map, &one, "0123456789abcdef");
	int second = ky_trace_map_add(&map, &other, "0123456789abcdee");

	ky_buf_init(&out, 0);
	if (!err && !second && !ky_trace_map_finish(&map)) {
		for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
			ky_buf_clear(&out);
			ky_trace_map_json(&out, &map, &views[i]);
			FUZZ_CHECK(!out.failed && out.used > 2 && out.bytes[0] == '{');
			FUZZ_CHECK(memcmp(out.bytes + out.used - 2, "}\n", 2) == 0);
			digest = fuzz_digest(digest, out.bytes, out.used);
			ky_buf_clear(&out);
			(void)ky_trace_map_part(&out, &map, views[i].from_ns,
						views[i].to_ns ? views[i].to_ns : UINT64_MAX / 2);
			digest = fuzz_digest(digest, out.bytes, out.used);
		}
	}
	ky_buf_release(&out);
	ky_trace_map_release(&map);
	return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static char lines[LINES][LINE_BYTES];

	if (count && bytes[0] == 'M') {
		FUZZ_CHECK(show_map(bytes + 1, count - 1) == show_map(bytes + 1, count - 1));
		return 0;
	}
	memset(lines, 0, sizeof(lines));
	cut_lines(lines, bytes, count);
	check_request(lines);
	return 0;
}
