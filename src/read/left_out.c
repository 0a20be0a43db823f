/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/left_out.h>

#include <read/load.h>

static const struct {
	const char *key, *noun, *effect;
} kinds[KY_LEFT_KINDS] = {
	[KY_LEFT_SPAN_EVENTS] = {"span_events", "events of spans",
				 "spans are missing, or have no end"},
	[KY_LEFT_SPAN_FIELDS] = {"span_fields", "fields of spans", "their spans lack them"},
	[KY_LEFT_SPAN_TEXTS] = {"span_texts", "texts in fields of spans",
				"their spans lack these fields, or have the begin of the text"},
	[KY_LEFT_CUSTOM_EVENTS] = {"custom_events", "events of the program",
				   "they are in no column; `kymo events` and the table events have "
				   "them"},
	[KY_LEFT_CUSTOM_TEXTS] = {"custom_texts", "texts in events of the program",
				  "their columns lack them, or have the begin of the text; "
				  "`kymo events` has them"},
	[KY_LEFT_COUNTERS] = {"counters", "readings of counters", "`kymo events` has them"},
	[KY_LEFT_ANNOTATIONS] = {"annotations", "annotations", "`kymo events` has them"},
	[KY_LEFT_QUEUE_SAMPLES] = {"queue_samples", "samples of queues",
				   "depths over time lack them; percentiles of workers' queues do "
				   "not"},
	[KY_LEFT_RESOURCES] = {"resources", "readings of resources", "`kymo events` has them"},
	[KY_LEFT_REQUEST_WAITS] = {"request_waits", "waits of requests",
				   "they count as time of the service"},
	[KY_LEFT_WAKE_SOURCES] = {"wake_sources", "wakes", "who issued them is not known"},
};

const char *ky_left_out_key(uint32_t kind)
{
	return kinds[kind < KY_LEFT_KINDS ? kind : 0].key;
}

const char *ky_left_out_noun(uint32_t kind)
{
	return kinds[kind < KY_LEFT_KINDS ? kind : 0].noun;
}

const char *ky_left_out_effect(uint32_t kind)
{
	return kinds[kind < KY_LEFT_KINDS ? kind : 0].effect;
}

bool ky_leave_out(struct ky_trace_private *private, enum ky_left_kind kind)
{
	private->left_out[kind]++;
	return true;
}

int ky_left_outs_finish(struct ky_trace *trace)
{
	const uint64_t *counts = trace->private->left_out;

	for (uint32_t kind = 0; kind < KY_LEFT_KINDS; kind++) {
		uint64_t count = kind == KY_LEFT_WAKE_SOURCES ? trace->wake_sources_left_out :
								counts[kind];

		if (!count)
			continue;
		if (!ky_pages_array(&trace->pages, &trace->left_outs, &trace->left_out_capacity,
				    trace->left_out_count + 1, sizeof(*trace->left_outs)))
			return trace->pages.failed;
		trace->left_outs[trace->left_out_count++] = (struct ky_left_out){count, kind};
	}
	return 0;
}
