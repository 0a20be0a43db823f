/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/probe_samples.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/emit.h>
#include <probe/perf_source.h>
#include <probe/perf_walk.h>
#include <probe/sample_duty.h>
#include <probe/switch_windows.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SAMPLED_MAX 256u
/* The deepest stacks that were met, of debug builds of web services, are shorter. */
#define STACK_BYTES 32768u
#define SECOND_NS UINT64_C(1000000000)

struct ky_run_sampler {
	const struct ky_sampling_options *options;
	struct ky_perf_options how;
	struct ky_perf *perf; /* NULL: not running */
	int refusal;          /* -errno of perf_event; 0: none */
	uint32_t rate_hz;     /* the events' now */
	uint32_t refused_hz;  /* wanted, and perf_event refused it; 0: none */
	bool was_open;        /* and may be again, at a rate that is not refused */
	char *variable;       /* "KYMO_SAMPLE=..." of the child's environment */
	struct ky_run_sampled *sampled[SAMPLED_MAX];
	uint32_t count;
	struct ky_run_sampled *last; /* whose sample came last */
	uint64_t lost_told;
	struct ky_sample_duty duty;
	struct ky_switch_windows *switches; /* NULL: not wanted */
	uint64_t switches_pace_ns;
};

static bool uses_perf(const struct ky_run_sampler *sampler)
{
	return sampler->options->hz && sampler->options->source != KY_SAMPLING_TIMERS;
}

static uint32_t pid_at(const void *ctx, uint32_t i)
{
	const struct ky_run_sampler *sampler = ctx;

	return sampler->sampled[i]->pid;
}

static void init_duty(struct ky_run_sampler *sampler)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	struct ky_perf *perf = NULL;

	(void)ky_sample_cost_open(&perf, &sampler->how);
	ky_sample_duty_init(&sampler->duty, ky_sample_cost_ns(perf), ky_sample_processors(),
			    now_ns);
	ky_sample_duty_start(&sampler->duty, now_ns);
	ky_perf_close(perf);
}

int ky_run_sampler_open(struct ky_run_sampler **out, const struct ky_sampling_options *options)
{
	const struct ky_perf_options switches = {.is_switches = true, .has_kernel = true};
	struct ky_run_sampler *sampler = ky_alloc(sizeof(*sampler));

	*out = sampler;
	if (!sampler)
		return -ENOMEM;
	sampler->options = options;
	sampler->how = (struct ky_perf_options){.rate_hz = options->hz,
						.stack_bytes = STACK_BYTES,
						.has_kernel = true,
						.is_at_exec = true};
	if (uses_perf(sampler))
		sampler->refusal = ky_perf_test(&sampler->how);
	if (uses_perf(sampler) && !sampler->refusal)
		init_duty(sampler);
	if (!options->is_without_switches)
		(void)ky_switch_windows_open(&sampler->switches, &switches, false);
	ky_switch_windows_add_wakes(sampler->switches, pid_at);
	return 0;
}

void ky_run_sampler_close(struct ky_run_sampler *sampler)
{
	if (!sampler)
		return;
	ky_perf_close(sampler->perf);
	ky_switch_windows_close(sampler->switches);
	ky_free(sampler);
}

/* ---- the child ---- */

static uint8_t open_events(void *ctx, pid_t pid)
{
	struct ky_run_sampler *sampler = ctx;
	bool is_sampled = uses_perf(sampler) && !sampler->refusal;

	if (is_sampled) {
		sampler->refusal = ky_perf_open(&sampler->perf, &sampler->how, pid);
		sampler->rate_hz = sampler->options->hz;
	}
	/* With what the samples' rings leave of the memory that one may lock. */
	ky_switch_windows_start(sampler->switches, pid);
	return is_sampled && !sampler->refusal;
}

/* In the child's own copy of its environment: with perf_event it leaves sampling to us, and to
 * nobody where that was to be the only source. */
static void tell_child(void *ctx, uint8_t is_sampled)
{
	struct ky_run_sampler *sampler = ctx;

	if (sampler->options->source == KY_SAMPLING_PERF)
		is_sampled = 1;
	if (is_sampled && sampler->variable)
		memcpy(sampler->variable, KY_SAMPLE_VARIABLE "=0", sizeof(KY_SAMPLE_VARIABLE "=0"));
}

struct ky_run_gate ky_run_sampler_gate(struct ky_run_sampler *sampler, char *variable)
{
	sampler->variable = variable;
	return (struct ky_run_gate){open_events, tell_child, sampler};
}

