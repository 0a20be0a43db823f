/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/run_options.h>

#include <base/quantity.h>
#include <ship/output_place.h>
#include <errno.h>
#include <getopt.h>
#include <kymo/alloc.h>
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

int ky_run_parse_compression(const char *text, struct ky_stage_factory *out)
{
	const char *colon = strchr(text, ':');
	size_t name_bytes = colon != NULL ? (size_t)(colon - text) : strlen(text);
	uint64_t level = 1;

	if (colon != NULL && !ky_quantity_in(ky_quantity_number, colon + 1, 1, 19, &level))
		return -EINVAL;
	if (name_bytes == 4 && memcmp(text, "zstd", 4) == 0) {
		ky_stage_zstd(out, (int)level);
		return 0;
	}
	if (name_bytes == 4 && memcmp(text, "gzip", 4) == 0 && level <= 9) {
		ky_stage_gzip(out, (int)level);
		return 0;
	}
	if (strcmp(text, "none") == 0) {
		*out = ky_stage_none;
		return 0;
	}
	return -EINVAL;
}

int ky_run_parse_pair(char *text, struct kymo_key_value *out)
{
	char *equals = strchr(text, '=');

	if (equals == NULL || equals == text || equals - text > 255 || strlen(equals + 1) > 1024)
		return -EINVAL;
	*equals = '\0';
	*out = (struct kymo_key_value){.key = text, .value = equals + 1};
	return 0;
}

bool ky_run_parse_rate(const char *text, uint32_t *out)
{
	uint64_t value = 0;
	bool is_fine = ky_quantity_or_off(ky_quantity_number, text, 1, KY_RUN_SAMPLE_HZ_MAX,
					  &value);

	*out = (uint32_t)value;
	return is_fine;
}

static bool parse_source(const char *text, uint32_t *out)
{
	static const char *const names[] = {[KY_RUN_SOURCE_ANY] = "auto",
					    [KY_RUN_SOURCE_PERF] = "perf",
					    [KY_RUN_SOURCE_TIMERS] = "timers"};

	for (*out = 0; *out < sizeof(names) / sizeof(names[0]); (*out)++)
		if (strcmp(text, names[*out]) == 0)
			return true;
	return false;
}

bool ky_run_parse_alloc(const char *text, uint64_t *out)
{
	return ky_quantity_or_off(ky_quantity_bytes, text, KYMO_ALLOC_BYTES_MIN,
				  KYMO_ALLOC_BYTES_MAX, out);
}

bool ky_run_parse_interval(const char *text, uint32_t *out_ms)
{
	uint64_t ns = 0;
	bool is_fine = ky_quantity_or_off(ky_quantity_ns, text, UINT64_C(1000000000),
					  UINT64_C(3600000000000), &ns);

	*out_ms = (uint32_t)(ns / 1000000);
	return is_fine;
}

static int parse_metadata(struct ky_run_options *options, char *text)
{
	if (options->metadata_count == KY_RUN_METADATA_MAX ||
	    ky_run_parse_pair(text, &options->metadata[options->metadata_count]) != 0)
		return -EINVAL;
	options->metadata_count++;
	return 0;
}

enum option_id {
	OPTION_MODE = 256,
	OPTION_RING_BYTES,
	OPTION_RING_DIR,
	OPTION_SAMPLE,
	OPTION_SAMPLE_BYTES,
	OPTION_SAMPLER,
	OPTION_SWITCHES,
	OPTION_ALLOC,
	OPTION_RESOURCES,
	OPTION_PROFILE,
	OPTION_COMPRESS,
	OPTION_ROTATE_INTERVAL,
	OPTION_SEGMENT_BYTES,
	OPTION_TOTAL_BYTES,
	OPTION_TRIGGER,
	OPTION_DUMP_DIR
};

static bool parse_either(const char *value, const char *first, const char *second, bool *is_first)
{
	*is_first = strcmp(value, first) == 0;
	return *is_first || strcmp(value, second) == 0;
}

static bool apply_switches(struct ky_run_options *options, const char *value)
{
	options->is_without_switches = strcmp(value, "off") == 0;
	options->has_kernel_stacks = strcmp(value, "stacks") == 0;
	return options->is_without_switches || options->has_kernel_stacks ||
	       strcmp(value, "on") == 0;
}

static bool is_ring_directory(const char *value)
{
	return value[0] == '/' && strlen(value) < KY_RUN_RING_DIRECTORY_BYTES;
}

static bool is_dump_directory(const char *value)
{
	return value[0] != '\0' && strlen(value) < KY_DISK_PATH_BYTES;
}

static const char *apply_rate(struct ky_run_options *options, const char *value)
{
	options->has_sample_hz = true;
	return ky_run_parse_rate(value, &options->sample_hz) ?
		       NULL :
		       "samples a second, 1 to 1000, or off";
}

