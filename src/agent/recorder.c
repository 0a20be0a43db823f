/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Composition root of the library that programs link: the engine, and a thread that drains its ring
 * to disk. Where another process drains, recorder_plain.c stands in for this file. */
#include <base/gnu.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/start_thread.h>
#include <errno.h>
#include <kymo/fatal.h>
#include <agent/drain_mode.h>
#include <agent/dump_place.h>
#include <agent/dumps.h>
#include <record/emit/bell.h>
#include <record/emit/emit_engine.h>
#include <record/emit/options.h>
#include <record/sample/sampler.h>
#include <record/sample/stack_walk.h>
#include <agent/own_rules.h>
#include <agent/probe_resources.h>
#include <agent/own_samplers.h>
#include <ring/ring_keep.h>
#include <agent/unwind_tables.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DRAIN_NICE 10
#define MS_NS UINT64_C(1000000)
/* Each step takes a core from the host's threads: few, large ones. */
#define PACE_NS (1000 * MS_NS)
#define CHECK_NS (100 * MS_NS) /* at how much there is */
#define DRAIN_MEMORY_BYTES (6u << 20)
#define OBSERVER_MEMORY_BYTES (4u << 20)
#define DIRECTORY_DEFAULT "./kymo-traces"
#define DUMPS_WAITING_MAX 32u

struct kymo_recorder {
	struct ky_agent agent;          /* the thread's alone while it runs */
	struct ky_own_rules rules;      /* so is this */
	struct ky_unwind_tables tables; /* and this */
	struct ky_own_samplers own;     /* and this */
	struct ky_probe_resources resources;
	struct ky_agent_options options;
	char trace_file[512]; /* "": segments in a directory */
	struct ky_dump_place place;
	char dump_directory[KY_RING_PATH_BYTES];
	const struct ky_ring *drained;   /* that the drain reads */
	const struct ky_ring *last_ring; /* for the dumps that close makes */
	const struct ky_ring *dumped;    /* that the dumps are made of; NULL: none yet */
	const struct ky_ring *sampled;   /* that the samplers write to */
	const struct ky_ring *swept_for; /* rings of dead processes beside this one were seen to */

	pthread_t thread;
	bool has_thread;
	bool is_file_taken;   /* by the parent, or by this process */
	pid_t pid;            /* a forked child has neither our thread nor our files */
	uint32_t is_stopping; /* atomic */
	uint64_t wakeups;     /* atomic */
	int32_t last_error;   /* atomic; the first */
};

static struct kymo_recorder *the_recorder; /* under the engine's lock */
static struct ky_dumps dumps = {.lock = PTHREAD_MUTEX_INITIALIZER,
				.done = PTHREAD_COND_INITIALIZER};

/* What a file's name asks for, whatever the recorder's own compression is. */
static int choose_named(struct ky_compressor_factory *out, uint32_t compression)
{
	return ky_compressor_choose(out, compression, 1);
}

/* Of this process, and recording. */
static const struct ky_ring *live_ring(void)
{
	if (__atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE) != KY_LIVE || ky_engine_is_orphan())
		return NULL;
	return __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);
}

/* What the kernel has for us up to now, before it is drained. ctx: the recorder. */
static void fetch(void *ctx)
{
	struct kymo_recorder *recorder = ctx;

	ky_own_samplers_fetch(&recorder->own);
}

static struct ky_probe_moment moment_of(struct kymo_recorder *recorder)
{
	return (struct ky_probe_moment){
		.now_ns = ky_now_ns(CLOCK_MONOTONIC),
		.resource_ms = ky_settings_resource_ms(&recorder->sampled->control->settings),
		.stream = ky_drain_mode_stream(&recorder->agent.drain)};
}

/* A reading where one is due: a step of the drain may take longer than from one to the next. */
static void read_resources(void *ctx)
{
	struct kymo_recorder *recorder = ctx;

	if (recorder->sampled) {
		const struct ky_probe_moment moment = moment_of(recorder);

		(void)ky_probes_step(&recorder->agent.probes[KY_AGENT_RESOURCES], 1, &moment);
	}
}