/* ---- rings ---- */

static const struct ky_ring_header *header_of(const struct ky_run_sampled *sampled)
{
	return (const struct ky_ring_header *)(const void *)sampled->image;
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

static void open_area(struct ky_run_sampled *sampled, int fd)
{
	uint64_t at = header_of(sampled)->sample_offset, bytes = header_of(sampled)->sample_bytes;
	uint64_t offset;
	void *area;

	if (!ky_sample_range(bytes, KY_SAMPLES_CPU, &offset) || at % KY_SAMPLE_PAGE_BYTES ||
	    at > sampled->image_bytes || bytes > sampled->image_bytes - at ||
	    !make_exist(fd, at, KY_SAMPLE_PAGE_BYTES))
		return;
	area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at);
	if (area == MAP_FAILED)
		return;
	sampled->area = area;
	sampled->area_bytes = bytes;
}

/* The slots of a class in it; without room there are none. */
static void open_class(struct ky_run_sampled *sampled, int fd, uint32_t which,
		       struct ky_sample_ring *out)
{
	struct ky_sample_head *head = (struct ky_sample_head *)(void *)sampled->area;
	uint64_t offset;
	uint32_t count = ky_sample_range(sampled->area_bytes, which, &offset);

	if (!make_exist(fd, header_of(sampled)->sample_offset + offset,
			(uint64_t)count * KY_SAMPLE_SLOT_BYTES))
		return;
	*out = (struct ky_sample_ring){.head = &head->classes[which],
				       .slots = sampled->area + offset,
				       .slot_count = count};
	announce(fd, which);
}

/* What the trace says about the source. */
static void describe(const struct ky_run_sampler *sampler, const struct ky_run_sampled *sampled)
{
	struct ky_sample_class_head *head = sampled->cpu.head;

	if (sampler->refusal) {
		atomic_store_explicit(&head->refusals[KY_SOURCE_PERF], (uint32_t)-sampler->refusal,
				      memory_order_relaxed);
		return;
	}
	if (!uses_perf(sampler))
		return;
	atomic_fetch_or_explicit(&head->source, 1u << KY_SOURCE_PERF, memory_order_relaxed);
	atomic_store_explicit(&head->rate_hz, sampler->rate_hz, memory_order_relaxed);
	atomic_store_explicit(&head->limits, sampler->how.has_kernel ? 0 : KY_SAMPLE_NO_KERNEL,
			      memory_order_relaxed);
}

struct adding {
	struct ky_run_sampler *sampler;
	struct ky_run_sampled *sampled;
	int fd;
};

static int add(void *ctx)
{
	struct adding *adding = ctx;

	struct ky_run_sampled *sampled = adding->sampled;

	open_area(sampled, adding->fd);
	if (!sampled->area)
		return 0;
	if (adding->sampler->options->hz)
		open_class(sampled, adding->fd, KY_SAMPLES_CPU, &sampled->cpu);
	if (sampled->cpu.slot_count)
		describe(adding->sampler, sampled);
	if (adding->sampler->switches)
		open_class(sampled, adding->fd, KY_SAMPLES_OFF_CPU, &sampled->off_cpu);
	if (sampled->off_cpu.slot_count)
		ky_switch_windows_describe(adding->sampler->switches, sampled->off_cpu.head);
	return 0;
}

void ky_run_sampler_add(struct ky_run_sampler *sampler, struct ky_run_sampled *sampled, int fd)
{
	const struct ky_guarded_area areas[] = {{sampled->image, sampled->image_bytes}};
	struct adding adding = {sampler, sampled, fd};

	if (!sampler || sampler->count == SAMPLED_MAX ||
	    (!sampler->options->hz && !sampler->switches))
		return;
	(void)ky_ring_guard(areas, 1, add, &adding);
	sampler->sampled[sampler->count++] = sampled;
}

void ky_run_sampler_remove(struct ky_run_sampler *sampler, struct ky_run_sampled *sampled)
{
	uint32_t kept = 0;

	if (!sampler)
		return;
	for (uint32_t i = 0; i < sampler->count; i++)
		if (sampler->sampled[i] != sampled)
			sampler->sampled[kept++] = sampler->sampled[i];
	sampler->count = kept;
	if (sampler->last == sampled)
		sampler->last = NULL;
	if (sampled->area)
		munmap(sampled->area, sampled->area_bytes);
	sampled->area = NULL;
	sampled->cpu.slot_count = sampled->off_cpu.slot_count = 0;
}

