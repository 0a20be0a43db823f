/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What makes a segment stand on its own: metadata, descriptions, live tasks, open polls. */
#include <drain/drain_state.h>

#include <kymo/emit.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wire/kind_list.h>

#define PAIRS_MAX (KY_METADATA_MAX + KY_RUNTIMES_MAX / 16 + 32u)
#define MAP_BYTES_MAX (160u << 10) /* of all pairs; the chunk must hold the rest too */
#define CSV_BYTES_MAX 1024u

#define GATE_NAME(gate, name) {KYMO_GATE_##gate, name},

/* clang-format off */
static const struct {
	uint32_t gate;
	const char *name;
} gate_names[] = {
	KY_KIND_LIST(GATE_NAME, GATE_NAME, GATE_NAME)
};
/* clang-format on */

/* ---- metadata: a map is written as its count and then its pairs ---- */

struct pairs {
	struct ky_buf text; /* u32 key bytes, u32 value bytes, key, value; ... */
	uint32_t count;
};

static void put_bytes(struct pairs *pairs, const char *key, const char *value, size_t value_bytes)
{
	uint32_t bytes[2] = {(uint32_t)strlen(key), (uint32_t)value_bytes};

	if (pairs->count >= PAIRS_MAX || pairs->text.used + bytes[0] + bytes[1] > MAP_BYTES_MAX)
		return;
	if (ky_buf_reserve(&pairs->text, sizeof(bytes) + bytes[0] + bytes[1]) != 0)
		return;
	ky_buf_append(&pairs->text, bytes, sizeof(bytes));
	ky_buf_append(&pairs->text, key, bytes[0]);
	ky_buf_append(&pairs->text, value, bytes[1]);
	pairs->count++;
}

static void put(struct pairs *pairs, const char *key, const char *value)
{
	put_bytes(pairs, key, value, strlen(value));
}

__attribute__((format(printf, 3, 4))) static void put_format(struct pairs *pairs, const char *key,
							     const char *format, ...)
{
	char value[256];
	va_list args;

	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	put(pairs, key, value);
}

static void put_gates(struct pairs *pairs, uint32_t gates)
{
	char on[256] = "", off[256] = "";

	for (size_t i = 0; i < sizeof(gate_names) / sizeof(gate_names[0]); i++) {
		char *list = gates & gate_names[i].gate ? on : off;
		size_t used = strlen(list);

		snprintf(list + used, sizeof(on) - used, "%s%s", used ? "," : "",
			 gate_names[i].name);
	}
	put(pairs, "kymo.gates", on);
	put(pairs, "kymo.gates_off", off);
}

/* dial9's viewer groups lanes by these: runtime.NAME = ids of its workers. */
static void put_runtimes(struct ky_drain *drain, struct pairs *pairs)
{
	for (uint32_t i = 0; i < drain->runtime_count; i++) {
		const struct ky_runtime *runtime = &drain->runtimes[i];
		char csv[CSV_BYTES_MAX] = "", key[128];
		size_t used = 0;

		for (uint32_t w = 0; w < drain->worker_count && used + 12 < sizeof(csv); w++) {
			const struct ky_worker *worker = &drain->workers[w];

			if (worker->runtime == i && worker->has_begun && !worker->is_ended)
				used += (size_t)snprintf(csv + used, sizeof(csv) - used, "%s%u",
							 used ? "," : "", ky_worker_id(w));
		}
		if (!used)
			continue;
		if (runtime->name && runtime->name[0])
			snprintf(key, sizeof(key), "runtime.%s", runtime->name);
		else
			snprintf(key, sizeof(key), i ? "runtime.main-%u" : "runtime.main", i);
		put_bytes(pairs, key, csv, used);
	}
}

/* What a dump says about itself besides what its caller gave it. */
static void put_cut(struct ky_drain *drain, struct pairs *pairs)
{
	const struct ky_ring_view *ring = &drain->ring;
	uint64_t newest_ns = drain->end_ns > drain->merged_ns ? drain->end_ns : drain->merged_ns;
	uint64_t horizon_ns = ky_timeline_ns(&drain->timeline, drain->horizon_ticks);
	uint64_t dropped = atomic_load_explicit(&ring->header->dropped_count, memory_order_relaxed);
	char end[64];

	if (newest_ns < drain->now_ns)
		newest_ns = drain->now_ns;
	for (size_t i = 0; i < drain->cut_pair_count; i++)
		put(pairs, drain->cut_pairs[i].key, drain->cut_pairs[i].value);
	put_format(pairs, "flight.age_ns", "%llu",
		   (unsigned long long)(drain->horizon_ticks && newest_ns > horizon_ns ?
						newest_ns - horizon_ns :
						0));
	put_format(pairs, "ring.dropped", "%llu", (unsigned long long)dropped);
	if (!drain->is_dead)
		return;
	ky_drain_process_end(drain, end, sizeof(end));
	put(pairs, "process.end", end);
}

