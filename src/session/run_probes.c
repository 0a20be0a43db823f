/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <session/run_probes.h>

#include <agent/probe_samples.h>
#include <agent/probe_switches.h>
#include <base/alloc.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wire/ring_image.h>

/* The deepest stacks that were met, of debug builds of web services, are shorter. */
#define STACK_BYTES 32768u
/* Of the environment: the rate at which processes sample themselves. */
#define SAMPLE_OFF "KYMO_SAMPLE=0"

struct ky_run_probes {
	const struct ky_sampling_options *options;
	char *variable; /* "KYMO_SAMPLE=..." of the child's environment */
	struct ky_probed_rings rings;
	struct ky_probe_samples samples;
	struct ky_probe_switches switches;
	uint64_t due_ns;
};

static bool uses_perf(const struct ky_run_probes *probes)
{
	return probes->options->hz && probes->options->source != KY_SAMPLING_TIMERS;
}

static uint64_t switches_per_s(void *ctx)
{
	const struct ky_run_probes *probes = ctx;

	return ky_switch_windows_rate(probes->switches.windows);
}

int ky_run_probes_open(struct ky_run_probes **out, const struct ky_sampling_options *options)
{
	const struct ky_perf_options switches = {.is_switches = true, .has_kernel = true};
	struct ky_run_probes *probes = ky_alloc(sizeof(*probes));
	struct ky_probe_samples_options samples = {
		.how = {.rate_hz = options->hz, .stack_bytes = STACK_BYTES, .has_kernel = true},
		.switches_per_s = switches_per_s,
		.ctx = probes};

	*out = probes;
	if (!probes)
		return -ENOMEM;
	probes->options = options;
	samples.rings = &probes->rings;
	ky_probe_samples_init(&probes->samples, &samples);
	if (uses_perf(probes))
		(void)ky_probe_samples_test(&probes->samples);
	if (!options->is_without_switches)
		(void)ky_probe_switches_open(&probes->switches, &probes->rings, &switches, false);
	return 0;
}

void ky_run_probes_close(struct ky_run_probes *probes)
{
	if (!probes)
		return;
	ky_probe_samples_close(&probes->samples);
	ky_probe_switches_close(&probes->switches);
	ky_free(probes);
}

/* ---- the child ---- */

static uint8_t open_events(void *ctx, pid_t pid)
{
	struct ky_run_probes *probes = ctx;
	bool is_sampled = uses_perf(probes) &&
			  ky_probe_samples_start(&probes->samples, (uint32_t)pid) == 0;

	/* With what the samples' rings leave of the memory that one may lock. */
	ky_switch_windows_start(probes->switches.windows, pid);
	return is_sampled;
}

/* In the child's own copy of its environment: with perf_event it leaves sampling to us, and where
 * that was to be the only source it does not sample. */
static void report_child(void *ctx, uint8_t is_sampled)
{
	struct ky_run_probes *probes = ctx;

	if (probes->options->source == KY_SAMPLING_PERF)
		is_sampled = 1;
	if (is_sampled && probes->variable)
		memcpy(probes->variable, SAMPLE_OFF, sizeof(SAMPLE_OFF));
}

struct ky_run_gate ky_run_probes_gate(struct ky_run_probes *probes, char *variable)
{
	probes->variable = variable;
	return (struct ky_run_gate){open_events, report_child, probes};
}

int ky_run_probes_attach(struct ky_run_probes *probes, uint32_t pid)
{
	int err = 0;

	if (uses_perf(probes))
		err = ky_probe_samples_attach(&probes->samples, pid);
	else if (probes->options->hz)
		err = -ENOTSUP;
	ky_switch_windows_attach(probes->switches.windows, (pid_t)pid);
	return err;
}

/* ---- rings ---- */

static const struct ky_ring_header *header_of(const struct ky_run_probed *probed)
{
	return (const struct ky_ring_header *)(const void *)probed->ring.image;
}

/* Of tmpfs, so that no store is the first touch of a page that cannot be had. */
static bool make_exist(int fd, uint64_t offset, uint64_t bytes)
{
	return fallocate(fd, 0, (off_t)offset, (off_t)bytes) == 0;
}

/* Says in the header that the pages exist. */
static void announce(int fd, uint32_t which)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct ky_ring_header *header = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
					     fd, 0);

	if ((void *)header == MAP_FAILED)
		return;
	atomic_fetch_or_explicit(&header->sample_classes, 1u << which, memory_order_release);
	munmap(header, page_bytes);
}

