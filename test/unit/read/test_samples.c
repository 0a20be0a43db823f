/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "dial9_case.h"
#include "sample_case.h"

static const struct ky_stack_row *row_at(const struct read_case *c, uint32_t row)
{
	assert_true(row < c->trace->samples.row_count);
	return &c->trace->samples.rows[row];
}

static void samples__keep_a_stack_once(void **state)
{
	const struct ky_samples *samples;
	struct read_case c;
	uint32_t a, b;

	(void)state;
	case_begin(&c);
	a = CASE_STACK(&c, 1, 2, 3);
	b = CASE_STACK(&c, 1, 2);
	for (uint64_t i = 0; i < 1000; i++)
		case_cpu(&c, 1000 + i, 0, 11, i % 2 ? a : b, 5, 0, 0);
	case_open(&c);
	samples = &c.trace->samples;
	assert_int_equal(samples->row_count, 1000);
	assert_int_equal(samples->counts[KY_STACK_CPU], 1000);
	assert_int_equal(samples->stack_count, 2);
	assert_int_equal(samples->frame_count, 5);
	assert_int_equal(samples->stacks[row_at(&c, 1)->stack].count, 3);
	assert_int_equal(samples->frames[samples->stacks[row_at(&c, 1)->stack].first + 2], 3);
	assert_int_equal(samples->stacks[row_at(&c, 1)->stack].first_ns, 1001);
	case_finish(&c);
}

static void put_check(struct read_case *c, uint64_t ns, const uint64_t *frames, size_t frame_count)
{
	uint32_t wchan = case_text(c, "futex_wait");

	ky_trc_enc_event(&c->enc, KY_EV_STUCK_THREAD, ns);
	ky_trc_enc_u32(&c->enc, 12);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 7);
	ky_trc_enc_varint(&c->enc, 500);
	ky_trc_enc_u8(&c->enc, 'S');
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_u32(&c->enc, wchan);
	ky_trc_enc_frames(&c->enc, frames, frame_count);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
}

/* Of checks of stuck threads, too, which no row names: before, between and after the samples'. */
static void samples__leave_checks_of_stuck_threads_their_stacks(void **state)
{
	static const uint64_t checks[3][1] = {{0xa1}, {0xa2}, {0xa3}};
	const struct ky_samples *samples;
	struct read_case c;
	uint32_t late, early;

	(void)state;
	case_begin(&c);
	put_check(&c, 900, checks[0], 1);
	late = CASE_STACK(&c, 0xb2, 1);
	early = CASE_STACK(&c, 0xb1, 1);
	case_cpu(&c, 3000, 0, 11, late, 5, 0, 0);
	put_check(&c, 1000, checks[1], 1);
	case_cpu(&c, 2000, 0, 11, early, 5, 0, 0);
	put_check(&c, 1100, checks[2], 1);
	case_open(&c);
	samples = &c.trace->samples;
	assert_int_equal(c.trace->stuck_count, 3);
	assert_int_equal(samples->stack_count, 5);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t stack = c.trace->stuck[i].stack;

		assert_true(stack < samples->stack_count);
		assert_int_equal(samples->frames[samples->stacks[stack].first], checks[i][0]);
	}
	assert_int_equal(samples->frames[samples->stacks[row_at(&c, 0)->stack].first], 0xb1);
	assert_int_equal(samples->frames[samples->stacks[row_at(&c, 1)->stack].first], 0xb2);
	case_finish(&c);
}