static bool is_flight(const struct ky_ring_view *ring)
{
	struct ky_ring_wish wish = {.generation = 0};

	if (ky_ring_view_settings(ring, &wish) && wish.mode != KY_RING_MODE_AS_OPENED)
		return wish.mode == KY_RING_MODE_FLIGHT;
	return ring->flags & KY_RING_FLIGHT;
}

static void put_allocs(const struct ky_ring_view *ring, struct pairs *pairs)
{
	const uint8_t *area = ky_ring_view_allocs(ring);
	const struct ky_alloc_head *head = (const struct ky_alloc_head *)(const void *)area;
	uint64_t refused;

	if (!head)
		return;
	put_format(pairs, "alloc.interval_bytes", "%llu",
		   (unsigned long long)atomic_load_explicit(&head->mean_bytes,
							    memory_order_relaxed));
	refused = atomic_load_explicit(&head->refused_count, memory_order_relaxed);
	if (refused)
		put_format(pairs, "alloc.refused", "%llu", (unsigned long long)refused);
}

/* What tells blocked from ready to run. */
static const char *split_source(const struct ky_sample_ring *off_cpu)
{
	uint32_t source = atomic_load_explicit(&off_cpu->head->source, memory_order_relaxed);

	if (source & 1u << KY_SOURCE_WAKES)
		return "wakeups";
	return source & 1u << KY_SOURCE_DELAY ? "run_delay" : "none";
}

/* Where in the kernel threads left the processor: who tells it, or why nobody does. */
static void put_kernel_stacks(struct pairs *pairs, const struct ky_sample_ring *off_cpu)
{
	uint32_t source = atomic_load_explicit(&off_cpu->head->source, memory_order_relaxed);
	uint32_t err = atomic_load_explicit(&off_cpu->head->refusals[KY_SOURCE_KERNEL],
					    memory_order_relaxed);

	if (source & 1u << KY_SOURCE_KERNEL)
		put(pairs, "offcpu.kernel_stacks", "sched_switch");
	else if (err && err < 4096)
		put_format(pairs, "offcpu.kernel_stacks", "none: %s", kymo_error_text(-(int)err));
	else
		put(pairs, "offcpu.kernel_stacks", "none: not asked for (--switches stacks)");
}

/* Where in the program page faults came. */
static void put_fault_stacks(struct pairs *pairs, const struct ky_sample_ring *off_cpu)
{
	uint32_t source = atomic_load_explicit(&off_cpu->head->source, memory_order_relaxed);
	uint32_t err = atomic_load_explicit(&off_cpu->head->refusals[KY_SOURCE_PERF],
					    memory_order_relaxed);

	if (source & 1u << KY_SOURCE_PERF)
		put(pairs, "offcpu.fault_stacks", "perf_event");
	else if (err && err < 4096)
		put_format(pairs, "offcpu.fault_stacks", "none: %s", kymo_error_text(-(int)err));
}

/* Where stacks come from, and what was refused. */
static void put_sampling(const struct ky_ring_view *ring, struct pairs *pairs)
{
	struct ky_sample_ring cpu;
	uint32_t limits, refused, share_ppm;
	char text[256];

	put(pairs, "sampling.cpu", ky_ring_view_sources(ring, KY_SAMPLES_CPU, text, sizeof(text)));
	if (ky_ring_view_refusals(ring, KY_SAMPLES_CPU, text, sizeof(text))[0])
		put(pairs, "sampling.cpu.refused", text);
	put(pairs, "offcpu.sources",
	    ky_ring_view_sources(ring, KY_SAMPLES_OFF_CPU, text, sizeof(text)));
	if (ky_ring_view_samples(ring, KY_SAMPLES_OFF_CPU, &cpu)) {
		put(pairs, "offcpu.split", split_source(&cpu));
		put_kernel_stacks(pairs, &cpu);
		put_fault_stacks(pairs, &cpu);
	}
	if (ky_ring_view_samples(ring, KY_SAMPLES_OFF_CPU, &cpu) &&
	    ky_ring_view_refusals(ring, KY_SAMPLES_OFF_CPU, text, sizeof(text))[0])
		put(pairs, "offcpu.refused", text);
	if (!ky_ring_view_samples(ring, KY_SAMPLES_CPU, &cpu))
		return;
	put_format(pairs, "sampling.cpu.rate_hz", "%u",
		   atomic_load_explicit(&cpu.head->rate_hz, memory_order_relaxed));
	share_ppm = atomic_load_explicit(&cpu.head->share_ppm, memory_order_relaxed);
	if (share_ppm)
		put_format(pairs, "sampling.cpu.share_ppm", "%u", share_ppm);
	limits = atomic_load_explicit(&cpu.head->limits, memory_order_relaxed);
	if (limits)
		put(pairs, "sampling.cpu.kernel",
		    limits & KY_SAMPLE_NO_KERNEL ? "not sampled" : "without its frames");
	refused = atomic_load_explicit(&cpu.head->threads_refused, memory_order_relaxed);
	if (refused)
		put_format(pairs, "sampling.cpu.threads_refused", "%u", refused);
}

