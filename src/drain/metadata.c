/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The metadata of a segment: what it is of, and under which conditions it was recorded. */
#include <drain/segment_stage.h>

#include <errno.h>
#include <kymo/base.h>
#include <kymo/emit.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wire/kind_list.h>

#define RUNTIMES_NAMED_MAX 256u /* of those that have workers */
#define PAIRS_MAX (KY_METADATA_MAX + RUNTIMES_NAMED_MAX + 32u)
#define MAP_BYTES_MAX (160u << 10) /* of all pairs; the chunk must hold the rest too */
#define CSV_BYTES_MAX 1024u
#define ERRNO_MAX 4095u

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
static void put_runtimes(struct ky_segment *segment, struct pairs *pairs)
{
	bool is_full = segment->common->runtimes.is_full;
	uint64_t named = 0, left_out = is_full;

	for (uint32_t i = 0; i < segment->common->runtimes.count; i++) {
		const struct ky_runtime *runtime = &segment->common->runtimes.list[i];
		char csv[CSV_BYTES_MAX] = "", key[128];
		size_t used = 0;

		for (uint32_t w = 0; w < segment->workers->count && used + 12 < sizeof(csv); w++) {
			const struct ky_drain_worker *worker = &segment->workers->list[w];

			if (worker->runtime == i && worker->has_begun && !worker->is_ended)
				used += (size_t)snprintf(csv + used, sizeof(csv) - used, "%s%u",
							 used ? "," : "", ky_worker_id(w));
		}
		if (!used)
			continue;
		if (named++ >= RUNTIMES_NAMED_MAX) {
			left_out++;
			continue;
		}
		if (runtime->name && runtime->name[0])
			snprintf(key, sizeof(key), "runtime.%s", runtime->name);
		else
			snprintf(key, sizeof(key), i ? "runtime.main-%u" : "runtime.main", i);
		put_bytes(pairs, key, csv, used);
	}
	if (left_out)
		put_format(pairs, "runtimes.left_out", "%llu%s", (unsigned long long)left_out,
			   is_full ? " or more" : "");
}

/* ---- how the process ended ---- */

/* The numbers are those of every architecture we record on. */
static const char *signal_name(uint32_t signal)
{
	static const char *const names[] = {
		[1] = "SIGHUP",   [2] = "SIGINT",   [3] = "SIGQUIT",    [4] = "SIGILL",
		[5] = "SIGTRAP",  [6] = "SIGABRT",  [7] = "SIGBUS",     [8] = "SIGFPE",
		[9] = "SIGKILL",  [10] = "SIGUSR1", [11] = "SIGSEGV",   [12] = "SIGUSR2",
		[13] = "SIGPIPE", [14] = "SIGALRM", [15] = "SIGTERM",   [16] = "SIGSTKFLT",
		[24] = "SIGXCPU", [25] = "SIGXFSZ", [26] = "SIGVTALRM", [27] = "SIGPROF",
		[29] = "SIGIO",   [30] = "SIGPWR",  [31] = "SIGSYS"};

	return signal < sizeof(names) / sizeof(names[0]) && names[signal] ? names[signal] : NULL;
}

static void put_signal(char *out, size_t capacity, uint32_t signal, const char *more)
{
	const char *name = signal_name(signal);

	if (name)
		snprintf(out, capacity, "signal %u (%s)%s", signal, name, more);
	else
		snprintf(out, capacity, "signal %u%s", signal, more);
}

static void process_end(const struct ky_ring_side *area, char *out, size_t capacity)
{
	uint32_t kind = area ? atomic_load_explicit(&area->end.kind, memory_order_acquire) : 0;

	if (kind == KY_END_EXIT)
		snprintf(out, capacity, "exit status %u", area->end.code);
	else if (kind == KY_END_SIGNAL)
		put_signal(out, capacity, area->end.code,
			   area->end.oom == KY_OOM_NAMED   ? ", out of memory" :
			   area->end.oom == KY_OOM_COUNTED ? ", probably out of memory" :
			   area->end.has_core == 1         ? ", core dumped" :
							     "");
	else if (area && atomic_load_explicit(&area->crash.state, memory_order_acquire) == 2)
		put_signal(out, capacity, area->crash.signal, "");
	else
		snprintf(out, capacity, "unknown");
}

