/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <argp.h>
#include <cli/run_options.h>
#include <ship/store.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 16
#define REFUSED 125

static struct ky_run_options options;
static const struct ky_agent_options *const agent = &options.session.agent;
static char said[1024];
static char words[WORDS_MAX][600];
static char *argv[WORDS_MAX + 1];

/* One command line, its words separated by single blanks. Returns argc. */
static int split(const char *line)
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
	return argc;
}

static int parse(const char *line)
{
	int argc = split(line);

	return ky_run_options_parse(&options, argc, argv);
}

/* In a child, because wrong words end the process: its exit status; what it said is in `said`. */
static int parse_alone(const char *line)
{
	int argc = split(line), ends[2], status = 0;
	size_t used = 0;
	ssize_t got;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		(void)dup2(ends[1], STDERR_FILENO);
		(void)dup2(ends[1], STDOUT_FILENO);
		argp_err_exit_status = REFUSED;
		_exit(ky_run_options_parse(&options, argc, argv));
	}
	(void)close(ends[1]);
	while ((got = read(ends[0], said + used, sizeof(said) - 1 - used)) > 0)
		used += (size_t)got;
	said[used] = '\0';
	(void)close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void run_options__options_after_the_command_are_its_own(void **state)
{
	(void)state;
	assert_int_equal(parse("run -q prog -o x --mode flight -- y"), 0);
	assert_true(options.session.is_quiet);
	assert_false(agent->is_flight);
	assert_string_equal(agent->output.directory, "kymo-traces");
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
	assert_true(agent->is_flight);
	assert_string_equal(agent->output.directory, "d");
	assert_string_equal(agent->output.service, "svc");
	assert_int_equal(options.session.ring_bytes, 64 << 20);
	assert_string_equal(options.session.ring_directory, "/r");
	assert_int_equal(agent->output.rotate_interval_ns, UINT64_C(300000000000));
	assert_int_equal(agent->output.metadata_count, 1);
	assert_string_equal(agent->output.metadata[0].key, "k");
	assert_string_equal(agent->output.metadata[0].value, "v=w");
	assert_int_equal(options.session.alloc_bytes, 0);
	assert_int_equal(parse("run --alloc c"), 0);
	assert_int_equal(options.session.alloc_bytes, 512 << 10);
	assert_int_equal(options.session.sample_bytes, 8 << 20);
	assert_string_equal(options.command[0], "c");
	assert_int_equal(parse("run --alloc=64K --sample-bytes 1M c"), 0);
	assert_int_equal(options.session.alloc_bytes, 64 << 10);
	assert_int_equal(options.session.sample_bytes, 1 << 20);
	assert_int_equal(parse("run --alloc=off c"), 0);
	assert_int_equal(options.session.alloc_bytes, 0);
	assert_int_equal(options.session.sample_bytes, 0);
	assert_int_equal(parse("run --segment-bytes 1K --total-bytes 2G --compress none c"), 0);
	assert_int_equal(agent->output.segment_bytes_max, 1024);
	assert_int_equal(agent->output.total_bytes_max, UINT64_C(2) << 30);
	assert_string_equal(agent->output.compressor.suffix, "");
	assert_int_equal(parse("run --compress gzip:6 c"), 0);
	assert_string_equal(agent->output.compressor.suffix, ".gz");
	assert_int_equal(agent->output.compressor.level, 6);
	assert_int_equal(parse("run c"), 0);
	assert_false(agent->sampling.is_without_switches);
	assert_int_equal(parse("run --switches off c"), 0);
	assert_true(agent->sampling.is_without_switches);
	assert_int_equal(parse("run --switches off --switches on c"), 0);
	assert_false(agent->sampling.is_without_switches);
	assert_int_equal(parse("run --sampler timers --sample 7 c"), 0);
	assert_int_equal(agent->sampling.source, KY_SAMPLING_TIMERS);
	assert_int_equal(agent->sampling.hz, 7);
	assert_int_equal(parse("run --sampler perf c"), 0);
	assert_int_equal(agent->sampling.source, KY_SAMPLING_PERF);
	assert_int_equal(parse("run --sampler perf --sampler auto c"), 0);
	assert_int_equal(agent->sampling.source, KY_SAMPLING_ANY);
	assert_int_equal(parse("run c"), 0);
	assert_string_equal(agent->output.compressor.suffix, ".zst");
	assert_int_equal(agent->sampling.source, KY_SAMPLING_ANY);
}

