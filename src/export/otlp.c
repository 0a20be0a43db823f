/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <export/otlp.h>

#include <base/text.h>
#include <errno.h>
#include <export/proto.h>
#include <kymo/base.h>
#include <string.h>

/* opentelemetry/proto/common/v1, resource/v1 */
enum otlp_field {
	PAIR_KEY = 1,
	PAIR_VALUE = 2,
	VALUE_TEXT = 1,
	VALUE_FLAG = 2,
	VALUE_INT = 3,
	VALUE_DOUBLE = 4,
	RESOURCE_ATTRIBUTES = 1,
	SCOPE_NAME = 1,
	SCOPE_VERSION = 2,
	/* of ResourceMetrics, ScopeMetrics and of those of spans */
	OF_RESOURCE_RESOURCE = 1,
	OF_RESOURCE_SCOPES = 2,
	OF_SCOPE_SCOPE = 1,
	OF_SCOPE_ITEMS = 2,
	REQUEST_RESOURCES = 1
};

void ky_otlp_field(struct ky_otlp_writer *writer, struct ky_buf *out, uint32_t field,
		   const char *text)
{
	const struct ky_otlp *otlp = writer->otlp;

	ky_proto_text(out, field, otlp->clean ? otlp->clean(otlp->clean_ctx, text) : text);
}

static void put_pair(struct ky_otlp_writer *writer, struct ky_buf *out, uint32_t field,
		     const char *key)
{
	ky_proto_text(&writer->pair, PAIR_KEY, key);
	ky_proto_message(&writer->pair, PAIR_VALUE, &writer->value);
	ky_proto_message(out, field, &writer->pair);
}

void ky_otlp_text(struct ky_otlp_writer *writer, struct ky_buf *out, uint32_t field,
		  const char *key, const char *text)
{
	ky_otlp_field(writer, &writer->value, VALUE_TEXT, text);
	put_pair(writer, out, field, key);
}

void ky_otlp_number(struct ky_otlp_writer *writer, struct ky_buf *out, uint32_t field,
		    const char *key, uint64_t number)
{
	ky_proto_number_always(&writer->value, VALUE_INT, number);
	put_pair(writer, out, field, key);
}

void ky_otlp_share(struct ky_otlp_writer *writer, struct ky_buf *out, uint32_t field,
		   const char *key, uint32_t ppm)
{
	ky_proto_double(&writer->value, VALUE_DOUBLE, (double)ppm / 1e6);
	put_pair(writer, out, field, key);
}

void ky_otlp_flag(struct ky_otlp_writer *writer, struct ky_buf *out, uint32_t field,
		  const char *key)
{
	ky_proto_number_always(&writer->value, VALUE_FLAG, 1);
	put_pair(writer, out, field, key);
}

const char *ky_otlp_site(const struct ky_otlp *otlp, uint32_t name)
{
	return name == KY_NONE ? "(unnamed)" : ky_trace_name(otlp->trace, name);
}

static uint64_t digits(const char *text)
{
	uint64_t number = 0;

	for (; text && *text >= '0' && *text <= '9' && number < UINT64_MAX / 16; text++)
		number = number * 10 + (uint64_t)(*text - '0');
	return number;
}

/* The process is the instance: boot, pid and start name it, as they name its run on disk. */
static void put_instance(struct ky_otlp_writer *writer)
{
	const struct ky_trace *trace = writer->otlp->trace;
	const char *boot = ky_trace_metadata(trace, "boot_id");
	const char *pid = ky_trace_metadata(trace, "pid");
	const char *start = ky_trace_metadata(trace, "process.start_time_ticks");
	struct ky_buf text;

	if (!boot || !pid || !start)
		return;
	ky_buf_init(&text, 0);
	(void)ky_buf_append(&text, boot, strlen(boot) < 8 ? strlen(boot) : 8);
	ky_text(&text, "-");
	ky_text(&text, pid);
	ky_text(&text, "-");
	ky_text(&text, start);
	if (!ky_buf_append(&text, "", 1) && !text.failed)
		ky_otlp_text(writer, &writer->inner, RESOURCE_ATTRIBUTES, "service.instance.id",
			     (const char *)text.bytes);
	else
		writer->inner.failed = text.failed;
	ky_buf_release(&text);
}

static void put_resource(struct ky_otlp_writer *writer, bool is_of_metrics)
{
	const struct ky_trace *trace = writer->otlp->trace;
	struct ky_buf *out = &writer->inner;
	const char *service = ky_trace_metadata(trace, "service");
	const char *host = ky_trace_metadata(trace, "host");
	const char *pid = ky_trace_metadata(trace, "pid");

	ky_otlp_text(writer, out, RESOURCE_ATTRIBUTES, "service.name",
		     service && *service ? service : "unknown_service");
	if (host && *host)
		ky_otlp_text(writer, out, RESOURCE_ATTRIBUTES, "host.name", host);
	if (digits(pid))
		ky_otlp_number(writer, out, RESOURCE_ATTRIBUTES, "process.pid", digits(pid));
	put_instance(writer);
	if (is_of_metrics)
		return;
	ky_otlp_number(writer, out, RESOURCE_ATTRIBUTES, "kymo.trace.start_unix_ns",
		       ky_trace_unix_ns(trace, trace->run_first_ns));
	/* Who reads a finding sees whether it rests on everything that happened. */
	ky_otlp_number(writer, out, RESOURCE_ATTRIBUTES, "kymo.lost.records", trace->lost_records);
}

void ky_otlp_begin(struct ky_otlp_writer *writer, const struct ky_otlp *otlp)
{
	struct ky_buf *const all[] = {&writer->value,  &writer->pair, &writer->inner,
				      &writer->middle, &writer->item, &writer->scope};

	writer->otlp = otlp;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		ky_buf_init(all[i], 0);
}

int ky_otlp_end(struct ky_otlp_writer *writer, struct ky_buf *out, bool is_of_metrics)
{
	struct ky_buf *const all[] = {&writer->value,  &writer->pair, &writer->inner,
				      &writer->middle, &writer->item, &writer->scope};
	int result = 0;

	put_resource(writer, is_of_metrics);
	ky_proto_message(&writer->item, OF_RESOURCE_RESOURCE, &writer->inner);
	ky_proto_text(&writer->inner, SCOPE_NAME, "kymo");
	ky_proto_text(&writer->inner, SCOPE_VERSION, KYMO_VERSION_STRING);
	ky_proto_message(&writer->middle, OF_SCOPE_SCOPE, &writer->inner);
	(void)ky_buf_append(&writer->middle, writer->scope.bytes, writer->scope.used);
	ky_proto_message(&writer->item, OF_RESOURCE_SCOPES, &writer->middle);
	ky_proto_message(out, REQUEST_RESOURCES, &writer->item);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		result = result ? result : all[i]->failed;
		ky_buf_release(all[i]);
	}
	return result ? result : out->failed;
}