/* ---- samples ---- */

bool ky_run_sampled_has_gate(const struct ky_run_sampled *sampled, uint32_t gate)
{
	const struct ky_ring_header *header = header_of(sampled);
	const struct ky_ring_control *control = (const void *)(sampled->image + header->page_bytes);

	return atomic_load_explicit(&control->gates, memory_order_relaxed) & gate;
}

struct ky_run_sampled *ky_run_sampled_find(struct ky_run_sampled *const *sampled, uint32_t count,
					   uint32_t pid, uint64_t ns)
{
	struct ky_run_sampled *found = NULL;

	for (uint32_t i = 0; i < count; i++)
		if (sampled[i]->pid == pid && sampled[i]->made_ns <= ns &&
		    (!found || sampled[i]->made_ns > found->made_ns))
			found = sampled[i];
	return found;
}

static const struct ky_sample_ring *switches_of(const struct ky_run_sampled *sampled)
{
	return sampled && sampled->off_cpu.slot_count &&
			       ky_run_sampled_has_gate(sampled, KYMO_GATE_OFF_CPU) ?
		       &sampled->off_cpu :
		       NULL;
}

static const struct ky_sample_ring *switches_at(const void *ctx, uint32_t i)
{
	const struct ky_run_sampler *sampler = ctx;

	return switches_of(sampler->sampled[i]);
}

static const struct ky_sample_ring *find_switches(const void *ctx, uint32_t pid, uint64_t ns)
{
	const struct ky_run_sampler *sampler = ctx;

	return switches_of(ky_run_sampled_find(sampler->sampled, sampler->count, pid, ns));
}

static struct ky_unwind_view tables_of(const struct ky_run_sampled *sampled)
{
	const struct ky_ring_header *header = header_of(sampled);
	uint64_t at = header->unwind_offset, bytes = header->unwind_bytes;
	struct ky_unwind_view view = {NULL, 0};

	if (atomic_load_explicit(&header->unwind_ready, memory_order_acquire) && at &&
	    at % 64 == 0 && at <= sampled->image_bytes && bytes <= sampled->image_bytes - at) {
		view.area = sampled->image + at;
		view.area_bytes = bytes;
	}
	return view;
}

static bool find_tables(const void *ctx, uint32_t pid, uint64_t ns, struct ky_unwind_view *out)
{
	const struct ky_run_sampler *sampler = ctx;
	const struct ky_run_sampled *sampled = ky_run_sampled_find(sampler->sampled, sampler->count,
								   pid, ns);

	if (!sampled)
		return false;
	*out = tables_of(sampled);
	return out->area != NULL;
}

static struct ky_switch_places places_of(const struct ky_run_sampler *sampler)
{
	return (struct ky_switch_places){sampler, sampler->count, switches_at, find_switches,
					 find_tables};
}

static void on_sample(void *ctx, const struct ky_perf_sample *sample)
{
	struct ky_run_sampler *sampler = ctx;
	struct ky_run_sampled *sampled = ky_run_sampled_find(sampler->sampled, sampler->count,
							     sample->pid, sample->ns);
	struct ky_perf_sample weighed;
	struct ky_unwind_view view;

	/* Of a process that records nothing, or not yet. */
	if (!sampled || !sampled->cpu.slot_count || sampled->wanted_hz == KY_SETTING_OFF)
		return;
	sampler->last = sampled;
	view = tables_of(sampled);
	weighed = ky_sample_duty_weigh(&sampler->duty, sample);
	ky_perf_put(&sampled->cpu, &view, &weighed);
}

/* What the kernel had no room for is of whoever ran last, as far as anybody knows. */
static void tell_lost(struct ky_run_sampler *sampler)
{
	struct ky_perf_about about;

	ky_perf_about(sampler->perf, &about);
	if (about.lost_count > sampler->lost_told && sampler->last && sampler->last->area)
		atomic_fetch_add_explicit(&sampler->last->cpu.head->lost_count,
					  about.lost_count - sampler->lost_told,
					  memory_order_relaxed);
	sampler->lost_told = about.lost_count;
}

static int attach_samples(struct ky_run_sampler *sampler, uint32_t pid)
{
	if (!sampler->options->hz || sampler->refusal)
		return sampler->refusal;
	if (!uses_perf(sampler))
		return -ENOTSUP;
	sampler->how.is_at_exec = false;
	sampler->refusal = ky_perf_add_all(&sampler->perf, &sampler->how, (pid_t)pid);
	if (!sampler->refusal && !sampler->perf)
		sampler->refusal = -ESRCH;
	if (sampler->refusal) {
		ky_perf_close(sampler->perf);
		sampler->perf = NULL;
		return sampler->refusal;
	}
	sampler->rate_hz = sampler->options->hz;
	return 0;
}