static void run_options__wrong_values_name_the_option_and_what_it_wants(void **state)
{
	static const struct {
		const char *line, *part;
	} cases[] = {
		{"run", "which program"},
		{"run --mode fast c", "--mode is stream or flight, not 'fast'"},
		{"run --ring-bytes 64K c", "--ring-bytes is a size from 128K to 4G, not '64K'"},
		{"run --ring-bytes 5G c", "--ring-bytes"},
		{"run --ring-dir rel c", "an absolute path"},
		{"run --compress zstd:99 c", "--compress"},
		{"run --alloc=512 c", "--alloc is a size from 1K to 1G, or off"},
		{"run --alloc=2G c", "--alloc"},
		{"run --compress gzip:10 c", "--compress"},
		{"run --compress lz4 c", "--compress"},
		{"run --rotate-interval 0 c", "--rotate-interval"},
		{"run --rotate-interval 5d c", "--rotate-interval"},
		{"run --total-bytes -1 c", "--total-bytes"},
		{"run --switches stacks c", "--switches is on or off, not 'stacks'"},
		{"run --sampler timer c", "--sampler is auto, perf or timers"},
		{"run -m novalue c", "--metadata is KEY=VALUE"},
		{"run -m =v c", "--metadata is KEY=VALUE"},
		{"run --bogus c", "there is no option '--bogus'"},
		{"run -o", "-o needs a value"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse_alone(cases[i].line), REFUSED);
		if (strstr(said, cases[i].part) == NULL)
			fail_msg("%s: %s", cases[i].line, said);
	}
}

static void run_options__name_of_a_trace_makes_one_file(void **state)
{
	(void)state;
	assert_int_equal(parse("run -o no/such/a.trc.gz c"), 0);
	assert_string_equal(agent->output.file, "no/such/a.trc.gz");
	assert_string_equal(agent->output.compressor.suffix, ".gz");
	assert_int_equal(parse("run -o a.trc c"), 0);
	assert_string_equal(agent->output.compressor.suffix, "");
	assert_int_equal(parse("run --compress zstd:7 --total-bytes 1M -o a.trc.zst c"), 0);
	assert_string_equal(agent->output.compressor.suffix, ".zst");
	assert_int_equal(agent->output.compressor.level, 7);
	assert_int_equal(parse("run -o a.trc/ c"), 0);
	assert_null(agent->output.file);
	assert_int_equal(parse("run -o traces c"), 0);
	assert_null(agent->output.file);
	assert_string_equal(agent->output.compressor.suffix, ".zst");
}

static void run_options__what_one_file_cannot_do_is_reported(void **state)
{
	static const struct {
		const char *line, *words;
	} cases[] = {
		{"run -o - c", "CMD's"},
		{"run -o /dev/null c", "--output: /dev/null is no directory"},
		{"run -o /dev/null/a.trc c", "--output: /dev/null is no directory"},
		{"run -o a.trc --compress zstd c", "--compress"},
		{"run --compress none -o a.trc.zst c", "--compress"},
		{"run -o a.trc --segment-bytes 1M c", "--segment-bytes"},
		{"run -o a.trc --rotate-interval 5s c", "--rotate-interval"},
		{"run -o a.trc --total-bytes 1000K c", "at least 1M"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse_alone(cases[i].line), REFUSED);
		assert_non_null(strstr(said, cases[i].words));
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
		{"--ring-dir ", KY_RING_DIRECTORY_BYTES - 1, "at most 255 bytes"},
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
		assert_int_equal(parse_alone(line), REFUSED);
		assert_non_null(strstr(said, cases[i].want));
	}
}

static void run_options__help_needs_no_command(void **state)
{
	(void)state;
	assert_int_equal(parse_alone("run --help"), 0);
	assert_non_null(strstr(said, "Usage: run"));
	assert_int_equal(parse_alone("run c --help"), 0);
	assert_string_equal(said, "");
}

static void attach_options__flight_is_the_default_and_the_pid_may_stand_anywhere(void **state)
{
	uint32_t pid = 0;
	bool is_json = false;
	int argc = split("attach -j 4711 --mode stream -o d");

	(void)state;
	assert_int_equal(ky_attach_options_parse(&options, &pid, &is_json, argc, argv), 0);
	assert_int_equal(pid, 4711);
	assert_true(is_json);
	assert_false(agent->is_flight);
	assert_string_equal(agent->output.directory, "d");
	assert_null(options.command);
	argc = split("attach 1");
	assert_int_equal(ky_attach_options_parse(&options, &pid, &is_json, argc, argv), 0);
	assert_true(agent->is_flight);
	assert_false(is_json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run_options__options_after_the_command_are_its_own),
		cmocka_unit_test(run_options__every_option_reaches_its_place),
		cmocka_unit_test(run_options__wrong_values_name_the_option_and_what_it_wants),
		cmocka_unit_test(run_options__name_of_a_trace_makes_one_file),
		cmocka_unit_test(run_options__what_one_file_cannot_do_is_reported),
		cmocka_unit_test(run_options__names_that_are_too_long_are_refused),
		cmocka_unit_test(run_options__help_needs_no_command),
		cmocka_unit_test(
			attach_options__flight_is_the_default_and_the_pid_may_stand_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