/* What is due, between two pieces of a work that takes long. */
static int between(void *ctx)
{
	struct kymo_recorder *recorder = ctx;

	ky_own_samplers_between(&recorder->own);
	read_resources(recorder);
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
	const struct kymo_recorder *recorder = ctx;
	uint32_t with_stacks = ~(1u << KY_SAMPLES_OFF_CPU);

	/* Files of code are read as the loader has read them, which a filter that the process was
	 * started under allows. */
	return !__atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED) &&
	       (ky_stack_is_wanted() ||
		(atomic_load_explicit(&recorder->sampled->header->sample_classes,
				      memory_order_relaxed) &
		 with_stacks));
}

static bool may_read(void)
{
	return !ky_engine_is_under_filter();
}

static void open_resources(struct kymo_recorder *recorder, const struct ky_ring *ring)
{
	struct ky_probe_resources *resources = &recorder->resources;
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
	recorder->agent.probes[KY_AGENT_RESOURCES] = ky_probe_resources_init(resources, NULL);
}

static void open_tables(struct kymo_recorder *recorder, const struct ky_ring *ring)
{
	recorder->tables = (struct ky_unwind_tables){
		.area = {.access = {.base = ring->base, .touch = ky_ring_touch},
			 .offset = ring->mapped_bytes - ring->unwind_bytes, /* the last one */
			 .bytes = ring->unwind_bytes},
		.pid = ring->pid,
		.is_wanted = wants_tables,
		.between = between,
		.ctx = recorder,
	};
	recorder->agent.probes[KY_AGENT_TABLES] = ky_unwind_tables_probe(&recorder->tables);
}

static void open_probes(struct kymo_recorder *recorder, const struct ky_ring *ring)
{
	if (recorder->sampled == ring)
		return;
	ky_probes_close(recorder->agent.probes, KY_AGENT_PROBES);
	recorder->sampled = ring;
	open_resources(recorder, ring);
	open_tables(recorder, ring);
}

/* As the external `kymo dump --stop` does. */
static void stop_recording(const struct ky_ring *ring)
{
	uint32_t gates = atomic_load_explicit(&ring->control->gates, memory_order_relaxed);

	if (ky_settings_note_stop(&ring->control->settings, gates, ky_now_ns(CLOCK_MONOTONIC)))
		kymo_recorder_gates(0, UINT32_MAX);
}

static int make_dump(void *ctx, struct ky_dump_request *request)
{
	struct kymo_recorder *recorder = ctx;

	/* The status has the firing before its dump is made, which may take seconds. */
	ky_own_rules_count(&recorder->rules, recorder->agent.rules);
	if (request->is_last && recorder->dumped)
		stop_recording(recorder->dumped);
	return ky_dump_make(request, &recorder->place, recorder->dumped);
}

/* ---- the agent ---- */

