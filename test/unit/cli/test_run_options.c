/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <cli/run_options.h>
#include <errno.h>
#include <ship/store.h>
#include <stdio.h>
#include <string.h>

#define WORDS_MAX 16

static struct ky_run_options options;
static char errbuf[512];
static char words[WORDS_MAX][600];
static char *argv[WORDS_MAX + 1];

/* Parses one command line, its words separated by single blanks. */
static int parse(const char *line)
{
	int argc = 0;

	memset(argv, 0, sizeof(argv));
	while (*line != '\0') {
		size_t bytes = strcspn(line, " ");

		memcpy(words[argc], line, bytes);
		words[argc][bytes] = '\0';
		argv[argc] = words[argc];
		argc++;
		line += bytes + (line[bytes] == ' ');
	}
	errbuf[0] = '\0';
	return ky_run_options_parse(&options, argc, argv, errbuf, sizeof(errbuf));
}

static void run_options__options_behind_the_command_are_its_own(void **state)
{
	(void)state;
	assert_int_equal(parse("run -q prog -o x --mode flight -- y"), 0);
	assert_true(options.is_quiet);
	assert_false(options.is_flight);
	assert_string_equal(options.directory, "kymo-traces");
	assert_string_equal(options.command[0], "prog");
	assert_string_equal(options.command[5], "--");
	assert_string_equal(options.command[6], "y");
	assert_null(options.command[7]);
	assert_int_equal(parse("run -- -o"), 0);
	assert_string_equal(options.command[0], "-o");
}

static void run_options__every_option_reaches_its_place(void **state)
{
	(void)state;
	assert_int_equal(parse("run --mode flight -o d -s svc --ring-bytes 64M --ring-dir /r "
			       "--rotate-interval 5m -m k=v=w c"),
			 0);
	assert_true(options.is_flight);
	assert_string_equal(options.directory, "d");
	assert_string_equal(options.service, "svc");
	assert_int_equal(options.ring_bytes, 64 << 20);
	assert_string_equal(options.ring_directory, "/r");
	assert_int_equal(options.rotate_interval_ns, UINT64_C(300000000000));
	assert_int_equal(options.metadata_count, 1);
	assert_string_equal(options.metadata[0].key, "k");
	assert_string_equal(options.metadata[0].value, "v=w");
	assert_int_equal(options.alloc_bytes, 0);
	assert_int_equal(parse("run --alloc c"), 0);
	assert_int_equal(options.alloc_bytes, 512 << 10);
	assert_int_equal(options.sample_bytes, 8 << 20);
	assert_string_equal(options.command[0], "c");
	assert_int_equal(parse("run --alloc=64K --sample-bytes 1M c"), 0);
	assert_int_equal(options.alloc_bytes, 64 << 10);
	assert_int_equal(options.sample_bytes, 1 << 20);
	assert_int_equal(parse("run --alloc=off c"), 0);
	assert_int_equal(options.alloc_bytes, 0);
	assert_int_equal(options.sample_bytes, 0);
	assert_int_equal(parse("run --segment-bytes 1K --total-bytes 2G --compress none c"), 0);
	assert_int_equal(options.segment_bytes_max, 1024);
	assert_int_equal(options.total_bytes_max, UINT64_C(2) << 30);
	assert_string_equal(options.stage.suffix, "");
	assert_int_equal(parse("run --compress gzip:6 c"), 0);
	assert_string_equal(options.stage.suffix, ".gz");
	assert_int_equal(options.stage.level, 6);
	assert_int_equal(parse("run c"), 0);
	assert_false(options.is_without_switches);
	assert_int_equal(parse("run --switches off c"), 0);
	assert_true(options.is_without_switches);
	assert_int_equal(parse("run --switches off --switches stacks c"), 0);
	assert_true(options.has_kernel_stacks && !options.is_without_switches);
	assert_int_equal(parse("run --switches stacks --switches on c"), 0);
	assert_false(options.is_without_switches || options.has_kernel_stacks);
	assert_int_equal(parse("run --sampler timers --sample 7 c"), 0);
	assert_int_equal(options.sample_source, KY_RUN_SOURCE_TIMERS);
	assert_int_equal(options.sample_hz, 7);
	assert_int_equal(parse("run --sampler perf c"), 0);
	assert_int_equal(options.sample_source, KY_RUN_SOURCE_PERF);
	assert_int_equal(parse("run --sampler perf --sampler auto c"), 0);
	assert_int_equal(options.sample_source, KY_RUN_SOURCE_ANY);
	assert_int_equal(parse("run c"), 0);
	assert_string_equal(options.stage.suffix, ".zst");
	assert_int_equal(options.sample_source, KY_RUN_SOURCE_ANY);
}