static void open_area(struct ky_run_probed *probed, int fd)
{
	uint64_t at = header_of(probed)->sample_offset, bytes = header_of(probed)->sample_bytes;
	size_t image_bytes = probed->ring.image_bytes;
	uint64_t offset;
	void *area;

	if (!ky_sample_range(bytes, KY_SAMPLES_CPU, &offset) || at % KY_SAMPLE_PAGE_BYTES ||
	    at > image_bytes || bytes > image_bytes - at ||
	    !make_exist(fd, at, KY_SAMPLE_PAGE_BYTES))
		return;
	area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at);
	if (area == MAP_FAILED)
		return;
	probed->area = area;
	probed->area_bytes = bytes;
}

/* The slots of a class in it; without room there are none. */
static void open_class(const struct ky_run_probed *probed, int fd, uint32_t which,
		       struct ky_sample_ring *out)
{
	struct ky_sample_head *head = (struct ky_sample_head *)(void *)probed->area;
	uint64_t offset;
	uint32_t count = ky_sample_range(probed->area_bytes, which, &offset);

	if (!make_exist(fd, header_of(probed)->sample_offset + offset,
			(uint64_t)count * KY_SAMPLE_SLOT_BYTES))
		return;
	*out = (struct ky_sample_ring){
		.head = &head->classes[which], .slots = probed->area + offset, .slot_count = count};
	announce(fd, which);
}

struct adding {
	const struct ky_run_probes *probes;
	struct ky_run_probed *probed;
	int fd;
};

static int add(void *ctx)
{
	const struct adding *adding = ctx;
	const struct ky_run_probes *probes = adding->probes;
	struct ky_run_probed *probed = adding->probed;
	const struct ky_ring_control *control;

	control = (const void *)(probed->ring.image + header_of(probed)->page_bytes);
	probed->ring.gates = (const uint32_t *)(uintptr_t)&control->gates;
	open_area(probed, adding->fd);
	if (!probed->area)
		return 0;
	if (probes->options->hz)
		open_class(probed, adding->fd, KY_SAMPLES_CPU, &probed->ring.cpu);
	if (probes->switches.windows)
		open_class(probed, adding->fd, KY_SAMPLES_OFF_CPU, &probed->ring.off_cpu);
	ky_probe_samples_describe(&probes->samples, &probed->ring);
	ky_probe_switches_describe(&probes->switches, &probed->ring);
	return 0;
}

void ky_run_probes_add(struct ky_run_probes *probes, struct ky_run_probed *probed, int fd)
{
	const struct ky_guarded_area areas[] = {{probed->ring.image, probed->ring.image_bytes}};
	struct adding adding = {probes, probed, fd};

	if (!probes || (!probes->options->hz && !probes->switches.windows))
		return;
	if (ky_probed_rings_add(&probes->rings, &probed->ring))
		(void)ky_ring_guard(areas, 1, add, &adding);
}

void ky_run_probes_remove(struct ky_run_probes *probes, struct ky_run_probed *probed)
{
	if (!probes)
		return;
	ky_probed_rings_remove(&probes->rings, &probed->ring);
	if (probed->area)
		munmap(probed->area, probed->area_bytes);
	probed->area = NULL;
	probed->ring.cpu.slot_count = probed->ring.off_cpu.slot_count = 0;
}

uint32_t ky_run_probes_areas(const struct ky_run_probes *probes, struct ky_guarded_area *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; probes && i < probes->rings.count; i++) {
		const struct ky_run_probed *probed = (const void *)probes->rings.list[i];

		out[count++] = (struct ky_guarded_area){probed->ring.image,
							probed->ring.image_bytes};
		if (probed->area)
			out[count++] = (struct ky_guarded_area){probed->area, probed->area_bytes};
	}
	return count;
}

/* ---- reading ---- */

static int step(void *ctx)
{
	struct ky_run_probes *probes = ctx;
	uint64_t switches_ns = ky_probe_switches_step(&probes->switches);
	uint64_t samples_ns = ky_probe_samples_step(&probes->samples);

	probes->due_ns = switches_ns < samples_ns ? switches_ns : samples_ns;
	return 0;
}

uint64_t ky_run_probes_step(struct ky_run_probes *probes)
{
	static struct ky_guarded_area areas[KY_RUN_PROBES_AREAS_MAX]; /* one set at a time */

	if (!probes)
		return UINT64_MAX;
	/* A file that was cut off ends its ring at the next step of its drain. */
	probes->due_ns = UINT64_MAX;
	(void)ky_ring_guard(areas, ky_run_probes_areas(probes, areas), step, probes);
	return probes->due_ns;
}

void ky_run_probes_fetch(void *ctx)
{
	struct ky_run_probes *probes = ctx;

	if (!probes)
		return;
	ky_probe_samples_fetch(&probes->samples);
	ky_probe_switches_fetch(&probes->switches);
}

void ky_run_probes_fetch_last(struct ky_run_probes *probes)
{
	if (!probes)
		return;
	ky_probe_samples_fetch_last(&probes->samples);
	ky_probe_switches_fetch(&probes->switches);
	ky_probe_switches_report_gap(&probes->switches);
}