/* A stack through code at 0x1000, which is unmapped twice, and one beside it. */
static void samples__distinguish_equal_stacks_through_other_code(void **state)
{
	const struct ky_samples *samples;
	struct read_case c;
	uint32_t through, beside;

	(void)state;
	case_begin(&c);
	through = CASE_STACK(&c, 0x1010, 0x2000);
	beside = CASE_STACK(&c, 0x2010, 0x2000);
	for (uint64_t i = 0; i < 3; i++) {
		case_module(&c, 1000 * (i + 1), 0x1000, 0x1100, 1000 * i, 1000 * (i + 1) - 1);
		case_module(&c, 1000 * (i + 1), 0x1000, 0x1100, 1000 * i, 1000 * (i + 1) - 1);
		case_cpu(&c, 1000 * (i + 1) + 1, 0, 11, through, 5, 0, 0);
		case_cpu(&c, 1000 * (i + 1) + 2, 0, 11, beside, 5, 0, 0);
		case_cpu(&c, 1000 * (i + 1) + 3, 0, 11, through, 5, 0, 0);
	}
	case_open(&c);
	samples = &c.trace->samples;
	assert_int_equal(samples->stack_count, 4);
	for (uint32_t i = 0; i < 9; i += 3) {
		assert_int_equal(row_at(&c, i)->stack, row_at(&c, i + 2)->stack);
		assert_int_equal(row_at(&c, i + 1)->stack, row_at(&c, 1)->stack);
		assert_int_equal(samples->stacks[row_at(&c, i)->stack].first_ns,
				 row_at(&c, i)->time_ns);
	}
	assert_int_not_equal(row_at(&c, 0)->stack, row_at(&c, 3)->stack);
	assert_int_not_equal(row_at(&c, 3)->stack, row_at(&c, 6)->stack);
	case_finish(&c);
}

static void samples__cut_an_impossible_stack(void **state)
{
	static uint64_t frames[KY_STACK_FRAMES_MAX + 100];
	struct read_case c;

	(void)state;
	for (uint64_t i = 0; i < KY_STACK_FRAMES_MAX + 100; i++)
		frames[i] = i + 1;
	case_begin(&c);
	case_off_cpu(&c, 2000, 500, 0, 0, 2, 202, frames, KY_STACK_FRAMES_MAX + 100);
	case_off_cpu(&c, 3000, 5000, 0, 0, 2, 202, frames, 0);
	case_open(&c);
	assert_int_equal(row_at(&c, 1)->time_ns, 1500);
	assert_int_equal(row_at(&c, 1)->syscall, 202);
	assert_true(row_at(&c, 1)->flags & KY_ROW_TRUNCATED);
	assert_int_equal(c.trace->samples.stacks[row_at(&c, 1)->stack].count, KY_STACK_FRAMES_MAX);
	assert_int_equal(row_at(&c, 0)->time_ns, 0); /* it began before the clock did */
	assert_int_equal(row_at(&c, 0)->stack, KY_NONE);
	case_finish(&c);
}

/* The kernel's records and the calls themselves speak of the same time. */
static void samples__do_not_count_a_time_twice(void **state)
{
	const uint64_t ms = 1000000;
	struct read_case c;

	(void)state;
	case_begin(&c);
	/* A call, and what the kernel says of it; another thread's is another time. */
	case_off_cpu_by(&c, 110 * ms, 5 * ms, 11, 0, 0, 1, 1.0, KY_OFF_CPU_BY_CALL);
	case_off_cpu_by(&c, 110 * ms - 1000, 5 * ms - 3000, 11, 0, 0, 1, 4.0,
			KY_OFF_CPU_BY_SWITCHES);
	case_off_cpu_by(&c, 110 * ms - 1000, 5 * ms - 3000, 12, 0, 0, 1, 4.0,
			KY_OFF_CPU_BY_SWITCHES);
	/* After the call: preempted, and blocked where no call was recorded. */
	case_off_cpu_by(&c, 113 * ms, 2 * ms, 11, 0, 0, 4, 4.0, KY_OFF_CPU_BY_SWITCHES);
	case_off_cpu_by(&c, 116 * ms, 2 * ms, 11, 0, 0, 1, 4.0, KY_OFF_CPU_BY_SWITCHES);
	/* Beyond the budget calls stand for others like them, which the kernel may report. */
	case_off_cpu_by(&c, 120 * ms, ms, 11, 0, 0, 1, 10.0, KY_OFF_CPU_BY_CALL);
	case_off_cpu_by(&c, 125 * ms, 2 * ms, 11, 0, 0, 1, 4.0, KY_OFF_CPU_BY_SWITCHES);
	case_off_cpu_by(&c, 126 * ms, ms / 2, 11, 0, 0, 3, 4.0, KY_OFF_CPU_BY_SWITCHES);
	case_off_cpu_by(&c, 146 * ms, 11 * ms, 11, 0, 0, 1, 4.0, KY_OFF_CPU_BY_SWITCHES);
	case_open(&c);
	assert_int_equal(c.trace->samples.counts[KY_STACK_OFF_CPU], 7);
	assert_int_equal(row_at(&c, 0)->sampler, KY_OFF_CPU_BY_CALL);
	assert_int_equal(row_at(&c, 1)->tid, 12);
	assert_int_equal(row_at(&c, 2)->reason, 4);
	assert_int_equal(row_at(&c, 3)->end_ns, 116 * ms);
	assert_int_equal(row_at(&c, 4)->sampler, KY_OFF_CPU_BY_CALL);
	assert_int_equal(row_at(&c, 5)->reason, 3);
	assert_int_equal(row_at(&c, 6)->value, 11 * ms);
	case_finish(&c);
}

