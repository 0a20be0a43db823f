/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/help_environment.h>

#include <stdio.h>

struct variable {
	const char *name, *unit, *fallback, *help;
};

/* As KNOBS of crates/kymo/src/config.rs has them; a test compares the two. */
static const struct variable variables[] = {
	{"KYMO_ENABLED", "true, false", "true",
	 "false: nothing is recorded, and every call of this crate does nothing"},
	{"KYMO_MODE", "flight, stream", "flight",
	 "flight keeps the last events in memory until a dump; stream writes all of them to disk"},
	{"KYMO_SERVICE", "name", "the executable's name",
	 "names the traces and the folder below trace_dir"},
	{"KYMO_RING_DIR", "folder", "/dev/shm/kymo-UID", "where the ring file is"},
	{"KYMO_RING_BYTES", "bytes, 128K to 4G", "32M",
	 "size of the ring: how far back a dump reaches"},
	{"KYMO_TRACE_DIR", "folder", "./kymo-traces", "where segments go"},
	{"KYMO_TRACE_FILE", "file.trc or file.trc.zst", "none",
	 "one file in place of segments; stream mode"},
	{"KYMO_DUMP_DIR", "folder", "trace_dir", "where dumps go that name no place"},
	{"KYMO_SEGMENT_BYTES", "bytes", "64M", "a segment ends at this size, before compression"},
	{"KYMO_ROTATE", "duration", "60s", "and at this age"},
	{"KYMO_TOTAL_BYTES", "bytes", "1G",
	 "all segments of this service on disk; the oldest goes first"},
	{"KYMO_AGE_MIN", "duration", "none",
	 "how far back the ring should reach: a dump says which ring_bytes would do"},
	{"KYMO_COMPRESSION", "none, zstd", "zstd with that feature, else none",
	 "of segments and dumps"},
	{"KYMO_TRIGGERS", "rules, as of `kymo run --trigger`", "none",
	 "rules that make a dump, such as poll>100ms; both places add to each other"},
	{"KYMO_SAMPLE", "1 to 1000 a second of CPU time", "none",
	 "stack samples of threads on the CPU"},
	{"KYMO_SAMPLE_BYTES", "bytes, 64K to 256M", "2M", "memory for stacks beside the ring"},
	{"KYMO_SWITCHES", "on, off", "off", "context switches within polls, by perf_event"},
	{"KYMO_RESOURCES", "ms, at least 1000, or off", "1000, in flight mode 10000",
	 "between readings of CPU, memory, cgroup and accept queues"},
	{"KYMO_ALLOC", "bytes, 1K to 1G", "none",
	 "sample one of so many allocated bytes; needs kymo::Alloc as the global allocator"},
	{"KYMO_FATAL_SIGNALS", "true, false", "false",
	 "leave a record in the ring when a fatal signal ends the process"},
	{"KYMO_TASK_NAMES", "true, false", "true",
	 "read the program's symbols, for the types of tasks in traces that it writes itself"},
	{"KYMO_INTERCEPT", "true, false", "true",
	 "record every task by Tokio's own tables; false: only what kymo::spawn wraps"},
};

void ky_help_environment(void)
{
	(void)printf(
		"A program that links the crate kymo reads these at its start (Config::from_env):"
		"\n\n");
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		(void)printf("  %s\n      %s.\n      Takes: %s. Default: %s.\n", variables[i].name,
			     variables[i].help, variables[i].unit, variables[i].fallback);
	(void)printf(
		"  KYMO_CONFIG\n      a TOML file with the same keys, in lower case and without "
		"KYMO_; variables win (feature toml).\n"
		"  KYMO_TEST_DIR\n      where a test of #[kymo::test] that fails leaves its trace. "
		"Default: target/kymo.\n"
		"\nAlso the recorder of C programs: KYMO_CLOCK=monotonic does without the CPU's "
		"counter; KYMO_GATES: what\n"
		"is recorded after the first event, hexadecimal. `kymo run` itself reads "
		"KYMO_PRELOAD; kymo-run(1) has the rest.\n");
}
