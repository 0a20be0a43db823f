/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the writer's retention policy held back, and when: histograms, sums, measured waits. */
#include <read/load.h>
#include <string.h>

static const char *const kind_names[KY_COUNTED_KINDS] = {
	[KY_COUNTED_OTHER] = "",      [KY_COUNTED_POLL] = "poll",
	[KY_COUNTED_DELAY] = "delay", [KY_COUNTED_BLOCKING] = "blocking",
	[KY_COUNTED_PARK] = "park",   [KY_COUNTED_DRIVER] = "driver",
	[KY_COUNTED_MARK] = "mark",   [KY_COUNTED_WAKE] = "wake",
	[KY_COUNTED_SPAN] = "span",
};

static uint64_t number(const struct ky_frame *frame, uint32_t field)
{
	return ky_frame_number(frame, field, 0);
}

static uint64_t add_up(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static enum ky_counted_kind kind_of(const struct ky_load *load, uint32_t name)
{
	const char *text = name == KY_NONE ? "" : ky_trace_name(load->trace, name);

	for (int kind = 1; kind < KY_COUNTED_KINDS; kind++)
		if (strcmp(text, kind_names[kind]) == 0)
			return (enum ky_counted_kind)kind;
	return KY_COUNTED_OTHER;
}

static bool load_retention(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	uint32_t name = ky_load_text(load, frame, KY_F_RETENTION_kind);
	struct ky_trace_retention *statement;

	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->retentions, &trace->retention_capacity,
			    trace->retention_count + 1, sizeof(*statement)))
		return false;
	statement = &trace->retentions[trace->retention_count++];
	statement->from_ns = frame->timestamp_ns;
	statement->threshold_ns = number(frame, KY_F_RETENTION_threshold_ns);
	statement->throttle = number(frame, KY_F_RETENTION_throttle);
	statement->kind = kind_of(load, name);
	statement->name = name;
	return true;
}

/* The bytes of the buckets, one after the other. Returns false when memory is out. */
static bool keep_buckets(struct ky_load *load, const struct ky_frame *frame,
			 struct ky_trace_histogram *histogram)
{
	struct ky_trace_private *private = load->private;
	const struct ky_value *buckets = ky_frame_field(frame, KY_F_HISTOGRAM_buckets);
	uint32_t count;

	histogram->buckets_at = private->bucket_bytes;
	if (!buckets || buckets->type != KY_TYPE_BYTES || !buckets->text.count)
		return true;
	count = (uint32_t)buckets->text.count;
	if (buckets->text.count > KY_BUCKET_BYTES_MAX || private->bucket_bytes > UINT32_MAX - count)
		return true; /* the count stands, percentiles lack it */
	if (!ky_pages_array(&load->trace->pages, &private->buckets, &private->bucket_capacity,
			    private->bucket_bytes + count, 1))
		return false;
	memcpy(private->buckets + private->bucket_bytes, buckets->text.bytes, count);
	private->bucket_bytes += count;
	histogram->bucket_bytes = count;
	return true;
}

static bool load_histogram(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	uint32_t kind = ky_load_text(load, frame, KY_F_HISTOGRAM_kind);
	uint32_t name = ky_load_text(load, frame, KY_F_HISTOGRAM_name);
	struct ky_trace_histogram *histogram;

	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->histograms, &trace->histogram_capacity,
			    trace->histogram_count + 1, sizeof(*histogram)))
		return false;
	histogram = &trace->histograms[trace->histogram_count++];
	memset(histogram, 0, sizeof(*histogram));
	histogram->from_ns = number(frame, KY_F_HISTOGRAM_from_ns);
	histogram->to_ns = frame->timestamp_ns;
	histogram->count = number(frame, KY_F_HISTOGRAM_value_count);
	histogram->sum = number(frame, KY_F_HISTOGRAM_value_sum);
	histogram->value_min = number(frame, KY_F_HISTOGRAM_value_min);
	histogram->value_max = number(frame, KY_F_HISTOGRAM_value_max);
	histogram->kind = kind_of(load, kind);
	histogram->name = name;
	trace->counted[histogram->kind] = add_up(trace->counted[histogram->kind], histogram->count);
	return keep_buckets(load, frame, histogram);
}

static bool load_sums(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_sums *sums;

	if (!ky_pages_array(&trace->pages, &trace->sums, &trace->sums_capacity,
			    trace->sums_count + 1, sizeof(*sums)))
		return false;
	sums = &trace->sums[trace->sums_count++];
	memset(sums, 0, sizeof(*sums));
	sums->worker_id = ky_frame_number(frame, KY_F_WORKER_SUMS_worker_id, KY_ID_UNKNOWN);
	sums->reported_ns = frame->timestamp_ns;
	sums->from_ns = number(frame, KY_F_WORKER_SUMS_from_ns);
	sums->to_ns = number(frame, KY_F_WORKER_SUMS_to_ns);
	sums->poll_count = number(frame, KY_F_WORKER_SUMS_poll_count);
	sums->busy_ns = number(frame, KY_F_WORKER_SUMS_busy_ns);
	sums->poll_max_ns = number(frame, KY_F_WORKER_SUMS_poll_max_ns);
	sums->wake_count = number(frame, KY_F_WORKER_SUMS_wake_count);
	sums->park_count = number(frame, KY_F_WORKER_SUMS_park_count);
	sums->parked_ns = number(frame, KY_F_WORKER_SUMS_parked_ns);
	trace->counted[KY_COUNTED_WAKE] = add_up(trace->counted[KY_COUNTED_WAKE], sums->wake_count);
	return ky_load_lane(load, sums->worker_id) != UINT32_MAX;
}

