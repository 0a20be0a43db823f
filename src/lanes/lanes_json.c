/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/lanes_json.h>

#include <analyze/delay_parts.h>
#include <analyze/own_parts.h>
#include <analyze/report.h>
#include <lanes/facts_json.h>
#include <lanes/poll_facts.h>

static void put_runtime(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_worker *worker)
{
	bool is_known = worker->runtime != KY_NONE;

	ky_json_number_or_null(out, "runtime", is_known, is_known ? worker->runtime : 0);
	ky_facts_name(out, "runtime_name", trace,
		      is_known ? trace->runtimes[worker->runtime].name : KY_NONE);
	ky_json_number_or_null(out, "index", worker->index != KY_NONE, worker->index);
}

static void put_worker(struct ky_buf *out, const struct ky_trace *trace, const struct ky_lane *lane)
{
	const struct ky_worker *worker = &trace->workers[lane->worker];

	ky_json_number(out, "worker", worker->id);
	put_runtime(out, trace, worker);
	ky_json_number(out, "tid", worker->tid);
	ky_facts_name(out, "thread", trace, ky_trace_thread_name(trace, worker->tid));
	ky_json_flag(out, "is_worker", worker->is_worker);
	ky_json_flag(out, "is_thread", worker->is_thread_lane);
	ky_json_flag(out, "is_shared", worker->is_shared);
	ky_json_flag(out, "has_run_delay", lane->layers[KY_LAYER_RUN_DELAY].row_count != 0);
	ky_json_number(out, "parks", worker->park_count);
	ky_json_number(out, "off_cpu", lane->row_count);
	ky_json_number(out, "cpu_samples", lane->cpu_count);
}

static void put_lanes(struct ky_buf *out, const struct ky_lanes *lanes)
{
	static const char *const kinds[] = {
		[KY_LANE_WORKER] = "worker",
		[KY_LANE_BLOCKING] = "blocking",
		[KY_LANE_SPANS] = "spans",
		[KY_LANE_TASK] = "task",
	};

	ky_json_open(out, "lanes", "[");
	for (uint32_t i = 0; i < lanes->count; i++) {
		const struct ky_lane *lane = &lanes->list[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "kind", kinds[lane->kind]);
		ky_json_number(out, "rows", lane->layers[KY_LAYER_MAIN].row_count);
		if (lane->kind == KY_LANE_WORKER)
			put_worker(out, lanes->trace, lane);
		if (lane->kind == KY_LANE_SPANS) {
			ky_facts_name(out, "name", lanes->trace, lane->name);
			ky_json_number(out, "total_ns", lane->total_ns);
		}
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_number(out, "span_names_more", lanes->span_names_more);
}

/* Names of tasks by their number, as strips have them. */
static void put_names(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t count = ky_trace_name_count(trace), shown = 0;
	struct ky_buf used;

	ky_buf_init(&used, 0);
	ky_json_open(out, "names", "[");
	if (!ky_buf_reserve(&used, count + 1)) {
		for (uint32_t i = 0; i < count; i++)
			used.bytes[i] = 0;
		for (uint32_t i = 0; i < trace->task_count; i++)
			if (trace->tasks[i].name < count)
				used.bytes[trace->tasks[i].name] = 1;
		for (uint32_t i = 0; i < count && shown < KY_PAGE_LIST_MAX; i++) {
			if (!used.bytes[i])
				continue;
			shown++;
			ky_json_open(out, NULL, "{");
			ky_json_number(out, "name", i);
			ky_json_text(out, "text", ky_trace_name(trace, i));
			ky_json_close(out, "}");
		}
	}
	ky_json_close(out, "]");
	ky_buf_release(&used);
}

static void put_losses(struct ky_buf *out, const struct ky_trace *trace)
{
	ky_json_number(out, "loss_count", trace->loss_count);
	ky_json_number(out, "lost_records", trace->lost_records);
	ky_json_open(out, "losses", "[");
	for (uint32_t i = 0; i < trace->loss_count && i < KY_PAGE_LIST_MAX; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];

		ky_json_open(out, NULL, "{");
		ky_facts_moment(out, "from_ns", trace, loss->from_ns);
		ky_facts_moment(out, "to_ns", trace, loss->to_ns);
		ky_json_number(out, "records", loss->record_count);
		ky_json_number(out, "tid", loss->tid);
		ky_json_text(out, "cause", ky_trace_name(trace, loss->cause));
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

/* CPU time and memory of the process, by reading. */
static void put_readings(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t shown = 0;

	ky_json_open(out, "readings", "[");
	for (uint32_t i = 0; i < trace->resource_count && shown < KY_PAGE_LIST_MAX; i++) {
		const struct ky_trace_resource *row = &trace->resources[i];
		uint64_t user = row->values[KY_USAGE_USER_NS];
		uint64_t system = row->values[KY_USAGE_SYSTEM_NS];
		bool has_cpu = user != UINT64_MAX && system != UINT64_MAX;

		if (row->kind != KY_RESOURCE_USAGE)
			continue;
		shown++;
		ky_json_open(out, NULL, "{");
		ky_facts_moment(out, "time_ns", trace, row->time_ns);
		ky_json_number_or_null(out, "cpu_ns", has_cpu, user + system);
		ky_json_number_or_null(out, "rss", row->values[KY_USAGE_RSS] != UINT64_MAX,
				       row->values[KY_USAGE_RSS]);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static void put_notices(struct ky_buf *out, const struct ky_trace *trace)
{
	ky_json_open(out, "notices", "[");
	for (uint32_t i = 0; i < trace->notice_count && i < KY_PAGE_LIST_MAX; i++) {
		ky_json_open(out, NULL, "{");
		ky_json_text(out, "text", trace->notices[i].text);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static void put_words(struct ky_buf *out)
{
	ky_json_open(out, "part_words", "{");
	for (uint32_t part = 0; part < KY_PARTS; part++)
		ky_json_text(out, ky_part_key(part), ky_part_words(part));
	ky_json_close(out, "}");
}

void ky_lanes_json(struct ky_buf *out, const struct ky_lanes *lanes)
{
	const struct ky_trace *trace = lanes->trace;

	ky_json_open(out, NULL, "{");
	ky_process_json(out, trace);
	ky_json_number(out, "duration_ns", trace->run_last_ns - trace->run_first_ns);
	ky_json_number_text(out, "start_mono_ns", trace->run_first_ns);
	ky_json_number_text(out, "start_unix_ns", ky_trace_unix_ns(trace, trace->run_first_ns));
	ky_json_number(out, "events", trace->event_count);
	ky_json_number(out, "polls", trace->polls);
	ky_json_number(out, "tasks", trace->task_count);
	ky_json_number(out, "raw_bytes", trace->raw_bytes);
	ky_json_number(out, "spans", trace->span_count);
	ky_json_flag(out, "has_processes", trace->has_processes);
	put_lanes(out, lanes);
	put_names(out, trace);
	put_losses(out, trace);
	put_readings(out, trace);
	put_notices(out, trace);
	put_words(out);
	ky_json_close(out, "}");
}
