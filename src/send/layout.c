/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/layout.h>

#include <base/file_name.h>
#include <base/json_write.h>
#include <base/out_text.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <send/dump_name.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define KEY_BYTES_MAX 1024u
#define HOUR_NS UINT64_C(3600000000000)

void ky_layout_value(struct ky_buf *out, const char *name, const char *value)
{
	static const char digits[] = "0123456789ABCDEF";

	ky_out_format(out, "%s=", name);
	if (!value[0])
		ky_out_text(out, "unknown");
	for (const char *at = value; *at; at++) {
		unsigned char byte = (unsigned char)*at;
		const char triple[3] = {'%', digits[byte >> 4], digits[byte & 15]};

		if (ky_is_file_name_byte(*at) && !(at == value && *at == '.'))
			(void)ky_buf_append(out, at, 1);
		else
			(void)ky_buf_append(out, triple, sizeof(triple));
	}
	ky_out_text(out, "/");
}

static struct tm utc(uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000u);
	struct tm parts = {.tm_year = 70, .tm_mday = 1};

	(void)gmtime_r(&seconds, &parts);
	return parts;
}

void ky_layout_date(struct ky_buf *out, uint64_t unix_ns)
{
	const struct tm parts = utc(unix_ns);

	ky_out_format(out, "date=%04d-%02d-%02d/", parts.tm_year + 1900, parts.tm_mon + 1,
		      parts.tm_mday);
}

static void add_dial9(struct ky_buf *out, const struct kymo_segment *segment)
{
	uint64_t start_ns = segment->start_unix_ns;
	const struct tm parts = utc(start_ns);

	ky_out_text(out, "version=1/");
	ky_layout_date(out, start_ns);
	ky_layout_value(out, "service", segment->service);
	ky_out_format(out, "time=%02d%02d/", parts.tm_hour, parts.tm_min);
	ky_layout_value(out, "instance", segment->host);
	ky_layout_value(out, "boot", segment->boot);
	ky_out_format(out, "%" PRIu64 "-%" PRIu64 ".bin.gz", start_ns / 1000000000u,
		      segment->number);
}

static void add_kymo(struct ky_buf *out, const struct kymo_segment *segment)
{
	uint64_t start_ns = segment->start_unix_ns, end_ns = segment->end_unix_ns;
	const char *suffix = ky_dump_name_ending(segment->name);
	const struct tm parts = utc(start_ns);

	ky_out_text(out, "k1/raw/");
	ky_layout_value(out, "service", segment->service);
	ky_layout_date(out, start_ns);
	ky_out_format(out, "hour=%02d/", parts.tm_hour);
	ky_layout_value(out, "host", segment->host);
	ky_out_format(out, "%" PRIu64 "-%" PRIu64 "-%s-%06" PRIu64 "%s", start_ns / 1000000u,
		      end_ns > start_ns ? (end_ns - start_ns) / 1000000u : 0, segment->boot,
		      segment->number, suffix ? suffix : "");
}

int ky_layout_key(struct ky_buf *out, enum ky_layout layout, const char *prefix,
		  const struct kymo_segment *segment)
{
	size_t before = out->used;

	if (prefix[0])
		ky_out_format(out, "%s/", prefix);
	if (layout == KY_LAYOUT_DIAL9)
		add_dial9(out, segment);
	else
		add_kymo(out, segment);
	(void)ky_buf_append(out, "", 1);
	if (out->failed)
		return out->failed;
	return out->used - before > KEY_BYTES_MAX + 1 ? KYMO_E_LIMIT : 0;
}

int ky_layout_manifest_key(struct ky_buf *out, enum ky_layout layout, const char *prefix,
			   const char *dump_id)
{
	ky_out_format(out, "%s%s%s/%s.json", prefix, prefix[0] ? "/" : "",
		      layout == KY_LAYOUT_KYMO ? "k1/dump" : "dumps", dump_id);
	(void)ky_buf_append(out, "", 1);
	return out->failed ? out->failed : out->used > KEY_BYTES_MAX + 1 ? KYMO_E_LIMIT : 0;
}

int ky_layout_long_key(struct ky_buf *out, const char *prefix, const struct kymo_segment *segment)
{
	uint64_t start_ns = segment->start_unix_ns, hours = 2;
	const struct tm parts = utc(start_ns);

	if (segment->dump_id[0] || segment->end_unix_ns < start_ns ||
	    segment->end_unix_ns - start_ns <= HOUR_NS)
		return 0;
	while ((segment->end_unix_ns - start_ns) / HOUR_NS >= hours)
		hours *= 2;
	ky_out_format(out, "%s%sk1/long/", prefix, prefix[0] ? "/" : "");
	ky_layout_value(out, "service", segment->service);
	ky_layout_date(out, start_ns);
	ky_out_format(out, "hour=%02d/lasts=%" PRIu64, parts.tm_hour, hours);
	(void)ky_buf_append(out, "", 1);
	return out->failed ? out->failed : out->used > KEY_BYTES_MAX + 1 ? KYMO_E_LIMIT : 0;
}

static void add_time(struct ky_buf *out, const char *name, uint64_t unix_ns)
{
	const struct tm parts = utc(unix_ns);
	char text[48];

	snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%09uZ", parts.tm_year + 1900,
		 parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
		 (uint32_t)(unix_ns % 1000000000u));
	ky_json_text(out, name, text);
}

int ky_layout_manifest(struct ky_buf *out, const struct kymo_segment *segment, const char *key)
{
	struct ky_dump_name name;
	bool is_named = ky_dump_name_parse(&name, segment->name);

	ky_json_open(out, NULL, "{");
	ky_json_text(out, "dump_id", segment->dump_id);
	add_time(out, "triggered_at", is_named ? name.unix_ns : segment->end_unix_ns);
	ky_json_open(out, "time_range", "[");
	add_time(out, NULL, segment->start_unix_ns);
	add_time(out, NULL, segment->end_unix_ns);
	ky_json_close(out, "]");
	ky_json_number(out, "segments_processed", 1);
	ky_json_open(out, "metadata", "{");
	ky_json_close(out, "}");
	ky_json_open(out, "segments", "[");
	ky_json_text(out, NULL, key);
	ky_json_close(out, "]");
	ky_json_close(out, "}");
	return out->failed;
}

const char *ky_layout_type(enum ky_layout layout, const struct kymo_segment *segment)
{
	size_t count = strlen(segment->name);

	if (layout == KY_LAYOUT_DIAL9 ||
	    (count > 3 && strcmp(segment->name + count - 3, ".gz") == 0))
		return "application/gzip";
	if (count > 4 && strcmp(segment->name + count - 4, ".zst") == 0)
		return "application/zstd";
	return "application/octet-stream";
}
