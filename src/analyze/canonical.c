/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/canonical.h>
#include <analyze/findings/findings.h>
#include <analyze/stack_profile.h>
#include <analyze/report.h>
#include <analyze/tokio_json.h>
#include <base/hash.h>
#include <base/text.h>
#include <read/custom.h>
#include <read/labels.h>
#include <read/queues.h>

static uint64_t digest(uint64_t sum, uint64_t number)
{
	return ky_hash_bytes(sum, &number, sizeof(number));
}

static uint64_t digest_polls(const struct ky_trace *trace, uint32_t worker, uint64_t sum)
{
	struct ky_poll poll;
	uint64_t row;

	for (row = 0; row < trace->workers[worker].polls.row_count; row++) {
		ky_trace_poll(trace, worker, row, &poll);
		sum = digest(sum, poll.start_ns);
		sum = digest(sum, poll.duration_ns);
		sum = digest(sum, poll.delay_ns);
		sum = digest(sum, (uint64_t)poll.delay_state << 32 | poll.flags);
		sum = digest(sum, trace->tasks[poll.task].id);
		sum = digest(sum, poll.name);
	}
	return sum;
}

static uint64_t digest_others(const struct ky_trace *trace, uint32_t worker, uint64_t sum)
{
	struct ky_park park;
	struct ky_wake wake;
	uint64_t row;

	for (row = 0; row < trace->workers[worker].parks.row_count; row++) {
		ky_trace_park(trace, worker, row, &park);
		sum = digest(sum, park.start_ns);
		sum = digest(sum, park.duration_ns);
		sum = digest(sum, (uint64_t)park.sched_wait_ns << 32 | park.ready_count);
		sum = digest(sum, (uint64_t)park.wait << 32 | park.flags);
	}
	for (row = 0; row < trace->workers[worker].wakes.row_count; row++) {
		ky_trace_wake(trace, worker, row, &wake);
		sum = digest(sum, wake.time_ns);
		sum = digest(sum, (uint64_t)wake.woken << 32 | wake.waker);
		sum = digest(sum, wake.origin);
	}
	return sum;
}

/* Events of the program, counters, annotations, samples of queues. */
static uint64_t digest_lists(const struct ky_trace *trace)
{
	uint64_t sum = KY_HASH_START;
	struct ky_custom_value value;
	struct ky_queue_sample sample;

	for (uint32_t i = 0; i < trace->custom_row_count; i++) {
		const struct ky_custom_row *row = &trace->custom_rows[i];

		sum = digest(sum, row->time_ns);
		sum = digest(sum, row->type);
		for (uint32_t k = 0; k < trace->custom_types[row->type].field_count; k++) {
			ky_custom_value(trace, row, k, &value);
			sum = digest(sum, (uint64_t)value.kind << 32 | value.text);
			sum = digest(sum, value.as.number);
		}
	}
	for (uint32_t i = 0; i < trace->counter_count; i++) {
		sum = digest(sum, trace->counters[i].time_ns);
		sum = digest(sum, (uint64_t)trace->counters[i].value);
		sum = digest(sum, trace->counters[i].name);
	}
	for (uint32_t i = 0; i < trace->annotation_count; i++) {
		sum = digest(sum, trace->annotations[i].time_ns);
		sum = digest(sum, (uint64_t)trace->annotations[i].tid << 32 |
					  trace->annotations[i].label);
	}
	for (uint32_t i = 0; i < trace->queue_count; i++)
		for (uint64_t row = 0; row < trace->queues[i].rows.row_count; row++) {
			ky_queue_sample(&trace->queues[i], row, &sample);
			sum = digest(sum, sample.time_ns);
			sum = digest(sum, (uint64_t)sample.depth << 32 | sample.alive_tasks);
		}
	return sum;
}

int ky_canonical_json(struct ky_buf *out, const struct ky_trace *trace,
		      struct ky_symbol_table *symbols)
{
	struct ky_stack_profile *profile;
	struct ky_findings *findings;
	struct ky_report *report;
	uint32_t i;
	int result = ky_report_make(&report, trace, NULL);

	if (result < 0)
		return result;
	result = ky_stack_profile_make(&profile, trace, report, symbols, NULL);
	if (result < 0) {
		ky_report_free(report);
		return result;
	}
	result = ky_findings_make(&findings, trace, report, profile, NULL);
	if (result < 0) {
		ky_stack_profile_free(profile);
		ky_report_free(report);
		return result;
	}
	ky_text(out, "{\"info\":");
	ky_info_json(out, trace);
	ky_text(out, ",\"report\":");
	ky_findings_report_json(out, findings, report, profile);
	result = ky_tokio_json(out, "metrics", trace);
	ky_text(out, ",\"rows\":{");
	for (i = 0; i < trace->worker_count; i++) {
		uint64_t sum = KY_HASH_START;

		ky_text(out, i ? ",\"" : "\"");
		ky_text_u64(out, trace->workers[i].id);
		ky_text(out, "\":\"");
		ky_text_u64(out, digest_polls(trace, i, sum));
		ky_text(out, " ");
		ky_text_u64(out, digest_others(trace, i, sum));
		ky_text(out, "\"");
	}
	ky_text(out, "},\"lists\":\"");
	ky_text_u64(out, digest_lists(trace));
	ky_text(out, "\"}\n");
	ky_findings_free(findings);
	ky_stack_profile_free(profile);
	ky_report_free(report);
	return result ? result : out->failed;
}
