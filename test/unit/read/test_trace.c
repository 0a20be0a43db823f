/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Whole traces: dial9's, torn ones, damaged ones, hostile ones. */
#include "read_case.h"
#include <stdlib.h>

#include "dial9_case.h"

/* A little of everything. */
static void write_mixture(struct read_case *c)
{
	uint64_t ns = 1000;
	uint32_t name, i;

	case_begin(c);
	for (i = 0; i < 12; i++) {
		if (i % 4 == 0)
			ky_trc_enc_begin(&c->enc);
		case_wake(c, ns += 10, i % 2 ? 3 : 0, 1 + i % 5, i % 3);
		case_start(c, ns += 100, i % 3, 1 + i % 5, "svc::a");
		case_end(c, ns += 50, i % 3);
		case_park(c, ns += 20, i % 3, 11 + i % 3);
		case_unpark(c, ns += 500, i % 3, 11 + i % 3);
	}
	case_loss(c, 12, ns - 100, ns);
	name = case_text(c, "worker-0");
	ky_trc_enc_event(&c->enc, KY_EV_THREAD, ns);
	ky_trc_enc_u32(&c->enc, 11);
	ky_trc_enc_u32(&c->enc, name);
	ky_trc_enc_varint(&c->enc, 900);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_event(&c->enc, KY_EV_SEGMENT_METADATA, ns);
	ky_trc_enc_count(&c->enc, 2);
	ky_trc_enc_bytes(&c->enc, "service", 7);
	ky_trc_enc_bytes(&c->enc, "shop", 4);
	ky_trc_enc_bytes(&c->enc, "service", 7);
	ky_trc_enc_bytes(&c->enc, "cart", 4);
	ky_trc_enc_event(&c->enc, KY_EV_CLOCK_SYNC, ns);
	ky_trc_enc_varint(&c->enc, UINT64_C(1700000000000000000));
}

static uint64_t count_of(const struct ky_trace *trace, const char *name)
{
	uint64_t count = 0;
	uint32_t i;

	for (i = 0; i < trace->type_count; i++)
		if (strncmp(trace->types[i].name, name, strlen(name)) == 0)
			count += trace->types[i].count;
	return count;
}

struct expected {
	const char *name;
	uint64_t count;
};

static void check_dial9(const char *name, uint64_t events, uint64_t back_steps,
			const struct expected *expected, size_t count)
{
	struct ky_byte_source source;
	struct ky_trace *trace;
	size_t bytes_count, i;
	uint8_t *bytes = dial9_bytes(name, &bytes_count);
	uint64_t lanes = 0;

	assert_non_null(bytes);
	assert_int_equal(ky_byte_source_memory(&source, bytes, bytes_count, name), 0);
	assert_int_equal(ky_trace_open(&trace, &source, 1, NULL), 0);
	assert_int_equal(trace->event_count, events);
	assert_int_equal(trace->back_steps, back_steps);
	assert_int_equal(trace->notice_count, 0);
	assert_true(trace->is_dial9 && !trace->is_kymo);
	for (i = 0; i < count; i++) {
		if (count_of(trace, expected[i].name) != expected[i].count)
			print_message("# %s\n", expected[i].name);
		assert_int_equal(count_of(trace, expected[i].name), expected[i].count);
	}
	/* Every start found its end, every wake its lane. */
	assert_int_equal(trace->polls, count_of(trace, "PollEndEvent"));
	assert_int_equal(trace->parks, count_of(trace, "WorkerUnparkEvent"));
	assert_int_equal(trace->wakes, count_of(trace, "WakeEventEvent"));
	assert_int_equal(trace->end_unproven, 0);
	assert_int_equal(trace->open_poll_count, 0);
	assert_int_equal(trace->delays_measured + trace->delays_no_wake, trace->polls);
	for (i = 0; i < trace->worker_count; i++)
		lanes += trace->workers[i].end_without_start;
	assert_int_equal(lanes, 0);
	ky_trace_close(trace);
	source.close(source.ctx);
	free(bytes);
}

