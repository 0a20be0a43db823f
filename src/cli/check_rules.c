/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <cli/check_rules.h>

#include <base/alloc.h>
#include <base/nearest.h>
#include <base/quantity.h>
#include <cli/toml_reader.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (256u << 10)

struct check_reading {
	struct ky_check_rules *rules;
	const char *file;
	char *why;
	uint32_t line;
	char path[160];
};

/* "FILE:LINE: KEY: ..." */
__attribute__((format(printf, 2, 3))) static int refuse(const struct check_reading *reading,
							const char *format, ...)
{
	size_t used = (size_t)snprintf(reading->why, KY_CHECK_WHY_BYTES,
				       "%.200s:%u: %s: ", reading->file, reading->line,
				       reading->path);
	va_list args;

	va_start(args, format);
	if (used < KY_CHECK_WHY_BYTES)
		(void)vsnprintf(reading->why + used, KY_CHECK_WHY_BYTES - used, format, args);
	va_end(args);
	return -EINVAL;
}

static int set_text(const struct check_reading *reading, char *out, size_t out_bytes,
		    const char *text, uint32_t kind)
{
	if (kind != KY_TOML_STRING || !text[0])
		return refuse(reading, "expected text in quotes");
	if (strlen(text) >= out_bytes)
		return refuse(reading, "longer than %zu bytes", out_bytes - 1);
	memcpy(out, text, strlen(text) + 1);
	return 0;
}

static int set_bound(const struct check_reading *reading, struct ky_check_bound *out,
		     const char *text, uint32_t kind)
{
	uint64_t value = 0;
	char *end;

	if (strlen(text) >= sizeof(out->text))
		return refuse(reading, "too long: '%.40s'", text);
	out->is_given = true;
	memcpy(out->text, text, strlen(text) + 1);
	if (kind == KY_TOML_INTEGER || kind == KY_TOML_FLOAT) {
		out->unit = KY_CHECK_NUMBER;
		out->value = strtod(text, &end);
		if (*end || out->value - out->value != 0)
			return refuse(reading, "expected a plain number, not %s", text);
		return 0;
	}
	if (kind == KY_TOML_STRING && ky_quantity_ns(text, &value) == 0)
		out->unit = KY_CHECK_NS;
	else if (kind == KY_TOML_STRING && ky_quantity_bytes(text, &value) == 0)
		out->unit = KY_CHECK_BYTES;
	else
		return refuse(reading,
			      "expected a number, a duration as \"10ms\" or a size as \"64M\", not "
			      "'%.40s'",
			      text);
	out->value = (double)value;
	return 0;
}

static int set_missing(const struct check_reading *reading, struct ky_check_rule *rule,
		       const char *text)
{
	rule->may_be_missing = strcmp(text, "skip") == 0;
	if (!rule->may_be_missing && strcmp(text, "fail") != 0)
		return refuse(reading, "expected \"fail\" or \"skip\", not '%.40s'", text);
	return 0;
}

