/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <bucket/object_key.h>

#include <base/hex.h>
#include <errno.h>
#include <ship/trace_file.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PARTS_MAX 6u
#define SECOND_NS UINT64_C(1000000000)
#define MS_NS UINT64_C(1000000)
#define HOUR_S UINT64_C(3600)

/* The last parts of a key, the last first. */
struct parts {
	const char *at[PARTS_MAX];
	size_t bytes[PARTS_MAX];
	uint32_t count;
};

static void split(struct parts *parts, const char *key)
{
	const char *end = key + strlen(key);

	parts->count = 0;
	while (parts->count < PARTS_MAX) {
		const char *begin = end;

		while (begin > key && begin[-1] != '/')
			begin--;
		parts->at[parts->count] = begin;
		parts->bytes[parts->count++] = (size_t)(end - begin);
		if (begin == key)
			return;
		end = begin - 1;
	}
}

/* Its %XX undone; "unknown" is none. False: it does not fit. */
static bool read_value(const char *at, const char *end, char *out, size_t out_bytes)
{
	size_t used = 0;

	for (; at < end; at++) {
		int byte = *at == '%' ? ky_hex_percent(at, end) : *at;

		if (*at == '%') {
			if (byte <= 0)
				return false;
			at += 2;
		}
		if (used + 1 >= out_bytes)
			return false;
		out[used++] = (char)byte;
	}
	out[used] = '\0';
	if (strcmp(out, "unknown") == 0)
		out[0] = '\0';
	return true;
}

/* The value of part NAME=VALUE. False: another part, or one that does not fit. */
static bool take_value(const struct parts *parts, uint32_t part, const char *name, char *out,
		       size_t out_bytes)
{
	size_t name_bytes = strlen(name);
	const char *at;

	if (part >= parts->count || parts->bytes[part] <= name_bytes + 1)
		return false;
	at = parts->at[part];
	return memcmp(at, name, name_bytes) == 0 && at[name_bytes] == '=' &&
	       read_value(at + name_bytes + 1, at + parts->bytes[part], out, out_bytes);
}

bool ky_object_service_read(char *out, const char *value)
{
	return read_value(value, value + strcspn(value, "/"), out, KY_OBJECT_SERVICE_BYTES);
}

/* A number that ends at one of `ends`. NULL: there is none. */
static const char *take_number(const char *at, const char *ends, uint64_t *out)
{
	char *end;

	if (*at < '0' || *at > '9')
		return NULL;
	errno = 0;
	*out = strtoull(at, &end, 10);
	return errno || !*end || !strchr(ends, *end) ? NULL : end;
}

/* START_MS-MS-BOOT-PID-START-INDEX.trc.zst */
static bool read_kymo(struct ky_object_key *out, const struct parts *parts)
{
	const char *name = parts->at[0], *at, *dot = strchr(name, '.'), *dash = dot;
	uint64_t start_ms, ms;
	size_t run_bytes;

	if (!dot || !take_value(parts, 1, "host", out->host, sizeof(out->host)) ||
	    !take_value(parts, 4, "service", out->service, sizeof(out->service)))
		return false;
	at = take_number(name, "-", &start_ms);
	at = at ? take_number(at + 1, "-", &ms) : NULL;
	if (!at || start_ms > UINT64_MAX / MS_NS / 4 || ms > UINT64_MAX / MS_NS / 4)
		return false;
	at++;
	while (dash > at && *dash != '-')
		dash--;
	run_bytes = (size_t)(dash - at);
	if (!run_bytes || run_bytes >= sizeof(out->run) ||
	    !take_number(dash + 1, ".", &out->number))
		return false;
	memcpy(out->run, at, run_bytes);
	out->run[run_bytes] = '\0';
	out->form = KY_OBJECT_KYMO;
	out->start_unix_ns = start_ms * MS_NS;
	/* Both were cut to milliseconds. */
	out->end_unix_ns = ms ? (start_ms + ms + 2) * MS_NS : 0;
	return true;
}

/* EPOCH-INDEX.bin.gz */
static bool read_dial9(struct ky_object_key *out, const struct parts *parts)
{
	const char *at = parts->at[0];
	uint64_t seconds;

	if (!take_value(parts, 1, "boot", out->run, sizeof(out->run)) ||
	    !take_value(parts, 2, "instance", out->host, sizeof(out->host)) ||
	    !take_value(parts, 4, "service", out->service, sizeof(out->service)))
		return false;
	at = take_number(at, "-", &seconds);
	if (!at || !take_number(at + 1, ".", &out->number) || seconds > UINT64_MAX / SECOND_NS)
		return false;
	out->form = KY_OBJECT_DIAL9;
	out->start_unix_ns = seconds * SECOND_NS;
	return true;
}

bool ky_object_key_read(struct ky_object_key *out, const char *key)
{
	struct parts parts;

	*out = (struct ky_object_key){.form = KY_OBJECT_PLAIN};
	if (!ky_trace_file_suffix(key))
		return false;
	split(&parts, key);
	if (!parts.bytes[0] || read_kymo(out, &parts))
		return parts.bytes[0] != 0;
	*out = (struct ky_object_key){.form = KY_OBJECT_PLAIN};
	if (!read_dial9(out, &parts))
		*out = (struct ky_object_key){.form = KY_OBJECT_PLAIN};
	return true;
}

/* YYYY-MM-DD, as the layout writes it. */
static bool read_date(const char *text, uint64_t *unix_s)
{
	struct tm parts = {.tm_isdst = 0};
	const char *end = strptime(text, "%Y-%m-%d", &parts);
	time_t seconds = end && !*end ? timegm(&parts) : -1;

	*unix_s = (uint64_t)seconds;
	return seconds >= 0 && seconds < (time_t)(INT64_MAX / (int64_t)SECOND_NS);
}

bool ky_object_long_read(struct ky_object_long *out, const char *key)
{
	char date[16], hour_text[4], hours_text[8];
	struct parts parts;
	uint64_t day_s, hour;

	split(&parts, key);
	if (!take_value(&parts, 0, "lasts", hours_text, sizeof(hours_text)) ||
	    !take_value(&parts, 1, "hour", hour_text, sizeof(hour_text)) ||
	    !take_value(&parts, 2, "date", date, sizeof(date)) ||
	    !take_value(&parts, 3, "service", out->service, sizeof(out->service)) ||
	    !read_date(date, &day_s))
		return false;
	/* Each text ends with a zero, which is the end of its number. */
	if (strspn(hour_text, "0123456789") != strlen(hour_text) ||
	    strspn(hours_text, "0123456789") != strlen(hours_text))
		return false;
	hour = strtoull(hour_text, NULL, 10);
	out->hours = strtoull(hours_text, NULL, 10);
	out->hour_unix_ns = (day_s + hour * HOUR_S) * SECOND_NS;
	return hour < 24 && out->hours >= 2 && out->hours <= KY_OBJECT_HOURS_MAX;
}