/* The writer's own measure of the poll whose start stands before this. */
static bool load_delay(struct ky_load *load, const struct ky_frame *frame)
{
	uint64_t worker_id = ky_frame_number(frame, KY_F_POLL_DELAY_worker_id, KY_ID_UNKNOWN);
	uint32_t tid = (uint32_t)number(frame, KY_F_POLL_DELAY_tid);
	uint64_t ready_ns = number(frame, KY_F_POLL_DELAY_ready_ns), delay_ns = 0;

	if (ready_ns < frame->timestamp_ns)
		delay_ns = frame->timestamp_ns - ready_ns;
	return ky_load_edge(load, ky_load_lane(load, tid ? UINT64_MAX - tid : worker_id),
			    frame->timestamp_ns, KY_EDGE_DELAY, (uint32_t)delay_ns,
			    delay_ns < UINT64_C(1) << 56 ? (uint32_t)(delay_ns >> 32) : 0xffffffu);
}

static bool load_wake(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_hot_event wake = {
		.timestamp_ns = number(frame, KY_F_LATE_WAKE_woken_ns),
		.worker_id = ky_frame_number(frame, KY_F_LATE_WAKE_target_worker, KY_ID_UNKNOWN),
		.task_id = number(frame, KY_F_LATE_WAKE_woken_task_id),
		.waker_id = number(frame, KY_F_LATE_WAKE_waker_task_id),
		.origin = (uint8_t)number(frame, KY_F_LATE_WAKE_origin),
		.tid = ky_frame_tid(frame, KY_F_LATE_WAKE_tid),
	};

	return ky_load_wake(load, &wake, frame, KY_F_LATE_WAKE_callchain);
}

bool ky_load_retained(struct ky_load *load, const struct ky_frame *frame)
{
	switch (frame->schema->event) {
	case KY_EV_RETENTION:
		return load_retention(load, frame);
	case KY_EV_HISTOGRAM:
		return load_histogram(load, frame);
	case KY_EV_WORKER_SUMS:
		return load_sums(load, frame);
	case KY_EV_POLL_DELAY:
		return load_delay(load, frame);
	case KY_EV_LATE_WAKE:
		return load_wake(load, frame);
	default:
		return true;
	}
}

/* ---- when all files are read ---- */

static bool is_before(const void *first, const void *second, const void *ctx)
{
	const struct ky_trace_retention *a = first, *b = second;

	(void)ctx;
	return a->from_ns < b->from_ns;
}

/* Stretches in which polls or wakes are held back: nothing is reported by what is not there. */
static bool find_held(struct ky_trace *trace)
{
	struct ky_trace_private *private = trace->private;
	bool is_held[KY_COUNTED_KINDS] = {false}, was_held = false;
	uint32_t i;

	if (!ky_pages_array(&trace->pages, &private->held, &private->held_capacity,
			    trace->retention_count, sizeof(*private->held)))
		return false;
	for (i = 0; i < trace->retention_count; i++) {
		const struct ky_trace_retention *statement = &trace->retentions[i];
		bool is_now;

		is_held[statement->kind] = statement->threshold_ns || statement->throttle;
		is_now = is_held[KY_COUNTED_POLL] || is_held[KY_COUNTED_WAKE];
		if (is_now && !was_held)
		private->held[private->held_count++] = (struct ky_interval){statement->from_ns,
									    UINT64_MAX};
		if (!is_now && was_held)
		private->held[private->held_count - 1].to_ns = statement->from_ns;
		was_held = is_now;
	}
	return true;
}

int ky_retained_finish(struct ky_trace *trace)
{
	uint32_t i;

	if (trace->retention_count > 0) {
		ky_sort(trace->retentions, trace->retention_count, sizeof(*trace->retentions),
			is_before, NULL);
		if (!find_held(trace))
			return trace->pages.failed;
	}
	for (i = 0; i < trace->sums_count; i++) {
		struct ky_trace_sums *sums = &trace->sums[i];

		sums->worker = ky_trace_worker(trace, sums->worker_id);
		if (!sums->from_ns || sums->to_ns < sums->from_ns)
			continue;
		if (trace->run_first_ns == 0 || sums->from_ns < trace->run_first_ns)
			trace->run_first_ns = sums->from_ns;
		if (sums->to_ns > trace->run_last_ns)
			trace->run_last_ns = sums->to_ns;
	}
	return 0;
}

void ky_retained_workers(struct ky_trace *trace)
{
	uint32_t i;

	for (i = 0; i < trace->sums_count; i++) {
		const struct ky_trace_sums *sums = &trace->sums[i];
		struct ky_worker *worker;

		if (sums->worker == KY_NONE || !sums->from_ns || sums->to_ns < sums->from_ns)
			continue;
		worker = &trace->workers[sums->worker];
		worker->is_worker = true;
		if (worker->first_ns == 0 || sums->from_ns < worker->first_ns)
			worker->first_ns = sums->from_ns;
		if (sums->to_ns > worker->last_ns)
			worker->last_ns = sums->to_ns;
	}
}

bool ky_retained_is_held(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_trace_private *private = trace->private;
	uint32_t low = 0, high = private->held_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (private->held[middle].to_ns <= from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < private->held_count && private->held[low].from_ns <= to_ns;
}

const uint8_t *ky_trace_buckets(const struct ky_trace *trace, uint32_t histogram)
{
	static const uint8_t none[1];

	if (!trace->histograms[histogram].bucket_bytes)
		return none;
	return trace->private->buckets + trace->histograms[histogram].buckets_at;
}