static int set_key(const struct check_reading *reading, struct ky_check_rule *rule, const char *key,
		   const char *text, uint32_t kind)
{
	static const char *const keys[] = {"name", "view", "where",  "value",
					   "min",  "max",  "missing"};
	const char *nearest;

	if (!rule->line || reading->line < rule->line)
		rule->line = reading->line;
	if (strcmp(key, "name") == 0)
		return set_text(reading, rule->name, sizeof(rule->name), text, kind);
	if (strcmp(key, "view") == 0)
		return set_text(reading, rule->view, sizeof(rule->view), text, kind);
	if (strcmp(key, "where") == 0)
		return set_text(reading, rule->where, sizeof(rule->where), text, kind);
	if (strcmp(key, "value") == 0)
		return set_text(reading, rule->value, sizeof(rule->value), text, kind);
	if (strcmp(key, "min") == 0)
		return set_bound(reading, &rule->min, text, kind);
	if (strcmp(key, "max") == 0)
		return set_bound(reading, &rule->max, text, kind);
	if (strcmp(key, "missing") == 0)
		return set_missing(reading, rule, text);
	nearest = ky_nearest(key, keys, sizeof(keys) / sizeof(keys[0]));
	return refuse(reading,
		      "no such key%s%s%s; a rule has name, view, where, value, min, max, "
		      "missing",
		      nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static int on_value(void *ctx, const char *path, size_t path_bytes, const char *text,
		    size_t text_bytes, uint32_t kind, uint32_t line)
{
	struct check_reading *reading = ctx;
	unsigned long number;
	char value[1100], *end;

	reading->line = line;
	(void)snprintf(reading->path, sizeof(reading->path), "%.*s",
		       (int)(path_bytes < 150 ? path_bytes : 150), path);
	if (text_bytes >= sizeof(value) || memchr(text, 0, text_bytes))
		return refuse(reading, "the value is too long, or has a zero byte");
	memcpy(value, text, text_bytes);
	value[text_bytes] = '\0';
	if (kind == KY_TOML_EMPTY && !path_bytes)
		return 0; /* check() says it */
	if (strncmp(reading->path, "rule[", 5) != 0)
		return refuse(reading, "rules stand below [[rule]]");
	number = strtoul(reading->path + 5, &end, 10);
	if (end[0] != ']' || end[1] != '.' || number >= KY_CHECK_RULES_MAX)
		return refuse(reading, "at most %u rules, each below [[rule]]", KY_CHECK_RULES_MAX);
	if (number >= reading->rules->count)
		reading->rules->count = (uint32_t)number + 1;
	return set_key(reading, &reading->rules->rules[number], end + 2, value, kind);
}

static int check(struct check_reading *reading)
{
	for (uint32_t i = 0; i < reading->rules->count; i++) {
		struct ky_check_rule *rule = &reading->rules->rules[i];

		reading->line = rule->line;
		(void)snprintf(reading->path, sizeof(reading->path), "rule[%u]", i);
		if (!rule->view[0] || !rule->value[0])
			return refuse(reading, "needs a view, as \"polls\", and a value, as "
					       "\"max(duration_ns)\"");
		if (!rule->min.is_given && !rule->max.is_given)
			return refuse(reading, "needs max, min or both");
		if (rule->min.is_given && rule->max.is_given && rule->min.value > rule->max.value)
			return refuse(reading, "min is above max");
		if (!rule->name[0])
			(void)snprintf(rule->name, sizeof(rule->name), "%.80s of %.60s",
				       rule->value, rule->view);
	}
	if (reading->rules->count)
		return 0;
	(void)snprintf(reading->why, KY_CHECK_WHY_BYTES, "%.200s: no [[rule]] in it",
		       reading->file);
	return -EINVAL;
}

static int parse(struct ky_check_rules *out, const char *file, const char *text, size_t text_bytes,
		 char *why)
{
	struct check_reading reading = {.rules = out, .file = file, .why = why};
	char error[300] = "";
	int result = ky_toml_parse((const uint8_t *)text, text_bytes, on_value, &reading, error,
				   sizeof(error), &reading.line);

	if (result < 0)
		(void)snprintf(why, KY_CHECK_WHY_BYTES, "%.150s:%u: no TOML: %s", file,
			       reading.line, error);
	return result ? -EINVAL : check(&reading);
}

int ky_check_rules_load(struct ky_check_rules *out, const char *file, char *why)
{
	FILE *from = fopen(file, "re");
	char *text = NULL;
	size_t used = 0;
	int result;

	memset(out, 0, sizeof(*out));
	errno = from ? 0 : errno;
	if (from)
		text = ky_alloc(FILE_BYTES_MAX + 1);
	out->rules = ky_alloc(KY_CHECK_RULES_MAX * sizeof(*out->rules));
	if (text)
		used = fread(text, 1, FILE_BYTES_MAX + 1, from);
	if (!from || !text || !out->rules || ferror(from)) {
		result = errno ? -errno : -ENOMEM;
		(void)snprintf(why, KY_CHECK_WHY_BYTES, "%.300s: %s", file,
			       strerrordesc_np(-result));
	} else if (used > FILE_BYTES_MAX) {
		result = -EFBIG;
		(void)snprintf(why, KY_CHECK_WHY_BYTES, "%.300s: more than 256 KiB of rules", file);
	} else {
		result = parse(out, file, text, used, why);
	}
	if (from)
		(void)fclose(from);
	ky_free(text);
	return result;
}

void ky_check_rules_release(struct ky_check_rules *rules)
{
	ky_free(rules->rules);
	memset(rules, 0, sizeof(*rules));
}
