/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/nearest.h>
#include <ring/ring_settings.h>
#include <cli/profile.h>

#include <base/quantity.h>
#include <cli/cli.h>
#include <cli/moment.h>
#include <cli/toml_reader.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/alloc.h>
#include <kymo/emit.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wire/kind_list.h>

#define FILE_BYTES_MAX (256u << 10)
#define NO_RETAIN KY_RETAIN_COUNT

#define PLAIN_KIND(gate, name) {name, KYMO_GATE_##gate, NO_RETAIN, false},
#define LIMITED_KIND(gate, name) {name, KYMO_GATE_##gate, KY_RETAIN_##gate, false},
#define TIMED_KIND(gate, name) {name, KYMO_GATE_##gate, KY_RETAIN_##gate, true},

/* clang-format off */
static const struct key_kind {
	const char *name;
	uint32_t gate;
	uint32_t retain; /* enum ky_retain_kind, NO_RETAIN */
	bool has_threshold;
} kinds[] = {
	KY_KIND_LIST(PLAIN_KIND, LIMITED_KIND, TIMED_KIND)
};
/* clang-format on */
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct preset_reading {
	struct ky_profile *profile;
	const char *file;
	char *why;
	uint32_t line;
	char path[160];
};

/* "FILE:LINE: KEY: ..." */
__attribute__((format(printf, 2, 3))) static int refuse(const struct preset_reading *reading,
							const char *format, ...)
{
	size_t used = (size_t)snprintf(reading->why, KY_PROFILE_WHY_BYTES,
				       "%.200s:%u: %s: ", reading->file, reading->line,
				       reading->path);
	va_list args;

	if (used >= KY_PROFILE_WHY_BYTES)
		return -EINVAL;
	va_start(args, format);
	vsnprintf(reading->why + used, KY_PROFILE_WHY_BYTES - used, format, args);
	va_end(args);
	return -EINVAL;
}

static int add_setting(struct preset_reading *reading, const char *kind, const char *what,
		       const char *value)
{
	struct ky_profile *profile = reading->profile;
	int used;

	if (profile->setting_count == KY_PROFILE_SETTINGS_MAX)
		return refuse(reading, "too many settings");
	used = snprintf(profile->settings[profile->setting_count], KY_PROFILE_SETTING_BYTES,
			"%s%s=%s", kind, what, value);
	if (used < 0 || (size_t)used >= KY_PROFILE_SETTING_BYTES)
		return refuse(reading, "the value is too long");
	profile->setting_count++;
	return 0;
}

/* ---- values ---- */

static int set_enabled(struct preset_reading *reading, const struct key_kind *kind,
		       const char *text, uint32_t toml_kind)
{
	bool is_on = strcmp(text, "true") == 0;

	if (toml_kind != KY_TOML_BOOLEAN)
		return refuse(reading, "expected true or false, not %.64s", text);
	if (is_on)
		reading->profile->gates_set |= kind->gate;
	else
		reading->profile->gates_clear |= kind->gate;
	if (kind->gate == KYMO_GATE_ALLOC && !is_on)
		reading->profile->alloc_bytes = 0;
	else if (kind->gate == KYMO_GATE_ALLOC && !reading->profile->alloc_bytes)
		reading->profile->alloc_bytes = KYMO_ALLOC_BYTES_DEFAULT;
	return add_setting(reading, kind->name, "", is_on ? "on" : "off");
}

static int set_threshold(struct preset_reading *reading, const struct key_kind *kind,
			 const char *text, uint32_t toml_kind)
{
	struct ky_retain_rule *rule = &reading->profile->retain.rules[kind->retain];
	struct ky_moment moment = {0};

	if (toml_kind != KY_TOML_STRING)
		return refuse(reading,
			      "expected a time in quotes, as \"1ms\", or \"off\", not %.64s", text);
	if (strcmp(text, "off") == 0) {
		rule->threshold_ns = 0;
	} else if (ky_moment_parse(&moment, text) != 0 || moment.kind != KY_MOMENT_RELATIVE) {
		return refuse(reading, "expected a time, as \"1ms\", or \"off\", not \"%.64s\"",
			      text);
	} else {
		rule->threshold_ns = moment.ns;
	}
	return add_setting(reading, kind->name, ".threshold", rule->threshold_ns ? text : "off");
}