/* value: NULL for as many as usual. */
static const char *apply_alloc(struct ky_run_options *options, const char *value)
{
	options->has_alloc_bytes = true;
	options->alloc_bytes = KYMO_ALLOC_BYTES_DEFAULT;
	if (!value || ky_run_parse_alloc(value, &options->alloc_bytes))
		return NULL;
	return "a size from 1K to 1G, or off";
}

static const char *apply_resources(struct ky_run_options *options, const char *value)
{
	options->has_resource_ms = true;
	return ky_run_parse_interval(value, &options->resource_ms) ? NULL :
								     "a time from 1s to 1h, or off";
}

/* Returns NULL when the value is fine, else what it should have been. */
static const char *apply(struct ky_run_options *options, int id, char *value)
{
	switch (id) {
	case OPTION_MODE:
		return parse_either(value, "flight", "stream", &options->is_flight) ?
			       NULL :
			       "stream or flight";
	case 'o':
		options->directory = value;
		return value[0] != '\0' ? NULL : "a directory or a file";
	case 's':
		options->service = value;
		return value[0] != '\0' ? NULL : "a name";
	case OPTION_DUMP_DIR:
		options->dump_directory = value;
		return is_dump_directory(value) ? NULL : "a directory, of at most 511 bytes";
	case OPTION_RING_DIR:
		options->ring_directory = value;
		return is_ring_directory(value) ? NULL : "an absolute path of at most 255 bytes";
	case OPTION_PROFILE:
		options->profile_name = value;
		return value[0] != '\0' ? NULL : "the name of a profile, or a file";
	case OPTION_RING_BYTES:
		return ky_quantity_in(ky_quantity_bytes, value, 128u << 10, UINT64_C(4) << 30,
				      &options->ring_bytes) ?
			       NULL :
			       "a size from 128K to 4G";
	case OPTION_SAMPLE:
		return apply_rate(options, value);
	case OPTION_RESOURCES:
		return apply_resources(options, value);
	case OPTION_SWITCHES:
		return apply_switches(options, value) ? NULL : "on, off or stacks";
	case OPTION_SAMPLE_BYTES:
		return ky_quantity_in(ky_quantity_bytes, value, KY_SAMPLE_BYTES_MIN,
				      KY_SAMPLE_BYTES_MAX, &options->sample_bytes) ?
			       NULL :
			       "a size from 64K to 256M";
	case OPTION_SAMPLER:
		return parse_source(value, &options->sample_source) ? NULL : "auto, perf or timers";
	case OPTION_ALLOC:
		return apply_alloc(options, value);
	case OPTION_COMPRESS:
		options->has_stage = true;
		return ky_run_parse_compression(value, &options->stage) == 0 ?
			       NULL :
			       "zstd[:1-19], gzip[:1-9] or none";
	case OPTION_ROTATE_INTERVAL:
		return ky_quantity_in(ky_quantity_ns, value, 1, UINT64_MAX,
				      &options->rotate_interval_ns) ?
			       NULL :
			       "a duration such as 60s or 5m";
	case OPTION_SEGMENT_BYTES:
		return ky_quantity_in(ky_quantity_bytes, value, 1, UINT64_MAX,
				      &options->segment_bytes_max) ?
			       NULL :
			       "a size such as 64M";
	case OPTION_TOTAL_BYTES:
		return ky_quantity_in(ky_quantity_bytes, value, 1, UINT64_MAX,
				      &options->total_bytes_max) ?
			       NULL :
			       "a size such as 1G";
	case 'm':
		return parse_metadata(options, value) == 0 ?
			       NULL :
			       "key=value, key up to 255 and value up to 1,024 bytes, at most "
			       "64 of them";
	default:
		return "another option";
	}
}

