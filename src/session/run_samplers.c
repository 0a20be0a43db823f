/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <session/run_samplers.h>

#include <agent/cpu_sampler.h>
#include <agent/off_cpu_sampler.h>
#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <proc/run_process.h>
#include <proc/thread_turns.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wire/ring_image.h>

/* The deepest stacks that were met, of debug builds of web services, are shorter. */
#define STACK_BYTES 32768u
/* Of the environment: the rate at which processes sample themselves. */
#define SAMPLE_OFF "KYMO_SAMPLE=0"

struct ky_run_samplers {
	const struct ky_sampling_options *options;
	char *variable; /* "KYMO_SAMPLE=..." of the child's environment */
	struct ky_sampled_rings rings;
	struct ky_cpu_sampler samples;
	struct ky_off_cpu_sampler switches;
	bool wants_switches; /* and has not tried them yet */
	bool is_ending;
	bool is_mute;               /* what is waited for reported something else */
	bool watches_switches;      /* their rings report when they fill */
	pid_t pid;                  /* of CMD, once it waits for its exec */
	uint64_t turns, counted_ns; /* of all threads, and when */
	uint64_t due_ns;
};

static bool uses_perf(const struct ky_run_samplers *samplers)
{
	return samplers->options->hz && samplers->options->source != KY_SAMPLING_TIMERS;
}

/* Of all processes, by the kernel's count of each thread's turns on a CPU. */
static uint64_t count_switches_per_s(void *ctx)
{
	struct ky_run_samplers *samplers = ctx;
	uint64_t turns = 0, one, rate = 0, now_ns = ky_now_ns(CLOCK_MONOTONIC);

	for (uint32_t i = 0; i < samplers->rings.count; i++)
		if (ky_thread_turns("/proc", samplers->rings.list[i]->pid, &one))
			turns += one;
	/* Each is two switches. One that ended took its turns along. */
	if (samplers->counted_ns && turns > samplers->turns && now_ns > samplers->counted_ns)
		rate = (uint64_t)((double)(turns - samplers->turns) * 2e9 /
				  (double)(now_ns - samplers->counted_ns));
	samplers->turns = turns;
	samplers->counted_ns = now_ns;
	return rate;
}

static uint64_t cpu_ns(void *ctx)
{
	const struct ky_run_samplers *samplers = ctx;
	uint64_t sum = 0, one;

	for (uint32_t i = 0; i < samplers->rings.count; i++)
		sum += ky_process_cpu_ns(samplers->rings.list[i]->pid, &one) ? one : 0;
	return sum;
}

static uint64_t switches_per_s(void *ctx)
{
	const struct ky_run_samplers *samplers = ctx;

	return ky_switch_windows_rate(samplers->switches.windows);
}

/* Its word in the control page; a process that is about to end, or whose file was cut, misses it.
 */
static void leave(void *ctx, struct ky_sampled_ring *ring, uint32_t rate_hz)
{
	const struct ky_run_sampled *sampled = (const void *)ring;
	const struct ky_ring_header *header = (const void *)ring->image;
	off_t at = (off_t)header->page_bytes +
		   (off_t)offsetof(struct ky_ring_control, own_sample_hz);

	(void)ctx;
	(void)!pwrite(sampled->fd, &rate_hz, sizeof(rate_hz), at);
}

int ky_run_samplers_open(struct ky_run_samplers **out, const struct ky_sampling_options *options)
{
	struct ky_run_samplers *samplers = ky_alloc(sizeof(*samplers));
	struct ky_cpu_sampler_options samples = {
		.how = {.rate_hz = options->hz, .stack_bytes = STACK_BYTES, .has_kernel = true},
		.leave = options->source == KY_SAMPLING_ANY ? leave : NULL,
		.counted_switches_per_s = count_switches_per_s,
		.switches_per_s = switches_per_s,
		.cpu_ns = cpu_ns,
		.ctx = samplers};

	*out = samplers;
	if (!samplers)
		return -ENOMEM;
	samplers->options = options;
	samples.rings = &samplers->rings;
	ky_cpu_sampler_init(&samplers->samples, &samples);
	if (uses_perf(samplers))
		(void)ky_cpu_sampler_test(&samplers->samples);
	samplers->wants_switches = !options->is_without_switches;
	return 0;
}

