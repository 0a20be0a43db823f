/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/run_options.h>

#include <base/quantity.h>
#include <cli/cli.h>
#include <cli/profile.h>
#include <cli/shared_options.h>
#include <ship/output_place.h>
#include <errno.h>
#include <kymo/alloc.h>
#include <ring/ring_settings.h>
#include <kymo/base.h>
#include <ship/disk.h>
#include <ship/inflate.h>
#include <ship/store.h>
#include <ship/trace_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wire/sample_area.h>

bool ky_run_parse_pid(const char *text, uint32_t *out)
{
	uint64_t value = 0;
	bool is_fine = ky_quantity_in(ky_quantity_number, text, 1, INT32_MAX, &value);

	*out = (uint32_t)value;
	return is_fine;
}

/* ---- the options of both ---- */

enum key {
	KEY_MODE = KY_OPTION_KEY_OWN,
	KEY_RING_BYTES,
	KEY_RING_DIR,
	KEY_SAMPLE,
	KEY_SAMPLE_BYTES,
	KEY_SAMPLER,
	KEY_SWITCHES,
	KEY_ALLOC,
	KEY_CONN,
	KEY_RESOURCES,
	KEY_PROFILE,
	KEY_ROTATE_INTERVAL,
	KEY_SEGMENT_BYTES,
	KEY_TOTAL_BYTES,
	KEY_TRIGGER,
	KEY_DUMP_DIR
};

/* What is filled while the words are read. */
struct words {
	struct ky_run_options *options;
	struct ky_compression compression;
	struct ky_pairs metadata;
	uint32_t pid; /* of an attach */
	bool is_json;
};

static const struct argp_option recording_options[] = {
	{"mode", KEY_MODE, "stream|flight", 0,
	 "Write all the time, or keep the last events in memory until they are dumped (default: "
	 "run stream, attach flight)",
	 0},
	{"output", 'o', "DIR|FILE", 0,
	 "Write to DIR/SERVICE/RUN/ (default kymo-traces), or to one FILE without rotation: a name "
	 "in .trc, .trc.zst or .trc.gz",
	 0},
	{"service", 's', "NAME", 0, "The service's name (default: the program's)", 0},
	{"rotate-interval", KEY_ROTATE_INTERVAL, "DURATION", 0,
	 "Begin a new segment every DURATION (default 60s)", 0},
	{"segment-bytes", KEY_SEGMENT_BYTES, "SIZE", 0,
	 "Begin a new segment after SIZE before compression (default 64M)", 0},
	{"total-bytes", KEY_TOTAL_BYTES, "SIZE", 0,
	 "Keep at most SIZE of this service's segments (default 1G), or end FILE there (default: "
	 "no bound)",
	 0},
	{"profile", KEY_PROFILE, "NAME|FILE", 0,
	 "Record as a preset says: default, profile, everything, or a file (kymo-profile(5))", 0},
	{"sample", KEY_SAMPLE, "HZ|off", 0,
	 "Stack samples per second of CPU time, 1 to 1000 (default 99)", 0},
	{"sampler", KEY_SAMPLER, "auto|perf|timers", 0,
	 "The sampler: perf_event, timers inside the process, or auto, what costs less "
	 "(default auto)",
	 0},
	{"switches", KEY_SWITCHES, "on|off", 0,
	 "Record when threads were off-CPU inside a poll, by the kernel's context switches "
	 "(default on)",
	 0},
	{"conn", KEY_CONN, 0, 0,
	 "Record requests on connections as spans conn and conn_out, by reads and writes of their "
	 "sockets",
	 0},
	{"resources", KEY_RESOURCES, "DURATION|off", 0,
	 "Time between readings of CPU, memory, cgroup and sockets, 1s to 1h (default 1s)", 0},
	{"ring-bytes", KEY_RING_BYTES, "SIZE", 0,
	 "Memory for the events of a process, 128K to 4G (default 32M)", 0},
	{"ring-dir", KEY_RING_DIR, "DIR", 0,
	 "Make ring files in DIR (default: KYMO_RING_DIR, else /dev/shm/kymo-UID)", 0},
	{"trigger", KEY_TRIGGER, "RULE", 0,
	 "Dump when RULE holds, such as 'poll>100ms after=5s'; may be repeated (kymo-run(1) lists "
	 "what can be watched)",
	 0},
	{"dump-dir", KEY_DUMP_DIR, "DIR", 0,
	 "Write the dumps of --trigger to DIR (default: the output's name and .dumps)", 0},
	{0},
};

