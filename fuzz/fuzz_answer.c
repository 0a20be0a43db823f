/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes as what a server answers, as the list of what was sent, and as the name of a place.
 * Promises: a text that is taken is printable ASCII and fits; what is not found is ""; a list that
 *           was opened once opens again as the same; a place has a bucket, and no part of its
 *           prefix is empty, "." or "..". */
#include "fuzz_target.h"

#include <fcntl.h>
#include <send/answer.h>
#include <send/s3_client.h>
#include <ship/sent_list.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_text(bool is_found, const char *text, size_t capacity)
{
	size_t bytes = strlen(text);

	FUZZ_CHECK(bytes < capacity);
	FUZZ_CHECK(is_found || bytes == 0);
	for (size_t i = 0; i < bytes; i++)
		FUZZ_CHECK(text[i] >= ' ' && text[i] <= '~');
}

static void check_place(const uint8_t *bytes, size_t count)
{
	char *text = malloc(count + 1), why[KY_HTTP_ERROR_BYTES] = "";
	struct ky_s3_place place;

	FUZZ_CHECK(text);
	if (count)
		memcpy(text, bytes, count);
	text[count] = 0;
	if (ky_s3_place_parse(&place, text, why) == 0) {
		FUZZ_CHECK(place.bucket[0] && strlen(place.bucket) < sizeof(place.bucket));
		FUZZ_CHECK(!strstr(place.prefix, "//") && !strstr(place.prefix, "/../"));
		FUZZ_CHECK(place.prefix[0] != '/' && strcmp(place.prefix, "..") != 0);
	} else {
		FUZZ_CHECK(why[0]);
	}
	free(text);
}

static void check_list(const uint8_t *bytes, size_t count)
{
	char top[] = "/tmp/kymo-fuzz-XXXXXX", name[KY_SENT_LIST_NAME_BYTES];
	struct ky_sent_list list, again;
	int top_fd, fd;

	FUZZ_CHECK(mkdtemp(top));
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ky_sent_list_name(name, "x");
	fd = openat(top_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
	close(fd);
	FUZZ_CHECK(ky_sent_list_open(&list, top_fd, "x") == 0);
	FUZZ_CHECK(list.taken.count <= count / 6 && list.lost_count <= count / 6);
	FUZZ_CHECK(ky_sent_list_add(&list, "000001.trc") == 0);
	ky_sent_list_close(&list);
	FUZZ_CHECK(ky_sent_list_open(&again, top_fd, "x") == 0);
	FUZZ_CHECK(ky_sent_list_has(&again, "000001.trc"));
	ky_sent_list_close(&again);
	ky_sent_lists_remove(top_fd);
	close(top_fd);
	FUZZ_CHECK(rmdir(top) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static const char *const names[] = {"Code", "Region", "AccessKeyId", "a"};
	char out[24];
	bool is_found;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		is_found = ky_answer_xml(bytes, count, names[i], out, sizeof(out));
		check_text(is_found, out, sizeof(out));
		is_found = ky_answer_json(bytes, count, names[i], out, sizeof(out));
		check_text(is_found, out, sizeof(out));
	}
	check_place(bytes, count);
	check_list(bytes, count);
	return 0;
}