static void trace__of_dial9_057_has_exactly_its_counts(void **state)
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
		{"SpanEnter:", 80633},
		{"SpanExit:", 80633},
		{"ConnectionAcceptedWire", 81},
		{"ConnectionClosedWire", 81},
		{"metrique:RequestMetrics", 25123},
	};

	(void)state;
	check_dial9(DIAL9_057, 572815, 16231, expected, sizeof(expected) / sizeof(expected[0]));
}

static void trace__of_dial9_2026_has_exactly_its_counts(void **state)
{
	static const struct expected expected[] = {
		{"PollStartEvent", 36801},   {"PollEndEvent", 36801},     {"WakeEventEvent", 35552},
		{"TaskSpawnEvent", 262},     {"TaskTerminateEvent", 359}, {"TaskDumpEvent", 12952},
		{"WorkerParkEvent", 6304},   {"WorkerUnparkEvent", 6304}, {"CpuSampleEvent", 6949},
		{"QueueSampleEvent", 464},   {"SymbolTableEntry", 992},   {"ClockSyncEvent", 2},
		{"SegmentMetadataEvent", 1}, {"SpanCloseEvent", 9890},    {"SpanEnter:", 28503},
		{"SpanExit:", 28503},
	};

	(void)state;
	check_dial9(DIAL9_2026, 210639, 6365, expected, sizeof(expected) / sizeof(expected[0]));
}

static void trace__torn_at_every_byte_keeps_what_lies_before(void **state)
{
	struct read_case c;
	uint64_t whole, last = 0;
	size_t bytes;

	(void)state;
	write_mixture(&c);
	case_open(&c);
	whole = c.trace->event_count;
	assert_int_equal(c.trace->notice_count, 0);
	case_shut(&c);
	for (bytes = KY_TRC_HEADER_BYTES; bytes < c.buf.used; bytes++) {
		assert_int_equal(case_try_open(&c, bytes, NULL), 0);
		assert_true(c.trace->event_count >= last && c.trace->event_count <= whole);
		last = c.trace->event_count;
		assert_true(c.trace->notice_count <= 1);
		if (c.trace->notice_count == 1) {
			const char *text = c.trace->notices[0].text;

			assert_int_equal(c.trace->notices[0].code, KYMO_E_TRUNCATED);
			assert_non_null(strstr(text, "case.trc: byte "));
			assert_non_null(strstr(text, "everything before it was read"));
			assert_true(c.trace->files[0].is_torn);
			assert_true(c.trace->notices[0].offset < bytes);
		}
		case_shut(&c);
	}
	assert_true(last >= whole - 1);
	for (bytes = 0; bytes < KY_TRC_HEADER_BYTES; bytes++) {
		assert_int_equal(case_try_open(&c, bytes, NULL), KYMO_E_NOT_TRACE);
		assert_non_null(strstr(c.error, "not a trace"));
		case_shut(&c);
	}
	case_finish(&c);
}

static void trace__continues_at_the_next_stream_after_damage(void **state)
{
	struct read_case c;
	size_t at, damaged = 0;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1100, 0, 7);
	at = c.buf.used;
	case_poll(&c, 2000, 2100, 0, 7);
	ky_trc_enc_begin(&c.enc);
	case_poll(&c, 3000, 3100, 0, 7);
	case_poll(&c, 4000, 4100, 0, 7);
	c.buf.bytes[at] = 0x33; /* no such frame */
	case_open(&c);
	assert_int_equal(c.trace->event_count, 6);
	assert_int_equal(c.trace->polls, 3);
	assert_int_equal(c.trace->notice_count, 1);
	assert_int_equal(c.trace->notices[0].code, KYMO_E_CORRUPT);
	assert_int_equal(c.trace->notices[0].offset, at);
	assert_non_null(strstr(c.trace->notices[0].text, "skipped to the next stream header"));
	case_shut(&c);
	/* Whatever byte is hit, the stream after it is read. */
	for (at = KY_TRC_HEADER_BYTES; at < c.buf.used; at++) {
		uint8_t kept = c.buf.bytes[at];

		c.buf.bytes[at] ^= 0xff;
		assert_int_equal(case_try_open(&c, c.buf.used, NULL), 0);
		damaged += c.trace->notice_count > 0;
		assert_true(c.trace->notice_count <= 2);
		case_shut(&c);
		c.buf.bytes[at] = kept;
	}
	assert_true(damaged > 10);
	case_finish(&c);
}

