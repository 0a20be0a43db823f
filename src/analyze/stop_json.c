/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/stop_json.h>

#include <base/json_write.h>
#include <base/text.h>
#include <string.h>

static const char *source_text(uint8_t source)
{
	return source == KY_STATE_TOLD ? "reported" :
	       source == KY_STATE_SEEN ? "checked" :
					 "with_kymo";
}

static void stops(struct ky_buf *out, const struct ky_trace *trace)
{
	const char *source;

	if (!trace->stop_count)
		return;
	ky_json_open(out, "stops", "[");
	for (uint32_t i = 0; i < trace->stop_count; i++) {
		const struct ky_trace_stop *stop = &trace->stops[i];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "from_ns", stop->from_ns);
		ky_json_number(out, "to_ns", stop->to_ns);
		ky_json_number(out, "unsure_ns", stop->unsure_ns);
		ky_json_number_or_null(out, "signal", stop->signal_number != 0,
				       stop->signal_number);
		source = source_text(stop->source);
		ky_json_key(out, "source");
		ky_json_string(out, source, strlen(source));
		ky_json_flag(out, "open", stop->is_open);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void throttles(struct ky_buf *out, const struct ky_trace *trace)
{
	if (!trace->throttle_count)
		return;
	ky_json_open(out, "throttled", "[");
	for (uint32_t i = 0; i < trace->throttle_count; i++) {
		const struct ky_trace_throttle *throttle = &trace->throttles[i];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "from_ns", throttle->from_ns);
		ky_json_number(out, "to_ns", throttle->to_ns);
		ky_json_number(out, "throttled_ns", throttle->throttled_ns);
		ky_json_number(out, "level", throttle->level);
		ky_text(out, "}");
	}
	ky_text(out, "]");
}

static void end(struct ky_buf *out, const struct ky_trace *trace)
{
	const struct ky_trace_state *last = trace->state_count && !trace->has_processes ?
						    &trace->states[trace->state_count - 1] :
						    NULL;

	if (!last || last->change < KY_PROCESS_EXITED)
		return;
	ky_json_open(out, "exit", "{");
	ky_json_number(out, "time_ns", last->by_ns);
	ky_json_number_or_null(out, "status", last->change == KY_PROCESS_EXITED, last->detail);
	ky_json_number_or_null(out, "signal", last->change == KY_PROCESS_KILLED, last->detail);
	ky_text(out, "}");
}

void ky_stops_json(struct ky_buf *out, const struct ky_trace *trace)
{
	stops(out, trace);
	throttles(out, trace);
	end(out, trace);
}