int ky_run_sampler_attach(struct ky_run_sampler *sampler, uint32_t pid)
{
	int err = attach_samples(sampler, pid);

	ky_switch_windows_attach(sampler->switches, (pid_t)pid);
	return err;
}

/* What the events have to say before they are closed. */
static void fetch_rest(struct ky_run_sampler *sampler)
{
	(void)ky_perf_pause(sampler->perf, true);
	(void)ky_perf_read(sampler->perf, on_sample, sampler);
	ky_perf_count_lost(sampler->perf);
	tell_lost(sampler);
}

static void tell_share(const struct ky_run_sampler *sampler)
{
	uint32_t share_ppm = ky_sample_duty_share_ppm(&sampler->duty);

	for (uint32_t i = 0; i < sampler->count; i++)
		if (sampler->sampled[i]->cpu.slot_count)
			atomic_store_explicit(&sampler->sampled[i]->cpu.head->share_ppm, share_ppm,
					      memory_order_relaxed);
}

/* Sampling begins, or goes on behind a pause: always, for now. */
static void restart_duty(struct ky_run_sampler *sampler)
{
	ky_sample_duty_start(&sampler->duty, ky_now_ns(CLOCK_MONOTONIC));
	tell_share(sampler);
}

/* All processes, or none. */
static int open_all(struct ky_run_sampler *sampler, uint32_t rate_hz)
{
	int err = 0;

	sampler->how.rate_hz = rate_hz;
	sampler->how.is_at_exec = false;
	for (uint32_t i = 0; i < sampler->count && !err; i++)
		err = ky_perf_add_all(&sampler->perf, &sampler->how,
				      (pid_t)sampler->sampled[i]->pid);
	if (err) {
		ky_perf_close(sampler->perf);
		sampler->perf = NULL;
	}
	return err;
}

/* At another rate: events keep the one they were made with. Where it is refused they go on at the
 * one they had, or not at all. */
static void reopen(struct ky_run_sampler *sampler, uint32_t rate_hz)
{
	int err;

	if (sampler->perf) {
		fetch_rest(sampler);
		ky_perf_close(sampler->perf);
		sampler->perf = NULL;
	}
	sampler->was_open = true;
	sampler->lost_told = 0;
	restart_duty(sampler);
	err = open_all(sampler, rate_hz);
	sampler->refused_hz = err ? rate_hz : 0;
	sampler->refusal = 0;
	if (!err)
		sampler->rate_hz = rate_hz;
	else if (!sampler->rate_hz || open_all(sampler, sampler->rate_hz) != 0)
		sampler->rate_hz = 0;
	if (!sampler->perf)
		sampler->refusal = err;
	for (uint32_t i = 0; i < sampler->count; i++)
		if (sampler->sampled[i]->area)
			atomic_store_explicit(
				&sampler->sampled[i]->cpu.head->refusals[KY_SOURCE_PERF],
				(uint32_t)-err, memory_order_relaxed);
}

/* As the settings of the rings want it: the events are common to all processes, so they stop when
 * nobody wants any, and go at the largest rate that somebody wants. */
static uint32_t wanted_rate(const struct ky_run_sampler *sampler)
{
	uint32_t rate_hz = sampler->count ? 0 : sampler->rate_hz;

	/* Without a word for it at the start, whoever asks for it later gets timers. */
	if (!uses_perf(sampler))
		return sampler->rate_hz;
	for (uint32_t i = 0; i < sampler->count; i++) {
		uint32_t wanted = sampler->sampled[i]->wanted_hz;

		wanted = wanted == KY_SETTING_OFF ? 0 : wanted ? wanted : sampler->options->hz;
		if (wanted > rate_hz)
			rate_hz = wanted;
	}
	return rate_hz;
}

