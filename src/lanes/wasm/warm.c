/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/wasm/warm.h>

#include <base/buf.h>
#include <base/byte_source.h>
#include <errno.h>
#include <lanes/lanes.h>
#include <lanes/series.h>
#include <lanes/strip.h>
#include <read/trace.h>
#include <wire/trc_enc.h>

#define WORKERS 8u
#define TASKS 1000u
#define PIXELS 512u
#define BEGIN_NS 1000000000u

struct warming {
	struct ky_buf buf;
	struct ky_trc_enc enc;
	uint64_t time_ns, random;
	uint32_t events, name, stack;
	bool is_open[WORKERS]; /* its poll */
};

static uint32_t draw(struct warming *warming, uint32_t below)
{
	warming->random ^= warming->random << 13;
	warming->random ^= warming->random >> 7;
	warming->random ^= warming->random << 17;
	return (uint32_t)(warming->random >> 32) % below;
}

/* A poll begins somewhere, or ends and wakes a task. */
static void step(struct warming *warming)
{
	uint32_t worker = draw(warming, WORKERS), task = 1 + draw(warming, TASKS);

	warming->time_ns += 20 + draw(warming, 200);
	warming->events++;
	warming->is_open[worker] = !warming->is_open[worker];
	if (warming->is_open[worker]) {
		ky_trc_enc_poll_start(&warming->enc, warming->time_ns, worker, 0, task,
				      warming->name);
		return;
	}
	if (draw(warming, 2)) {
		ky_trc_enc_wake(&warming->enc, warming->time_ns, draw(warming, TASKS), task,
				(uint8_t)worker, 2, warming->stack, 0);
		warming->events++;
	}
	ky_trc_enc_poll_end(&warming->enc, warming->time_ns + 10, worker);
	warming->time_ns += 10;
}

static int make(struct warming *warming, uint32_t events)
{
	static const char name[] = "warm";
	const uint64_t address = 4096;

	ky_buf_init(&warming->buf, 0);
	if (ky_trc_enc_init(&warming->enc, &warming->buf))
		return -ENOMEM;
	ky_trc_enc_begin(&warming->enc);
	warming->name = ky_trc_enc_string(&warming->enc, 1, name, sizeof(name) - 1);
	warming->stack = ky_trc_enc_stack(&warming->enc, &address, 1);
	while (warming->events < events && !warming->buf.failed)
		step(warming);
	ky_trc_enc_release(&warming->enc);
	return warming->buf.failed;
}

/* All that comes before a first picture. */
static int draw_lanes(const struct ky_trace *trace)
{
	const struct ky_view view = {trace->run_first_ns, trace->run_last_ns + 1, PIXELS};
	struct ky_strip_pixel pixels[PIXELS];
	struct ky_series ready;
	struct ky_lanes *lanes;
	int result = ky_lanes_open(&lanes, trace);

	if (result)
		return result;
	for (uint32_t i = 0; i < trace->worker_count; i++) {
		ky_strip_make(pixels, &lanes->list[i].layers[KY_LAYER_MAIN], &view);
		ky_strip_make(pixels, &lanes->list[i].layers[KY_LAYER_DELAY], &view);
	}
	ky_lanes_close(lanes);
	result = ky_series_ready(&ready, trace);
	if (!result)
		ky_series_release(&ready);
	return result;
}

int32_t ky_warm(uint32_t events)
{
	struct warming warming = {.time_ns = BEGIN_NS, .random = 88172645463325252u};
	struct ky_byte_source source = {0};
	struct ky_trace *trace = NULL;
	int result = make(&warming, events);
	uint64_t polls = 0;

	if (!result)
		result = ky_byte_source_memory(&source, warming.buf.bytes, warming.buf.used,
					       "warm");
	if (!result)
		result = ky_trace_open(&trace, &source, 1, NULL);
	if (!result)
		result = draw_lanes(trace);
	if (!result)
		polls = trace->polls;
	ky_trace_close(trace);
	if (source.close)
		source.close(source.ctx);
	ky_buf_release(&warming.buf);
	return result ? result : (int32_t)polls;
}