static void put_ticks(struct pairs *pairs, const char *key, uint64_t ticks)
{
	put_format(pairs, key, "%llu", (unsigned long long)ticks);
}

/* By what a reader of several traces of this process counts each event once. */
static void put_coverage(struct ky_drain *drain, struct pairs *pairs, bool is_complete)
{
	if (drain->flown_ticks > drain->cover_whole_from && !drain->is_cut)
		drain->cover_whole_from = drain->flown_ticks;
	put_format(pairs, "coverage.ring", "%llx",
		   (unsigned long long)drain->ring.open_anchor.ticks_before);
	if (!drain->is_cut)
		put_format(pairs, "coverage.part", "stream-%llx",
			   (unsigned long long)drain->first_now_ns);
	else
		put(pairs, "coverage.part", drain->from_ticks ? "rest" : "dump");
	put_ticks(pairs, "coverage.from_ticks", drain->cover_from);
	put_ticks(pairs, "coverage.whole_from_ticks", drain->cover_whole_from);
	if (is_complete && drain->cover_to)
		put_ticks(pairs, "coverage.to_ticks", drain->cover_to);
}

/* How often the process's resources were looked at, and what could not be seen of them. */
static void put_resources(const struct ky_ring_view *ring, struct pairs *pairs)
{
	const uint8_t *area = ky_ring_view_resources(ring);
	struct ky_resource_about about;
	char missing[1024];

	if (!area)
		return;
	ky_ring_view_resource_about(area, &about);
	put_format(pairs, "resources.interval_ns", "%llu", (unsigned long long)about.interval_ns);
	if (about.path[0])
		put(pairs, "resources.cgroup", about.path);
	if (ky_drain_resources_missing(&about, missing, sizeof(missing))[0])
		put(pairs, "resources.missing", missing);
}

static void put_number(struct pairs *pairs, const char *key, const _Atomic uint64_t *value)
{
	put_format(pairs, key, "%llu",
		   (unsigned long long)atomic_load_explicit(value, memory_order_relaxed));
}

/* What the rules have done; nothing where none ever held. */
static void put_watched(const struct ky_ring_view *ring, struct pairs *pairs)
{
	const struct ky_ring_watched *watched = ring->side ? &ring->side->watched : NULL;

	if (!watched || (!atomic_load_explicit(&watched->fired, memory_order_relaxed) &&
			 !atomic_load_explicit(&watched->held_back, memory_order_relaxed)))
		return;
	put_number(pairs, "rules.fired", &watched->fired);
	put_number(pairs, "rules.held_back", &watched->held_back);
	put_number(pairs, "rules.untold", &watched->untold);
	put_number(pairs, "rules.untold_over_budget", &watched->untold_over_budget);
	put_number(pairs, "rules.undumped", &watched->undumped);
}

static void put_control(struct pairs *pairs, const struct ky_ring_control *control)
{
	uint64_t stopped_ns = ky_settings_stopped_ns(&control->settings);

	put_gates(pairs, atomic_load_explicit(&control->gates, memory_order_relaxed));
	if (stopped_ns)
		put_number(pairs, "recording.stopped_ns", &control->settings.stopped_ns);
}