static void note_error(struct kymo_recorder *recorder, int err)
{
	int32_t none = 0;

	if (err < 0)
		__atomic_compare_exchange_n(&recorder->last_error, &none, err, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void on_event(void *ctx, const struct ky_agent_event *event)
{
	note_error(ctx, event->error);
}

/* Returns 0, also where it is open; what ky_drain_mode_open() returns. */
static int open_drain(struct kymo_recorder *recorder, const struct ky_ring *ring)
{
	const struct ky_ring_access access = {.base = ring->base};
	struct ky_agent *agent = &recorder->agent;
	int err;

	if (recorder->drained)
		return 0;
	ky_agent_output_init(&agent->output, &recorder->options, ring->header, &access,
			     &recorder->is_file_taken);
	agent->drain = (struct ky_drain_mode){.options = &recorder->options,
					      .output = &agent->output,
					      .image = ring->base,
					      .image_bytes = ring->mapped_bytes,
					      .source = "C API",
					      .fetch_samples = fetch,
					      .fetch_ctx = recorder,
					      .has_written = read_resources,
					      .memory_bytes_max = DRAIN_MEMORY_BYTES,
					      .observer_bytes_max = OBSERVER_MEMORY_BYTES,
					      .may_read = may_read};
	err = ky_drain_mode_open(&agent->drain);
	recorder->drained = err ? NULL : ring;
	return err;
}

/* Of a recorder that is closed before its thread came to it, too. */
static int enter_stream(struct kymo_recorder *recorder, const struct ky_ring *ring)
{
	int err = open_drain(recorder, ring);

	return err ? err : ky_drain_mode_set(&recorder->agent.drain, false);
}

static void note_store_error(struct kymo_recorder *recorder)
{
	note_error(recorder,
		   atomic_load_explicit(&recorder->agent.output.store_error, memory_order_relaxed));
}

static void end_trace(struct kymo_recorder *recorder)
{
	if (recorder->drained) {
		if (recorder->sampled && ky_drain_mode_stream(&recorder->agent.drain))
			ky_probe_resources_last(&recorder->resources,
						moment_of(recorder).resource_ms,
						ky_now_ns(CLOCK_MONOTONIC));
		note_error(recorder, ky_agent_finish(&recorder->agent, false, false));
		note_store_error(recorder);
	}
	ky_agent_close(&recorder->agent);
}

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
static uint64_t step_agent(struct kymo_recorder *recorder, const struct ky_ring *ring)
{
	struct ky_agent_moment moment = {
		.is_flight = ky_engine_mode() != KYMO_MODE_STREAM,
		.rests_in_flight = true,
		.resource_ms = ky_settings_resource_ms(&ring->control->settings),
		.pace = {PACE_NS, CHECK_NS, CHECK_NS, false},
	};
	uint64_t own_ns, rules_ns, again_ns;
	int err;

	if (recorder->swept_for != ring) {
		remove_dead_rings(ring);
		recorder->swept_for = ring;
	}
	own_ns = ky_own_samplers_step(&recorder->own, ring, !moment.is_flight);
	err = open_drain(recorder, ring);
	if (err) {
		note_error(recorder, err);
		(void)ky_agent_make_dumps(&recorder->agent, false);
		again_ns = ky_now_ns(CLOCK_MONOTONIC) + CHECK_NS; /* to try again */
		return own_ns < again_ns ? own_ns : again_ns;
	}
	open_probes(recorder, ring);
	rules_ns = ky_own_rules_follow(&recorder->rules, ring, &recorder->agent);
	moment.now_ns = ky_now_ns(CLOCK_MONOTONIC);
	again_ns = ky_agent_step(&recorder->agent, &moment, &err);
	ky_own_rules_count(&recorder->rules, recorder->agent.rules);
	note_error(recorder, err);
	note_store_error(recorder);
	again_ns = rules_ns < again_ns ? rules_ns : again_ns;
	return own_ns < again_ns ? own_ns : again_ns;
}

/* Everything there is to do; returns when there may be more, UINT64_MAX: when the bell rings. */
static uint64_t do_work(struct kymo_recorder *recorder)
{
	const struct ky_ring *ring = live_ring();

	recorder->dumped = ring;
	return ring ? step_agent(recorder, ring) : ky_agent_make_dumps(&recorder->agent, false);
}

static void *run(void *ctx)
{
	struct kymo_recorder *recorder = ctx;
	id_t tid = (id_t)syscall(SYS_gettid);

	pthread_setname_np(pthread_self(), "kymo-drain");
	errno = 0;
	setpriority(PRIO_PROCESS, tid, getpriority(PRIO_PROCESS, tid) + DRAIN_NICE);
	for (;;) {
		struct ky_bell_reading reading = ky_bell_read(ky_engine_live_ring());
		uint64_t until_ns;

		if (__atomic_load_n(&recorder->is_stopping, __ATOMIC_SEQ_CST))
			break;
		until_ns = do_work(recorder);
		ky_bell_wait(&reading, until_ns);
		__atomic_fetch_add(&recorder->wakeups, 1, __ATOMIC_RELAXED);
	}
	recorder->dumped = recorder->last_ring;
	(void)ky_agent_make_dumps(&recorder->agent, true);
	return NULL;
}

static int start_thread(struct kymo_recorder *recorder)
{
	int err;

	recorder->pid = getpid();
	recorder->is_stopping = 0;
	recorder->last_ring = NULL;
	recorder->agent.dumps = &dumps;
	recorder->agent.maker = (struct ky_dump_maker){make_dump, NULL, recorder};
	ky_dumps_open(&dumps, DUMPS_WAITING_MAX);
	__atomic_store_n(&ky_engine.has_listener, 1, __ATOMIC_RELEASE);
	err = ky_start_thread(&recorder->thread, run, recorder);
	recorder->has_thread = err == 0;
	if (err)
		ky_dumps_close(&dumps);
	return err;
}

static void stop_thread(struct kymo_recorder *recorder)
{
	ky_dumps_close(&dumps);
	__atomic_store_n(&recorder->is_stopping, 1, __ATOMIC_SEQ_CST);
	ky_bell_ring(ky_engine_ring());
	pthread_join(recorder->thread, NULL);
	recorder->has_thread = false;
	recorder->agent.dumps = NULL; /* the thread has made the last ones */
	__atomic_store_n(&ky_engine.has_listener, 0, __ATOMIC_RELEASE);
}

static void publish(struct kymo_recorder *recorder)
{
	struct ky_lock_mark mark = ky_engine_lock();

	the_recorder = recorder;
	ky_engine_unlock(mark);
}

/* A recorder is open, in this process or in the one it was forked from. */
static bool is_active(void)
{
	uint32_t phase = __atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE);

	return phase == KY_LAZY || phase == KY_STARTING || phase == KY_LIVE;
}

static bool has_work(void)
{
	return !(ky_engine.options.flags & KYMO_RECORDER_NO_DRAIN);
}

/* The name says the compression: everybody who sees the file believes it. */
static int take_file(struct kymo_recorder *recorder, struct kymo_recorder_options *taken)
{
	const char *name = taken->trace_file, *suffix = name ? ky_trace_file_suffix(name) : "";
	uint32_t compression;
	int err;

	if (!name)
		return 0;
	if (!suffix)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: the name must end in .trc, .trc.zst or "
				      ".trc.gz",
				      name);
	compression = ky_compressor_kind(suffix);
	if (taken->compression && taken->compression != compression)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: compression contradicts the name", name);
	if (taken->segment_bytes_max || taken->rotate_interval_ns)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: one file does not rotate; leave "
				      "segment_bytes_max and rotate_interval_ns 0",
				      name);
	if (taken->total_bytes_max && taken->total_bytes_max < KY_TRACE_FILE_BYTES_MIN)
		return ky_options_say(taken, -EINVAL,
				      "trace_file %s: total_bytes_max is less than 1 MiB", name);
	err = ky_trace_file_check(name);
	if (err)
		return ky_options_say(taken, err, "trace_file %s: %s", name, kymo_error_text(err));
	snprintf(recorder->trace_file, sizeof(recorder->trace_file), "%s", name);
	taken->compression = compression;
	taken->trace_file = NULL; /* the caller's text */
	return 0;
}