static void open_switches(struct ky_run_samplers *samplers)
{
	const struct ky_perf_options how = {.is_switches = true, .has_kernel = true};

	samplers->wants_switches = false;
	(void)ky_off_cpu_sampler_open(&samplers->switches, &samplers->rings, &how, false);
}

void ky_run_samplers_close(struct ky_run_samplers *samplers)
{
	if (!samplers)
		return;
	ky_cpu_sampler_close(&samplers->samples);
	ky_off_cpu_sampler_close(&samplers->switches);
	ky_free(samplers);
}

/* ---- the child ---- */

static uint8_t open_events(void *ctx, pid_t pid)
{
	struct ky_run_samplers *samplers = ctx;
	bool is_sampled = uses_perf(samplers) &&
			  ky_cpu_sampler_start(&samplers->samples, (uint32_t)pid) == 0;

	samplers->pid = pid;
	return is_sampled;
}

/* In the child's own copy of its environment: with perf_event it leaves sampling to us, and where
 * that was to be the only source it does not sample. */
static void report_child(void *ctx, uint8_t is_sampled)
{
	struct ky_run_samplers *samplers = ctx;

	if (samplers->options->source == KY_SAMPLING_PERF)
		is_sampled = 1;
	if (is_sampled && samplers->variable)
		memcpy(samplers->variable, SAMPLE_OFF, sizeof(SAMPLE_OFF));
}

struct ky_run_gate ky_run_samplers_gate(struct ky_run_samplers *samplers, char *variable)
{
	samplers->variable = variable;
	return (struct ky_run_gate){open_events, report_child, samplers};
}

int ky_run_samplers_attach(struct ky_run_samplers *samplers, uint32_t pid)
{
	int err = 0;

	/* Signals of a process that runs already are left alone, unless it is asked for. */
	samplers->samples.options.leave = NULL;
	/* The caller waits for nothing but the time. */
	samplers->samples.options.cpu_ns = NULL;
	if (uses_perf(samplers))
		err = ky_cpu_sampler_attach(&samplers->samples, pid);
	else if (samplers->options->hz)
		err = -ENOTSUP;
	if (samplers->wants_switches)
		open_switches(samplers);
	ky_switch_windows_attach(samplers->switches.windows, (pid_t)pid);
	return err;
}

/* ---- rings ---- */

static const struct ky_ring_header *header_of(const struct ky_run_sampled *sampled)
{
	return (const struct ky_ring_header *)(const void *)sampled->ring.image;
}

/* Of tmpfs, so that no store is the first touch of a page that cannot be had. A file that was cut
 * does not grow by it. */
static bool make_exist(int fd, uint64_t offset, uint64_t bytes)
{
	struct stat st;

	return fstat(fd, &st) == 0 && offset + bytes <= (uint64_t)st.st_size &&
	       fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) == 0;
}

/* Says in the header that the pages exist. */
static void announce(int fd, uint32_t bits)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct ky_ring_header *header = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
					     fd, 0);

	if ((void *)header == MAP_FAILED)
		return;
	atomic_fetch_or_explicit(&header->sample_classes, bits, memory_order_release);
	munmap(header, page_bytes);
}

static void open_area(struct ky_run_sampled *sampled, int fd)
{
	uint64_t at = header_of(sampled)->sample_offset, bytes = header_of(sampled)->sample_bytes;
	size_t image_bytes = sampled->ring.image_bytes;
	uint64_t offset;
	void *area;

	if (!ky_sample_range(bytes, KY_SAMPLES_CPU, &offset) || at % KY_SAMPLE_PAGE_BYTES ||
	    at > image_bytes || bytes > image_bytes - at ||
	    !make_exist(fd, at, KY_SAMPLE_PAGE_BYTES))
		return;
	area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at);
	if (area == MAP_FAILED)
		return;
	sampled->area = area;
	sampled->area_bytes = bytes;
}

