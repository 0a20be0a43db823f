/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/trace_facts.h>

#include <analyze/report.h>
#include <base/alloc.h>
#include <kymo/base.h>
#include <read/trace.h>
#include <ship/inflate.h>
#include <stdio.h>
#include <string.h>

/* Text of a trace, cut where a character of UTF-8 ends. */
static void copy_text(char out[KY_FACTS_TEXT_BYTES], const char *text)
{
	size_t bytes = text ? strnlen(text, KY_FACTS_TEXT_BYTES) : 0;

	if (bytes == KY_FACTS_TEXT_BYTES)
		for (bytes--; bytes && ((uint8_t)text[bytes] & 0xc0) == 0x80; bytes--)
			;
	if (bytes)
		memcpy(out, text, bytes);
	out[bytes] = '\0';
}

static int put_info(struct ky_trace_facts *out, const struct ky_trace *trace)
{
	struct ky_buf text;

	ky_buf_init(&text, KY_FACTS_INFO_BYTES_MAX);
	ky_info_json(&text, trace);
	(void)ky_buf_append(&text, "", 1);
	if (text.failed == KYMO_E_LIMIT) {
		ky_buf_release(&text);
		return 0;
	}
	if (text.failed) {
		int result = text.failed;

		ky_buf_release(&text);
		return result;
	}
	out->info = (char *)text.bytes;
	return 0;
}

static int take(struct ky_trace_facts *out, const struct ky_trace *trace)
{
	static const struct ky_report_options options = {.worst_count = 1};
	struct ky_report *report = NULL;
	bool has_run = trace->run_last_ns > trace->run_first_ns;
	int result = ky_report_make(&report, trace, &options);

	if (result)
		return result;
	copy_text(out->service, ky_trace_metadata(trace, "service"));
	copy_text(out->host, ky_trace_metadata(trace, "host"));
	copy_text(out->pid, ky_trace_metadata(trace, "pid"));
	out->start_unix_ns = ky_trace_unix_ns(trace,
					      has_run ? trace->run_first_ns : trace->first_ns);
	out->duration_ns = has_run ? trace->run_last_ns - trace->run_first_ns :
				     trace->last_ns - trace->first_ns;
	out->event_count = trace->event_count;
	out->poll_count = trace->polls;
	for (uint32_t i = 0; i < trace->loss_count; i++)
		out->lost_count += trace->losses[i].record_count;
	out->delay_count = report->delays.count;
	out->worst_delay_ns = report->delays.max;
	out->worst_poll_ns = report->polls.max;
	for (uint32_t i = 0; i < trace->file_count; i++)
		out->is_torn |= trace->files[i].is_torn ||
				(trace->is_kymo && !trace->files[i].is_sealed);
	ky_report_free(report);
	return put_info(out, trace);
}

int ky_trace_facts_read(struct ky_trace_facts *out, int fd, const char *name)
{
	struct ky_inflate_options inflate = {.shown_name = name};
	struct ky_trace_options options = {
		.memory_bytes_max = KY_FACTS_MEMORY_MAX,
		.memory_option = "`kymo report --max-memory`",
		.errbuf = out->sentence,
		.errbuf_bytes = sizeof(out->sentence),
	};
	struct ky_byte_source source;
	struct ky_trace *trace = NULL;
	char path[64];
	int result;

	memset(out, 0, sizeof(*out));
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	result = ky_inflate_open(&source, path, &inflate, out->sentence, sizeof(out->sentence));
	if (!result) {
		result = ky_trace_open(&trace, &source, 1, &options);
		if (!result)
			result = take(out, trace);
		ky_trace_close(trace);
		source.close(source.ctx);
	}
	if (!result)
		out->sentence[0] = '\0';
	else if (!out->sentence[0])
		(void)snprintf(out->sentence, sizeof(out->sentence), "%s: %s", name,
			       kymo_error_text(result));
	return result;
}

void ky_trace_facts_release(struct ky_trace_facts *facts)
{
	ky_free(facts->info);
	facts->info = NULL;
}
