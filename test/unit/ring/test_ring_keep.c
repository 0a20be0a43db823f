/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Rings that dead processes of the service left: bounded, and no other is touched. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <dirent.h>
#include <kymo/kymo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wire/ring_image.h>

static char directory[64];

static int make_directory(void **state)
{
	(void)state;
	return temp_tree_make(directory, sizeof(directory));
}

static int remove_directory(void **state)
{
	(void)state;
	return temp_tree_remove(directory);
}

static struct kymo_recorder *open_recorder(const char *service)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;

	options.service = service;
	options.ring_directory = options.trace_directory = directory;
	options.ring_bytes = 128u << 10;
	return kymo_recorder_open(&recorder, &options) == 0 ? recorder : NULL;
}

/* A process that records and is killed, or sleeps until it is. */
static pid_t start_process(const char *service, bool is_staying)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (!open_recorder(service))
			_exit(1);
		kymo_mark(1);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	if (!is_staying) {
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	return pid;
}

static uint32_t ring_count(const char *service)
{
	DIR *stream = opendir(directory);
	const struct dirent *entry;
	uint32_t count = 0;

	assert_non_null(stream);
	while ((entry = readdir(stream)))
		count += strncmp(entry->d_name, service, strlen(service)) == 0;
	closedir(stream);
	return count;
}

static void keep__bounds_the_dead_rings_of_a_service_at_its_next_start(void **state)
{
	struct kymo_recorder *recorder;
	pid_t living;

	(void)state;
	living = start_process("crashing-", true); /* the oldest of all, and not dead */
	for (uint32_t i = 0; i < 4; i++)
		start_process("other", false);
	for (uint32_t i = 0; i < KY_DEAD_RINGS_MAX + 6; i++)
		start_process("crashing-", false);
	recorder = open_recorder("crashing-");
	assert_non_null(recorder);
	kymo_mark(1);
	/* Its own, the living one's, and those that are kept. */
	while (ring_count("crashing-") > KY_DEAD_RINGS_MAX + 2)
		usleep(1000);
	assert_int_equal(ring_count("crashing-"), KY_DEAD_RINGS_MAX + 2);
	assert_int_equal(ring_count("other"), 4);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(ring_count("crashing-"), KY_DEAD_RINGS_MAX + 1);
	kill(living, SIGKILL);
	waitpid(living, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			keep__bounds_the_dead_rings_of_a_service_at_its_next_start, make_directory,
			remove_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