/* The cells of a class in it; without room there are none. */
static void open_class(const struct ky_run_sampled *sampled, int fd, uint32_t which,
		       struct ky_sample_ring *out)
{
	struct ky_sample_head *head = (struct ky_sample_head *)(void *)sampled->area;
	uint64_t offset;
	uint32_t count = ky_sample_range(sampled->area_bytes, which, &offset);

	if (!make_exist(fd, header_of(sampled)->sample_offset + offset,
			(uint64_t)count * KY_SAMPLE_CELL_BYTES))
		return;
	*out = (struct ky_sample_ring){.head = &head->classes[which],
				       .cells = sampled->area + offset,
				       .cell_count = count};
	announce(fd, 1u << which);
}

static void await_switches(const struct ky_run_sampled *sampled, bool is_awaited)
{
	struct ky_sample_head *head = (struct ky_sample_head *)(void *)sampled->area;
	_Atomic uint32_t *source = &head->classes[KY_SAMPLES_OFF_CPU].source;

	if (is_awaited)
		atomic_fetch_or_explicit(source, 1u << KY_SOURCE_SWITCHES, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(source, ~(1u << KY_SOURCE_SWITCHES),
					  memory_order_relaxed);
}

struct adding {
	const struct ky_run_samplers *samplers;
	struct ky_run_sampled *sampled;
	int fd;
};

static int add(void *ctx)
{
	const struct adding *adding = ctx;
	const struct ky_run_samplers *samplers = adding->samplers;
	struct ky_run_sampled *sampled = adding->sampled;
	const struct ky_ring_control *control;

	control = (const void *)(sampled->ring.image + header_of(sampled)->page_bytes);
	sampled->fd = adding->fd;
	sampled->ring.gates = (const uint32_t *)(uintptr_t)&control->gates;
	open_area(sampled, adding->fd);
	if (!sampled->area)
		return 0;
	if (samplers->options->hz)
		open_class(sampled, adding->fd, KY_SAMPLES_CPU, &sampled->ring.cpu);
	if (samplers->wants_switches) {
		await_switches(sampled, true);
		announce(adding->fd, KY_SAMPLE_HEADS);
	}
	if (samplers->switches.windows)
		open_class(sampled, adding->fd, KY_SAMPLES_OFF_CPU, &sampled->ring.off_cpu);
	ky_cpu_sampler_describe(&samplers->samples, &sampled->ring);
	ky_off_cpu_sampler_describe(&samplers->switches, &sampled->ring);
	return 0;
}

void ky_run_samplers_add(struct ky_run_samplers *samplers, struct ky_run_sampled *sampled, int fd)
{
	const struct ky_guarded_area areas[] = {{sampled->ring.image, sampled->ring.image_bytes}};
	struct adding adding = {samplers, sampled, fd};

	if (!samplers || (!samplers->options->hz && samplers->options->is_without_switches))
		return;
	if (ky_sampled_rings_add(&samplers->rings, &sampled->ring))
		(void)ky_ring_guard(areas, 1, add, &adding);
}

void ky_run_samplers_remove(struct ky_run_samplers *samplers, struct ky_run_sampled *sampled)
{
	if (!samplers)
		return;
	ky_sampled_rings_remove(&samplers->rings, &sampled->ring);
	if (sampled->area)
		munmap(sampled->area, sampled->area_bytes);
	sampled->area = NULL;
	sampled->ring.cpu.cell_count = sampled->ring.off_cpu.cell_count = 0;
}

uint32_t ky_run_samplers_areas(const struct ky_run_samplers *samplers, struct ky_guarded_area *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; samplers && i < samplers->rings.count; i++) {
		const struct ky_run_sampled *sampled = (const void *)samplers->rings.list[i];

		out[count++] = (struct ky_guarded_area){sampled->ring.image,
							sampled->ring.image_bytes};
		if (sampled->area)
			out[count++] = (struct ky_guarded_area){sampled->area, sampled->area_bytes};
	}
	return count;
}

/* ---- reading ---- */

static bool has_living(const struct ky_sampled_rings *rings)
{
	for (uint32_t i = 0; i < rings->count; i++) {
		const struct ky_run_sampled *sampled = (const void *)rings->list[i];

		if (ky_run_process_is_alive(sampled->ring.pid,
					    header_of(sampled)->start_time_ticks))
			return true;
	}
	return false;
}