static void check_runnable(const struct ky_stack_row *row, uint64_t least, uint64_t most)
{
	assert_int_equal(row->runnable_min_ns, least);
	assert_int_equal(row->runnable_max_ns, most);
}

/* A call blocked for 6 of its 10 ms, as the kernel's records say; it was ready for 1 to 2 of them,
 * and of 2.5 ms nothing is known. */
static void samples__call_is_split_by_the_kernels_records(void **state)
{
	const uint64_t ms = 1000000;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_off_cpu_by(&c, 110 * ms, 10 * ms, 11, 0, 0, 1, 1.0, KY_OFF_CPU_BY_CALL);
	case_off_cpu_split(&c, 106 * ms, 5 * ms, 11, 1, KY_OFF_CPU_BY_SWITCHES, 0, 0);
	case_off_cpu_split(&c, 109 * ms, 3 * ms, 11, 1, KY_OFF_CPU_BY_SWITCHES, ms, 2 * ms);
	case_off_cpu_split(&c, 112 * ms, ms, 11, 1, KY_OFF_CPU_BY_SWITCHES, 0, ms / 2);
	/* Nothing is known; it was preempted, whatever else is said; nonsense. */
	case_off_cpu_by(&c, 113 * ms, ms, 12, 0, 0, 1, 1.0, KY_OFF_CPU_BY_SWITCHES);
	case_off_cpu_by(&c, 115 * ms, ms, 12, 0, 0, 4, 1.0, KY_OFF_CPU_BY_SWITCHES);
	case_off_cpu_split(&c, 117 * ms, ms, 12, 1, KY_OFF_CPU_BY_SWITCHES, UINT64_MAX, 0);
	case_open(&c);
	assert_int_equal(c.trace->samples.counts[KY_STACK_OFF_CPU], 5);
	check_runnable(row_at(&c, 0), ms, 4 * ms);
	check_runnable(row_at(&c, 1), 0, ms / 2);
	check_runnable(row_at(&c, 2), 0, ms);
	check_runnable(row_at(&c, 3), ms, ms);
	check_runnable(row_at(&c, 4), ms, ms);
	case_finish(&c);
}

/* The last record inside a call is what it came back for. */
static void samples__call_has_the_waker_of_its_last_record(void **state)
{
	const uint64_t ms = 1000000;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_off_cpu_by(&c, 110 * ms, 10 * ms, 11, 0, 0, 1, 1.0, KY_OFF_CPU_BY_CALL);
	case_off_cpu_woken(&c, 104 * ms, 3 * ms, 11, 1, 51, 40, "other");
	case_off_cpu_woken(&c, 109 * ms, 3 * ms, 11, 1, 50, 40, "worker");
	case_off_cpu_woken(&c, 113 * ms, 2 * ms, 11, 7, 50, 40, "worker"); /* nonsense */
	case_open(&c);
	assert_int_equal(c.trace->samples.counts[KY_STACK_OFF_CPU], 2);
	assert_int_equal(row_at(&c, 0)->sampler, KY_OFF_CPU_BY_CALL);
	assert_int_equal(row_at(&c, 0)->woken_by, KY_ROW_WOKEN_BY_THREAD);
	assert_int_equal(row_at(&c, 0)->waker_tid, 50);
	assert_int_equal(row_at(&c, 0)->woken_ns, 109 * ms - 1000);
	assert_int_equal(row_at(&c, 0)->waker_task, KY_NONE);
	assert_int_equal(row_at(&c, 1)->woken_by, 0);
	case_finish(&c);
}

