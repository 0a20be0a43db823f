/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/moment.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS UINT64_C(1000000000)

static const struct {
	const char *name;
	uint64_t ns;
} units[] = {
	{"ns", 1},        {"us", 1000},          {"ms", 1000000},
	{"s", SECOND_NS}, {"m", 60 * SECOND_NS}, {"h", 3600 * SECOND_NS},
};

/* Digits behind a point: numerator over *scale, at most nine of them. */
static uint64_t fraction(const char **text, uint64_t *scale)
{
	uint64_t value = 0;

	*scale = 1;
	while (**text >= '0' && **text <= '9') {
		if (*scale < SECOND_NS) {
			value = value * 10 + (uint64_t)(**text - '0');
			*scale *= 10;
		}
		(*text)++;
	}
	return value;
}

static int parse_relative(struct ky_moment *out, const char *text)
{
	uint64_t part = 0, scale = 1, whole;
	char *end;

	errno = 0;
	whole = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	text = end;
	if (*text == '.') {
		text++;
		part = fraction(&text, &scale);
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(text, units[i].name) != 0)
			continue;
		if (whole > UINT64_MAX / units[i].ns - 1)
			return -ERANGE;
		out->kind = KY_MOMENT_RELATIVE;
		/* part / scale < 1 and unit <= 3.6e12: in two steps nothing overflows. */
		out->ns = whole * units[i].ns + units[i].ns / scale * part +
			  units[i].ns % scale * part / scale;
		return 0;
	}
	return -EINVAL;
}

static int parse_wall(struct ky_moment *out, const char *text)
{
	struct tm parts = {0};
	uint64_t part = 0, scale = 1;
	const char *rest = strptime(text, "%Y-%m-%d", &parts);
	time_t seconds;

	if (!rest || (*rest != 'T' && *rest != ' '))
		return -EINVAL;
	rest = strptime(rest + 1, "%H:%M:%S", &parts);
	if (!rest)
		return -EINVAL;
	if (*rest == '.') {
		rest++;
		part = fraction(&rest, &scale);
	}
	if (*rest == 'Z')
		rest++;
	seconds = timegm(&parts);
	if (*rest || seconds < 0)
		return -EINVAL;
	out->kind = KY_MOMENT_WALL;
	out->ns = (uint64_t)seconds * SECOND_NS + part * (SECOND_NS / scale);
	return 0;
}

int ky_moment_parse(struct ky_moment *out, const char *text)
{
	char *end;

	out->kind = KY_MOMENT_NONE;
	if (*text == '@') {
		if (text[1] < '0' || text[1] > '9')
			return -EINVAL;
		errno = 0;
		out->ns = strtoull(text + 1, &end, 10);
		if (errno || *end)
			return errno ? -ERANGE : -EINVAL;
		out->kind = KY_MOMENT_ABSOLUTE;
		return 0;
	}
	if (*text == '+')
		text++;
	if (*text < '0' || *text > '9')
		return -EINVAL;
	return strchr(text, '-') ? parse_wall(out, text) : parse_relative(out, text);
}

int ky_moment_resolve(const struct ky_moment *moment, uint64_t start_ns, uint64_t sync_monotonic_ns,
		      uint64_t sync_realtime_ns, uint64_t *out)
{
	switch (moment->kind) {
	case KY_MOMENT_RELATIVE:
		*out = moment->ns > UINT64_MAX - start_ns ? UINT64_MAX : start_ns + moment->ns;
		return 0;
	case KY_MOMENT_WALL:
		if (!sync_realtime_ns)
			return -ENODATA;
		if (moment->ns >= sync_realtime_ns)
			*out = sync_monotonic_ns + (moment->ns - sync_realtime_ns);
		else if (sync_realtime_ns - moment->ns >= sync_monotonic_ns)
			*out = 0;
		else
			*out = sync_monotonic_ns - (sync_realtime_ns - moment->ns);
		return 0;
	default:
		*out = moment->ns;
		return 0;
	}
}
