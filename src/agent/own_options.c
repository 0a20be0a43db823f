/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/own_options.h>

#include <errno.h>
#include <record/emit/emit_engine.h>
#include <record/emit/options.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTORY_DEFAULT "./kymo-traces"

/* The name says the compression: everybody who sees the file believes it. */
static int take_file(struct ky_own_agent *own, struct kymo_recorder_options *taken)
{
	const char *name = taken->trace_file, *suffix = name ? ky_trace_file_suffix(name) : "";
	uint32_t compression;
	int err;

	if (!name)
		return 0;
	if (!suffix)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: the name must end in .trc, .trc.zst or "
				      ".trc.gz",
				      name);
	compression = ky_compressor_kind(suffix);
	if (taken->compression && taken->compression != compression)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: compression contradicts the name", name);
	if (taken->segment_bytes_max || taken->rotate_interval_ns)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: one file does not rotate; leave "
				      "segment_bytes_max and rotate_interval_ns 0",
				      name);
	if (taken->total_bytes_max && taken->total_bytes_max < KY_TRACE_FILE_BYTES_MIN)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: total_bytes_max is less than 1 MiB", name);
	err = ky_trace_file_check(name);
	if (err)
		return ky_options_say(taken, err, "trace_file %s: %s", name, kymo_error_text(err));
	snprintf(own->trace_file, sizeof(own->trace_file), "%s", name);
	taken->compression = compression;
	taken->trace_file = NULL; /* the caller's text */
	return 0;
}

static int take_rules(const struct kymo_recorder_options *taken, const char *from,
		      const char *rules)
{
	char why[200];
	int err = rules && rules[0] ? ky_own_rules_add(rules, why, sizeof(why)) : 0;

	return err ? ky_options_say(taken, err, "%s: %s", from, why) : 0;
}

static int take_triggers(struct ky_own_agent *own, const struct kymo_recorder_options *taken)
{
	int err;

	ky_own_rules_init(&own->rules);
	if (taken->flags & KYMO_RECORDER_NO_DRAIN)
		return taken->triggers ? ky_options_say(taken, KYMO_E_UNSUPPORTED,
							"triggers: with KYMO_RECORDER_NO_DRAIN the "
							"process that drains the ring checks "
							"them") :
					 0;
	err = take_rules(taken, "triggers", taken->triggers);
	return err ? err : take_rules(taken, "KYMO_TRIGGERS", secure_getenv("KYMO_TRIGGERS"));
}

static int take_places(struct ky_own_agent *own, struct kymo_recorder_options *taken)
{
	const char *wish = taken->dump_directory ? taken->dump_directory : taken->trace_directory;

	if (!wish)
		wish = DIRECTORY_DEFAULT;
	if (strlen(wish) >= sizeof(own->dump_directory))
		return ky_options_say(taken, -ENAMETOOLONG, "dump_directory: %s",
				      kymo_error_text(-ENAMETOOLONG));
	snprintf(own->dump_directory, sizeof(own->dump_directory), "%s", wish);
	own->place.directory = own->dump_directory;
	own->place.service = ky_engine.service;
	own->place.age_min_ns = taken->age_min_ns;
	own->place.compressor = &own->options.output.compressor;
	taken->dump_directory = taken->triggers = NULL; /* the caller's texts */
	return 0;
}

int ky_own_options_take(struct ky_own_agent *own, struct kymo_recorder_options *taken, bool is_open)
{
	int err = take_file(own, taken);

	if (!err && !is_open)
		err = take_triggers(own, taken);
	return err ? err : take_places(own, taken);
}

void ky_own_options_output(struct ky_own_agent *own, const struct kymo_recorder_options *taken)
{
	struct ky_output_options *output = &own->options.output;

	output->file = own->trace_file[0] ? own->trace_file : NULL;
	output->directory = ky_engine.trace_directory[0] ? ky_engine.trace_directory :
							   DIRECTORY_DEFAULT;
	output->service = ky_engine.service;
	output->segment_bytes_max = taken->segment_bytes_max;
	output->rotate_interval_ns = taken->rotate_interval_ns;
	output->total_bytes_max = taken->total_bytes_max;
	output->write = taken->write;
	output->write_ctx = taken->write_ctx;
}
