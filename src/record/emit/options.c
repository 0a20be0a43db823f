/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/emit/options.h>

#include <errno.h>
#include <record/emit/ring_file.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int ky_options_say(const struct kymo_recorder_options *options, int code, const char *format, ...)
{
	va_list args;

	if (!options || !options->errbuf || !options->errbuf_bytes)
		return code;
	va_start(args, format);
	/* clang 14 does not see va_start(). NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
	vsnprintf(options->errbuf, options->errbuf_bytes, format, args);
	va_end(args);
	return code;
}

int ky_metadata_check(const char *key, const char *value)
{
	static const char *const own[] = {"service", "host", "pid", "boot_id"};

	if (!key || !value || !key[0] || strlen(key) > KY_METADATA_KEY_BYTES_MAX ||
	    strlen(value) > KY_METADATA_VALUE_BYTES_MAX || strncmp(key, "kymo.", 5) == 0)
		return -EINVAL;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (strcmp(key, own[i]) == 0)
			return -EINVAL;
	return 0;
}

static int check_metadata(const struct kymo_recorder_options *options)
{
	if (options->metadata_count > KY_METADATA_COUNT_MAX)
		return ky_options_say(options, -EINVAL,
				      "metadata_count is %zu; at most %u pairs are kept",
				      options->metadata_count, KY_METADATA_COUNT_MAX);
	if (options->metadata_count && !options->metadata)
		return ky_options_say(options, -EINVAL,
				      "metadata is NULL but metadata_count is %zu",
				      options->metadata_count);
	for (size_t i = 0; i < options->metadata_count; i++)
		if (ky_metadata_check(options->metadata[i].key, options->metadata[i].value))
			return ky_options_say(
				options, -EINVAL,
				"metadata pair %zu: empty or too long, or a key only kymo writes",
				i);
	return 0;
}

int ky_options_copy(void *out, size_t out_bytes, const void *options)
{
	size_t size = 0;

	memset(out, 0, out_bytes);
	if (!options)
		return 0;
	memcpy(&size, options, sizeof(size));
	if (size < sizeof(size))
		return -EINVAL;
	for (size_t at = out_bytes; at < size; at++)
		if (((const uint8_t *)options)[at])
			return -E2BIG;
	memcpy(out, options, size < out_bytes ? size : out_bytes);
	return 0;
}

int ky_options_take(struct kymo_recorder_options *out, const struct kymo_recorder_options *options)
{
	const uint32_t flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_EAGER | KYMO_RECORDER_STREAM |
			       KYMO_RECORDER_PREPARED | KYMO_RECORDER_FATAL_SIGNALS;
	int err = ky_options_copy(out, sizeof(*out), options);

	if (err)
		return err;
	out->size = sizeof(*out);
	if (out->ring_bytes &&
	    (out->ring_bytes < KY_RING_BYTES_MIN || out->ring_bytes > KY_RING_BYTES_MAX))
		return ky_options_say(out, -EINVAL,
				      "ring_bytes is %llu; give 128 KiB to 4 GiB, or 0 for 32 MiB",
				      (unsigned long long)out->ring_bytes);
	if (out->sample_bytes &&
	    (out->sample_bytes < KY_SAMPLE_BYTES_MIN || out->sample_bytes > KY_SAMPLE_BYTES_MAX))
		return ky_options_say(out, -EINVAL,
				      "sample_bytes is %llu; give 64 KiB to 256 MiB, or 0 for 2 "
				      "MiB",
				      (unsigned long long)out->sample_bytes);
	if (out->sample_hz > 1000 && out->sample_hz != KYMO_SAMPLE_OFF)
		return ky_options_say(out, -EINVAL,
				      "sample_hz is %u; give 1 to 1000, 0, or KYMO_SAMPLE_OFF",
				      out->sample_hz);
	if (out->switches > KYMO_SWITCHES_OFF)
		return ky_options_say(
			out, -EINVAL,
			"switches is %u; give KYMO_SWITCHES_ON, KYMO_SWITCHES_OFF, or "
			"0",
			out->switches);
	if (out->alloc_bytes &&
	    (out->alloc_bytes < KYMO_ALLOC_BYTES_MIN || out->alloc_bytes > KYMO_ALLOC_BYTES_MAX))
		return ky_options_say(out, -EINVAL,
				      "alloc_bytes is %llu; give 1 KiB to 1 GiB, or 0 for 512 KiB",
				      (unsigned long long)out->alloc_bytes);
	if (out->resource_interval_ms && out->resource_interval_ms != UINT32_MAX &&
	    (out->resource_interval_ms < KY_RESOURCE_MS_MIN ||
	     out->resource_interval_ms > KY_RESOURCE_MS_MAX))
		return ky_options_say(out, -EINVAL,
				      "resource_interval_ms is %u; give 1000 to 3600000, 0, or "
				      "UINT32_MAX for none",
				      out->resource_interval_ms);
	if (out->flags & ~flags)
		return ky_options_say(out, -EINVAL, "flags has unknown bits 0x%x",
				      out->flags & ~flags);
	if (out->gates & ~KY_GATES_ALL)
		return ky_options_say(out, -EINVAL, "gates has unknown bits 0x%x",
				      out->gates & ~KY_GATES_ALL);
	if (out->write && out->trace_file)
		return ky_options_say(
			out, -EINVAL,
			"write and trace_file are both set: a stream goes to one place");
	if (out->compression > KYMO_COMPRESSION_GZIP)
		return ky_options_say(out, -EINVAL, "compression %u is unknown", out->compression);
	return check_metadata(out);
}