static int set_throttle(struct preset_reading *reading, const struct key_kind *kind,
			const char *text, uint32_t toml_kind)
{
	struct ky_retain_rule *rule = &reading->profile->retain.rules[kind->retain];
	unsigned long long number = 0;
	char *end = NULL;

	if (toml_kind == KY_TOML_STRING && strcmp(text, "off") == 0) {
		rule->throttle = 0;
		return add_setting(reading, kind->name, ".throttle", text);
	}
	errno = 0;
	if (text[0] >= '0' && text[0] <= '9')
		number = strtoull(text, &end, 10);
	if (!end || errno || number == 0 || number >= UINT32_MAX || toml_kind > KY_TOML_INTEGER ||
	    (*end && strcmp(end, "/s") != 0))
		return refuse(reading,
			      "expected events a second, as \"1000/s\", or \"off\", not %.64s",
			      text);
	rule->throttle = (uint32_t)number;
	return add_setting(reading, kind->name, ".throttle", text);
}

/* ---- keys ---- */

static int refuse_key(const struct preset_reading *reading, const char *typed,
		      const char *const *allowed, size_t count)
{
	const char *nearest = ky_nearest(typed, allowed, count);
	char list[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < count && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
					 allowed[i]);
	return refuse(reading, "there is no such key%s%s%s; allowed: %s",
		      nearest ? " (did you mean '" : "", nearest ? nearest : "",
		      nearest ? "'?)" : "", list);
}

/* The gate of the stacks that a kind's events have; NULL: they have none. */
static const struct key_kind *stacks_of(const struct key_kind *kind)
{
	size_t bytes = strlen(kind->name);

	for (size_t i = 0; i < KINDS; i++)
		if (strncmp(kinds[i].name, kind->name, bytes) == 0 &&
		    strcmp(kinds[i].name + bytes, ".stacks") == 0)
			return &kinds[i];
	return NULL;
}

static int on_event(struct preset_reading *reading, const char *path, const char *text,
		    uint32_t toml_kind)
{
	const char *names[KINDS], *allowed[4] = {"enabled"}, *dot = strchr(path, '.');
	size_t count = 1, kind_bytes = dot ? (size_t)(dot - path) : strlen(path);
	const struct key_kind *kind = NULL, *stacks;
	const char *key = dot ? dot + 1 : "";
	size_t name_count = 0;

	for (size_t i = 0; i < KINDS; i++) {
		if (strchr(kinds[i].name, '.'))
			continue; /* a key of another kind */
		names[name_count++] = kinds[i].name;
		if (strlen(kinds[i].name) == kind_bytes &&
		    memcmp(kinds[i].name, path, kind_bytes) == 0)
			kind = &kinds[i];
	}
	if (!kind)
		return refuse_key(reading, path, names, name_count);
	if (toml_kind == KY_TOML_EMPTY && !dot)
		return 0; /* [events.poll] with nothing below it */
	stacks = stacks_of(kind);
	if (kind->has_threshold)
		allowed[count++] = "threshold";
	if (kind->retain != NO_RETAIN)
		allowed[count++] = "throttle";
	if (stacks)
		allowed[count++] = "stacks";
	for (size_t i = 0; i < count; i++) {
		if (strcmp(key, allowed[i]) != 0)
			continue;
		if (strcmp(key, "enabled") == 0)
			return set_enabled(reading, kind, text, toml_kind);
		if (strcmp(key, "stacks") == 0)
			return set_enabled(reading, stacks, text, toml_kind);
		if (strcmp(key, "threshold") == 0)
			return set_threshold(reading, kind, text, toml_kind);
		return set_throttle(reading, kind, text, toml_kind);
	}
	return refuse_key(reading, key, allowed, count);
}