static void run_options__wrong_values_name_the_option_and_what_it_wants(void **state)
{
	static const struct {
		const char *line, *part;
	} cases[] = {
		{"run", "which program"},
		{"run --mode fast c", "--mode: expected stream or flight, not \"fast\""},
		{"run --ring-bytes 64K c", "--ring-bytes: expected a size from 128K to 4G"},
		{"run --ring-bytes 5G c", "--ring-bytes"},
		{"run --ring-dir rel c", "an absolute path"},
		{"run --compress zstd:99 c", "--compress"},
		{"run --alloc=512 c", "--alloc: expected a size from 1K to 1G, or off"},
		{"run --alloc=2G c", "--alloc"},
		{"run --compress gzip:10 c", "--compress"},
		{"run --compress lz4 c", "--compress"},
		{"run --rotate-interval 0 c", "--rotate-interval"},
		{"run --rotate-interval 5d c", "--rotate-interval"},
		{"run --total-bytes -1 c", "--total-bytes"},
		{"run --switches yes c", "--switches: expected on, off or stacks"},
		{"run --sampler timer c", "--sampler: expected auto, perf or timers"},
		{"run -m novalue c", "-m: expected key=value"},
		{"run -m =v c", "-m: expected key=value"},
		{"run --bogus c", "--bogus is not an option"},
		{"run -o", "-o needs a value"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].line), -EINVAL);
		if (strstr(errbuf, cases[i].part) == NULL)
			fail_msg("%s: %s", cases[i].line, errbuf);
	}
}

static void run_options__name_of_a_trace_makes_one_file(void **state)
{
	(void)state;
	assert_int_equal(parse("run -o no/such/a.trc.gz c"), 0);
	assert_string_equal(options.file, "no/such/a.trc.gz");
	assert_string_equal(options.stage.suffix, ".gz");
	assert_int_equal(parse("run -o a.trc c"), 0);
	assert_string_equal(options.stage.suffix, "");
	assert_int_equal(parse("run --compress zstd:7 --total-bytes 1M -o a.trc.zst c"), 0);
	assert_string_equal(options.stage.suffix, ".zst");
	assert_int_equal(options.stage.level, 7);
	assert_int_equal(parse("run -o a.trc/ c"), 0);
	assert_null(options.file);
	assert_int_equal(parse("run -o traces c"), 0);
	assert_null(options.file);
	assert_string_equal(options.stage.suffix, ".zst");
}

static void run_options__what_one_file_cannot_do_is_said(void **state)
{
	static const struct {
		const char *line, *words;
	} cases[] = {
		{"run -o - c", "CMD's"},
		{"run -o /dev/null c", "-o: /dev/null is no directory"},
		{"run -o /dev/null/a.trc c", "-o: /dev/null is no directory"},
		{"run -o a.trc --compress zstd c", "--compress"},
		{"run --compress none -o a.trc.zst c", "--compress"},
		{"run -o a.trc --segment-bytes 1M c", "--segment-bytes"},
		{"run -o a.trc --rotate-interval 5s c", "--rotate-interval"},
		{"run -o a.trc --total-bytes 1000K c", "at least 1M"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].line), -EINVAL);
		assert_non_null(strstr(errbuf, cases[i].words));
	}
}

/* What is cut off would name another place. */
static void run_options__names_that_are_too_long_are_refused(void **state)
{
	static const struct {
		const char *option;
		int most;
		const char *want;
	} cases[] = {
		{"-o .", KY_STORE_DIRECTORY_BYTES - 1, "the directory's name has 328 bytes"},
		{"--ring-dir ", KY_RUN_RING_DIRECTORY_BYTES - 1, "at most 255 bytes"},
		{"--dump-dir ", 511, "at most 511 bytes"},
	};
	char line[700], name[600];

	(void)state;
	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = i % 100 ? '0' : '/';
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int most = cases[i].most - (strchr(cases[i].option, '.') != NULL);

		(void)snprintf(line, sizeof(line), "run %s%.*s c", cases[i].option, most, name);
		assert_int_equal(parse(line), 0);
		(void)snprintf(line, sizeof(line), "run %s%.*s c", cases[i].option, most + 1, name);
		assert_int_equal(parse(line), -EINVAL);
		assert_non_null(strstr(errbuf, cases[i].want));
	}
}

static void run_options__help_needs_no_command(void **state)
{
	(void)state;
	assert_int_equal(parse("run --help"), 0);
	assert_true(options.wants_help);
	assert_int_equal(parse("run c --help"), 0);
	assert_false(options.wants_help);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_options__options_behind_the_command_are_its_own),
		cmocka_unit_test(run_options__every_option_reaches_its_place),
		cmocka_unit_test(run_options__wrong_values_name_the_option_and_what_it_wants),
		cmocka_unit_test(run_options__name_of_a_trace_makes_one_file),
		cmocka_unit_test(run_options__what_one_file_cannot_do_is_said),
		cmocka_unit_test(run_options__names_that_are_too_long_are_refused),
		cmocka_unit_test(run_options__help_needs_no_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
