/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "send_case.h"

#include <errno.h>
#include <fcntl.h>
#include <send/segment_walk.h>
#include <sys/stat.h>
#include <unistd.h>

struct seen {
	char text[2048];
	uint32_t owner_pid;
	uint32_t runs_max;
};

static bool note(void *ctx, const struct ky_walk_run *run)
{
	struct seen *seen = ctx;
	size_t used = strlen(seen->text);

	for (uint32_t i = 0; i < run->segment_count; i++)
		used += (size_t)snprintf(seen->text + used, sizeof(seen->text) - used, "%s/%s/%s\n",
					 run->service, run->run, run->segments[i].name);
	seen->owner_pid = run->owner_pid;
	return --seen->runs_max != 0;
}

static void walk(const char *path, const char *expected)
{
	struct seen seen = {.text = ""};

	assert_int_equal(ky_segment_walk(path, note, &seen), 0);
	assert_string_equal(seen.text, expected);
}

static void walk__sees_runs_from_wherever_it_begins(void **state)
{
	char path[256];

	(void)state;
	send_two_runs();
	walk(send_top,
	     "web/" RUN_A "/000000.trc\nweb/" RUN_A "/000001.trc\nweb/" RUN_B "/000000.trc\n");
	snprintf(path, sizeof(path), "%s/web/", send_top);
	walk(path,
	     "web/" RUN_A "/000000.trc\nweb/" RUN_A "/000001.trc\nweb/" RUN_B "/000000.trc\n");
	snprintf(path, sizeof(path), "%s/web/" RUN_B, send_top);
	walk(path, "web/" RUN_B "/000000.trc\n");
}

static void walk__passes_over_what_is_not_ours(void **state)
{
	char path[256];

	(void)state;
	send_two_runs();
	snprintf(path, sizeof(path), "%s/web/" RUN_A "/.kymo-run", send_top);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/web/" RUN_B "/000007.trc", send_top);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	snprintf(path, sizeof(path), "%s/web/" RUN_B "/note.txt", send_top);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	walk(send_top, "web/" RUN_B "/000000.trc\n");
}

/* Of one that lives only what is sealed, and who it is; of a dead one what it left, too. */
static void walk__seals_what_a_dead_recorder_left(void **state)
{
	static uint8_t bytes[100] = {'T', 'R', 'C', 0, 1};
	const struct ky_chunk open_chunk = {
		.bytes = bytes, .byte_count = sizeof(bytes), .is_segment_start = true};
	struct ky_store *store = send_store("web", RUN_A, 0);
	struct seen seen = {.text = ""};
	char path[256], active[264];
	uint64_t stamp;

	(void)state;
	send_segment(store);
	assert_int_equal(ky_store_chunk(store, &open_chunk), 0);
	assert_int_equal(ky_segment_walk(send_top, note, &seen), 0);
	assert_string_equal(seen.text, "web/" RUN_A "/000000.trc\n");
	assert_int_equal(seen.owner_pid, getpid());
	stamp = ky_segment_walk_stamp(send_top);
	assert_int_equal(stamp, ky_segment_walk_stamp(send_top));
	ky_store_close(store);
	assert_int_not_equal(stamp, ky_segment_walk_stamp(send_top));
	snprintf(path, sizeof(path), "%s/web/" RUN_A "/000001.trc", send_top);
	snprintf(active, sizeof(active), "%s.active", path);
	assert_int_equal(rename(path, active), 0);
	walk(send_top, "web/" RUN_A "/000000.trc\nweb/" RUN_A "/000001.trc\n");
	assert_int_equal(access(path, F_OK), 0);
}

static void walk__says_that_nothing_is_there(void **state)
{
	struct seen seen = {.text = ""};

	(void)state;
	assert_int_equal(ky_segment_walk(send_top, note, &seen), -ENOENT);
	assert_int_equal(ky_segment_walk("/nothing/there", note, &seen), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(walk__sees_runs_from_wherever_it_begins,
						send_set_up, send_tear_down),
		cmocka_unit_test_setup_teardown(walk__passes_over_what_is_not_ours, send_set_up,
						send_tear_down),
		cmocka_unit_test_setup_teardown(walk__seals_what_a_dead_recorder_left, send_set_up,
						send_tear_down),
		cmocka_unit_test_setup_teardown(walk__says_that_nothing_is_there, send_set_up,
						send_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