static void put_own(struct ky_drain *drain, struct pairs *pairs, bool is_complete)
{
	const struct ky_ring_view *ring = &drain->ring;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	put(pairs, "service", ring->service);
	put(pairs, "host", drain->host);
	put_format(pairs, "pid", "%u", ring->pid);
	put(pairs, "boot_id", ring->boot_id);
	put_format(pairs, "process.start_time_ticks", "%llu",
		   (unsigned long long)ring->start_time_ticks);
	put_format(pairs, "process.available_parallelism", "%ld", processors > 0 ? processors : 1);
	put(pairs, "machine.architecture", ring->arch);
	put(pairs, "kymo.version", ring->recorder_version);
	put_sampling(ring, pairs);
	put_allocs(ring, pairs);
	put_resources(ring, pairs);
	put_watched(ring, pairs);
	if (drain->options.source)
		put(pairs, "kymo.source", drain->options.source);
	put(pairs, "clock.source", ring->flags & KY_RING_CLOCK_MONOTONIC ? "monotonic" : "counter");
	put_format(pairs, "clock.ticks_per_second", "%llu",
		   (unsigned long long)ring->ticks_per_second);
	put_format(pairs, "clock.jumps", "%llu", (unsigned long long)drain->timeline.jump_count);
	put_format(pairs, "ring.bytes", "%llu",
		   (unsigned long long)(drain->ring_slots ? drain->ring_slots :
							    ky_ring_view_usable(ring)) *
			   KY_SLOT_BYTES);
	put(pairs, "ring.anonymous", ring->flags & KY_RING_ANONYMOUS ? "true" : "false");
	put(pairs, "cpu_time.measured", "false");
	put(pairs, "kymo.mode", is_flight(ring) ? "flight" : "stream");
	if (ring->control)
		put_control(pairs, ring->control);
	if (drain->is_directory_corrupt)
		put(pairs, "directory.corrupt", "true");
	put_runtimes(drain, pairs);
	put_coverage(drain, pairs, is_complete);
	put(pairs, "segment.complete", is_complete ? "true" : "false");
}

void ky_drain_write_metadata(struct ky_drain *drain, uint64_t ns, bool is_complete)
{
	struct ky_trc_enc *enc = &drain->enc;
	struct pairs pairs = {.count = 0};
	size_t at = 0;

	ky_buf_init(&pairs.text, 0);
	/* Ours last: the last value of a key wins. */
	for (uint32_t i = 0; i < drain->pair_count; i++)
		put(&pairs, drain->pairs[i].key, drain->pairs[i].value);
	if (drain->is_cut)
		put_cut(drain, &pairs);
	put_own(drain, &pairs, is_complete);
	ky_trc_enc_event(enc, KY_EV_SEGMENT_METADATA, ns);
	ky_trc_enc_count(enc, pairs.count);
	for (uint32_t i = 0; i < pairs.count; i++) {
		uint32_t bytes[2];

		memcpy(bytes, pairs.text.bytes + at, sizeof(bytes));
		at += sizeof(bytes);
		ky_trc_enc_text(enc, (const char *)pairs.text.bytes + at, bytes[0]);
		at += bytes[0];
		ky_trc_enc_text(enc, (const char *)pairs.text.bytes + at, bytes[1]);
		at += bytes[1];
	}
	ky_buf_release(&pairs.text);
}

/* ---- descriptions ---- */

void ky_drain_write_thread(struct ky_drain *drain, struct ky_dthread *thread, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t pool;

	thread->is_announced = true;
	ky_drain_ready(drain, ns);
	pool = ky_drain_text_pool(drain, thread->name);
	ky_trc_enc_event(enc, KY_EV_THREAD, ns);
	ky_trc_enc_u32(enc, thread->tid);
	ky_trc_enc_u32(enc, pool);
	ky_trc_enc_varint(enc, ky_timeline_ns(&drain->timeline, thread->start_ticks));
	ky_trc_enc_u8(enc, thread->is_done);
}

void ky_drain_write_module(struct ky_drain *drain, struct ky_module *module, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;

	module->is_announced = true;
	ky_drain_ready(drain, ns);
	ky_trc_enc_event(enc, KY_EV_PROCESS_MAP, ns);
	ky_trc_enc_text(enc, module->path, strlen(module->path));
	ky_trc_enc_bytes(enc, module->build_id, module->entry.build_id_bytes);
	ky_trc_enc_varint(enc, module->entry.start);
	ky_trc_enc_varint(enc, module->entry.end);
	ky_trc_enc_varint(enc, module->entry.load_bias);
	ky_trc_enc_varint(enc, module->entry.file_offset);
	ky_trc_enc_varint(enc, ky_timeline_ns(&drain->timeline, module->entry.from_ticks));
	ky_trc_enc_opt_varint(enc, module->gone_ticks != 0,
			      ky_timeline_ns(&drain->timeline, module->gone_ticks));
}

