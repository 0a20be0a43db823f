/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Step by step into a file, and by the linked library: in a stream, in flight mode for a dump. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <agent/probe_resources.h>
#include <ftw.h>
#include <kymo/dump.h>
#include <kymo/emit.h>
#include <kymo/reader.h>
#include <kymo/recorder.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define AREA_OFFSET 65536u
#define FILE_BYTES (AREA_OFFSET + KY_RESOURCE_AREA_BYTES)
#define SECOND KY_RESOURCE_INTERVAL_NS
#define START (100 * SECOND)

static char directory[64];
static uint32_t readings;
static uint64_t max_rss;
static uint8_t image[1 << 20];

static struct ky_probe_resources resources;
static bool is_unreadable;

static bool may_read(void)
{
	return !is_unreadable;
}

static bool touch_none(void *word)
{
	(void)word;
	return false;
}

static uint64_t step(struct ky_probe probe, uint64_t at_ns, uint32_t wish_ms)
{
	/* Any stream. */
	return probe.step(probe.self,
			  &(const struct ky_probe_moment){at_ns, wish_ms, (void *)&resources});
}

static int make_file(uint8_t **mapped)
{
	int fd = memfd_create("probe-resources", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	*mapped = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(*mapped, MAP_FAILED);
	memset(&resources, 0, sizeof(resources));
	resources.area = (struct ky_ring_area){
		.access.fd = fd, .offset = AREA_OFFSET, .bytes = KY_RESOURCE_AREA_BYTES};
	resources.interval_ns = SECOND;
	resources.flight_interval_ns = 10 * SECOND;
	resources.may_read = may_read;
	return fd;
}

static void probe__continues_after_the_last_row(void **state)
{
	struct ky_ring_view view = {.resource_offset = AREA_OFFSET};
	struct ky_resource_about about, later;
	struct ky_probe probe;
	uint8_t *mapped;
	int fd = make_file(&mapped);

	(void)state;
	view.image = mapped;
	view.header = (const struct ky_ring_header *)(const void *)mapped;
	probe = ky_probe_resources_init(&resources, &view);
	assert_null(ky_ring_view_resources(&view));
	assert_int_equal(step(probe, START, 0), START + SECOND);
	assert_non_null(ky_ring_view_resources(&view));
	ky_ring_view_resource_about(mapped + AREA_OFFSET, &about);
	assert_true(about.claim_index > 0);
	assert_int_equal(about.interval_ns, SECOND);
	probe = ky_probe_resources_init(&resources, &view);
	assert_int_equal(step(probe, START + SECOND, 5000), START + 6 * SECOND);
	ky_ring_view_resource_about(mapped + AREA_OFFSET, &later);
	assert_true(later.claim_index > about.claim_index);
	assert_int_equal(later.interval_ns, 5 * SECOND);
	munmap(mapped, FILE_BYTES);
	close(fd);
}

static void probe__reads_only_when_due_and_allowed(void **state)
{
	const struct ky_probe_moment flight = {START, 0, NULL};
	struct ky_probe probe;
	uint8_t *mapped;
	int fd = make_file(&mapped);

	(void)state;
	probe = ky_probe_resources_init(&resources, NULL);
	is_unreadable = true;
	assert_true(step(probe, START, 0) == UINT64_MAX);
	is_unreadable = false;
	assert_true(step(probe, START, KY_SETTING_OFF) == UINT64_MAX);
	assert_int_equal(resources.source.readings, 0);
	assert_int_equal(probe.step(&resources, &flight), START + 10 * SECOND);
	assert_int_equal(step(probe, START + 1, 20000), START + 10 * SECOND);
	assert_int_equal(resources.source.readings, 1);
	munmap(mapped, FILE_BYTES);
	close(fd);
}

/* The thread of the library would not rest until a moment that has passed. */
static void probe__without_memory_is_never_due_again(void **state)
{
	struct ky_probe probe;
	uint8_t *mapped;
	int fd = make_file(&mapped);

	(void)state;
	resources.area.access = (struct ky_ring_access){.base = mapped, .touch = touch_none};
	probe = ky_probe_resources_init(&resources, NULL);
	for (uint64_t at_ns = START; at_ns < START + 5 * SECOND; at_ns += SECOND)
		assert_true(step(probe, at_ns, 0) == UINT64_MAX);
	assert_int_equal(resources.source.readings, 1);
	munmap(mapped, FILE_BYTES);
	close(fd);
}

static int make_directory(void **state)
{
	(void)state;
	return temp_tree_make(directory, sizeof(directory));
}

static int remove_directory(void **state)
{
	(void)state;
	unsetenv("KYMO_RESOURCES");
	return temp_tree_remove(directory);
}

/* One that may kill for opening a file in /proc: no readings there. */
static void skip_under_a_filter(void)
{
	if (prctl(PR_GET_SECCOMP) != 0) {
		print_message("# no readings under a filter\n");
		skip();
	}
}

static struct kymo_recorder *open_with(uint32_t flags, uint32_t interval_ms)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;

	options.flags = flags;
	options.service = "own";
	options.trace_directory = directory;
	options.compression = KYMO_COMPRESSION_NONE;
	options.resource_interval_ms = interval_ms;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
	kymo_poll_begin(5, 0, 1);
	kymo_poll_end(0);
	return recorder;
}