static int take_rules(const struct kymo_recorder_options *taken, const char *from,
		      const char *rules)
{
	char why[200];
	int err = rules && rules[0] ? ky_own_rules_add(rules, why, sizeof(why)) : 0;

	return err ? ky_options_say(taken, err, "%s: %s", from, why) : 0;
}

static int take_triggers(struct kymo_recorder *recorder, const struct kymo_recorder_options *taken)
{
	int err;

	/* Of a process that was open before; a second recorder is refused further on. */
	if (is_active())
		return 0;
	ky_own_rules_init(&recorder->rules);
	if (taken->flags & KYMO_RECORDER_NO_DRAIN)
		return taken->triggers ? ky_options_say(taken, KYMO_E_UNSUPPORTED,
							"triggers: with KYMO_RECORDER_NO_DRAIN the "
							"process that drains the ring checks "
							"them") :
					 0;
	err = take_rules(taken, "triggers", taken->triggers);
	return err ? err : take_rules(taken, "KYMO_TRIGGERS", secure_getenv("KYMO_TRIGGERS"));
}

static int take_places(struct kymo_recorder *recorder, struct kymo_recorder_options *taken)
{
	const char *wish = taken->dump_directory ? taken->dump_directory : taken->trace_directory;

	if (!wish)
		wish = DIRECTORY_DEFAULT;
	if (strlen(wish) >= sizeof(recorder->dump_directory))
		return ky_options_say(taken, -ENAMETOOLONG, "dump_directory: %s",
				      kymo_error_text(-ENAMETOOLONG));
	snprintf(recorder->dump_directory, sizeof(recorder->dump_directory), "%s", wish);
	recorder->place = (struct ky_dump_place){
		.directory = recorder->dump_directory,
		.service = ky_engine.service,
		.age_min_ns = taken->age_min_ns,
		.compressor = &recorder->options.output.compressor,
		.choose_compressor = choose_named,
		.between = between_chunks,
		.between_ctx = recorder,
	};
	taken->dump_directory = taken->triggers = NULL; /* the caller's texts */
	return 0;
}

