/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <watch/rule.h>

#include <base/timeline.h>
#include <base/utf8.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define COOLDOWN_DEFAULT_NS (60 * SECOND)
#define TIME_NS_MAX (366 * 24 * 3600 * SECOND) /* sums of two of them stay far from overflow */
#define QUOTE_BYTES 40u
#define TEXT_BYTES 256u /* of any rule without its name */

enum unit {
	UNIT_TIME,
	UNIT_COUNT,
	UNIT_PERCENT,
	UNIT_BYTES,
	UNIT_RATE
};

static const struct rule_kind {
	const char *word;
	enum unit unit;
	bool has_duration;
	bool needs_events;
	uint64_t duration_ns; /* without "for" */
} kinds[] = {
	[KY_RULE_POLL] = {"poll", UNIT_TIME, false, false, 0},
	[KY_RULE_WAKE] = {"wake", UNIT_TIME, false, true, 0},
	[KY_RULE_QUEUE] = {"queue", UNIT_COUNT, true, true, 0},
	[KY_RULE_STALL] = {"stall", UNIT_TIME, false, false, 0},
	[KY_RULE_RUNNABLE] = {"runnable", UNIT_TIME, true, false, SECOND},
	[KY_RULE_CPU] = {"cpu", UNIT_PERCENT, true, false, 0},
	[KY_RULE_THROTTLED] = {"throttled", UNIT_PERCENT, true, false, 0},
	[KY_RULE_RSS] = {"rss", UNIT_BYTES, true, false, 60 * SECOND},
	[KY_RULE_TASKS] = {"tasks", UNIT_COUNT, true, true, 0},
	[KY_RULE_COUNTER] = {"counter", UNIT_COUNT, true, false, 0},
	[KY_RULE_SPAN] = {"span", UNIT_TIME, false, true, 0},
	[KY_RULE_ERRORS] = {"errors", UNIT_RATE, true, false, 0},
};
#define KIND_COUNT (sizeof(kinds) / sizeof(*kinds))

struct suffix {
	const char *text;
	uint64_t factor;
};

/* Largest first: what is written takes the first that divides. */
static const struct suffix times[] = {
	{"h", 3600 * SECOND}, {"m", 60 * SECOND}, {"s", SECOND}, {"ms", 1000000},
	{"us", 1000},         {"ns", 1},          {NULL, 0},
};
static const struct suffix sizes[] = {
	{"T", UINT64_C(1) << 40}, {"G", 1u << 30}, {"M", 1u << 20},
	{"K", 1u << 10},          {"", 1},         {NULL, 0},
};
static const struct suffix counts[] = {{"", 1}, {NULL, 0}};
static const struct suffix percents[] = {{"%", 1}, {NULL, 0}};
static const struct suffix rates[] = {{"/s", 1}, {NULL, 0}};

static const struct {
	const struct suffix *suffixes;
	const char *wanted;
} units[] = {
	[UNIT_TIME] = {times, "a time with its unit: 100ms, 1.5s, 10m"},
	[UNIT_COUNT] = {counts, "a number"},
	[UNIT_PERCENT] = {percents, "percent: 90%"},
	[UNIT_BYTES] = {sizes, "bytes: 512M, 2G"},
	[UNIT_RATE] = {rates, "a number a second: 10/s"},
};

/* ---- reading ---- */

struct parser {
	const char *at;
	char *errbuf;
	size_t errbuf_bytes;
};