static int tally(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	struct kymo_reader *reader;
	const struct kymo_event *event;
	size_t length = strlen(path), bytes;
	FILE *file;

	(void)st;
	(void)ftw;
	if (type != FTW_F || length < 4 || strcmp(path + length - 4, ".trc") != 0)
		return 0;
	file = fopen(path, "r");
	assert_non_null(file);
	bytes = fread(image, 1, sizeof(image), file);
	fclose(file);
	assert_in_range(bytes, 1, sizeof(image) - 1);
	assert_int_equal(kymo_reader_open_memory(&reader, image, bytes, NULL), 0);
	while (kymo_reader_next(reader, &event) == 1) {
		const struct kymo_field *field;

		if (event->type_bytes != strlen("ProcessResourceUsageEvent") ||
		    memcmp(event->type, "ProcessResourceUsageEvent", event->type_bytes) != 0)
			continue;
		readings++;
		field = kymo_event_field(event, "max_rss_bytes");
		assert_non_null(field);
		max_rss = field->as_uint;
	}
	kymo_reader_close(reader);
	return 0;
}

static void read_all(void)
{
	readings = 0;
	nftw(directory, tally, 8, FTW_PHYS);
}

static void dump(void)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	struct kymo_dump_result result = {.size = sizeof(result)};

	options.flags |= KYMO_DUMP_WAIT;
	assert_int_equal(kymo_recorder_dump(&options, &result), 0);
}

static void stream__has_what_the_process_uses(void **state)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};
	struct kymo_recorder *recorder;

	(void)state;
	skip_under_a_filter();
	recorder = open_with(KYMO_RECORDER_STREAM, 0);
	do {
		sched_yield();
		assert_int_equal(kymo_recorder_status(&status), 0);
	} while (status.bytes_written == 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	read_all();
	assert_in_range(readings, 1, 1000);
	assert_in_range(max_rss, 1u << 20, UINT64_C(1) << 40);
}

static void flight__has_readings_in_its_dump(void **state)
{
	struct kymo_recorder *recorder;

	(void)state;
	skip_under_a_filter();
	recorder = open_with(0, 0);
	dump();
	assert_int_equal(kymo_recorder_close(recorder), 0);
	read_all();
	assert_int_equal(readings, 1);
}

static void readings__are_none_when_off(void **state)
{
	struct kymo_recorder *recorder = open_with(0, UINT32_MAX);

	(void)state;
	dump();
	assert_int_equal(kymo_recorder_close(recorder), 0);
	setenv("KYMO_RESOURCES", "off", 1);
	recorder = open_with(KYMO_RECORDER_STREAM, 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	read_all();
	assert_int_equal(readings, 0);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, make_directory, remove_directory)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probe__continues_after_the_last_row),
		cmocka_unit_test(probe__reads_only_when_due_and_allowed),
		cmocka_unit_test(probe__without_memory_is_never_due_again),
		CASE(stream__has_what_the_process_uses),
		CASE(flight__has_readings_in_its_dump),
		CASE(readings__are_none_when_off),
	};

	return cmocka_run_group_tests_name("probe_resources", tests, NULL, NULL);
}
