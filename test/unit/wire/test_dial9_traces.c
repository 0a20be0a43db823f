/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The peer's published traces: every count is what the peer's own decoder prints. */
#include "../../lib/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wire/trc_dec.h>
#include <zlib.h>

struct expected {
	const char *name; /* a trailing * stands for any ending */
	uint64_t count;
};

static uint8_t *inflate_file(const char *name, size_t *count)
{
	size_t capacity = 16u << 20;
	uint8_t *bytes = malloc(capacity);
	char path[512];
	gzFile file;
	int got;

	snprintf(path, sizeof(path), "%s/test/data/%s", getenv("MESON_SOURCE_ROOT"), name);
	file = gzopen(path, "rb");
	assert_non_null(file);
	assert_non_null(bytes);
	*count = 0;
	while ((got = gzread(file, bytes + *count, (unsigned int)(capacity - *count))) > 0)
		*count += (size_t)got;
	assert_int_equal(got, 0);
	assert_true(*count < capacity);
	gzclose(file);
	return bytes;
}

static bool is_named(const struct ky_schema *schema, const char *name)
{
	size_t count = strlen(name);

	if (name[count - 1] != '*')
		return schema->name.count == count && !memcmp(schema->name.bytes, name, count);
	return schema->name.count >= count - 1 && !memcmp(schema->name.bytes, name, count - 1);
}

static void check_values(const struct ky_frame *frame)
{
	for (uint32_t i = 0; i < frame->schema->field_count; i++) {
		const struct ky_value *value = &frame->values[i];

		if (value->is_present && !value->is_resolved)
			fail_msg("field %u of %.*s is not resolved", i,
				 (int)frame->schema->name.count, frame->schema->name.bytes);
	}
}

static void check_trace(const char *name, const struct expected *expected, uint64_t total,
			uint64_t steps_back, uint64_t span_us)
{
	uint64_t seen[32] = {0}, count = 0, back = 0, last = 0, low = UINT64_MAX, high = 0;
	struct ky_trc_dec *dec;
	struct ky_frame frame;
	size_t byte_count, at = 0;
	uint8_t *bytes = inflate_file(name, &byte_count);
	int64_t used;

	assert_int_equal(ky_trc_dec_open(&dec, NULL), 0);
	while ((used = ky_trc_dec_next(dec, bytes + at, byte_count - at, &frame)) > 0) {
		at += (size_t)used;
		if (frame.kind != KY_FRAME_EVENT)
			continue;
		count++;
		check_values(&frame);
		back += frame.timestamp_ns < last;
		last = frame.timestamp_ns;
		/* SymbolTableEntry has time stamp 0, and the published span counts it. */
		low = last < low ? last : low;
		high = last > high ? last : high;
		for (int i = 0; expected[i].name; i++)
			seen[i] += is_named(frame.schema, expected[i].name);
	}
	assert_int_equal(used, 0);
	assert_int_equal(at, byte_count);
	assert_int_equal(count, total);
	for (int i = 0; expected[i].name; i++) {
		if (seen[i] != expected[i].count)
			fail_msg("%s: %d seen, %d expected", expected[i].name, (int)seen[i],
				 (int)expected[i].count);
	}
	assert_int_equal(back, steps_back);
	assert_int_equal((high - low + 500) / 1000, span_us);
	ky_trc_dec_close(dec);
	free(bytes);
}

static void dial9_traces__057_has_the_published_counts(void **state)
{
	static const struct expected expected[] = {
		{"PollStartEvent", 99717},
		{"PollEndEvent", 99717},
		{"WakeEventEvent", 98133},
		{"TaskSpawnEvent", 121},
		{"TaskTerminateEvent", 142},
		{"TaskDumpEvent", 31278},
		{"WorkerParkEvent", 6884},
		{"WorkerUnparkEvent", 6884},
		{"CpuSampleEvent", 7861},
		{"RuntimeMetricsEvent", 692},
		{"ProcessResourceUsageEvent", 41},
		{"TcpAcceptQueueEvent", 10},
		{"AllocEvent", 928},
		{"FreeEvent", 920},
		{"SymbolTableEntry", 5268},
		{"ClockSyncEvent", 3},
		{"SegmentMetadataEvent", 2},
		{"SpanCloseEvent", 27663},
		{"SpanEnter:*", 80633},
		{"SpanExit:*", 80633},
		{"ConnectionAcceptedWire", 81},
		{"ConnectionClosedWire", 81},
		{"metrique:RequestMetrics", 25123},
		{NULL, 0},
	};

	(void)state;
	check_trace("dial9-0.5.7-demo.bin.gz", expected, 572815, 16231, 13906504);
}

static void dial9_traces__2026_05_has_the_published_counts(void **state)
{
	static const struct expected expected[] = {
		{"PollStartEvent", 36801},
		{"PollEndEvent", 36801},
		{"WakeEventEvent", 35552},
		{"TaskSpawnEvent", 262},
		{"TaskTerminateEvent", 359},
		{"TaskDumpEvent", 12952},
		{"WorkerParkEvent", 6304},
		{"WorkerUnparkEvent", 6304},
		{"CpuSampleEvent", 6949},
		{"QueueSampleEvent", 464},
		{"SymbolTableEntry", 992},
		{"ClockSyncEvent", 2},
		{"SegmentMetadataEvent", 1},
		{"SpanCloseEvent", 9890},
		{"SpanEnter:*", 28503},
		{"SpanExit:*", 28503},
		{NULL, 0},
	};

	(void)state;
	check_trace("dial9-2026-05-demo.bin.gz", expected, 210639, 6365, 503230842286);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dial9_traces__057_has_the_published_counts),
		cmocka_unit_test(dial9_traces__2026_05_has_the_published_counts),
	};

	return cmocka_run_group_tests_name("dial9_traces", tests, NULL, NULL);
}