static void samples__belong_to_the_poll_that_was_open(void **state)
{
	struct read_case c;
	uint32_t stack;

	(void)state;
	case_begin(&c);
	stack = CASE_STACK(&c, 1);
	case_poll(&c, 1000, 2000, 3, 7);
	case_cpu(&c, 1500, 3, 11, stack, 5, 7, 1000);
	case_cpu(&c, 2500, 3, 11, stack, 5, 0, 0);
	case_open(&c);
	assert_int_equal(c.trace->workers[row_at(&c, 0)->worker].id, 3);
	assert_int_equal(c.trace->tasks[row_at(&c, 0)->task].id, 7);
	assert_int_equal(row_at(&c, 0)->poll_start_ns, 1000);
	assert_int_equal(row_at(&c, 0)->poll_ns, 1000);
	assert_string_equal(ky_trace_name(c.trace, row_at(&c, 0)->name), "svc::task");
	assert_int_equal(row_at(&c, 1)->task, KY_NONE);
	assert_int_equal(row_at(&c, 1)->poll_start_ns, 0);
	case_finish(&c);
}

/* dial9's schema: worker 255 and no task; the thread served two workers, one after the other. */
static void samples__find_worker_and_poll_by_thread_and_time(void **state)
{
	static const uint64_t at_ns[] = {1500, 2500, 4500, 6000};
	struct read_case c;
	uint32_t stack, i;

	(void)state;
	case_begin(&c);
	stack = CASE_STACK(&c, 1);
	case_poll(&c, 1000, 2000, 0, 7);
	case_park(&c, 2100, 0, 50);
	case_unpark(&c, 3000, 0, 51); /* another thread took the worker over */
	case_park(&c, 3100, 0, 51);
	case_unpark(&c, 4000, 1, 50);
	case_park(&c, 4100, 1, 50);
	case_poll(&c, 4400, 5000, 1, 8);
	case_park(&c, 9000, 1, 50);
	for (i = 0; i < 4; i++) {
		CASE_EVENT(&c, 900, "CpuSampleEvent", at_ns[i], CASE_FIELD("worker_id", VARINT),
			   CASE_FIELD("tid", U32), CASE_FIELD("source", U8),
			   CASE_FIELD("callchain", POOLED_STACK));
		ky_trc_enc_varint(&c.enc, 255);
		ky_trc_enc_u32(&c.enc, 50);
		ky_trc_enc_u8(&c.enc, i == 3);
		ky_trc_enc_u32(&c.enc, stack);
	}
	case_open(&c);
	assert_int_equal(c.trace->workers[row_at(&c, 0)->worker].id, 0);
	assert_int_equal(c.trace->tasks[row_at(&c, 0)->task].id, 7);
	assert_int_equal(row_at(&c, 0)->poll_start_ns, 1000);
	assert_int_equal(row_at(&c, 1)->task, KY_NONE);
	assert_int_equal(c.trace->workers[row_at(&c, 2)->worker].id, 1);
	assert_int_equal(c.trace->tasks[row_at(&c, 2)->task].id, 8);
	assert_int_equal(row_at(&c, 3)->kind, KY_STACK_SWITCH);
	assert_int_equal(row_at(&c, 3)->task, KY_NONE);
	case_finish(&c);
}

static void samples__measure_how_long_a_task_waited_at_a_place(void **state)
{
	struct read_case c;
	uint32_t stack;

	(void)state;
	case_begin(&c);
	stack = CASE_STACK(&c, 1);
	case_poll(&c, 1000, 1100, 0, 7);
	case_place(&c, 1090, 7, stack, 0.25);
	case_poll(&c, 5090, 5100, 0, 7);
	case_place(&c, 5095, 7, stack, 1.0);
	case_place(&c, 5095, 7, stack, 1.0); /* of a select: it waits for both */
	case_place(&c, 5096, 9, stack, 2.0); /* no chance is above 1 */
	case_poll(&c, 9000, 9096, 0, 8);
	case_open(&c);
	assert_int_equal(row_at(&c, 0)->value, 4000);
	assert_true(row_at(&c, 0)->weight > 3.99 && row_at(&c, 0)->weight < 4.01);
	assert_int_equal(row_at(&c, 0)->flags & KY_ROW_WAITS, 0);
	assert_int_equal(row_at(&c, 1)->value, 4001);
	assert_true(row_at(&c, 1)->flags & KY_ROW_WAITS);
	assert_int_equal(row_at(&c, 2)->value, 4001);
	assert_true(row_at(&c, 2)->flags & KY_ROW_WAITS);
	assert_true(row_at(&c, 3)->flags & KY_ROW_UNWEIGHTED);
	case_finish(&c);
}