/* What a dump says about itself besides what its caller gave it. */
static void put_cut(struct ky_segment *segment, struct pairs *pairs)
{
	const struct ky_ring_view *ring = &segment->common->ring;
	uint64_t newest_ns = ky_convert_merged_ns(segment->convert);
	uint64_t horizon_ns = ky_timeline_ns(&segment->common->timeline,
					     segment->common->horizon_ticks);
	uint64_t dropped = atomic_load_explicit(&ring->header->dropped_count, memory_order_relaxed);
	char end[64];

	if (newest_ns < segment->cut.end_ns)
		newest_ns = segment->cut.end_ns;
	if (newest_ns < segment->common->now_ns)
		newest_ns = segment->common->now_ns;
	for (size_t i = 0; i < segment->cut.pair_count; i++)
		put(pairs, segment->cut.pairs[i].key, segment->cut.pairs[i].value);
	put_format(pairs, "flight.age_ns", "%llu",
		   (unsigned long long)(segment->common->horizon_ticks && newest_ns > horizon_ns ?
						newest_ns - horizon_ns :
						0));
	put_format(pairs, "ring.dropped", "%llu", (unsigned long long)dropped);
	if (!segment->common->is_dead)
		return;
	process_end(ring->side, end, sizeof(end));
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

/* What distinguishes blocked from ready to run. */
static const char *split_source(const struct ky_sample_ring *off_cpu)
{
	uint32_t source = atomic_load_explicit(&off_cpu->head->source, memory_order_relaxed);

	if (source & 1u << KY_SOURCE_WAKES)
		return "wakeups";
	return source & 1u << KY_SOURCE_DELAY ? "run_delay" : "none";
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
		put_fault_stacks(pairs, &cpu);
	}
	if (ky_ring_view_samples(ring, KY_SAMPLES_OFF_CPU, &cpu) &&
	    ky_ring_view_refusals(ring, KY_SAMPLES_OFF_CPU, text, sizeof(text))[0])
		put(pairs, "offcpu.refused", text);
	if (!ky_ring_view_samples(ring, KY_SAMPLES_CPU, &cpu))
		return;
	if (ky_ring_view_choice(ring, text, sizeof(text))[0])
		put(pairs, "sampling.cpu.choice", text);
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
static void put_coverage(struct ky_segment *segment, struct pairs *pairs, bool is_complete)
{
	if (segment->common->flown_ticks > segment->cut.cover_whole_from &&
	    !segment->common->is_cut)
		segment->cut.cover_whole_from = segment->common->flown_ticks;
	put_format(pairs, "coverage.ring", "%llx",
		   (unsigned long long)segment->common->ring.open_anchor.ticks_before);
	if (!segment->common->is_cut)
		put_format(pairs, "coverage.part", "stream-%llx",
			   (unsigned long long)segment->first_now_ns);
	else
		put(pairs, "coverage.part", segment->common->from_ticks ? "rest" : "dump");
	put_ticks(pairs, "coverage.from_ticks", segment->cut.cover_from);
	put_ticks(pairs, "coverage.whole_from_ticks", segment->cut.cover_whole_from);
	if (is_complete && segment->cut.cover_to)
		put_ticks(pairs, "coverage.to_ticks", segment->cut.cover_to);
}

/* ---- resources ---- */

static const char *why_text(uint32_t why)
{
	switch (why) {
	case KY_WHY_OTHER_NAMESPACE:
		return "the process lives in another pid namespace";
	case KY_WHY_TOO_MANY:
		return "too many to count in every reading";
	case KY_WHY_NO_CONTROLLER:
		return "no cgroup counts it";
	case KY_WHY_BEING_SEARCHED:
		return "still being searched among the process's descriptors";
	case ENOENT:
		return "not there";
	case EACCES:
	case EPERM:
		return "not permitted";
	case ENODATA:
		return "not reported by the kernel";
	default:
		return why <= ERRNO_MAX ? kymo_error_text(-(int)why) : "unknown";
	}
}

static const char *resources_missing(const struct ky_resource_about *about, char *out,
				     size_t capacity)
{
	static const char *const parts[KY_PART_COUNT] = {
		[KY_PART_CPU] = "CPU time and faults",
		[KY_PART_RSS] = "resident set",
		[KY_PART_MAX_RSS] = "peak resident set",
		[KY_PART_IO] = "block input and output",
		[KY_PART_SWITCHES] = "context switches",
		[KY_PART_FDS] = "open descriptors",
		[KY_PART_FD_LIMIT] = "limit of descriptors",
		[KY_PART_CGROUP_CPU] = "cgroup CPU",
		[KY_PART_CGROUP_MEMORY] = "cgroup memory",
		[KY_PART_PRESSURE] = "pressure of the machine",
		[KY_PART_CGROUP_PRESSURE] = "pressure of the cgroup",
		[KY_PART_LISTENERS] = "accept queues",
		[KY_PART_DROPS] = "dropped connections",
		[KY_PART_SOCKETS] = "sockets that threads wait on",
	};
	size_t used = 0;

	out[0] = 0;
	for (uint32_t i = 0; i < KY_PART_COUNT && used < capacity; i++)
		if (about->missing[i])
			used += (size_t)snprintf(out + used, capacity - used, "%s%s: %s",
						 used ? "; " : "", parts[i],
						 why_text(about->missing[i]));
	return out;
}

/* How often the process's resources were read, and what could not be seen of them. */
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
	if (resources_missing(&about, missing, sizeof(missing))[0])
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
	put_number(pairs, "rules.untold", &watched->unreported);
	put_number(pairs, "rules.untold_over_budget", &watched->untold_over_budget);
	put_number(pairs, "rules.undumped", &watched->undumped);
}

