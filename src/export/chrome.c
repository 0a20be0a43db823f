/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Trace events as JSON. Times are microseconds since the trace's first row, with three decimals,
 * since a number of JSON does not hold the nanoseconds of a long-running machine.
 */
#include <export/track_events.h>

#include <base/json_write.h>
#include <base/text.h>
#include <errno.h>
#include <string.h>

#define FLUSH_BYTES (256u << 10)
/* Tracks that are no thread: beyond the thread ids that Linux gives out. */
#define TRACK_TID UINT64_C(0x400000)

struct chrome_encoder {
	struct ky_export *export;
	struct ky_buf *out;
	struct ky_buf tids;     /* u64 by lane: of its first track */
	struct ky_buf counters; /* struct counter_name */
	struct ky_buf names;    /* of counters, NUL-terminated */
	uint64_t pid;
	bool is_begun;
};

struct counter_name {
	uint64_t track;
	size_t name_at;
};

static void put_time(struct ky_buf *out, uint64_t ns)
{
	char digits[] = {'.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
			 (char)('0' + ns % 10), 0};

	ky_text_u64(out, ns / 1000);
	ky_text(out, digits);
}

static void begin_event(struct chrome_encoder *encoder, const char *phase, uint64_t tid)
{
	ky_text(encoder->out, encoder->is_begun ? ",\n" : "\n");
	encoder->is_begun = true;
	ky_json_open(encoder->out, NULL, "{");
	ky_json_text(encoder->out, "ph", phase);
	ky_json_number(encoder->out, "pid", encoder->pid);
	ky_json_number(encoder->out, "tid", tid);
}

static uint64_t tid_of(const struct chrome_encoder *encoder, const struct ky_track_event *event)
{
	uint64_t tid = 0;

	if (event->lane == KY_NONE)
		return 0;
	if (event->is_first_track && (event->lane + (size_t)1) * sizeof(tid) <= encoder->tids.used)
		memcpy(&tid, encoder->tids.bytes + event->lane * sizeof(tid), sizeof(tid));
	return tid ? tid : TRACK_TID + event->track;
}

static void put_moment(struct chrome_encoder *encoder, const struct ky_track_event *event)
{
	uint64_t start_ns = encoder->export->trace->run_first_ns;

	ky_json_key(encoder->out, "ts");
	/* What lies before the first row, as tasks that lived then, stands at it. */
	put_time(encoder->out, event->time_ns > start_ns ? event->time_ns - start_ns : 0);
}

static void put_name(struct chrome_encoder *encoder, const struct ky_track_event *event)
{
	ky_json_text(encoder->out, "name",
		     event->named ? ky_track_name_text(event->named) :
				    ky_trace_name(encoder->export->trace, event->name));
}

static void put_values(struct chrome_encoder *encoder, const struct ky_track_event *event)
{
	struct ky_buf *out = encoder->out;

	if (!event->value_count && !event->has_task)
		return;
	ky_json_open(out, "args", "{");
	if (event->has_task)
		ky_json_number(out, "task", event->task);
	for (uint32_t i = 0; i < event->value_count; i++) {
		const struct ky_track_value *value = &event->values[i];

		if (value->text)
			ky_json_text(out, value->name, value->text);
		else if (value->number >> 53)
			ky_json_number_text(out, value->name, value->number);
		else
			ky_json_number(out, value->name, value->number);
	}
	ky_json_close(out, "}");
}

static void put_named(struct chrome_encoder *encoder, const char *what, uint64_t tid,
		      const char *name)
{
	begin_event(encoder, "M", tid);
	ky_json_text(encoder->out, "name", what);
	ky_json_open(encoder->out, "args", "{");
	ky_json_text(encoder->out, "name", name);
	ky_json_close(encoder->out, "}");
	ky_json_close(encoder->out, "}");
}

static void on_track(void *ctx, const struct ky_track *track)
{
	struct chrome_encoder *encoder = ctx;
	uint64_t tid = track->tid ? track->tid : TRACK_TID + track->id, none = 0;

	if (track->kind == KY_TRACK_COUNTER) {
		struct counter_name counter = {track->id, encoder->names.used};

		(void)ky_buf_append(&encoder->counters, &counter, sizeof(counter));
		(void)ky_buf_append(&encoder->names, track->name, strlen(track->name) + 1);
	}
	if (track->lane == KY_NONE)
		return;
	put_named(encoder, "thread_name", tid, track->name);
	if (track->kind != KY_TRACK_LANE)
		return;
	while (encoder->tids.used < (track->lane + (size_t)1) * sizeof(tid) &&
	       !encoder->tids.failed)
		(void)ky_buf_append(&encoder->tids, &none, sizeof(none));
	if (!encoder->tids.failed)
		memcpy(encoder->tids.bytes + track->lane * sizeof(tid), &tid, sizeof(tid));
}

