/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Any bytes as a trace, through everything that reads: columns, pairing, report, both orders of the
 * public reader. Promises: no crash; no allocation beyond the limits; the same bytes give the same
 * answer however the source cuts them; the reader gives as many events as the trace counted; sorted
 * means sorted; parts sum to wholes. */
#include "fuzz_lanes.h"
#include "fuzz_target.h"

#include <analyze/canonical.h>
#include <analyze/chain.h>
#include <analyze/queue_replay.h>
#include <analyze/report.h>
#include <analyze/span_split.h>
#include <analyze/span_tail.h>
#include <base/alloc.h>
#include <kymo/base.h>
#include <read/custom.h>
#include <read/event_stream.h>
#include <read/queues.h>
#include <string.h>

static const struct ky_trace_options limits = {
	.raw_bytes_max = 16u << 20,
	.memory_bytes_max = 64u << 20,
	.limits = {4u << 20, 256, 1u << 20, 1000},
};

static _Bool is_modest(size_t bytes)
{
	FUZZ_CHECK(bytes <= 96u << 20);
	return 1;
}

struct input {
	const uint8_t *bytes;
	size_t count, at, step; /* step: bytes per read; 0: all that is asked for */
};

static int64_t input_read(void *ctx, uint8_t *out, size_t capacity)
{
	struct input *input = ctx;
	size_t count = input->count - input->at;

	if (count > capacity)
		count = capacity;
	if (input->step && count > input->step)
		count = input->step;
	if (count)
		memcpy(out, input->bytes + input->at, count);
	input->at += count;
	return (int64_t)count;
}

static int input_seek(void *ctx, uint64_t offset)
{
	((struct input *)ctx)->at = (size_t)offset;
	return 0;
}

static void check_trace(const struct ky_trace *trace)
{
	uint64_t polls = 0, events = 0;
	uint32_t i;

	FUZZ_CHECK(trace->pages.bytes_used <= limits.memory_bytes_max);
	for (i = 0; i < trace->type_count; i++)
		events += trace->types[i].count;
	FUZZ_CHECK(events == trace->event_count);
	for (i = 0; i < trace->worker_count; i++) {
		const struct ky_worker *worker = &trace->workers[i];
		uint64_t row, last_ns = 0;

		polls += worker->polls.row_count;
		for (row = 0; row < worker->polls.row_count; row++) {
			struct ky_poll poll;

			ky_trace_poll(trace, i, row, &poll);
			FUZZ_CHECK(poll.start_ns >= last_ns);
			FUZZ_CHECK(poll.task < trace->task_count);
			last_ns = poll.start_ns;
		}
	}
	FUZZ_CHECK(polls == trace->polls);
	FUZZ_CHECK(trace->delays_measured + trace->delays_no_wake + trace->delays_withheld ==
		   trace->polls);
}

static void check_samples(const struct ky_samples *samples, const struct ky_trace *trace)
{
	uint64_t last_ns = 0;
	uint32_t i;

	for (i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];

		FUZZ_CHECK(row->time_ns >= last_ns);
		FUZZ_CHECK(row->kind < KY_STACK_FREE && row->weight >= 1.0);
		FUZZ_CHECK(row->stack == KY_NONE || row->stack < samples->stack_count);
		FUZZ_CHECK(row->task == KY_NONE || row->task < trace->task_count);
		FUZZ_CHECK(row->worker == KY_NONE || row->worker < trace->worker_count);
		last_ns = row->time_ns;
	}
	for (i = 0; i < samples->stack_count; i++)
		FUZZ_CHECK(samples->stacks[i].count <= KY_STACK_FRAMES_MAX &&
			   samples->stacks[i].first <= samples->frame_count &&
			   samples->stacks[i].count <=
				   samples->frame_count - samples->stacks[i].first);
}

static void check_report(const struct ky_trace *trace)
{
	struct ky_report *report;
	uint32_t i;

	FUZZ_CHECK(ky_report_make(&report, trace, NULL) == 0);
	FUZZ_CHECK(report->polls.count + report->polls_open + report->polls_end_unproven +
			   report->polls_with_gap ==
		   trace->polls);
	for (i = 0; i < report->worker_count; i++) {
		const struct ky_worker_use *use = &report->workers[i];

		FUZZ_CHECK(use->busy_ns + use->parked_ns + use->other_ns + use->unknown_ns ==
			   use->span_ns);
		FUZZ_CHECK((use->active_permille <= 1000 && use->busy_permille <= 1000) ||
			   use->unknown_ns == use->span_ns);
	}
	for (i = 1; i < report->worst_poll_count; i++)
		FUZZ_CHECK(report->worst_polls[i].poll.duration_ns <=
			   report->worst_polls[i - 1].poll.duration_ns);
	ky_report_free(report);
}