/* Once the engine has its texts. */
static void take_output(struct kymo_recorder *recorder, const struct kymo_recorder_options *taken)
{
	struct ky_output_options *output = &recorder->options.output;

	output->file = recorder->trace_file[0] ? recorder->trace_file : NULL;
	output->directory = ky_engine.trace_directory[0] ? ky_engine.trace_directory :
							   DIRECTORY_DEFAULT;
	output->service = ky_engine.service;
	output->segment_bytes_max = taken->segment_bytes_max;
	output->rotate_interval_ns = taken->rotate_interval_ns;
	output->total_bytes_max = taken->total_bytes_max;
	output->write = taken->write;
	output->write_ctx = taken->write_ctx;
	recorder->options.event = on_event;
	recorder->options.event_ctx = recorder;
}

int kymo_recorder_open(struct kymo_recorder **out, const struct kymo_recorder_options *options)
{
	struct kymo_recorder_options taken;
	struct kymo_recorder *recorder;
	int err;

	if (!out)
		return -EINVAL;
	*out = NULL;
	err = ky_options_take(&taken, options);
	if (err)
		return err;
	recorder = ky_alloc(sizeof(*recorder));
	if (!recorder)
		return ky_options_say(&taken, -ENOMEM, "recorder: out of memory");
	recorder->pid = getpid();
	err = take_file(recorder, &taken);
	if (!err)
		err = take_triggers(recorder, &taken);
	if (!err)
		err = take_places(recorder, &taken);
	if (err) {
		ky_free(recorder);
		return err;
	}
	err = ky_compressor_choose(&recorder->options.output.compressor, taken.compression,
				   taken.compression_level ? (int)taken.compression_level : 1);
	__atomic_store_n(&ky_engine.sampler,
			 taken.flags & KYMO_RECORDER_NO_DRAIN ? &ky_timer_source :
								&ky_own_samplers_hooks,
			 __ATOMIC_RELEASE);
	if (!err)
		err = ky_engine_open(&taken);
	if (err) {
		ky_free(recorder);
		return ky_options_say(&taken, err, "recorder: %s", kymo_error_text(err));
	}
	take_output(recorder, &taken);
	for (size_t i = 0; i < taken.metadata_count; i++)
		(void)kymo_metadata_set(taken.metadata[i].key, taken.metadata[i].value);
	if (has_work())
		err = start_thread(recorder);
	if (err) {
		ky_engine_leave(ky_engine_stop(), true);
		ky_free(recorder);
		return ky_options_say(&taken, err, "drain thread: %s", kymo_error_text(err));
	}
	if (taken.flags & KYMO_RECORDER_FATAL_SIGNALS)
		(void)kymo_fatal_signals_install(); /* fails for no signal of ours */
	publish(recorder);
	*out = recorder;
	return 0;
}

int kymo_recorder_close(struct kymo_recorder *recorder)
{
	bool is_live, is_streaming;
	int err;

	if (!recorder)
		return 0;
	ky_engine_scan_modules();
	is_streaming = ky_engine_mode() == KYMO_MODE_STREAM;
	is_live = ky_engine_stop();
	publish(NULL);
	if (recorder->has_thread && recorder->pid == getpid()) {
		recorder->last_ring = is_live ? ky_engine.ring : NULL;
		stop_thread(recorder);
		fetch(recorder);
		ky_own_samplers_end(&recorder->own);
		if (is_live && is_streaming)
			note_error(recorder, enter_stream(recorder, ky_engine.ring));
		end_trace(recorder);
		ky_own_samplers_close(&recorder->own);
	}
	err = __atomic_load_n(&recorder->last_error, __ATOMIC_RELAXED);
	ky_engine_leave(is_live, !(ky_engine.options.flags & KYMO_RECORDER_NO_DRAIN));
	ky_free(recorder);
	return err;
}

/* In a forked child. The parent's drain and store stay where they are, never touched again: closing
 * them would seal a segment that the parent is still writing. */