static void trace__of_several_files_in_any_order_is_one(void **state)
{
	struct read_case first, second, other;
	struct ky_byte_source sources[3];
	struct ky_trace *trace;
	struct ky_poll poll;

	(void)state;
	case_begin(&first);
	case_wake(&first, 900, 0, 7, 0);
	case_start(&first, 1000, 0, 7, "svc::split");
	case_begin(&second);
	case_end(&second, 5000, 0);
	case_poll(&second, 6000, 6100, 0, 8);
	case_begin(&other);
	ky_buf_clear(&other.buf);
	ky_buf_append(&other.buf, "GIF89a......", 12);
	ky_byte_source_memory(&sources[0], second.buf.bytes, second.buf.used, "b.trc");
	ky_byte_source_memory(&sources[1], other.buf.bytes, other.buf.used, "c.gif");
	ky_byte_source_memory(&sources[2], first.buf.bytes, first.buf.used, "a.trc");
	assert_int_equal(ky_trace_open(&trace, sources, 3, NULL), 0);
	assert_string_equal(trace->files[0].name, "a.trc");
	assert_int_equal(trace->polls, 2);
	ky_trace_poll(trace, 0, 0, &poll);
	assert_int_equal(poll.duration_ns, 4000);
	assert_int_equal(poll.delay_ns, 100);
	assert_int_equal(trace->notice_count, 1);
	assert_non_null(strstr(trace->notices[0].text, "c.gif: byte 0: this is not a trace"));
	ky_trace_close(trace);
	sources[0].close(sources[0].ctx);
	sources[1].close(sources[1].ctx);
	sources[2].close(sources[2].ctx);
	case_finish(&first);
	case_finish(&second);
	case_finish(&other);
}

static void trace__keeps_tables_and_the_last_metadata(void **state)
{
	struct read_case c;

	(void)state;
	write_mixture(&c);
	case_open(&c);
	assert_string_equal(ky_trace_metadata(c.trace, "service"), "cart");
	assert_null(ky_trace_metadata(c.trace, "nothing"));
	assert_int_equal(c.trace->metadata_count, 1);
	assert_int_equal(c.trace->thread_count, 2); /* described: 11; by its loss: 12 */
	assert_int_equal(c.trace->loss_count, 1);
	assert_string_equal(ky_trace_name(c.trace, c.trace->losses[0].cause), "overwritten");
	assert_int_equal(c.trace->task_count, 5);
	assert_int_equal(ky_trace_task(c.trace, 99), KY_NONE);
	assert_int_equal(ky_trace_unix_ns(c.trace, c.trace->clock_syncs[0].monotonic_ns + 5),
			 UINT64_C(1700000000000000005));
	assert_int_equal(ky_trace_unix_ns(c.trace, c.trace->clock_syncs[0].monotonic_ns - 5),
			 UINT64_C(1699999999999999995));
	case_finish(&c);
}

static int64_t read_one(void *ctx, uint8_t *out, size_t capacity)
{
	struct ky_byte_source *inner = ctx;

	return inner->read(inner->ctx, out, capacity ? 1 : 0);
}