static void put_unwatched(const struct ky_ring_view *ring, struct pairs *pairs)
{
	const struct ky_ring_unwatched *unwatched = ring->side ? &ring->side->unwatched : NULL;

	if (!unwatched || !atomic_load_explicit(&unwatched->late_count, memory_order_relaxed))
		return;
	put_number(pairs, "watchdog.late", &unwatched->late_count);
	put_number(pairs, "watchdog.unwatched_ns", &unwatched->ns);
}

static void put_control(struct pairs *pairs, const struct ky_ring_control *control)
{
	uint64_t stopped_ns = ky_settings_stopped_ns(&control->settings);

	put_gates(pairs, atomic_load_explicit(&control->gates, memory_order_relaxed));
	if (stopped_ns)
		put_number(pairs, "recording.stopped_ns", &control->settings.stopped_ns);
}

static void put_own(struct ky_segment *segment, struct pairs *pairs, bool is_complete)
{
	const struct ky_ring_view *ring = &segment->common->ring;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	put(pairs, "service", ring->service);
	put(pairs, "host", segment->hostname);
	put_format(pairs, "pid", "%u", ring->pid);
	put(pairs, "boot_id", ring->boot_id);
	put_format(pairs, "process.start_time_ticks", "%llu",
		   (unsigned long long)ring->start_time_ticks);
	put_format(pairs, "process.available_parallelism", "%ld", cpus > 0 ? cpus : 1);
	put(pairs, "machine.architecture", ring->arch);
	put(pairs, "kymo.version", ring->recorder_version);
	put_sampling(ring, pairs);
	put_allocs(ring, pairs);
	put_resources(ring, pairs);
	put_watched(ring, pairs);
	put_unwatched(ring, pairs);
	put(pairs, "clock.source", ring->flags & KY_RING_CLOCK_MONOTONIC ? "monotonic" : "counter");
	put_format(pairs, "clock.ticks_per_second", "%llu",
		   (unsigned long long)ring->ticks_per_second);
	put_format(pairs, "clock.jumps", "%llu",
		   (unsigned long long)segment->common->timeline.jump_count);
	put_format(pairs, "ring.bytes", "%llu",
		   (unsigned long long)(segment->cut.ring_slots ? segment->cut.ring_slots :
								  ky_ring_view_usable(ring)) *
			   KY_SLOT_BYTES);
	put(pairs, "ring.anonymous", ring->flags & KY_RING_ANONYMOUS ? "true" : "false");
	put(pairs, "cpu_time.measured", "false");
	put(pairs, "kymo.mode", is_flight(ring) ? "flight" : "stream");
	if (ring->control)
		put_control(pairs, ring->control);
	if (segment->common->is_directory_corrupt)
		put(pairs, "directory.corrupt", "true");
	put_runtimes(segment, pairs);
	put_coverage(segment, pairs, is_complete);
	/* dial9's readers count a file with another value as one that lost events. */
	if (is_complete)
		put(pairs, "segment.complete", "true");
}

void ky_segment_metadata(struct ky_segment *segment, uint64_t ns, bool is_complete)
{
	struct ky_trc_enc *enc = &segment->chunk->enc;
	struct pairs pairs = {.count = 0};
	size_t at = 0;

	ky_buf_init(&pairs.text, 0);
	/* Ours last: the last value of a key wins. */
	for (uint32_t i = 0; i < segment->common->pairs.count; i++)
		put(&pairs, segment->common->pairs.list[i].key,
		    segment->common->pairs.list[i].value);
	if (segment->common->is_cut)
		put_cut(segment, &pairs);
	put_own(segment, &pairs, is_complete);
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
