/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/moment.h>

#include <base/quantity.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#define SECOND_NS UINT64_C(1000000000)

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
		ky_quantity_fraction(&rest, &part, &scale);
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
	int err;

	out->kind = KY_MOMENT_NONE;
	if (*text == '@') {
		err = ky_quantity_number(text + 1, &out->ns);
		if (!err)
			out->kind = KY_MOMENT_ABSOLUTE;
		return err;
	}
	if (*text == '+')
		text++;
	if (*text < '0' || *text > '9')
		return -EINVAL;
	if (strchr(text, '-'))
		return parse_wall(out, text);
	err = ky_quantity_ns(text, &out->ns);
	if (!err)
		out->kind = KY_MOMENT_RELATIVE;
	return err;
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