static int on_trigger(struct preset_reading *reading, const char *text, uint32_t toml_kind)
{
	struct ky_profile *profile = reading->profile;
	char why[256] = "";

	if (toml_kind == KY_TOML_EMPTY)
		return 0;
	if (toml_kind != KY_TOML_STRING)
		return refuse(reading, "expected a rule in quotes, as \"poll>100ms\", not %.64s",
			      text);
	if (ky_rules_parse(profile->rules, &profile->rule_count, text, why, sizeof(why)) != 0)
		return refuse(reading, "%s", why);
	return 0;
}

static int on_ring_bytes(struct preset_reading *reading, const char *text, uint32_t toml_kind)
{
	uint64_t bytes = 0;

	if (toml_kind > KY_TOML_INTEGER ||
	    !ky_quantity_in(ky_quantity_bytes, text, 128u << 10, UINT64_C(4) << 30, &bytes))
		return refuse(reading, "expected a size from \"128K\" to \"4G\", not %.64s", text);
	reading->profile->ring_bytes = bytes;
	return 0;
}

static int on_sample_hz(struct preset_reading *reading, const char *text, uint32_t toml_kind)
{
	struct ky_profile *profile = reading->profile;

	if ((toml_kind != KY_TOML_INTEGER && strcmp(text, "off") != 0) ||
	    !ky_setting_rate(text, &profile->sample_hz))
		return refuse(reading,
			      "expected samples a second, 1 to 1000, or \"off\", not %.64s", text);
	profile->has_sample_hz = true;
	return add_setting(reading, "sampling", "", text);
}

static int on_alloc_bytes(struct preset_reading *reading, const char *text, uint32_t toml_kind)
{
	struct ky_profile *profile = reading->profile;

	if (toml_kind > KY_TOML_INTEGER || !ky_setting_alloc(text, &profile->alloc_bytes))
		return refuse(reading,
			      "expected a size from \"1K\" to \"1G\", or \"off\", not %.64s", text);
	if (!profile->alloc_bytes) {
		profile->gates_clear |= KYMO_GATE_ALLOC;
		return add_setting(reading, "alloc", "", "off");
	}
	profile->gates_set |= KYMO_GATE_ALLOC;
	return add_setting(reading, "alloc", "", "on") ||
	       add_setting(reading, "alloc", ".bytes", text);
}

static int on_resources(struct preset_reading *reading, const char *text, uint32_t toml_kind)
{
	struct ky_profile *profile = reading->profile;

	if (toml_kind != KY_TOML_STRING || !ky_setting_interval(text, &profile->resource_ms))
		return refuse(reading,
			      "expected a time from \"1s\" to \"1h\", or \"off\", not %.64s", text);
	profile->has_resource_ms = true;
	return add_setting(reading, "resources", "", text);
}

static int on_key(struct preset_reading *reading, const char *text, uint32_t toml_kind)
{
	static const char *const allowed[] = {
		"description",        "ring.bytes", "sampling.cpu_hz", "sampling.alloc_bytes",
		"resources.interval", "events",     "triggers"};
	const char *path = reading->path;

	if (strcmp(path, "description") == 0)
		return toml_kind == KY_TOML_STRING ?
			       0 :
			       refuse(reading, "expected text in quotes, not %.64s", text);
	if (strcmp(path, "ring.bytes") == 0)
		return on_ring_bytes(reading, text, toml_kind);
	if (strcmp(path, "sampling.cpu_hz") == 0)
		return on_sample_hz(reading, text, toml_kind);
	if (strcmp(path, "sampling.alloc_bytes") == 0)
		return on_alloc_bytes(reading, text, toml_kind);
	if (strcmp(path, "resources.interval") == 0)
		return on_resources(reading, text, toml_kind);
	if (strncmp(path, "events.", 7) == 0)
		return on_event(reading, path + 7, text, toml_kind);
	if (strncmp(path, "triggers[", 9) == 0 || strcmp(path, "triggers") == 0)
		return on_trigger(reading, text, toml_kind);
	if (toml_kind == KY_TOML_EMPTY &&
	    (path[0] == '\0' || strcmp(path, "ring") == 0 || strcmp(path, "events") == 0 ||
	     strcmp(path, "sampling") == 0 || strcmp(path, "resources") == 0))
		return 0;
	return refuse_key(reading, path, allowed, sizeof(allowed) / sizeof(allowed[0]));
}

