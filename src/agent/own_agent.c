/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/own_agent.h>

#include <agent/own_error.h>
#include <base/now.h>
#include <record/emit/emit_engine.h>
#include <record/sample/stack_walk.h>
#include <ring/ring_keep.h>
#include <stdio.h>
#include <string.h>

#define MS_NS UINT64_C(1000000)
/* Each step takes a core from the host's threads: few, large ones. */
#define PACE_NS (1000 * MS_NS)
#define CHECK_NS (100 * MS_NS) /* at how much there is */
#define DRAIN_MEMORY_BYTES (6u << 20)
#define OBSERVER_MEMORY_BYTES (4u << 20)

/* What the kernel has for us up to now, before it is drained. ctx: the agent. */
static void fetch(void *ctx)
{
	struct ky_own_agent *own = ctx;

	ky_own_samplers_fetch(&own->samplers);
}

static struct ky_probe_moment moment_of(struct ky_own_agent *own)
{
	return (struct ky_probe_moment){
		.now_ns = ky_now_ns(CLOCK_MONOTONIC),
		.resource_ms = ky_settings_resource_ms(&own->sampled->control->settings),
		.stream = ky_drain_mode_stream(&own->agent.drain)};
}

/* A reading where one is due: a step of the drain may take longer than from one to the next. */
static void read_resources(void *ctx)
{
	struct ky_own_agent *own = ctx;

	if (own->sampled) {
		const struct ky_probe_moment moment = moment_of(own);

		(void)ky_probes_step(&own->agent.probes[KY_AGENT_RESOURCES], 1, &moment);
	}
}

/* What is due, between two pieces of a work that takes long. */
static int between(void *ctx)
{
	struct ky_own_agent *own = ctx;

	ky_own_samplers_between(&own->samplers);
	read_resources(own);
	return 0;
}

static void between_chunks(void *ctx, uint64_t bytes, const struct ky_chunk *chunk)
{
	(void)bytes;
	(void)chunk;
	(void)between(ctx);
}

/* Times off the CPU that the kernel gives have no stacks; all other samples need tables. */
static bool wants_tables(const void *ctx)
{
	const struct ky_own_agent *own = ctx;
	uint32_t with_stacks = ~(1u << KY_SAMPLES_OFF_CPU);

	/* Files of code are read as the loader has read them, which a filter that the process was
	 * started under allows. */
	return !__atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED) &&
	       (ky_stack_is_wanted() ||
		(atomic_load_explicit(&own->sampled->header->sample_classes, memory_order_relaxed) &
		 with_stacks));
}

static bool may_read(void)
{
	return !ky_engine_is_under_filter();
}

/* ---- probes ---- */

static void open_resources(struct ky_own_agent *own, const struct ky_ring *ring)
{
	struct ky_probe_resources *resources = &own->resources;
	uint32_t interval_ms = ky_engine.options.resource_interval_ms;

	resources->area = (struct ky_ring_area){
		.access = {.base = ring->base, .touch = ky_ring_touch},
		.offset = ky_ring_resources_at(ring),
		.bytes = ring->resource_bytes,
	};
	resources->ring_bytes = ring->mapped_bytes;
	resources->interval_ns = ky_resource_interval(interval_ms, KY_RESOURCE_INTERVAL_NS);
	/* Where nothing else wakes the thread. */
	resources->flight_interval_ns = ky_resource_interval(interval_ms,
							     10 * KY_RESOURCE_INTERVAL_NS);
	resources->may_read = may_read;
	own->agent.probes[KY_AGENT_RESOURCES] = ky_probe_resources_init(resources, NULL);
}

static void open_tables(struct ky_own_agent *own, const struct ky_ring *ring)
{
	own->tables = (struct ky_unwind_tables){
		.area = {.access = {.base = ring->base, .touch = ky_ring_touch},
			 .offset = ring->mapped_bytes - ring->unwind_bytes, /* the last one */
			 .bytes = ring->unwind_bytes},
		.pid = ring->pid,
		.is_wanted = wants_tables,
		.between = between,
		.ctx = own,
	};
	own->agent.probes[KY_AGENT_TABLES] = ky_unwind_tables_probe(&own->tables);
}