int kymo_recorder_reopen(void)
{
	struct kymo_recorder *recorder = the_recorder;
	int err = ky_engine_reopen();

	if (err || !recorder || recorder->pid == getpid())
		return err;
	ky_agent_abandon(&recorder->agent);
	ky_agent_output_forget(&recorder->agent.output);
	recorder->drained = NULL;
	recorder->last_error = 0;
	ky_own_rules_reopen(&recorder->rules);
	ky_probes_close(recorder->agent.probes, KY_AGENT_PROBES);
	recorder->sampled = NULL;
	ky_own_samplers_forget(&recorder->own);
	recorder->is_file_taken = true;
	recorder->has_thread = false;
	recorder->wakeups = 0;
	recorder->pid = getpid();
	if (has_work())
		err = start_thread(recorder);
	if (err)
		ky_engine_leave(ky_engine_stop(), true);
	return err;
}

static void add_status(struct kymo_recorder_status *status, struct kymo_recorder *recorder)
{
	const struct ky_agent_output *output = &recorder->agent.output;

	status->segments_sealed = atomic_load_explicit(&output->segments_sealed,
						       memory_order_relaxed);
	status->bytes_written = atomic_load_explicit(&output->bytes_stored, memory_order_relaxed);
	status->wakeups = __atomic_load_n(&recorder->wakeups, __ATOMIC_RELAXED);
	if (!status->last_error)
		status->last_error = __atomic_load_n(&recorder->last_error, __ATOMIC_RELAXED);
	if (!status->last_error)
		status->last_error = __atomic_load_n(&recorder->rules.last_error, __ATOMIC_RELAXED);
	status->triggers_fired = __atomic_load_n(&recorder->rules.fired, __ATOMIC_RELAXED);
	status->triggers_suppressed = __atomic_load_n(&recorder->rules.suppressed,
						      __ATOMIC_RELAXED);
}

int kymo_recorder_status(struct kymo_recorder_status *out)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};
	struct ky_dumps_stats made;
	size_t size = out ? out->size : 0;
	struct ky_lock_mark mark;
	int err;

	if (size < sizeof(size))
		return -EINVAL;
	err = ky_engine_status(&status);
	if (err)
		return err;
	mark = ky_engine_lock();
	if (the_recorder && the_recorder->pid == getpid())
		add_status(&status, the_recorder);
	ky_engine_unlock(mark);
	ky_dumps_stats(&dumps, &made);
	status.dumps_waiting = made.waiting;
	status.dumps_made = made.made;
	status.dumps_failed = made.failed;
	status.dumps_refused = made.refused;
	status.size = size < sizeof(status) ? size : sizeof(status);
	memcpy(out, &status, status.size);
	return 0;
}

static int refuse(void)
{
	if (!is_active())
		return KYMO_E_CLOSED;
	if (!has_work())
		return KYMO_E_UNSUPPORTED;
	/* Not so in a forked child that has not reopened. */
	return ky_dumps_is_ours(&dumps) ? 0 : KYMO_E_CLOSED;
}

static void give(struct kymo_dump_result *out, const struct kymo_dump_result *result)
{
	size_t size = out->size < sizeof(*result) ? out->size : sizeof(*result);

	memcpy(out, result, size);
	out->size = size;
}

int kymo_recorder_dump(const struct kymo_dump_options *options, struct kymo_dump_result *result)
{
	struct ky_dump_request *request;
	bool is_waiting;
	int err;

	if (result && result->size < sizeof(result->size))
		return -EINVAL;
	err = refuse();
	if (!err)
		err = ky_dump_request_make(&request, options, ky_now_ns(CLOCK_MONOTONIC));
	if (err)
		return err;
	is_waiting = request->is_waited_for;
	err = ky_dumps_put(&dumps, request);
	if (err) {
		ky_free(request);
		return err;
	}
	ky_bell_ring(ky_engine_ring());
	if (!is_waiting)
		return 0;
	ky_dumps_wait(&dumps, request);
	err = request->result.err;
	if (result)
		give(result, &request->result);
	ky_free(request);
	return err;
}

int kymo_trigger_add(const char *rules, char *errbuf, size_t errbuf_bytes)
{
	char unread[1];
	int err;

	if (!rules)
		return -EINVAL;
	err = refuse();
	if (!err)
		err = errbuf && errbuf_bytes ? ky_own_rules_add(rules, errbuf, errbuf_bytes) :
					       ky_own_rules_add(rules, unread, sizeof(unread));
	if (!err)
		ky_bell_ring(ky_engine_ring());
	return err;
}