static void samples__do_not_believe_a_wait_across_a_loss(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1100, 0, 7);
	case_place(&c, 1090, 7, CASE_STACK(&c, 1), 1.0);
	case_loss(&c, 0, 2000, 3000);
	case_poll(&c, 5090, 5100, 0, 7);
	case_open(&c);
	assert_true(row_at(&c, 0)->flags & KY_ROW_END_UNSAFE);
	assert_int_equal(row_at(&c, 0)->value, 0);
	case_finish(&c);
}

static void samples__match_frees_with_what_they_free(void **state)
{
	struct read_case c;
	uint32_t stack;

	(void)state;
	case_begin(&c);
	stack = CASE_STACK(&c, 1);
	case_alloc(&c, 1000, 64, 0x10, stack, 8.0);
	case_alloc(&c, 1100, 64, 0x20, stack, 8.0);
	case_free(&c, 1200, 64, 0x10);
	case_free(&c, 1250, 64, 0x10);
	case_alloc(&c, 1300, 64, 0x20, stack, 8.0); /* given out again */
	case_lost_samples(&c, 1400, 5, "memory-samples");
	case_open(&c);
	assert_int_equal(c.trace->samples.row_count, 3);
	assert_int_equal(row_at(&c, 0)->end_ns, 1200);
	assert_int_equal(row_at(&c, 1)->end_ns, 1300);
	assert_true(row_at(&c, 1)->flags & KY_ROW_FREED);
	assert_false(row_at(&c, 2)->flags & KY_ROW_FREED);
	assert_int_equal(c.trace->samples.frees_unmatched, 1);
	assert_int_equal(c.trace->samples.lost[KY_STACK_ALLOC], 5);
	assert_int_equal(c.trace->samples.lost[KY_STACK_CPU], 0);
	case_finish(&c);
}

#define MS UINT64_C(1000000)

/* The list of the living at the end: what it has is known, however long ago it began, and where
 * samples were lost, what it has not was freed. */
static void list_live_allocations(uint64_t lost_count)
{
	struct read_case c;
	uint32_t stack;

	case_begin(&c);
	stack = CASE_STACK(&c, 1);
	case_alloc(&c, 1000 * MS, 64, 0x10, stack, 8.0); /* lives, and is listed */
	case_alloc(&c, 1100 * MS, 64, 0x20, stack, 8.0); /* its end is not recorded */
	case_alloc(&c, 1200 * MS, 64, 0x30, stack, 8.0);
	case_free(&c, 1300 * MS, 64, 0x30);
	if (lost_count)
		case_lost_samples(&c, 1400 * MS, lost_count, "memory-samples");
	case_live(&c, 2000 * MS, 1000 * MS + 7, 64, 0x10, stack);
	case_live(&c, 2000 * MS, 5 * MS, 32, 0x40, stack); /* from before the trace */
	case_open(&c);
	assert_int_equal(c.trace->samples.row_count, 4);
	assert_true(row_at(&c, 0)->time_ns == 5 * MS);
	assert_int_equal(row_at(&c, 0)->reason, KY_ALLOC_REPORTED_LIVE);
	assert_false(row_at(&c, 0)->flags & KY_ROW_FREED);
	assert_true(row_at(&c, 1)->time_ns == 1000 * MS);
	assert_int_equal(row_at(&c, 1)->reason, 0);
	assert_false(row_at(&c, 1)->flags & KY_ROW_FREED);
	assert_true(row_at(&c, 1)->end_ns == 0);
	if (lost_count)
		assert_true(row_at(&c, 2)->end_ns == 2000 * MS);
	assert_int_equal(row_at(&c, 2)->flags & KY_ROW_FREED, lost_count ? KY_ROW_FREED : 0);
	assert_true(row_at(&c, 3)->end_ns == 1300 * MS);
	case_finish(&c);
}