static void count_replayed(const struct ky_poll *poll, uint64_t delay_ns, void *ctx)
{
	(void)poll;
	(void)delay_ns;
	++*(uint64_t *)ctx;
}

/* Each poll is played once, whatever the trace says. */
static void check_replay(const struct ky_trace *trace)
{
	uint32_t names = ky_trace_name_count(trace);
	uint64_t *caps = ky_alloc((names + (size_t)1) * sizeof(*caps)), polls = 0;
	struct ky_queue_replay replay;

	FUZZ_CHECK(caps);
	for (uint32_t name = 0; name < names; name++)
		caps[name] = name % 2 ? 1000 : UINT64_MAX;
	FUZZ_CHECK(ky_queue_replay(&replay, trace, caps, count_replayed, &polls) == 0);
	FUZZ_CHECK(polls == trace->polls);
	ky_free(caps);
}

#define CHAINS_MAX 8u

/* Links ascend, and cover the time that was asked for. */
static void check_chain(const struct ky_trace *trace, uint32_t task)
{
	struct ky_task_chain *chain;
	uint64_t ns, links_ns = 0, groups_ns = 0;
	struct ky_buf json;

	FUZZ_CHECK(ky_chain_make(&chain, trace, task, 0, 0, NULL) == 0);
	ns = chain->from_ns;
	for (uint32_t i = 0; i < chain->link_count; i++) {
		const struct ky_link *link = &chain->links[i];

		FUZZ_CHECK(link->from_ns == ns && link->to_ns > ns);
		FUZZ_CHECK(link->task < trace->task_count && link->depth <= KY_CHAIN_DEPTH_MAX);
		ns = link->to_ns;
		links_ns += link->to_ns - link->from_ns;
	}
	FUZZ_CHECK(chain->to_ns <= chain->from_ns || ns == chain->to_ns);
	for (uint32_t i = 0; i < chain->group_count; i++)
		groups_ns += chain->groups[i].ns;
	FUZZ_CHECK(groups_ns == links_ns);
	ky_buf_init(&json, 0);
	ky_chain_json(&json, NULL, chain, 0);
	FUZZ_CHECK(!json.failed);
	ky_buf_release(&json);
	ky_chain_free(chain);
}

static void check_spans(const struct ky_trace *trace)
{
	struct ky_span_split *splits;

	FUZZ_CHECK(ky_span_splits(trace, &splits) == 0);
	for (uint32_t i = 0; i < trace->span_count; i++) {
		const struct ky_trace_span *span = &trace->spans[i];
		const struct ky_span_split *split = &splits[i];

		FUZZ_CHECK(span->task == KY_NONE || span->task < trace->task_count);
		FUZZ_CHECK(span->parent == KY_NONE ||
			   (span->parent < trace->span_count && span->parent != i));
		FUZZ_CHECK((uint64_t)span->field_at + span->field_count <= trace->span_field_count);
		FUZZ_CHECK(span->is_open || split->cpu_ns + split->off_cpu_ns + split->polled_ns +
							    split->ready_ns + split->waiting_ns +
							    split->unknown_ns ==
						    span->duration_ns);
	}
	ky_free(splits);
}

/* Shares are shares, whatever the samples say. */
static void check_tail(const struct ky_trace *trace, struct ky_symbol_table *symbols)
{
	struct ky_code_stacks code;
	struct ky_span_tail tail;

	FUZZ_CHECK(ky_code_stacks_make(&code, trace, symbols) == 0);
	FUZZ_CHECK(ky_span_tail_make(&tail, trace, &code) == 0);
	for (uint32_t i = 0; i < tail.count; i++)
		FUZZ_CHECK(tail.rows[i].slow_ppm <= 1000000 && tail.rows[i].typical_ppm <= 1000000);
	ky_span_tail_release(&tail);
	ky_code_stacks_release(&code);
}