/* An arrow's begin or end, bound to the slice around it. */
static void put_arrow(struct chrome_encoder *encoder, const struct ky_track_event *event,
		      const char *phase, uint64_t flow)
{
	if (!flow)
		return;
	begin_event(encoder, phase, tid_of(encoder, event));
	put_moment(encoder, event);
	ky_json_text(encoder->out, "cat", "wake");
	ky_json_text(encoder->out, "name", "wake");
	ky_json_number(encoder->out, "id", flow);
	ky_json_text(encoder->out, "bp", "e");
	ky_json_close(encoder->out, "}");
}

static void put_event(struct chrome_encoder *encoder, const struct ky_track_event *event,
		      const char *phase, bool has_name)
{
	begin_event(encoder, phase, tid_of(encoder, event));
	put_moment(encoder, event);
	if (has_name)
		put_name(encoder, event);
	put_values(encoder, event);
	if (*phase == 'i')
		ky_json_text(encoder->out, "s", event->lane == KY_NONE ? "p" : "t");
	if (event->lane == KY_NONE && *phase != 'i') {
		ky_json_text(encoder->out, "cat", "kymo");
		ky_json_number(encoder->out, "id", event->track);
	}
	ky_json_close(encoder->out, "}");
}

static void on_begin(void *ctx, const struct ky_track_event *event)
{
	struct chrome_encoder *encoder = ctx;

	put_event(encoder, event, event->lane == KY_NONE ? "b" : "B", true);
	put_arrow(encoder, event, "f", event->flow_in);
}

static void on_end(void *ctx, const struct ky_track_event *event)
{
	/* Readers pair those of async slices by their name, too. */
	put_event(ctx, event, event->lane == KY_NONE ? "e" : "E", event->lane == KY_NONE);
}

static void on_instant(void *ctx, const struct ky_track_event *event)
{
	struct chrome_encoder *encoder = ctx;

	put_event(encoder, event, "i", true);
	put_arrow(encoder, event, "s", event->flow_out);
}

static void on_counter(void *ctx, const struct ky_track_event *event)
{
	struct chrome_encoder *encoder = ctx;
	struct counter_name counter = {0};

	for (size_t at = 0; at < encoder->counters.used; at += sizeof(counter)) {
		memcpy(&counter, encoder->counters.bytes + at, sizeof(counter));
		if (counter.track == event->track)
			break;
	}
	begin_event(encoder, "C", 0);
	put_moment(encoder, event);
	ky_json_text(encoder->out, "name",
		     encoder->names.used ? (const char *)encoder->names.bytes + counter.name_at :
					   "");
	ky_json_open(encoder->out, "args", "{");
	ky_json_signed(encoder->out, "value", event->counter);
	ky_json_close(encoder->out, "}");
	ky_json_close(encoder->out, "}");
}

static int on_flush(void *ctx)
{
	struct chrome_encoder *encoder = ctx;
	struct ky_export *export = encoder->export;

	if (encoder->out->failed || !export->flush || encoder->out->used < FLUSH_BYTES)
		return encoder->out->failed;
	return export->flush(export->flush_ctx, encoder->out);
}

int ky_export_chrome(struct ky_buf *out, struct ky_export *export)
{
	const struct ky_trace *trace = export->trace;
	const char *service = ky_trace_metadata(trace, "service");
	struct chrome_encoder encoder = {.export = export, .out = out, .pid = ky_track_pid(trace)};
	struct ky_track_sink sink = {&encoder,   on_track,   on_begin, on_end,
				     on_instant, on_counter, on_flush};
	int result;

	ky_buf_init(&encoder.tids, 0);
	ky_buf_init(&encoder.counters, 0);
	ky_buf_init(&encoder.names, 0);
	ky_text(out, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"start_monotonic_ns\":\"");
	ky_text_u64(out, trace->run_first_ns);
	ky_text(out, "\",\"start_unix_ns\":\"");
	ky_text_u64(out, ky_trace_unix_ns(trace, trace->run_first_ns));
	ky_text(out, "\"},\"traceEvents\":[");
	put_named(&encoder, "process_name", 0, service ? service : "kymo");
	result = ky_track_events(export, &sink);
	ky_text(out, "\n]}\n");
	if (!result)
		result = encoder.tids.failed     ? encoder.tids.failed :
			 encoder.counters.failed ? encoder.counters.failed :
			 encoder.names.failed    ? encoder.names.failed :
						   out->failed;
	ky_buf_release(&encoder.tids);
	ky_buf_release(&encoder.counters);
	ky_buf_release(&encoder.names);
	return result;
}