static void samples__have_what_is_live_at_the_end(void **state)
{
	(void)state;
	list_live_allocations(0);
	list_live_allocations(3);
}

static void samples__stop_at_the_limit_of_memory(void **state)
{
	struct ky_trace_options options = {.memory_bytes_max = 3u << 20};
	uint64_t frames[64] = {0};
	struct read_case c;

	(void)state;
	case_begin(&c);
	for (frames[0] = 1; frames[0] < 20000; frames[0]++)
		case_off_cpu(&c, frames[0], 1, 0, 0, 1, 0, frames, 64);
	assert_int_equal(case_try_open(&c, c.buf.used, &options), KYMO_E_LIMIT);
	case_finish(&c);
}

static void samples__survive_each_failing_allocation(void **state)
{
	struct read_case c;
	int result = -ENOMEM;
	uint64_t n;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 1900, 0, 1);
	case_cpu(&c, 1500, 0, 11, CASE_STACK(&c, 1), 5, 1, 1000);
	case_place(&c, 1600, 1, CASE_STACK(&c, 2), 1.0);
	case_alloc(&c, 1700, 64, 0x10, CASE_STACK(&c, 3), 8.0);
	for (n = 0; result != 0; n++) {
		test_alloc_fail_at(n);
		result = case_try_open(&c, c.buf.used, NULL);
		test_alloc_normal();
		assert_true(result == 0 || result == -ENOMEM);
		case_shut(&c);
	}
	assert_true(n > 20);
	case_finish(&c);
}

/* dial9 0.5.7's demo: every sample says worker 255. */
static void samples__of_dial9_find_their_polls(void **state)
{
	uint32_t i, in_polls = 0, with_worker = 0;
	struct ky_byte_source source;
	struct ky_trace *trace;
	uint8_t *bytes;
	size_t count;

	(void)state;
	bytes = dial9_bytes(DIAL9_057, &count);
	if (!bytes)
		skip();
	assert_int_equal(ky_byte_source_memory(&source, bytes, count, "dial9"), 0);
	assert_int_equal(ky_trace_open(&trace, &source, 1, NULL), 0);
	for (i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];

		with_worker += row->kind == KY_STACK_CPU && row->worker != KY_NONE;
		in_polls += row->poll_start_ns != 0;
		assert_true(row->poll_start_ns <= row->time_ns);
		assert_true(row->poll_ns == 0 || row->time_ns - row->poll_start_ns <= row->poll_ns);
	}
	assert_int_equal(trace->samples.counts[KY_STACK_CPU], 141);
	assert_int_equal(with_worker, 132); /* the others' thread serves none */
	assert_int_equal(trace->samples.counts[KY_STACK_SWITCH], 7720);
	assert_true(in_polls > 100);
	assert_true(trace->samples.stack_count < trace->samples.row_count);
	ky_trace_close(trace);
	source.close(source.ctx);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples__keep_a_stack_once),
		cmocka_unit_test(samples__leave_checks_of_stuck_threads_their_stacks),
		cmocka_unit_test(samples__distinguish_equal_stacks_through_other_code),
		cmocka_unit_test(samples__cut_an_impossible_stack),
		cmocka_unit_test(samples__do_not_count_a_time_twice),
		cmocka_unit_test(samples__call_is_split_by_the_kernels_records),
		cmocka_unit_test(samples__call_has_the_waker_of_its_last_record),
		cmocka_unit_test(samples__belong_to_the_poll_that_was_open),
		cmocka_unit_test(samples__find_worker_and_poll_by_thread_and_time),
		cmocka_unit_test(samples__measure_how_long_a_task_waited_at_a_place),
		cmocka_unit_test(samples__do_not_believe_a_wait_across_a_loss),
		cmocka_unit_test(samples__match_frees_with_what_they_free),
		cmocka_unit_test(samples__have_what_is_live_at_the_end),
		cmocka_unit_test(samples__stop_at_the_limit_of_memory),
		cmocka_unit_test(samples__survive_each_failing_allocation),
		cmocka_unit_test(samples__of_dial9_find_their_polls),
	};

	return cmocka_run_group_tests_name("samples", tests, NULL, NULL);
}