static void open_probes(struct ky_own_agent *own, const struct ky_ring *ring)
{
	if (own->sampled == ring)
		return;
	ky_probes_close(own->agent.probes, KY_AGENT_PROBES);
	own->sampled = ring;
	open_resources(own, ring);
	open_tables(own, ring);
}

/* ---- dumps ---- */

/* As the external `kymo dump --stop` does. */
static void stop_recording(const struct ky_ring *ring)
{
	uint32_t gates = atomic_load_explicit(&ring->control->gates, memory_order_relaxed);

	if (ky_settings_note_stop(&ring->control->settings, gates, ky_now_ns(CLOCK_MONOTONIC)))
		kymo_recorder_gates(0, UINT32_MAX);
}

static int make_dump(void *ctx, struct ky_dump_request *request)
{
	struct ky_own_agent *own = ctx;

	/* The status has the firing before its dump is made, which may take seconds. */
	ky_own_rules_count(&own->rules, own->agent.rules);
	if (!own->dumped) { /* the first event may have come since this step began */
		own->dumped = ky_engine_live_ring();
		if (own->dumped) {
			open_probes(own, own->dumped);
			read_resources(own);
		}
	}
	if (request->is_last && own->dumped)
		stop_recording(own->dumped);
	ky_own_namer_follow(&own->namer, own->dumped);
	return ky_dump_make(request, &own->place, own->dumped);
}

/* ---- the trace ---- */

/* Returns 0, also where it is open; what ky_drain_mode_open() returns. */
static int open_drain(struct ky_own_agent *own, const struct ky_ring *ring)
{
	const struct ky_ring_access access = {.base = ring->base};
	struct ky_agent *agent = &own->agent;
	int err;

	if (own->drained)
		return 0;
	ky_own_namer_follow(&own->namer, ring);
	ky_agent_output_init(&agent->output, &own->options, ring->header, &access,
			     &own->is_file_taken);
	agent->drain = (struct ky_drain_mode){.options = &own->options,
					      .output = &agent->output,
					      .image = ring->base,
					      .image_bytes = ring->mapped_bytes,
					      .source = "C API",
					      .name = ky_own_name,
					      .name_ctx = &own->namer,
					      .fetch_samples = fetch,
					      .fetch_ctx = own,
					      .has_written = read_resources,
					      .memory_bytes_max = DRAIN_MEMORY_BYTES,
					      .observer_bytes_max = OBSERVER_MEMORY_BYTES,
					      .may_read = may_read};
	err = ky_drain_mode_open(&agent->drain);
	own->drained = err ? NULL : ring;
	return err;
}

/* Of a own that is closed before its thread came to it, too. */
static int enter_stream(struct ky_own_agent *own, const struct ky_ring *ring)
{
	int err = open_drain(own, ring);

	return err ? err : ky_drain_mode_set(&own->agent.drain, false);
}

static void note_store_error(struct ky_own_agent *own)
{
	ky_own_error_note(&own->last_error, atomic_load_explicit(&own->agent.output.store_error,
								 memory_order_relaxed));
}

static void end_trace(struct ky_own_agent *own)
{
	if (own->drained) {
		if (own->sampled && ky_drain_mode_stream(&own->agent.drain))
			ky_probe_resources_last(&own->resources, moment_of(own).resource_ms,
						ky_now_ns(CLOCK_MONOTONIC));
		ky_own_error_note(&own->last_error, ky_agent_finish(&own->agent, false, false));
		note_store_error(own);
	}
	ky_agent_close(&own->agent);
}

/* ---- steps ---- */

/* Those of earlier processes of this service, beside our own ring. */
static void remove_dead_rings(const struct ky_ring *own)
{
	const char *slash = strrchr(own->path, '/');
	char directory[KY_RING_PATH_BYTES];
	struct ky_ring_keep_result removed;

	if (!slash) /* a ring without a file has no neighbours */
		return;
	snprintf(directory, sizeof(directory), "%.*s", (int)(slash - own->path), own->path);
	(void)ky_ring_keep(&(const struct ky_ring_query){.ring_directory = directory,
							 .service = own->header->service},
			   &removed);
}