static const struct option long_options[] = {
	{"mode", required_argument, NULL, OPTION_MODE},
	{"output", required_argument, NULL, 'o'},
	{"service", required_argument, NULL, 's'},
	{"metadata", required_argument, NULL, 'm'},
	{"ring-bytes", required_argument, NULL, OPTION_RING_BYTES},
	{"ring-dir", required_argument, NULL, OPTION_RING_DIR},
	{"sample", required_argument, NULL, OPTION_SAMPLE},
	{"sample-bytes", required_argument, NULL, OPTION_SAMPLE_BYTES},
	{"sampler", required_argument, NULL, OPTION_SAMPLER},
	{"switches", required_argument, NULL, OPTION_SWITCHES},
	{"alloc", optional_argument, NULL, OPTION_ALLOC},
	{"resources", required_argument, NULL, OPTION_RESOURCES},
	{"profile", required_argument, NULL, OPTION_PROFILE},
	{"compress", required_argument, NULL, OPTION_COMPRESS},
	{"rotate-interval", required_argument, NULL, OPTION_ROTATE_INTERVAL},
	{"segment-bytes", required_argument, NULL, OPTION_SEGMENT_BYTES},
	{"total-bytes", required_argument, NULL, OPTION_TOTAL_BYTES},
	{"trigger", required_argument, NULL, OPTION_TRIGGER},
	{"dump-dir", required_argument, NULL, OPTION_DUMP_DIR},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static bool is_directory(const char *path)
{
	struct stat about;

	return path[strlen(path) - 1] == '/' || (stat(path, &about) == 0 && S_ISDIR(about.st_mode));
}

/* By the name, which then says the compression: everybody who sees the file believes it. */
static void choose_stage(struct ky_run_options *options, const char *suffix)
{
	if (options->has_stage)
		return;
	if (strcmp(suffix, ".zst") == 0)
		ky_stage_zstd(&options->stage, 1);
	else if (strcmp(suffix, ".gz") == 0)
		ky_stage_gzip(&options->stage, 1);
	else
		options->stage = ky_stage_none;
}

/* Inside a packing the recorder's side cannot look; here we can. */
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
static const char *misfit(const struct ky_run_options *options, const char *suffix)
{
	switch (check_file(options->file)) {
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
		return "a file that is no trace stands under this name or with .old behind it and "
		       "stays as it is; choose another name";
	default:
		return "a trace needs a regular file, or a name that is free";
	}
	if (strcmp(suffix, options->stage.suffix) != 0)
		return "--compress contradicts the name (.zst is zstd, .gz gzip, neither is none)";
	if (options->segment_bytes_max != 0 || options->rotate_interval_ns != 0)
		return "one file does not rotate: leave out --segment-bytes and --rotate-interval, "
		       "or name a directory";
	if (options->total_bytes_max != 0 && options->total_bytes_max < KY_TRACE_FILE_BYTES_MIN)
		return "--total-bytes of one file is at least 1M";
	return NULL;
}

/* The default is nobody's word: where it cannot be made CMD runs, and that is said. */
static int check_place(const struct ky_run_options *options, char *errbuf, size_t errbuf_bytes)
{
	char why[KY_OUTPUT_PLACE_BYTES];

	if (strcmp(options->directory, KY_RUN_DIRECTORY) == 0 ||
	    ky_output_place_check(options->directory, options->file != NULL, why) == 0)
		return 0;
	snprintf(errbuf, errbuf_bytes, "-o: %s", why);
	return -EINVAL;
}

static int choose_output(struct ky_run_options *options, char *errbuf, size_t errbuf_bytes)
{
	const char *suffix = ky_trace_file_suffix(options->directory), *why;

	if (strcmp(options->directory, "-") == 0) {
		snprintf(errbuf, errbuf_bytes,
			 "-o -: standard output is CMD's; name a directory or a file");
		return -EINVAL;
	}
	if (is_directory(options->directory)) {
		suffix = NULL;
	} else if (ky_trace_file_is_foreign(options->directory)) {
		snprintf(errbuf, errbuf_bytes,
			 "-o %s: a trace is a .trc, or packed as .trc.zst or .trc.gz; for a "
			 "directory of this name put a / behind it",
			 options->directory);
		return -EINVAL;
	}
	if (suffix == NULL && strlen(options->directory) >= KY_STORE_DIRECTORY_BYTES) {
		snprintf(errbuf, errbuf_bytes,
			 "-o: the directory's name has %zu bytes, and may have %u",
			 strlen(options->directory), KY_STORE_DIRECTORY_BYTES - 1);
		return -EINVAL;
	}
	if (suffix == NULL)
		return check_place(options, errbuf, errbuf_bytes);
	options->file = options->directory;
	choose_stage(options, suffix);
	why = misfit(options, suffix);
	if (why == NULL)
		return check_place(options, errbuf, errbuf_bytes);
	snprintf(errbuf, errbuf_bytes, "-o %s: %s", options->file, why);
	return -EINVAL;
}

static int add_rules(struct ky_run_options *options, const char *where, const char *text,
		     char *errbuf, size_t errbuf_bytes)
{
	static struct ky_rule rules[KY_RULES_MAX]; /* too many for everybody's stack */
	char why[256] = "";
	int err = ky_rules_parse(rules, &options->rule_count, text, why, sizeof(why));

	options->rules = rules;
	if (err != 0)
		snprintf(errbuf, errbuf_bytes, "%s: %s", where, why);
	return err;
}

/* Who writes the option wants one: nothing in it is a variable of the shell that was not set. */
static int add_asked_rules(struct ky_run_options *options, const char *text, char *errbuf,
			   size_t errbuf_bytes)
{
	size_t before = options->rule_count;
	int err = add_rules(options, "--trigger", text, errbuf, errbuf_bytes);

	if (err == 0 && options->rule_count == before) {
		snprintf(errbuf, errbuf_bytes, "--trigger: no rule stands in \"%.64s\"", text);
		err = -EINVAL;
	}
	return err;
}

/* What the command line says itself goes before the profile; its rules come on top of others. */
static int choose_profile(struct ky_run_options *options, char *errbuf, size_t errbuf_bytes)
{
	char text[KY_PROFILE_WHY_BYTES] = "";

	if (options->profile_name == NULL)
		return 0;
	if (ky_profile_load(&options->profile, options->profile_name, text) != 0) {
		snprintf(errbuf, errbuf_bytes, "--profile %s", text);
		return -EINVAL;
	}
	for (size_t i = 0; i < options->profile.rule_count; i++) {
		ky_rule_format(&options->profile.rules[i], text, sizeof(text));
		if (add_rules(options, "--profile", text, errbuf, errbuf_bytes) != 0)
			return -EINVAL;
	}
	if (options->ring_bytes == 0)
		options->ring_bytes = options->profile.ring_bytes;
	if (!options->has_sample_hz && options->profile.has_sample_hz)
		options->sample_hz = options->profile.sample_hz;
	if (!options->has_alloc_bytes)
		options->alloc_bytes = options->profile.alloc_bytes;
	else if (!options->alloc_bytes)
		options->profile.gates_set &= ~(uint32_t)KYMO_GATE_ALLOC;
	if (!options->has_resource_ms && options->profile.has_resource_ms)
		options->resource_ms = options->profile.resource_ms;
	return 0;
}

/* order: getopt's, "+" to stop at the first word that is not an option, "" to go on behind it. */
static int parse_in(const char *order, struct ky_run_options *out, int argc, char **argv,
		    char *errbuf, size_t errbuf_bytes)
{
	char known[16];
	int id, index;
	const char *expected;

	memset(out, 0, sizeof(*out));
	out->directory = KY_RUN_DIRECTORY;
	out->sample_hz = KY_RUN_SAMPLE_HZ;
	out->resource_ms = KY_RUN_RESOURCE_MS;
	ky_stage_zstd(&out->stage, 1);
	optind = 0; /* 0, not 1: glibc then starts over, also after an earlier parse */
	opterr = 0;
	(void)snprintf(known, sizeof(known), "%s:o:s:m:qh", order);
	for (;;) {
		index = -1;
		id = getopt_long(argc, argv, known, long_options, &index);
		if (id == -1)
			break;
		if (id == 'h') {
			out->wants_help = true;
			return 0;
		}
		if (id == 'q') {
			out->is_quiet = true;
			continue;
		}
		if (id == '?' || id == ':') {
			snprintf(errbuf, errbuf_bytes, "%s %s; see `%s --help`", argv[optind - 1],
				 id == ':' ? "needs a value" : "is not an option", argv[0]);
			return -EINVAL;
		}
		if (id == OPTION_TRIGGER) {
			if (add_asked_rules(out, optarg, errbuf, errbuf_bytes) != 0)
				return -EINVAL;
			continue;
		}
		expected = apply(out, id, optarg);
		if (expected != NULL) {
			snprintf(errbuf, errbuf_bytes, "%s%.*s: expected %s, not \"%s\"",
				 index >= 0 ? "--" : "-", index >= 0 ? 64 : 1,
				 index >= 0 ? long_options[index].name :
					      (const char[]){(char)id, 0},
				 expected, optarg);
			return -EINVAL;
		}
	}
	if (choose_output(out, errbuf, errbuf_bytes) != 0)
		return -EINVAL;
	if (getenv("KYMO_TRIGGERS") != NULL &&
	    add_rules(out, "KYMO_TRIGGERS", getenv("KYMO_TRIGGERS"), errbuf, errbuf_bytes) != 0)
		return -EINVAL;
	if (optind >= argc) {
		snprintf(errbuf, errbuf_bytes,
			 "which program? Usage: kymo run [OPTIONS] [--] CMD [ARGS…]");
		return -EINVAL;
	}
	if (choose_profile(out, errbuf, errbuf_bytes) != 0)
		return -EINVAL;
	/* Allocations come in bursts, and each has an end. */
	if (out->alloc_bytes && !out->sample_bytes)
		out->sample_bytes = KY_RUN_ALLOC_SAMPLE_BYTES;
	out->command = argv + optind;
	return 0;
}

int ky_run_options_parse(struct ky_run_options *out, int argc, char **argv, char *errbuf,
			 size_t errbuf_bytes)
{
	return parse_in("+", out, argc, argv, errbuf, errbuf_bytes); /* CMD's options are CMD's */
}

int ky_run_options_parse_mixed(struct ky_run_options *out, int argc, char **argv, char *errbuf,
			       size_t errbuf_bytes)
{
	return parse_in("", out, argc, argv, errbuf, errbuf_bytes);
}