static void follow_settings(struct ky_run_sampler *sampler)
{
	uint32_t rate_hz = wanted_rate(sampler);

	/* Switched off and on again, it is tried again. */
	if (!rate_hz)
		sampler->refused_hz = 0;
	if (rate_hz == sampler->rate_hz || (rate_hz && rate_hz == sampler->refused_hz))
		return;
	if (!rate_hz || (sampler->perf && rate_hz == sampler->how.rate_hz)) {
		if (sampler->perf)
			(void)ky_perf_pause(sampler->perf, !rate_hz);
		restart_duty(sampler);
		sampler->rate_hz = rate_hz;
	} else {
		reopen(sampler, rate_hz);
	}
	for (uint32_t i = 0; i < sampler->count; i++) {
		const struct ky_run_sampled *sampled = sampler->sampled[i];

		if (sampled->area)
			atomic_store_explicit(
				&sampled->cpu.head->rate_hz,
				sampled->wanted_hz == KY_SETTING_OFF ? 0 : sampler->rate_hz,
				memory_order_relaxed);
	}
}

/* What it costs to be sampled at each switch is kept within bounds. */
static void follow_duty(struct ky_run_sampler *sampler)
{
	struct ky_sample_duty *duty = &sampler->duty;
	uint64_t rate = ky_switch_windows_rate(sampler->switches);
	uint32_t share_ppm = ky_sample_duty_share_ppm(duty);

	/* Of the window that is over, up to this very moment. */
	if (ky_sample_duty_apply(duty, sampler->perf, rate) && !duty->is_open)
		(void)ky_perf_read(sampler->perf, on_sample, sampler);
	if (ky_sample_duty_share_ppm(duty) != share_ppm)
		tell_share(sampler);
}

static int step(void *ctx)
{
	struct ky_run_sampler *sampler = ctx;
	struct ky_switch_places places = places_of(sampler);

	sampler->switches_pace_ns = ky_switch_windows_step(sampler->switches, &places);
	if (sampler->perf) {
		(void)ky_perf_read(sampler->perf, on_sample, sampler);
		tell_lost(sampler);
	}
	if (sampler->perf && sampler->rate_hz)
		follow_duty(sampler);
	if (sampler->perf || sampler->was_open)
		follow_settings(sampler);
	return 0;
}

void ky_run_sampler_fetch(void *ctx)
{
	struct ky_run_sampler *sampler = ctx;
	struct ky_switch_places places;

	if (!sampler)
		return;
	if (sampler->perf)
		(void)ky_perf_read(sampler->perf, on_sample, sampler);
	places = places_of(sampler);
	ky_switch_windows_fetch(sampler->switches, &places);
}

void ky_run_sampler_fetch_last(struct ky_run_sampler *sampler)
{
	struct ky_switch_places places;

	if (!sampler)
		return;
	ky_run_sampler_fetch(sampler);
	if (sampler->perf) {
		ky_perf_count_lost(sampler->perf);
		tell_lost(sampler);
	}
	places = places_of(sampler);
	ky_switch_windows_tell_gap(sampler->switches, &places);
}

uint32_t ky_run_sampler_areas(const struct ky_run_sampler *sampler, struct ky_guarded_area *out)
{
	uint32_t count = 0;

	for (uint32_t i = 0; sampler && i < sampler->count; i++) {
		const struct ky_run_sampled *sampled = sampler->sampled[i];

		out[count++] = (struct ky_guarded_area){sampled->image, sampled->image_bytes};
		if (sampled->area)
			out[count++] = (struct ky_guarded_area){sampled->area, sampled->area_bytes};
	}
	return count;
}

/* The kernel's ring is half full by then at most. */
static uint64_t half_full_ns(const struct ky_run_sampler *sampler)
{
	struct ky_perf_about about;

	ky_perf_about(sampler->perf, &about);
	return about.ring_bytes / about.record_bytes * SECOND_NS / sampler->rate_hz / 2;
}

uint64_t ky_run_sampler_step(struct ky_run_sampler *sampler)
{
	static struct ky_guarded_area areas[KY_SAMPLER_AREAS_MAX]; /* one sampler at a time */
	uint64_t pace_ns, due_ns;
	uint32_t count;

	if (!sampler || (!sampler->perf && !sampler->was_open && !sampler->switches))
		return UINT64_MAX;
	count = ky_run_sampler_areas(sampler, areas);
	/* Somebody cut his ring's file off: the drain will find it out, and end it. */
	(void)ky_ring_guard(areas, count, step, sampler);
	if (!sampler->rate_hz || !sampler->perf)
		return sampler->switches_pace_ns;
	pace_ns = half_full_ns(sampler);
	due_ns = ky_sample_duty_pace_ns(&sampler->duty, ky_now_ns(CLOCK_MONOTONIC));
	pace_ns = pace_ns < due_ns ? pace_ns : due_ns;
	return pace_ns < sampler->switches_pace_ns ? pace_ns : sampler->switches_pace_ns;
}
