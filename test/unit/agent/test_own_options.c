/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <errno.h>
#include <kymo/recorder.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

static void trace_file__contradictory_options_are_refused_with_a_sentence(void **state)
{
	static const struct {
		const char *name;
		uint32_t compression;
		uint64_t rotate_interval_ns, total_bytes_max;
		int err;
		const char *words;
	} cases[] = {
		{"traces", 0, 0, 0, -EINVAL, "must end in"},
		{"a.trc.gz", KYMO_COMPRESSION_ZSTD, 0, 0, -EINVAL, "contradicts"},
		{"a.trc", 0, 1000000000, 0, -EINVAL, "rotate"},
		{"a.trc", 0, 0, 1000, -EINVAL, "1 MiB"},
		{"dir.trc", 0, 0, 0, -EISDIR, "directory"},
	};
	char path[200], errbuf[300];

	(void)state;
	snprintf(path, sizeof(path), "%s/dir.trc", directory);
	assert_int_equal(mkdir(path, 0700), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
		struct kymo_recorder *recorder;

		snprintf(path, sizeof(path), "%s/%s", directory, cases[i].name);
		options.trace_file = path;
		options.compression = cases[i].compression;
		options.rotate_interval_ns = cases[i].rotate_interval_ns;
		options.total_bytes_max = cases[i].total_bytes_max;
		options.errbuf = errbuf;
		options.errbuf_bytes = sizeof(errbuf);
		assert_int_equal(kymo_recorder_open(&recorder, &options), cases[i].err);
		assert_null(recorder);
		assert_non_null(strstr(errbuf, cases[i].words));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			trace_file__contradictory_options_are_refused_with_a_sentence,
			make_directory, remove_directory),
	};

	return cmocka_run_group_tests_name("own_options", tests, NULL, NULL);
}