static bool is_one_of(const char *text, const char *const *names, uint32_t count, uint32_t *out)
{
	for (*out = 0; *out < count; (*out)++)
		if (strcmp(text, names[*out]) == 0)
			return true;
	return false;
}

static void parse_mode(struct ky_run_options *options, const char *text)
{
	static const char *const names[] = {"stream", "flight"};
	uint32_t which;

	if (!is_one_of(text, names, 2, &which))
		ky_option_error("--mode is stream or flight, not '%s'", text);
	options->session.agent.is_flight = which == 1;
	options->has_mode = true;
}

static void parse_sampler(struct ky_sampling_options *sampling, const char *text)
{
	static const char *const names[] = {[KY_SAMPLING_ANY] = "auto",
					    [KY_SAMPLING_PERF] = "perf",
					    [KY_SAMPLING_TIMERS] = "timers"};

	if (!is_one_of(text, names, 3, &sampling->source))
		ky_option_error("--sampler is auto, perf or timers, not '%s'", text);
}

static void parse_switches(struct ky_sampling_options *sampling, const char *text)
{
	static const char *const names[] = {"on", "off"};
	uint32_t which;

	if (!is_one_of(text, names, 2, &which))
		ky_option_error("--switches is on or off, not '%s'", text);
	sampling->is_without_switches = which == 1;
}

static void parse_size(const char *name, const char *text, uint64_t least, uint64_t most,
		       const char *expected, uint64_t *out)
{
	if (!ky_quantity_in(ky_quantity_bytes, text, least, most, out))
		ky_option_error("--%s is a size %s, not '%s'", name, expected, text);
}

static void add_rules(struct ky_trigger_options *triggers, const char *where, const char *text)
{
	static struct ky_rule rules[KY_RULES_MAX]; /* too many for a stack */
	char why[256] = "";

	triggers->rules = rules;
	if (ky_rules_parse(rules, &triggers->rule_count, text, why, sizeof(why)) != 0)
		ky_option_error("%s: %s", where, why);
}

/* An option is given for a rule: an empty one is a variable of the shell that was not set. */
static void parse_trigger(struct ky_trigger_options *triggers, const char *text)
{
	size_t before = triggers->rule_count;

	add_rules(triggers, "--trigger", text);
	if (triggers->rule_count == before)
		ky_option_error("--trigger: no rule stands in '%s'; one is 'poll>100ms'", text);
}