/* Of a ring that records. */
static uint64_t step_ring(struct ky_own_agent *own, const struct ky_ring *ring)
{
	struct ky_agent_moment moment = {
		.is_flight = ky_engine_mode() != KYMO_MODE_STREAM,
		.rests_in_flight = true,
		.resource_ms = ky_settings_resource_ms(&ring->control->settings),
		.pace = {PACE_NS, CHECK_NS, CHECK_NS, false},
	};
	uint64_t own_ns, rules_ns, again_ns;
	int err;

	if (own->swept_for != ring) {
		remove_dead_rings(ring);
		own->swept_for = ring;
	}
	own_ns = ky_own_samplers_step(&own->samplers, ring, !moment.is_flight);
	err = open_drain(own, ring);
	if (err) {
		ky_own_error_note(&own->last_error, err);
		(void)ky_agent_make_dumps(&own->agent, false);
		again_ns = ky_now_ns(CLOCK_MONOTONIC) + CHECK_NS; /* to try again */
		return own_ns < again_ns ? own_ns : again_ns;
	}
	open_probes(own, ring);
	rules_ns = ky_own_rules_follow(&own->rules, ring, &own->agent);
	moment.now_ns = ky_now_ns(CLOCK_MONOTONIC);
	again_ns = ky_agent_step(&own->agent, &moment, &err);
	ky_own_rules_count(&own->rules, own->agent.rules);
	ky_own_error_note(&own->last_error, err);
	note_store_error(own);
	again_ns = rules_ns < again_ns ? rules_ns : again_ns;
	return own_ns < again_ns ? own_ns : again_ns;
}

uint64_t ky_own_agent_step(struct ky_own_agent *own, const struct ky_ring *ring)
{
	own->dumped = ring;
	return ring ? step_ring(own, ring) : ky_agent_make_dumps(&own->agent, false);
}

void ky_own_agent_last_dumps(struct ky_own_agent *own, const struct ky_ring *ring)
{
	own->dumped = ring;
	(void)ky_agent_make_dumps(&own->agent, true);
}

/* ---- its life ---- */

void ky_own_agent_init(struct ky_own_agent *own)
{
	own->options.event = ky_own_error_on_event;
	own->options.event_ctx = &own->last_error;
	own->place.between = between_chunks;
	own->place.between_ctx = own;
	own->place.name = ky_own_name;
	own->place.name_ctx = &own->namer;
}

void ky_own_agent_begin(struct ky_own_agent *own, struct ky_dumps *dumps)
{
	own->agent.dumps = dumps;
	own->agent.maker = (struct ky_dump_maker){make_dump, NULL, own};
}

void ky_own_agent_end(struct ky_own_agent *own, const struct ky_ring *streamed)
{
	own->agent.dumps = NULL; /* the thread has made the last ones */
	fetch(own);
	ky_own_samplers_end(&own->samplers);
	if (streamed)
		ky_own_error_note(&own->last_error, enter_stream(own, streamed));
	end_trace(own);
	ky_own_namer_close(&own->namer);
	ky_own_samplers_close(&own->samplers);
}

void ky_own_agent_forget(struct ky_own_agent *own)
{
	ky_agent_abandon(&own->agent);
	ky_agent_output_forget(&own->agent.output);
	own->drained = NULL;
	own->namer = (struct ky_own_namer){0};
	own->last_error = 0;
	ky_own_rules_reopen(&own->rules);
	ky_probes_close(own->agent.probes, KY_AGENT_PROBES);
	own->sampled = NULL;
	ky_own_samplers_forget(&own->samplers);
	own->is_file_taken = true;
}

void ky_own_agent_status(const struct ky_own_agent *own, struct kymo_recorder_status *status)
{
	const struct ky_agent_output *output = &own->agent.output;

	status->segments_sealed = atomic_load_explicit(&output->segments_sealed,
						       memory_order_relaxed);
	status->bytes_written = atomic_load_explicit(&output->bytes_stored, memory_order_relaxed);
	if (!status->last_error)
		status->last_error = __atomic_load_n(&own->last_error, __ATOMIC_RELAXED);
	if (!status->last_error)
		status->last_error = __atomic_load_n(&own->rules.last_error, __ATOMIC_RELAXED);
	status->triggers_fired = __atomic_load_n(&own->rules.fired, __ATOMIC_RELAXED);
	status->triggers_suppressed = __atomic_load_n(&own->rules.suppressed, __ATOMIC_RELAXED);
}