/* Rows ascend, and their values lie in the list. */
static void check_lists(const struct ky_trace *trace)
{
	uint64_t last_ns = 0, queue_rows = 0;

	for (uint32_t i = 0; i < trace->custom_row_count; i++) {
		const struct ky_custom_row *row = &trace->custom_rows[i];
		const struct ky_custom_type *type;
		struct ky_custom_value value;

		FUZZ_CHECK(row->time_ns >= last_ns && row->type < trace->custom_type_count);
		type = &trace->custom_types[row->type];
		FUZZ_CHECK((uint64_t)row->value_at + type->field_count <=
			   trace->custom_value_count);
		for (uint32_t k = 0; k <= type->field_count; k++) {
			ky_custom_value(trace, row, k, &value);
			FUZZ_CHECK(value.text == KY_NONE ||
				   value.text < ky_trace_name_count(trace));
		}
		last_ns = row->time_ns;
	}
	for (uint32_t i = 0; i < trace->queue_count; i++)
		queue_rows += trace->queues[i].rows.row_count;
	FUZZ_CHECK(queue_rows <= trace->event_count);
}

/* Returns the number of events of the trace, UINT64_MAX when it does not open. */
static uint64_t check_open(struct input *input, struct ky_buf *json)
{
	struct ky_byte_source source = {.read = input_read, .seek = input_seek, .ctx = input};
	struct ky_trace_options settled = limits;
	struct ky_trace *trace;
	uint64_t events;
	int result;

	source.name = "fuzz";
	FUZZ_CHECK(ky_symbol_table_open(&settled.symbols, 64u << 20) == 0);
	result = ky_trace_open(&trace, &source, 1, &settled);
	if (result < 0) {
		ky_symbol_table_close(settled.symbols);
		FUZZ_CHECK(!trace);
		FUZZ_CHECK(result == KYMO_E_NOT_TRACE || result == KYMO_E_VERSION ||
			   result == KYMO_E_LIMIT);
		return UINT64_MAX;
	}
	check_trace(trace);
	check_samples(&trace->samples, trace);
	check_report(trace);
	check_replay(trace);
	for (uint32_t task = 0; task < trace->task_count && task < CHAINS_MAX; task++)
		check_chain(trace, task);
	check_spans(trace);
	check_lanes(trace);
	check_lists(trace);
	check_tail(trace, settled.symbols);
	check_panels(trace, settled.symbols);
	FUZZ_CHECK(ky_canonical_json(json, trace, settled.symbols) == 0);
	events = trace->event_count;
	ky_trace_close(trace);
	ky_symbol_table_close(settled.symbols);
	return events;
}

static uint64_t count_events(struct input *input, bool is_stored_order)
{
	struct ky_byte_source source = {.read = input_read, .seek = input_seek, .ctx = input};
	struct ky_event_stream_options options = {.raw_bytes_max = limits.raw_bytes_max,
						  .reorder_bytes_max = 1u << 20,
						  .is_stored_order = is_stored_order,
						  .limits = limits.limits};
	struct ky_event_stream *stream;
	const struct ky_event *event;
	uint64_t count = 0, last_ns = 0;
	int result;

	source.name = "fuzz";
	result = ky_event_stream_open(&stream, &source, 1, &options);
	if (result < 0)
		return UINT64_MAX;
	while ((result = ky_event_stream_next(stream, &event)) == 1) {
		count++;
		if (is_stored_order || event->is_late || event->timestamp_ns == 0)
			continue;
		FUZZ_CHECK(event->timestamp_ns >= last_ns);
		last_ns = event->timestamp_ns;
	}
	ky_event_stream_close(stream);
	return result < 0 ? UINT64_MAX : count;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	struct input whole = {bytes, count, 0, 0}, pieces = {bytes, count, 0, 61};
	struct ky_buf first, second;
	uint64_t events, again;

	ky_alloc_hook = is_modest;
	ky_buf_init(&first, 0);
	ky_buf_init(&second, 0);
	events = check_open(&whole, &first);
	again = check_open(&pieces, &second);
	FUZZ_CHECK(events == again);
	FUZZ_CHECK(first.used == second.used);
	FUZZ_CHECK(!first.used || memcmp(first.bytes, second.bytes, first.used) == 0);
	ky_buf_release(&first);
	ky_buf_release(&second);
	if (events != UINT64_MAX) {
		FUZZ_CHECK(count_events(&whole, true) == events);
		FUZZ_CHECK(count_events(&pieces, false) == events);
	}
	ky_alloc_hook = NULL;
	return 0;
}