/* A window that ends with each byte leaves the decoder no room for its fast ways. */
static void trace__is_the_same_in_whole_windows_and_byte_by_byte(void **state)
{
	struct read_case c;
	struct ky_byte_source inner, slow = {.read = read_one, .ctx = &inner, .name = "case.trc"};
	struct ky_trace *other;
	uint32_t i;
	uint64_t row;

	(void)state;
	write_mixture(&c);
	case_open(&c);
	assert_int_equal(ky_byte_source_memory(&inner, c.buf.bytes, c.buf.used, "case.trc"), 0);
	assert_int_equal(ky_trace_open(&other, &slow, 1, NULL), 0);
	assert_int_equal(other->event_count, c.trace->event_count);
	assert_int_equal(other->worker_count, c.trace->worker_count);
	assert_int_equal(other->delays_measured, c.trace->delays_measured);
	assert_int_equal(other->types[0].first_ns, c.trace->types[0].first_ns);
	assert_int_equal(other->types[0].last_ns, c.trace->types[0].last_ns);
	for (i = 0; i < other->worker_count; i++) {
		assert_int_equal(other->workers[i].id, c.trace->workers[i].id);
		assert_int_equal(other->workers[i].poll_count, c.trace->workers[i].poll_count);
		assert_int_equal(other->workers[i].wake_count, c.trace->workers[i].wake_count);
		for (row = 0; row < other->workers[i].poll_count; row++) {
			struct ky_poll a = {0}, b = {0};

			ky_trace_poll(other, i, row, &a);
			ky_trace_poll(c.trace, i, row, &b);
			assert_memory_equal(&a, &b, sizeof(a));
		}
		for (row = 0; row < other->workers[i].wake_count; row++) {
			struct ky_wake a = {0}, b = {0};

			ky_trace_wake(other, i, row, &a);
			ky_trace_wake(c.trace, i, row, &b);
			assert_memory_equal(&a, &b, sizeof(a));
		}
	}
	ky_trace_close(other);
	inner.close(inner.ctx);
	case_finish(&c);
}

static void trace__survives_each_failing_allocation(void **state)
{
	struct read_case c;
	int result = -ENOMEM;
	uint64_t n;

	(void)state;
	write_mixture(&c);
	for (n = 0; result != 0; n++) {
		test_alloc_fail_at(n);
		result = case_try_open(&c, c.buf.used, NULL);
		test_alloc_normal();
		if (result != 0) {
			assert_int_equal(result, -ENOMEM);
			assert_null(c.trace);
		} else {
			assert_int_equal(c.trace->polls, 12);
		}
		case_shut(&c);
	}
	assert_true(n > 40);
	case_finish(&c);
}

/* ---- hostile ---- */

static const struct ky_trace_options tight = {
	.memory_bytes_max = 8u << 20,
	.limits = {.pool_bytes_max = 1u << 20, .frame_bytes_max = 1u << 20},
};

static void trace__with_endless_tasks_stops_at_the_memory_limit(void **state)
{
	struct read_case c;
	uint64_t i;

	(void)state;
	case_begin(&c);
	for (i = 0; i < 300000; i++)
		case_end(&c, i, (uint32_t)i);
	assert_int_equal(case_try_open(&c, c.buf.used, &tight), KYMO_E_LIMIT);
	assert_null(c.trace);
	assert_memory_equal(c.error, "case.trc: byte ", 15);
	assert_in_range(strtoull(c.error + 15, NULL, 10), 1, c.buf.used - 1);
	assert_non_null(strstr(c.error, "that memory_bytes_max allows; raise it"));
	case_finish(&c);
}

static void trace__of_many_workers_takes_two_kilobytes_for_each(void **state)
{
	struct read_case c;
	uint32_t i;

	(void)state;
	case_begin(&c);
	for (i = 0; i < 20000; i++)
		case_poll(&c, 1000 + i * 10, 1005 + i * 10, 1000 + i, 7);
	case_open(&c);
	assert_int_equal(c.trace->worker_count, 20000);
	assert_in_range(c.trace->pages.bytes_used, 1, UINT64_C(20000) * 2048 + (1u << 20));
	case_finish(&c);
}

/* At every limit too small, wherever it is met: one sentence with file, byte and what to raise. */
static void trace__names_file_and_option_at_every_memory_limit(void **state)
{
	struct ky_trace_options options = {.memory_option = "--max-memory"};
	struct read_case c;
	uint64_t needed, i;

	(void)state;
	case_begin(&c);
	for (i = 0; i < 40; i++) /* backwards: pairing sorts, which takes more than loading */
		case_poll(&c, 100000 - i * 1000, 100000 - i * 1000 + 300, (uint32_t)i % 9, 1 + i);
	case_open(&c);
	needed = c.trace->pages.bytes_used;
	case_shut(&c);
	for (i = 1; i < needed; i += needed / 300 + 1) {
		options.memory_bytes_max = i;
		assert_int_equal(case_try_open(&c, c.buf.used, &options), KYMO_E_LIMIT);
		assert_memory_equal(c.error, "case.trc: byte ", 15);
		assert_true(strtoull(c.error + 15, NULL, 10) <= c.buf.used);
		assert_non_null(strstr(c.error, " bytes of memory that --max-memory allows; raise "
						"it, or read fewer files at once"));
		case_shut(&c);
	}
	case_finish(&c);
}