/* With the first ring that lives: a process that ends at once has no window, and does not pay for
 * their trial and their rings. These take what the samples' rings leave of the memory that one may
 * lock. */
static void begin_switches(struct ky_run_samplers *samplers)
{
	if (!samplers->wants_switches || samplers->is_ending || !has_living(&samplers->rings))
		return;
	open_switches(samplers);
	ky_switch_windows_start(samplers->switches.windows, samplers->pid);
	for (uint32_t i = 0; i < samplers->rings.count; i++) {
		struct ky_run_sampled *sampled = (void *)samplers->rings.list[i];

		if (!sampled->area)
			continue;
		await_switches(sampled, false);
		if (!samplers->switches.windows)
			continue;
		open_class(sampled, sampled->fd, KY_SAMPLES_OFF_CPU, &sampled->ring.off_cpu);
		ky_off_cpu_sampler_describe(&samplers->switches, &sampled->ring);
	}
}

static int step(void *ctx)
{
	struct ky_run_samplers *samplers = ctx;
	uint64_t switches_ns, samples_ns;

	begin_switches(samplers);
	switches_ns = ky_off_cpu_sampler_step(&samplers->switches);
	samples_ns = ky_cpu_sampler_step(&samplers->samples);
	samplers->due_ns = switches_ns < samples_ns ? switches_ns : samples_ns;
	return 0;
}

uint64_t ky_run_samplers_step(struct ky_run_samplers *samplers)
{
	static struct ky_guarded_area areas[KY_RUN_SAMPLERS_AREAS_MAX]; /* one set at a time */

	if (!samplers)
		return UINT64_MAX;
	/* A truncated file ends its ring at the next step of its drain. */
	samplers->due_ns = UINT64_MAX;
	(void)ky_ring_guard(areas, ky_run_samplers_areas(samplers, areas), step, samplers);
	return samplers->due_ns;
}

uint32_t ky_run_samplers_fds(struct ky_run_samplers *samplers, int *out, uint32_t max)
{
	uint32_t count, of_switches;

	if (!samplers || samplers->is_mute)
		return 0;
	count = ky_cpu_sampler_fds(&samplers->samples, out, max);
	of_switches = ky_switch_windows_watch(samplers->switches.windows, out + count, max - count);
	samplers->watches_switches = of_switches != 0;
	return count + of_switches;
}

bool ky_run_samplers_are_resting(const struct ky_run_samplers *samplers)
{
	return samplers && samplers->samples.perf && samplers->samples.is_resting;
}

bool ky_run_samplers_can_wait(const struct ky_run_samplers *samplers)
{
	return !samplers || !samplers->samples.perf || samplers->samples.is_resting;
}

bool ky_run_samplers_can_be_late(const struct ky_run_samplers *samplers)
{
	return ky_run_samplers_can_wait(samplers) &&
	       (!samplers || !samplers->switches.windows || samplers->watches_switches);
}

void ky_run_samplers_are_mute(struct ky_run_samplers *samplers)
{
	samplers->is_mute = true;
	samplers->watches_switches = false;
	ky_cpu_sampler_is_mute(&samplers->samples);
	(void)ky_switch_windows_watch(samplers->switches.windows, NULL, 0);
}

void ky_run_samplers_end(struct ky_run_samplers *samplers)
{
	if (!samplers)
		return;
	samplers->is_ending = true;
	(void)ky_run_samplers_step(samplers);
}

void ky_run_samplers_fetch(void *ctx)
{
	struct ky_run_samplers *samplers = ctx;

	if (!samplers)
		return;
	ky_cpu_sampler_fetch(&samplers->samples);
	ky_off_cpu_sampler_fetch(&samplers->switches);
}

void ky_run_samplers_fetch_last(struct ky_run_samplers *samplers)
{
	if (!samplers)
		return;
	ky_cpu_sampler_fetch_last(&samplers->samples);
	ky_off_cpu_sampler_fetch(&samplers->switches);
	ky_off_cpu_sampler_report_gap(&samplers->switches);
}
