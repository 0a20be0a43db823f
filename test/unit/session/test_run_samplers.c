/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The sample area of a ring of another process: what of it is made, announced, and touched. */
#include <base/gnu.h>

#include "../../lib/cmocka_all.h"

#include <session/run_samplers.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wire/ring_image.h>

#define PAGE_BYTES 4096u
#define AREA_AT (2 * KY_SAMPLE_PAGE_BYTES)
#define AREA_BYTES (1u << 20)

struct case_ {
	struct ky_sampling_options options;
	struct ky_run_samplers *samplers;
	struct ky_run_sampled sampled;
	struct ky_guarded_area areas[KY_RUN_SAMPLERS_AREAS_MAX];
	int fd;
};

static struct case_ the_case;

static const struct ky_ring_header *header(void)
{
	return (const void *)the_case.sampled.ring.image;
}

/* Of this process, as its ring's header says it. */
static uint64_t start_ticks(void)
{
	char text[1024] = "", *at;
	FILE *file = fopen("/proc/self/stat", "r");

	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	assert_non_null(at);
	return strtoull(at, NULL, 10);
}

/* A ring's file, with this much said to be for samples; timers take them, so perf_event is not
 * asked. */
static struct case_ *open_file(uint64_t sample_bytes, uint32_t pid, bool has_switches)
{
	const struct ky_ring_header made = {.page_bytes = PAGE_BYTES,
					    .sample_offset = AREA_AT,
					    .sample_bytes = sample_bytes,
					    .start_time_ticks = start_ticks()};
	struct case_ *c = &the_case;

	memset(c, 0, sizeof(*c));
	c->options = (struct ky_sampling_options){
		.hz = 99, .source = KY_SAMPLING_TIMERS, .is_without_switches = !has_switches};
	assert_int_equal(ky_run_samplers_open(&c->samplers, &c->options), 0);
	c->fd = memfd_create("ring", MFD_CLOEXEC);
	assert_int_equal(ftruncate(c->fd, AREA_AT + AREA_BYTES), 0);
	assert_int_equal(pwrite(c->fd, &made, sizeof(made), 0), sizeof(made));
	c->sampled.ring.pid = pid;
	c->sampled.ring.image_bytes = AREA_AT + AREA_BYTES;
	c->sampled.ring.image = mmap(NULL, c->sampled.ring.image_bytes, PROT_READ, MAP_SHARED,
				     c->fd, 0);
	assert_true(c->sampled.ring.image != MAP_FAILED);
	ky_run_samplers_add(c->samplers, &c->sampled, c->fd);
	return c;
}

static struct case_ *open_case(uint64_t sample_bytes)
{
	return open_file(sample_bytes, 7, false);
}

static void close_case(struct case_ *c)
{
	ky_run_samplers_remove(c->samplers, &c->sampled);
	assert_int_equal(ky_run_samplers_areas(c->samplers, c->areas), 0);
	assert_null(c->sampled.area);
	assert_int_equal(c->sampled.ring.cpu.cell_count, 0);
	munmap((void *)(uintptr_t)c->sampled.ring.image, c->sampled.ring.image_bytes);
	close(c->fd);
	ky_run_samplers_close(c->samplers);
}

static void add__makes_and_announces_the_cells_that_are_wanted(void **state)
{
	struct case_ *c = open_case(AREA_BYTES);

	(void)state;
	assert_true(c->sampled.ring.cpu.cell_count > 0);
	assert_int_equal(c->sampled.ring.off_cpu.cell_count, 0);
	assert_int_equal(atomic_load(&header()->sample_classes), 1u << KY_SAMPLES_CPU);
	assert_ptr_equal(c->sampled.ring.gates, c->sampled.ring.image + PAGE_BYTES);
	/* The image, and the area that is mapped for writing. */
	assert_int_equal(ky_run_samplers_areas(c->samplers, c->areas), 2);
	assert_ptr_equal(c->areas[1].start, c->sampled.area);
	/* No events: no time is too late. */
	assert_int_equal(ky_run_samplers_step(c->samplers), UINT64_MAX);
	close_case(c);
}

static void add__takes_no_area_that_the_file_has_not(void **state)
{
	struct case_ *c = open_case(2 * AREA_BYTES);

	(void)state;
	assert_null(c->sampled.area);
	assert_int_equal(c->sampled.ring.cpu.cell_count, 0);
	assert_int_equal(atomic_load(&header()->sample_classes), 0);
	assert_int_equal(ky_run_samplers_areas(c->samplers, c->areas), 1);
	close_case(c);
}

static void gate__leaves_the_child_to_itself_where_timers_are_asked_for(void **state)
{
	struct case_ *c = open_case(AREA_BYTES);
	char variable[] = "KYMO_SAMPLE=99";
	struct ky_run_gate gate = ky_run_samplers_gate(c->samplers, variable);

	(void)state;
	gate.child(gate.ctx, gate.parent(gate.ctx, getpid()));
	assert_string_equal(variable, "KYMO_SAMPLE=99");
	c->options.source = KY_SAMPLING_PERF; /* or nothing */
	gate.child(gate.ctx, 0);
	assert_string_equal(variable, "KYMO_SAMPLE=0");
	close_case(c);
}

/* Where they are refused, the area says so. */
static void step__tries_windows_with_the_first_process_that_lives(void **state)
{
	struct case_ *c = open_file(AREA_BYTES, UINT32_MAX, true);

	(void)state;
	(void)ky_run_samplers_step(c->samplers);
	assert_int_equal(c->sampled.ring.off_cpu.cell_count, 0);
	c->sampled.ring.pid = (uint32_t)getpid();
	(void)ky_run_samplers_step(c->samplers);
	assert_true(c->sampled.ring.off_cpu.cell_count > 0);
	close_case(c);
}

static void end__tries_no_windows_any_more(void **state)
{
	struct case_ *c = open_file(AREA_BYTES, (uint32_t)getpid(), true);
	const struct ky_sample_head *heads = (const void *)c->sampled.area;

	(void)state;
	ky_run_samplers_end(c->samplers);
	assert_int_equal(c->sampled.ring.off_cpu.cell_count, 0);
	/* And says that they are still to come. */
	assert_true(atomic_load(&header()->sample_classes) & KY_SAMPLE_HEADS);
	assert_int_equal(atomic_load(&heads->classes[KY_SAMPLES_OFF_CPU].source),
			 1u << KY_SOURCE_SWITCHES);
	close_case(c);
}

static void probes__that_are_none_do_nothing(void **state)
{
	struct ky_run_sampled sampled = {.area = NULL};

	(void)state;
	ky_run_samplers_add(NULL, &sampled, -1);
	assert_int_equal(ky_run_samplers_step(NULL), UINT64_MAX);
	ky_run_samplers_end(NULL);
	ky_run_samplers_fetch(NULL);
	ky_run_samplers_fetch_last(NULL);
	assert_int_equal(ky_run_samplers_areas(NULL, NULL), 0);
	ky_run_samplers_remove(NULL, &sampled);
	ky_run_samplers_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(add__makes_and_announces_the_cells_that_are_wanted),
		cmocka_unit_test(add__takes_no_area_that_the_file_has_not),
		cmocka_unit_test(gate__leaves_the_child_to_itself_where_timers_are_asked_for),
		cmocka_unit_test(step__tries_windows_with_the_first_process_that_lives),
		cmocka_unit_test(end__tries_no_windows_any_more),
		cmocka_unit_test(probes__that_are_none_do_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