static void trace__with_endless_strings_skips_to_the_next_stream(void **state)
{
	struct read_case c;
	char text[1024];
	uint32_t i;

	(void)state;
	memset(text, 'x', sizeof(text));
	case_begin(&c);
	for (i = 0; i < 3000; i++) {
		memcpy(text, &i, sizeof(i));
		text[0] |= 1;
		ky_trc_enc_string(&c.enc, 0, text, sizeof(text));
	}
	ky_trc_enc_begin(&c.enc);
	case_poll(&c, 1000, 1100, 0, 7);
	assert_int_equal(case_try_open(&c, c.buf.used, &tight), 0);
	assert_int_equal(c.trace->polls, 1);
	assert_int_equal(c.trace->notices[0].code, KYMO_E_LIMIT);
	case_finish(&c);
}

static void trace__stops_at_the_limit_of_raw_bytes(void **state)
{
	struct ky_trace_options options = {.raw_bytes_max = 100000};
	struct read_case c;
	uint64_t i;

	(void)state;
	case_begin(&c);
	for (i = 0; i < 20000; i++)
		case_poll(&c, 1000 + i * 100, 1050 + i * 100, 0, 7);
	assert_int_equal(case_try_open(&c, c.buf.used, &options), 0);
	assert_true(c.trace->polls > 1000 && c.trace->polls < 20000);
	assert_int_equal(c.trace->notice_count, 1);
	assert_int_equal(c.trace->notices[0].code, KYMO_E_LIMIT);
	assert_non_null(strstr(c.trace->notices[0].text, "limit of decompressed bytes"));
	assert_int_equal(c.trace->raw_bytes, 100000);
	case_finish(&c);
}

static int64_t failing_read(void *ctx, uint8_t *out, size_t capacity)
{
	struct read_case *c = ctx;

	(void)capacity;
	if (c->source.stored_bytes)
		return -EIO;
	c->source.stored_bytes = 1;
	memcpy(out, c->buf.bytes, 60);
	return 60;
}

static void trace__reports_a_source_that_fails_midway(void **state)
{
	struct ky_byte_source source = {.read = failing_read, .name = "disk.trc"};
	struct ky_trace *trace;
	struct read_case c;

	(void)state;
	write_mixture(&c);
	source.ctx = &c;
	assert_int_equal(ky_trace_open(&trace, &source, 1, NULL), 0);
	assert_int_equal(trace->notice_count, 1);
	assert_int_equal(trace->notices[0].code, -EIO);
	ky_trace_close(trace);
	assert_int_equal(ky_trace_open(&trace, &source, 1, NULL), -EIO);
	assert_null(trace);
	memset(&c.source, 0, sizeof(c.source));
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace__of_dial9_057_has_exactly_its_counts),
		cmocka_unit_test(trace__of_dial9_2026_has_exactly_its_counts),
		cmocka_unit_test(trace__torn_at_every_byte_keeps_what_lies_before),
		cmocka_unit_test(trace__continues_at_the_next_stream_after_damage),
		cmocka_unit_test(trace__of_several_files_in_any_order_is_one),
		cmocka_unit_test(trace__keeps_tables_and_the_last_metadata),
		cmocka_unit_test(trace__is_the_same_in_whole_windows_and_byte_by_byte),
		cmocka_unit_test(trace__survives_each_failing_allocation),
		cmocka_unit_test(trace__with_endless_tasks_stops_at_the_memory_limit),
		cmocka_unit_test(trace__of_many_workers_takes_two_kilobytes_for_each),
		cmocka_unit_test(trace__names_file_and_option_at_every_memory_limit),
		cmocka_unit_test(trace__with_endless_strings_skips_to_the_next_stream),
		cmocka_unit_test(trace__stops_at_the_limit_of_raw_bytes),
		cmocka_unit_test(trace__reports_a_source_that_fails_midway),
	};

	return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