/* One sentence that quotes `count` bytes at `from`. Always returns -EINVAL. */
__attribute__((format(printf, 4, 5))) static int fail(const struct parser *parser, const char *from,
						      size_t count, const char *format, ...)
{
	char quote[QUOTE_BYTES + 4];
	size_t used = 0;
	va_list list;
	int written;

	if (!parser->errbuf || !parser->errbuf_bytes)
		return -EINVAL;
	for (size_t i = 0; i < count && used < QUOTE_BYTES; i++)
		quote[used++] = from[i] >= ' ' && from[i] <= '~' ? from[i] : '?';
	if (used < count)
		used += (size_t)snprintf(quote + used, 4, "...");
	quote[used] = 0;
	written = snprintf(parser->errbuf, parser->errbuf_bytes, "trigger rule: \"%s\" ", quote);
	if (written < 0 || (size_t)written >= parser->errbuf_bytes)
		return -EINVAL;
	va_start(list, format);
	vsnprintf(parser->errbuf + written, parser->errbuf_bytes - (size_t)written, format, list);
	va_end(list);
	return -EINVAL;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static bool is_end(char c)
{
	return c == 0 || c == ';' || c == '\n' || c == '#';
}

static void skip_blanks(struct parser *parser)
{
	while (is_blank(*parser->at))
		parser->at++;
}

/* Bytes up to what cannot be part of a word; those that show where in a message. */
static size_t word_bytes(const char *at)
{
	size_t count = 0;

	while (!is_end(at[count]) && !is_blank(at[count]) && at[count] != '>' && at[count] != '=' &&
	       at[count] != '"')
		count++;
	return count;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

#define SHIFT_MAX 9u

/* "12" or "1.5": digits / 10^shift. Returns its bytes; 0: none, or too many after the point. A
 * number that is too large has a shift above SHIFT_MAX. */
static size_t read_digits(const char *at, ky_wide *digits, uint32_t *shift)
{
	size_t count = 0;
	bool has_point = false, is_large = false;

	*digits = 0;
	*shift = 0;
	for (; is_digit(at[count]) || (at[count] == '.' && !has_point && count); count++) {
		if (at[count] == '.') {
			has_point = true;
			continue;
		}
		is_large |= *digits > UINT64_MAX / 10;
		if (!is_large)
			*digits = *digits * 10 + (unsigned)(at[count] - '0');
		if (has_point && ++*shift > SHIFT_MAX)
			return 0;
	}
	if (is_large)
		*shift = SHIFT_MAX + 1;
	return count && at[count - 1] != '.' ? count : 0;
}

static int read_amount(struct parser *parser, enum unit unit, uint64_t *out)
{
	size_t count = word_bytes(parser->at), used;
	const struct suffix *suffix = units[unit].suffixes;
	uint32_t shift;
	ky_wide value, divisor = 1;

	used = read_digits(parser->at, &value, &shift);
	if (!used)
		return fail(parser, parser->at, count, "is not %s", units[unit].wanted);
	while (suffix->text && (strlen(suffix->text) != count - used ||
				memcmp(suffix->text, parser->at + used, count - used) != 0))
		suffix++;
	if (!suffix->text)
		return fail(parser, parser->at, count, "is not %s", units[unit].wanted);
	if (shift > SHIFT_MAX)
		return fail(parser, parser->at, count, "is too large");
	while (shift--)
		divisor *= 10;
	value *= suffix->factor;
	if (value % divisor)
		return fail(parser, parser->at, count, "is no whole number of its smallest unit");
	value /= divisor;
	if (value > (unit == UNIT_TIME ? TIME_NS_MAX : UINT64_MAX))
		return fail(parser, parser->at, count, "is too large");
	*out = (uint64_t)value;
	parser->at += count;
	return 0;
}

static bool is_utf8(const char *text, size_t count)
{
	size_t at = 0, bytes = 1;

	for (; at < count && bytes; at += bytes)
		bytes = ky_utf8_sequence((const uint8_t *)text + at, count - at);
	return bytes != 0;
}

/* A word, or anything in double quotes. */
static int read_name(struct parser *parser, char *out, size_t out_bytes)
{
	const char *from = parser->at;
	size_t count;

	if (*from == '"') {
		from++;
		count = strcspn(from, "\"\n");
		if (from[count] != '"')
			return fail(parser, from, count, "lacks its closing quote");
		parser->at = from + count + 1;
	} else {
		count = word_bytes(from);
		parser->at = from + count;
	}
	if (!count)
		return fail(parser, from, word_bytes(from), "stands where a name should");
	if (count >= out_bytes)
		return fail(parser, from, count, "is a name of more than %zu bytes", out_bytes - 1);
	for (size_t i = 0; i < count; i++) {
		if ((unsigned char)from[i] < ' ' || from[i] == 127)
			return fail(parser, from, count, "has a control character in it");
	}
	if (!is_utf8(from, count))
		return fail(parser, from, count, "is not UTF-8");
	memcpy(out, from, count);
	out[count] = 0;
	return 0;
}

static int read_kind(struct parser *parser, struct ky_rule *rule)
{
	size_t count = word_bytes(parser->at), letters = strcspn(parser->at, ":> \t\r\n;#=\"");
	size_t kind = 1;

	if (letters > count)
		letters = count;
	while (kind < KIND_COUNT && (strlen(kinds[kind].word) != letters ||
				     memcmp(kinds[kind].word, parser->at, letters) != 0))
		kind++;
	if (kind == KIND_COUNT)
		return fail(parser, parser->at, count,
			    "is nothing to watch; there are poll, wake, queue, stall, runnable, "
			    "cpu, throttled, rss, tasks, counter:NAME, span, errors");
	if ((parser->at[letters] == ':') != (kind == KY_RULE_COUNTER))
		return fail(parser, parser->at, count, "%s",
			    kind == KY_RULE_COUNTER ? "lacks the name: counter:NAME" :
						      "takes no name");
	rule->kind = (enum ky_rule_kind)kind;
	parser->at += letters;
	if (kind != KY_RULE_COUNTER)
		return 0;
	parser->at++;
	return read_name(parser, rule->counter, sizeof(rule->counter));
}

static int read_duration(struct parser *parser, struct ky_rule *rule)
{
	const struct rule_kind *kind = &kinds[rule->kind];
	const char *from = parser->at;

	rule->duration_ns = kind->duration_ns;
	if (word_bytes(from) != 3 || memcmp(from, "for", 3) != 0)
		return 0;
	if (!kind->has_duration)
		return fail(parser, from, 3, "has no place here: the value of %s is a time already",
			    kind->word);
	parser->at += 3;
	skip_blanks(parser);
	from = parser->at;
	if (read_amount(parser, UNIT_TIME, &rule->duration_ns) != 0)
		return -EINVAL;
	if (!rule->duration_ns && kind->duration_ns)
		return fail(parser, from, word_bytes(from), "is too short for %s", kind->word);
	return 0;
}

/* seen: bit per key. */
static int read_pair(struct parser *parser, struct ky_rule *rule, uint32_t *seen)
{
	static const char *const keys[] = {"cooldown", "after", "last", "name"};
	uint64_t *const times_of[] = {&rule->cooldown_ns, &rule->after_ns, &rule->last_ns};
	const char *from = parser->at;
	size_t count = word_bytes(from), key = 0;

	while (key < 4 && (strlen(keys[key]) != count || memcmp(keys[key], from, count) != 0))
		key++;
	if (key == 4 || from[count] != '=')
		return fail(parser, from, count ? count : 1,
			    "is not understood; after the value come for TIME, cooldown=, after=, "
			    "last=, name=");
	if (*seen & 1u << key)
		return fail(parser, from, count, "stands twice in one rule");
	*seen |= 1u << key;
	parser->at += count + 1;
	if (key == 3)
		return read_name(parser, rule->name, sizeof(rule->name));
	if (key == 2 && word_bytes(parser->at) == 3 && memcmp(parser->at, "all", 3) == 0) {
		parser->at += 3;
		return 0;
	}
	return read_amount(parser, UNIT_TIME, times_of[key]);
}

static size_t format_core(const struct ky_rule *rule, char *out, size_t out_bytes);

/* Its own text, cut between characters. */
static void default_name(const struct ky_rule *rule, char *out)
{
	char text[TEXT_BYTES];
	size_t count = format_core(rule, text, sizeof(text));

	if (count >= KY_RULE_NAME_BYTES)
		count = KY_RULE_NAME_BYTES - 1;
	while (count && !is_utf8(text, count))
		count--;
	memcpy(out, text, count);
	memset(out + count, 0, KY_RULE_NAME_BYTES - count);
}

static int read_rule(struct parser *parser, struct ky_rule *rule)
{
	const char *from;
	uint32_t seen = 0;

	memset(rule, 0, sizeof(*rule));
	rule->cooldown_ns = COOLDOWN_DEFAULT_NS;
	if (read_kind(parser, rule) != 0)
		return -EINVAL;
	skip_blanks(parser);
	if (*parser->at != '>' || parser->at[1] == '=')
		return fail(parser, parser->at, strcspn(parser->at, " \t\r\n;#0123456789"),
			    "stands where \">\" should: %s>VALUE", kinds[rule->kind].word);
	parser->at++;
	skip_blanks(parser);
	from = parser->at;
	if (read_amount(parser, kinds[rule->kind].unit, &rule->threshold) != 0)
		return -EINVAL;
	if (!rule->threshold && kinds[rule->kind].unit == UNIT_TIME)
		return fail(parser, from, word_bytes(from), "is always exceeded");
	skip_blanks(parser);
	if (read_duration(parser, rule) != 0)
		return -EINVAL;
	for (skip_blanks(parser); !is_end(*parser->at); skip_blanks(parser)) {
		if (read_pair(parser, rule, &seen) != 0)
			return -EINVAL;
	}
	if (!*rule->name)
		default_name(rule, rule->name);
	return 0;
}

int ky_rules_parse(struct ky_rule *rules, size_t *count, const char *text, char *errbuf,
		   size_t errbuf_bytes)
{
	struct parser parser = {text, errbuf, errbuf_bytes};
	size_t made = *count;

	if (errbuf && errbuf_bytes)
		*errbuf = 0;
	for (;;) {
		skip_blanks(&parser);
		if (*parser.at == '#')
			parser.at += strcspn(parser.at, "\n");
		if (!*parser.at)
			break;
		if (*parser.at == ';' || *parser.at == '\n') {
			parser.at++;
			continue;
		}
		if (made >= KY_RULES_MAX)
			return fail(&parser, parser.at, word_bytes(parser.at),
				    "is one rule too many: %u are the most", KY_RULES_MAX);
		if (read_rule(&parser, &rules[made]) != 0)
			return -EINVAL;
		made++;
	}
	*count = made;
	return 0;
}

/* ---- writing ---- */

struct rule_writer {
	char *out;
	size_t bytes, used; /* used may exceed bytes */
};

__attribute__((format(printf, 2, 3))) static void put(struct rule_writer *writer,
						      const char *format, ...)
{
	size_t room = writer->used < writer->bytes ? writer->bytes - writer->used : 0;
	va_list list;
	int count;

	va_start(list, format);
	count = vsnprintf(room ? writer->out + writer->used : NULL, room, format, list);
	va_end(list);
	if (count > 0)
		writer->used += (size_t)count;
}

static size_t finish(const struct rule_writer *writer)
{
	if (!writer->bytes)
		return 0;
	return writer->used < writer->bytes ? writer->used : writer->bytes - 1;
}

static void put_amount(struct rule_writer *writer, enum unit unit, uint64_t value)
{
	const struct suffix *suffix = units[unit].suffixes;

	while (suffix[1].text && (value % suffix->factor || !value))
		suffix++;
	put(writer, "%llu%s", (unsigned long long)(value / suffix->factor), suffix->text);
}

static void put_name(struct rule_writer *writer, const char *name)
{
	bool is_plain = *name && word_bytes(name) == strlen(name);

	put(writer, is_plain ? "%s" : "\"%s\"", name);
}

static size_t format_core(const struct ky_rule *rule, char *out, size_t out_bytes)
{
	const struct rule_kind *kind = &kinds[rule->kind];
	struct rule_writer writer = {out, out_bytes, 0};

	put(&writer, "%s", kind->word);
	if (rule->kind == KY_RULE_COUNTER) {
		put(&writer, ":");
		put_name(&writer, rule->counter);
	}
	put(&writer, ">");
	put_amount(&writer, kind->unit, rule->threshold);
	if (kind->has_duration && rule->duration_ns != kind->duration_ns) {
		put(&writer, " for ");
		put_amount(&writer, UNIT_TIME, rule->duration_ns);
	}
	if (rule->cooldown_ns != COOLDOWN_DEFAULT_NS) {
		put(&writer, " cooldown=");
		put_amount(&writer, UNIT_TIME, rule->cooldown_ns);
	}
	if (rule->after_ns) {
		put(&writer, " after=");
		put_amount(&writer, UNIT_TIME, rule->after_ns);
	}
	if (rule->last_ns) {
		put(&writer, " last=");
		put_amount(&writer, UNIT_TIME, rule->last_ns);
	}
	return finish(&writer);
}

size_t ky_rule_format(const struct ky_rule *rule, char *out, size_t out_bytes)
{
	char text[TEXT_BYTES], name[KY_RULE_NAME_BYTES];
	struct rule_writer writer = {out, out_bytes, 0};

	format_core(rule, text, sizeof(text));
	default_name(rule, name);
	put(&writer, "%s", text);
	if (*rule->name && strcmp(rule->name, name) != 0) {
		put(&writer, " name=");
		put_name(&writer, rule->name);
	}
	return finish(&writer);
}

/* Three digits, or all of a whole number. */
static void put_scaled(struct rule_writer *writer, uint64_t value, uint64_t factor,
		       const char *unit)
{
	double scaled = (double)value / (double)factor;
	int digits = value % factor == 0 || scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;

	put(writer, "%.*f %s", digits, scaled, unit);
}

static void put_time(struct rule_writer *writer, uint64_t ns)
{
	if (ns >= 60 * SECOND)
		put(writer, "%llu min %llu s", (unsigned long long)(ns / SECOND / 60),
		    (unsigned long long)(ns / SECOND % 60));
	else if (ns >= SECOND)
		put_scaled(writer, ns, SECOND, "s");
	else if (ns >= 1000000)
		put_scaled(writer, ns, 1000000, "ms");
	else if (ns >= 1000)
		put_scaled(writer, ns, 1000, "us");
	else
		put(writer, "%llu ns", (unsigned long long)ns);
}

static void put_bytes(struct rule_writer *writer, uint64_t bytes)
{
	static const char *const names[] = {"KiB", "MiB", "GiB", "TiB"};
	int step = 3;

	while (step >= 0 && bytes < UINT64_C(1) << 10 * (step + 1))
		step--;
	if (step < 0)
		put(writer, "%llu B", (unsigned long long)bytes);
	else
		put_scaled(writer, bytes, UINT64_C(1) << 10 * (step + 1), names[step]);
}

static void put_grouped(struct rule_writer *writer, uint64_t value)
{
	if (value >= 1000) {
		put_grouped(writer, value / 1000);
		put(writer, ",%03u", (unsigned)(value % 1000));
	} else {
		put(writer, "%u", (unsigned)value);
	}
}

size_t ky_rule_value_text(const struct ky_rule *rule, uint64_t value, char *out, size_t out_bytes)
{
	struct rule_writer writer = {out, out_bytes, 0};
	enum unit unit = kinds[rule->kind].unit;

	if (unit == UNIT_TIME) {
		put_time(&writer, value);
	} else if (unit == UNIT_BYTES) {
		put_bytes(&writer, value);
	} else {
		put_grouped(&writer, value);
		if (unit == UNIT_PERCENT)
			put(&writer, " %%");
		else if (unit == UNIT_RATE)
			put(&writer, value == 1 ? " error/s" : " errors/s");
		else if (rule->kind != KY_RULE_COUNTER)
			put(&writer, value == 1 ? " task" : " tasks");
	}
	return finish(&writer);
}

const char *ky_rule_unit(const struct ky_rule *rule)
{
	static const char *const names[] = {"ns", "tasks", "percent", "bytes", "errors/s"};

	return rule->kind == KY_RULE_COUNTER ? "" : names[kinds[rule->kind].unit];
}

bool ky_rule_needs_events(const struct ky_rule *rule)
{
	return kinds[rule->kind].needs_events;
}