static void write_live_tasks(struct ky_drain *drain, uint64_t ns)
{
	const struct ky_task_table *tasks = &drain->tasks;
	uint32_t listed = tasks->count < KY_LIVE_TASKS_MAX ? tasks->count : KY_LIVE_TASKS_MAX;
	struct ky_trc_enc *enc = &drain->enc;

	ky_drain_ready(drain, ns);
	ky_trc_enc_event(enc, KY_EV_LIVE_TASKS, ns);
	ky_trc_enc_varint(enc, tasks->count + tasks->untracked_count);
	ky_trc_enc_varint(enc, listed);
	ky_trc_enc_varint(enc, tasks->untracked_count);
	for (uint32_t i = 0; i < tasks->capacity && listed; i++) {
		const struct ky_task *task = &tasks->slots[i];
		uint32_t pool;

		if (!task->key)
			continue;
		listed--;
		ky_drain_ready(drain, ns);
		pool = ky_drain_name_pool(drain, task->name);
		ky_trc_enc_event(enc, KY_EV_LIVE_TASK, ns);
		ky_trc_enc_varint(enc, task->key & ~KY_TASK_USED);
		ky_trc_enc_u32(enc, pool);
		ky_trc_enc_varint(enc, task->last_poll_ns);
		ky_trc_enc_u8(enc, task->ready_ns != 0);
		ky_trc_enc_varint(enc, task->ready_ns);
	}
}

void ky_drain_write_start(struct ky_drain *drain, uint64_t ns)
{
	ky_drain_write_metadata(drain, ns, false);
	for (uint32_t i = 0; i < drain->thread_count; i++) {
		if (!drain->threads[i]->is_done)
			ky_drain_write_thread(drain, drain->threads[i], ns);
	}
	for (uint32_t i = 0; i < drain->runtime_count; i++) {
		if (!drain->runtimes[i].is_ended)
			ky_drain_runtime_event(drain, i, ns);
	}
	for (uint32_t i = 0; i < drain->worker_count; i++) {
		if (drain->workers[i].has_begun && !drain->workers[i].is_ended)
			ky_drain_worker_event(drain, i, ns);
	}
	for (uint32_t i = 0; i < drain->module_count; i++)
		ky_drain_write_module(drain, &drain->modules[i], ns);
	ky_retain_write_policy(drain, ns);
	write_live_tasks(drain, ns);
}

static void write_open(struct ky_drain *drain, const struct ky_dthread *thread, uint32_t worker_id,
		       uint32_t depth, uint64_t task, uint32_t name, uint64_t start_ns, uint64_t ns,
		       bool is_at_exit)
{
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t pool = ky_drain_name_pool(drain, name);

	ky_trc_enc_event(enc, KY_EV_OPEN_POLL, ns);
	ky_trc_enc_varint(enc, worker_id);
	ky_trc_enc_u32(enc, thread->tid);
	ky_trc_enc_varint(enc, depth);
	ky_trc_enc_varint(enc, task);
	ky_trc_enc_u32(enc, pool);
	ky_trc_enc_varint(enc, start_ns);
	ky_trc_enc_u8(enc, is_at_exit);
}

void ky_drain_write_open_poll(struct ky_drain *drain, const struct ky_dthread *thread,
			      uint32_t depth, uint64_t ns)
{
	const struct ky_poll *poll = &thread->stack[depth];

	ky_drain_ready(drain, ns);
	write_open(drain, thread, ky_worker_id(poll->worker), depth, poll->task, poll->name,
		   poll->start_ns, ns, false);
}

void ky_drain_write_open_polls(struct ky_drain *drain, uint64_t ns, bool is_at_exit)
{
	for (uint32_t i = 0; i < drain->thread_count; i++) {
		const struct ky_dthread *thread = drain->threads[i];

		/* Room only: this must not begin another chunk, which would tell them again. */
		if (drain->out.used > KY_CHUNK_BYTES_SOFT)
			return;
		for (uint32_t depth = 0; depth < thread->depth; depth++) {
			const struct ky_poll *poll = &thread->stack[depth];

			if (poll->kind >= KY_POLL_COUNTED && !is_at_exit)
				continue;
			write_open(drain, thread, ky_worker_id(poll->worker), depth, poll->task,
				   poll->name, poll->start_ns, ns, is_at_exit);
		}
		if (thread->is_blocking && (!thread->is_run_counted || is_at_exit))
			write_open(drain, thread, KY_WORKER_BLOCKING_POOL, 0, thread->blocking_task,
				   thread->blocking_name, thread->blocking_start_ns, ns,
				   is_at_exit);
	}
}