static error_t parse_output(int key, char *text, struct ky_run_options *options)
{
	struct ky_agent_options *agent = &options->session.agent;
	struct ky_output_options *output = &agent->output;

	switch (key) {
	case 'o':
		output->directory = text;
		if (text[0] == '\0')
			ky_option_error("--output is a directory or a file");
		return 0;
	case KEY_ROTATE_INTERVAL:
		if (!ky_quantity_in(ky_quantity_ns, text, 1, UINT64_MAX,
				    &output->rotate_interval_ns))
			ky_option_error("--rotate-interval is a duration such as 60s or 5m, not "
					"'%s'",
					text);
		return 0;
	case KEY_SEGMENT_BYTES:
		parse_size("segment-bytes", text, 1, UINT64_MAX, "such as 64M",
			   &output->segment_bytes_max);
		return 0;
	case KEY_TOTAL_BYTES:
		parse_size("total-bytes", text, 1, UINT64_MAX, "such as 1G",
			   &output->total_bytes_max);
		return 0;
	case KEY_TRIGGER:
		parse_trigger(&agent->triggers, text);
		return 0;
	case KEY_DUMP_DIR:
		agent->triggers.dump_directory = text;
		if (text[0] == '\0' || strlen(text) >= KY_DISK_PATH_BYTES)
			ky_option_error("--dump-dir is a directory, of at most %u bytes",
					KY_DISK_PATH_BYTES - 1);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_sampling(int key, const char *text, struct ky_run_options *options)
{
	struct ky_session_options *session = &options->session;
	struct ky_agent_options *agent = &session->agent;

	switch (key) {
	case KEY_SAMPLE:
		options->has_hz = true;
		if (!ky_setting_rate(text, &agent->sampling.hz))
			ky_option_error("--sample is samples a second, 1 to 1000, or off, not '%s'",
					text);
		return 0;
	case KEY_SAMPLER:
		parse_sampler(&agent->sampling, text);
		return 0;
	case KEY_SWITCHES:
		parse_switches(&agent->sampling, text);
		return 0;
	case KEY_CONN:
		session->gates_set |= KYMO_GATE_CONN;
		return 0;
	case KEY_RESOURCES:
		options->has_resource_ms = true;
		if (!ky_setting_interval(text, &agent->resource_ms))
			ky_option_error("--resources is a duration from 1s to 1h, or off, not '%s'",
					text);
		return 0;
	case KEY_SAMPLE_BYTES:
		parse_size("sample-bytes", text, KY_SAMPLE_BYTES_MIN, KY_SAMPLE_BYTES_MAX,
			   "from 64K to 256M", &session->sample_bytes);
		return 0;
	case KEY_ALLOC:
		options->has_alloc_bytes = true;
		session->alloc_bytes = KYMO_ALLOC_BYTES_DEFAULT;
		if (text && !ky_setting_alloc(text, &session->alloc_bytes))
			ky_option_error("--alloc is a size from 1K to 1G, or off, not '%s'", text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static error_t parse_recording(int key, char *text, struct argp_state *state)
{
	struct words *words = state->input;
	struct ky_run_options *options = words->options;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &words->compression;
		state->child_inputs[1] = &words->metadata;
		return 0;
	case KEY_MODE:
		parse_mode(options, text);
		return 0;
	case 's':
		options->session.agent.output.service = text;
		if (text[0] == '\0')
			ky_option_error("--service is a name");
		return 0;
	case KEY_PROFILE:
		options->profile_name = text;
		if (text[0] == '\0')
			ky_option_error("--profile is default, profile, everything, or a file");
		return 0;
	case KEY_RING_BYTES:
		parse_size("ring-bytes", text, 128u << 10, UINT64_C(4) << 30, "from 128K to 4G",
			   &options->session.ring_bytes);
		return 0;
	case KEY_RING_DIR:
		options->session.ring_directory = text;
		if (text[0] != '/' || strlen(text) >= KY_RING_DIRECTORY_BYTES)
			ky_option_error(
				"--ring-dir is an absolute path of at most %u bytes, not '%s'",
				KY_RING_DIRECTORY_BYTES - 1, text);
		return 0;
	default:
		if (parse_output(key, text, options) == 0)
			return 0;
		return parse_sampling(key, text, options);
	}
}

static const struct argp_child recording_children[] = {
	{&ky_compression_argp, 0, 0, 0}, {&ky_pairs_argp, 0, 0, 0}, {0}};
static const struct argp recording_argp = {
	recording_options, parse_recording, 0, 0, recording_children, 0, 0};

/* ---- what they come to ---- */

static bool is_directory(const char *path)
{
	struct stat about;

	return path[strlen(path) - 1] == '/' || (stat(path, &about) == 0 && S_ISDIR(about.st_mode));
}

/* The recorder's side cannot read inside a packing; here we can. */
static int check_content(const char *path)
{
	struct ky_byte_source source;
	struct stat about;
	int err;

	if (stat(path, &about) != 0 || about.st_size == 0)
		return 0;
	err = ky_inflate_open(&source, path, NULL, NULL, 0);
	if (!err)
		source.close(source.ctx);
	/* Torn before its first byte: a recorder killed early leaves that, and nothing is lost. */
	return err == KYMO_E_NOT_TRACE || err == KYMO_E_CORRUPT ? KYMO_E_NOT_TRACE : 0;
}

static int check_file(const char *path)
{
	char old[1024]; /* ky_trace_file_check() bounds the name */
	int err = ky_trace_file_check(path);

	if (!err)
		err = check_content(path);
	if (err || access(path, F_OK) != 0)
		return err;
	(void)snprintf(old, sizeof(old), "%s.old", path);
	return check_content(old);
}

/* What does not go together with a single file. Returns NULL: nothing. */
static const char *misfit(const struct ky_output_options *output, const char *suffix)
{
	switch (check_file(output->file)) {
	case 0:
		break;
	case -EBUSY:
		return "another recorder is writing it";
	case -ENAMETOOLONG:
		return "the name is too long";
	case -EACCES:
		return "what stands there cannot be read and might be no trace; choose another "
		       "name";
	case KYMO_E_NOT_TRACE:
		return "a file that is no trace stands under this name, or under this name and "
		       ".old, and stays as it is; choose another name";
	default:
		return "a trace needs a regular file, or a name that is free";
	}
	if (strcmp(suffix, output->compressor.suffix) != 0)
		return "--compress contradicts the name (.zst is zstd, .gz gzip, neither is none)";
	if (output->segment_bytes_max != 0 || output->rotate_interval_ns != 0)
		return "one file does not rotate: leave out --segment-bytes and --rotate-interval, "
		       "or name a directory";
	if (output->total_bytes_max != 0 && output->total_bytes_max < KY_TRACE_FILE_BYTES_MIN)
		return "--total-bytes of one file is at least 1M";
	return NULL;
}

/* Where the default cannot be made CMD runs all the same, and a sentence says so. */
static void check_place(const struct ky_output_options *output)
{
	char why[KY_OUTPUT_PLACE_BYTES];

	if (strcmp(output->directory, KY_RUN_DIRECTORY) == 0 ||
	    ky_output_place_check(output->directory, output->file != NULL, why) == 0)
		return;
	ky_option_error("--output: %s", why);
}

static void choose_output(struct ky_output_options *output, bool has_compressor)
{
	const char *suffix = ky_trace_file_suffix(output->directory), *why;

	if (strcmp(output->directory, "-") == 0)
		ky_option_error("--output -: standard output is CMD's; name a directory or a file");
	if (is_directory(output->directory))
		suffix = NULL;
	else if (ky_trace_file_is_foreign(output->directory))
		ky_option_error("--output %s: a trace is a .trc, or packed as .trc.zst or .trc.gz; "
				"a directory of this name needs a / at its end",
				output->directory);
	if (suffix == NULL && strlen(output->directory) >= KY_STORE_DIRECTORY_BYTES)
		ky_option_error("--output: the directory's name has %zu bytes, and may have %u",
				strlen(output->directory), KY_STORE_DIRECTORY_BYTES - 1);
	if (suffix != NULL) {
		output->file = output->directory;
		if (!has_compressor)
			(void)ky_compressor_choose(&output->compressor, ky_compressor_kind(suffix),
						   1);
		why = misfit(output, suffix);
		if (why != NULL)
			ky_option_error("--output %s: %s", output->file, why);
	}
	check_place(output);
}

/* What the command line says itself goes before the preset; its rules come on top of others. */
static void choose_profile(struct ky_run_options *options)
{
	struct ky_session_options *session = &options->session;
	struct ky_agent_options *agent = &session->agent;
	static struct ky_profile profile; /* large */
	char text[KY_PROFILE_WHY_BYTES] = "";

	if (options->profile_name == NULL)
		return;
	if (ky_profile_load(&profile, options->profile_name, text) != 0)
		ky_option_error("--profile %s", text);
	for (size_t i = 0; i < profile.rule_count; i++) {
		ky_rule_format(&profile.rules[i], text, sizeof(text));
		add_rules(&agent->triggers, "--profile", text);
	}
	agent->retain = profile.retain;
	session->gates_clear = profile.gates_clear & ~session->gates_set;
	session->gates_set |= profile.gates_set;
	if (session->ring_bytes == 0)
		session->ring_bytes = profile.ring_bytes;
	if (!options->has_hz && profile.has_sample_hz)
		agent->sampling.hz = profile.sample_hz;
	options->has_hz |= profile.has_sample_hz;
	if (!options->has_alloc_bytes)
		session->alloc_bytes = profile.alloc_bytes;
	else if (!session->alloc_bytes)
		session->gates_set &= ~(uint32_t)KYMO_GATE_ALLOC;
	if (!options->has_resource_ms && profile.has_resource_ms)
		agent->resource_ms = profile.resource_ms;
}

static int parse(const struct argp *argp, unsigned flags, struct words *words, int argc,
		 char **argv)
{
	struct ky_run_options *options = words->options;
	struct ky_session_options *session = &options->session;
	struct ky_agent_options *agent = &session->agent;
	const char *rules = getenv("KYMO_TRIGGERS");
	int code;

	agent->output.directory = KY_RUN_DIRECTORY;
	agent->sampling.hz = KY_RUN_SAMPLE_HZ;
	agent->resource_ms = KY_RUN_RESOURCE_MS;
	code = ky_option_parse(argp, argc, argv, flags, words);
	if (code)
		return code;
	session->is_quiet = ky_cli_is_quiet();
	agent->output.compressor = words->compression.compressor;
	options->has_compressor = words->compression.is_chosen;
	agent->output.metadata_count = words->metadata.count;
	memcpy(agent->output.metadata, words->metadata.pairs,
	       words->metadata.count * sizeof(words->metadata.pairs[0]));
	choose_output(&agent->output, options->has_compressor);
	if (rules != NULL)
		add_rules(&agent->triggers, "KYMO_TRIGGERS", rules);
	choose_profile(options);
	/* Allocations come in bursts, and each has an end. */
	if (session->alloc_bytes && !session->sample_bytes)
		session->sample_bytes = KY_RUN_ALLOC_SAMPLE_BYTES;
	return KY_EXIT_OK;
}

/* ---- kymo run ---- */

static const struct argp_option run_options[] = {
	{"alloc", KEY_ALLOC, "SIZE|off", OPTION_ARG_OPTIONAL,
	 "Sample one of SIZE allocated bytes, 1K to 1G (without SIZE 512K; default off)", 0},
	{"sample-bytes", KEY_SAMPLE_BYTES, "SIZE", 0,
	 "Memory for the samples of a process, 64K to 256M (default 2M, with --alloc 8M)", 0},
	{0},
};

/* What is sent are sealed segments, and dumps of rules. */
static void check_destinations(const struct ky_agent_options *agent)
{
	if (agent->output.file != NULL)
		ky_option_error("--output %s: one file has no segments to send: name a directory, "
				"or leave out --to and --exec",
				agent->output.file);
}

static error_t parse_run(int key, char *text, struct argp_state *state)
{
	struct words *words = state->input;
	uint64_t bytes;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = words;
		state->child_inputs[1] = &words->options->destinations;
		return 0;
	case ARGP_KEY_ARG: /* the rest is CMD's */
		if (state->next > 2 && strcmp(state->argv[state->next - 2], "--alloc") == 0 &&
		    ky_setting_alloc(text, &bytes))
			ky_option_error("--alloc takes its value after '=': --alloc=%s", text);
		words->options->command = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		ky_option_error("which program? Usage: kymo run [OPTION...] [--] CMD [ARG...]");
	default:
		return parse_sampling(key, text, words->options);
	}
}

int ky_run_options_parse(struct ky_run_options *out, int argc, char **argv)
{
	static const struct argp_child children[] = {{&recording_argp, 0, 0, 0},
						     {&ky_destinations_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		run_options,
		parse_run,
		"[--] CMD [ARG...]",
		"Runs CMD and records every poll, wake and park of its Tokio runtimes, without a "
		"rebuild. CMD's streams, signals and exit status pass through; its children are "
		"recorded too.\v"
		"Options end at the first word that is not one. Exit status: CMD's; its signal "
		"when a signal ended it; 125 wrong usage of kymo; 126 CMD could not be executed; "
		"127 CMD was not found.",
		children,
		0,
		0};
	struct words words = {.options = out};
	int code;

	*out = (struct ky_run_options){.session.agent.is_flight = false};
	code = parse(&argp, ARGP_IN_ORDER, &words, argc, argv);
	if (!code && out->destinations.count)
		check_destinations(&out->session.agent);
	return code;
}

/* ---- kymo attach ---- */

static error_t parse_attach(int key, char *text, struct argp_state *state)
{
	struct words *words = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = words;
		state->child_inputs[1] = &words->is_json;
		return 0;
	case ARGP_KEY_ARG:
		if (words->pid)
			ky_option_error("one process at a time: %u and '%s'", words->pid, text);
		if (!ky_run_parse_pid(text, &words->pid))
			ky_option_error("which process? A pid is a number, not '%s'", text);
		return 0;
	case ARGP_KEY_NO_ARGS:
		ky_option_error("which process? Usage: kymo attach [OPTION...] PID");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool has_output(const struct ky_run_options *options)
{
	const struct ky_agent_options *agent = &options->session.agent;
	const struct ky_output_options *output = &agent->output;

	return output->metadata_count || options->has_compressor || options->profile_name ||
	       agent->triggers.dump_directory || output->rotate_interval_ns ||
	       output->segment_bytes_max || output->total_bytes_max ||
	       strcmp(output->directory, KY_RUN_DIRECTORY) != 0;
}

int ky_attach_options_parse(struct ky_run_options *out, uint32_t *pid, bool *is_json, int argc,
			    char **argv)
{
	static const struct argp_child children[] = {{&recording_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		NULL,
		parse_attach,
		"PID",
		"Starts recording the Tokio runtimes of a process that runs already, without a "
		"restart: one of its sleeping threads is borrowed for about a millisecond to load "
		"the recorder. What cannot be done without risk is not done, and the process is "
		"as before. Of a process whose `kymo run` was killed it drains the ring again.\v"
		"In flight mode without --trigger kymo returns at once, and `kymo dump PID` makes "
		"a trace; then nothing is sampled unless --sample is given, by timers inside the "
		"process, and no context switches are read. Else kymo stays until the process "
		"ends, Ctrl-C, or `kymo detach PID`.\n\n"
		"Exit status: 0 it is recorded; 1 it is not, and a sentence says why; 2 wrong "
		"usage.",
		children,
		0,
		0};
	struct words words = {.options = out};
	const struct ky_agent_options *agent = &out->session.agent;
	int code;

	*out = (struct ky_run_options){.session.agent.is_flight = true};
	code = parse(&argp, 0, &words, argc, argv);
	*pid = words.pid;
	*is_json = words.is_json;
	if (!code && agent->is_flight && !agent->triggers.rule_count && has_output(out))
		ky_option_error("in flight mode kymo does not stay to write: `kymo dump PID -o "
				"FILE` makes a trace; or give --trigger or --mode stream");
	return code;
}