static int on_value(void *ctx, const char *path, size_t path_bytes, const char *text,
		    size_t text_bytes, uint32_t kind, uint32_t line)
{
	struct preset_reading *reading = ctx;
	char value[1024];

	reading->line = line;
	(void)snprintf(reading->path, sizeof(reading->path), "%.*s",
		       (int)(path_bytes < 150 ? path_bytes : 150), path);
	if (text_bytes >= sizeof(value) || memchr(text, 0, text_bytes))
		return refuse(reading, "the value is too long, or has a zero byte");
	memcpy(value, text, text_bytes);
	value[text_bytes] = '\0';
	return on_key(reading, value, kind);
}

/* ---- files ---- */

int ky_profile_parse(struct ky_profile *out, const char *file, const char *text, size_t text_bytes,
		     char *why)
{
	struct preset_reading reading = {.profile = out, .file = file, .why = why};
	char error[300] = "";
	int result;

	memset(out, 0, sizeof(*out));
	(void)snprintf(out->name, sizeof(out->name), "%s", file);
	result = ky_toml_parse((const uint8_t *)text, text_bytes, on_value, &reading, error,
			       sizeof(error), &reading.line);
	if (result < 0)
		(void)snprintf(why, KY_PROFILE_WHY_BYTES, "%.150s:%u: no TOML: %s", file,
			       reading.line, error);
	return result ? -EINVAL : 0;
}

static int refuse_file(char *why, const char *name, int err)
{
	size_t used = (size_t)snprintf(why, KY_PROFILE_WHY_BYTES,
				       "%.200s: %s; presets that come with kymo:", name,
				       strerrordesc_np(err));

	for (size_t i = 0; i < ky_builtin_profile_count && used < KY_PROFILE_WHY_BYTES; i++)
		used += (size_t)snprintf(why + used, KY_PROFILE_WHY_BYTES - used, "%s %s",
					 i ? "," : "", ky_builtin_profiles[i].name);
	return -err;
}

static int load_file(struct ky_profile *out, const char *name, char *why)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK), result;
	size_t used = 0;
	struct stat st;
	ssize_t got;
	char *text;

	if (fd < 0)
		return refuse_file(why, name, errno);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)FILE_BYTES_MAX) {
		close(fd);
		(void)snprintf(why, KY_PROFILE_WHY_BYTES,
			       "%.200s: a preset is a regular file of at most 256 KiB", name);
		return -EINVAL;
	}
	text = malloc(FILE_BYTES_MAX + 1);
	if (!text) {
		close(fd);
		return refuse_file(why, name, ENOMEM);
	}
	while (used <= FILE_BYTES_MAX &&
	       (got = read(fd, text + used, FILE_BYTES_MAX + 1 - used)) > 0)
		used += (size_t)got;
	close(fd);
	result = ky_profile_parse(out, name, text, used, why);
	free(text);
	return result;
}

int ky_profile_load(struct ky_profile *out, const char *name, char *why)
{
	for (size_t i = 0; i < ky_builtin_profile_count; i++) {
		const struct ky_builtin_profile *builtin = &ky_builtin_profiles[i];

		if (strcmp(builtin->name, name) == 0)
			return ky_profile_parse(out, name, builtin->text, strlen(builtin->text),
						why);
	}
	return load_file(out, name, why);
}
