/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Files of several processes read as one trace: what is measured from one into the other is
 * nothing. */
#include "read_case.h"

#define FILES_MAX 4u

struct files {
	struct read_case files[FILES_MAX];
	struct ky_byte_source sources[FILES_MAX];
	uint32_t count;
	struct ky_trace *trace;
};

static struct files all;

static void of_process(struct read_case *c, uint64_t ns, const char *pid)
{
	ky_trc_enc_event(&c->enc, KY_EV_SEGMENT_METADATA, ns);
	ky_trc_enc_count(&c->enc, 1);
	ky_trc_enc_text(&c->enc, "pid", 3);
	ky_trc_enc_text(&c->enc, pid, strlen(pid));
}

/* A file of this process, "" for one that does not say. */
static struct read_case *add_file(uint64_t ns, const char *pid)
{
	struct read_case *c = &all.files[all.count++];

	case_begin(c);
	if (pid[0])
		of_process(c, ns, pid);
	return c;
}

static void open_all(void)
{
	for (uint32_t i = 0; i < all.count; i++) {
		struct read_case *c = &all.files[i];

		assert_int_equal(
			ky_byte_source_memory(&all.sources[i], c->buf.bytes, c->buf.used, "f"), 0);
	}
	assert_int_equal(ky_trace_open(&all.trace, all.sources, all.count, NULL), 0);
}

static void close_all(void)
{
	ky_trace_close(all.trace);
	for (uint32_t i = 0; i < all.count; i++) {
		all.sources[i].close(all.sources[i].ctx);
		ky_trc_enc_release(&all.files[i].enc);
		ky_buf_release(&all.files[i].buf);
	}
	memset(&all, 0, sizeof(all));
}

static uint64_t delay_of(uint64_t worker, uint64_t row)
{
	struct ky_poll poll;

	ky_trace_poll(all.trace, ky_trace_worker(all.trace, worker), row, &poll);
	return poll.delay_state == KY_DELAY_WITHHELD ? UINT64_MAX : poll.delay_ns;
}

static void borders__no_wait_reaches_into_the_next_process(void **state)
{
	struct read_case *c;

	(void)state;
	c = add_file(1000, "11");
	case_wake(c, 1100, 0, 7, 255);
	case_poll(c, 1300, 1400, 0, 7);
	case_wake(c, 1500, 0, 7, 255);
	c = add_file(2000, "12");
	case_poll(c, 2100, 2200, 1, 7);
	case_wake(c, 2300, 0, 7, 255);
	case_poll(c, 2400, 2500, 1, 7);
	open_all();
	assert_int_equal(delay_of(0, 0), 200);
	assert_true(delay_of(1, 0) == UINT64_MAX);
	assert_int_equal(delay_of(1, 1), 100);
	assert_int_equal(all.trace->delays_withheld, 1);
	close_all();
}

static void borders__segments_of_one_process_have_none(void **state)
{
	struct read_case *c;

	(void)state;
	c = add_file(3000, "12"); /* there is another process, later */
	case_poll(c, 3100, 3200, 0, 9);
	c = add_file(1000, "11");
	case_wake(c, 1500, 0, 7, 255);
	c = add_file(2000, "11");
	case_poll(c, 2100, 2200, 0, 7);
	open_all();
	assert_int_equal(delay_of(0, 0), 600);
	assert_int_equal(all.trace->delays_withheld, 0);
	close_all();
}

static void borders__where_two_overlap_no_wait_is_known(void **state)
{
	struct read_case *c;

	(void)state;
	c = add_file(1000, "11");
	case_wake(c, 1100, 0, 7, 255);
	case_poll(c, 1200, 1300, 0, 7);
	case_wake(c, 2500, 0, 8, 255); /* in the other's time */
	case_poll(c, 2600, 2700, 0, 8);
	case_wake(c, 4100, 0, 8, 255);
	case_poll(c, 4200, 4300, 0, 8);
	c = add_file(2000, "12");
	case_poll(c, 2100, 3000, 1, 5);
	open_all();
	assert_int_equal(delay_of(0, 0), 100);
	assert_true(delay_of(0, 1) == UINT64_MAX);
	assert_int_equal(delay_of(0, 2), 100);
	close_all();
}

static void borders__file_of_two_processes_gives_no_wait(void **state)
{
	struct read_case *c;

	(void)state;
	c = add_file(1000, "11");
	case_wake(c, 1100, 0, 7, 255);
	case_poll(c, 1200, 1300, 0, 7);
	of_process(c, 1400, "12");
	case_wake(c, 1500, 0, 7, 255);
	case_poll(c, 1600, 1700, 0, 7);
	open_all();
	assert_int_equal(all.trace->delays_withheld, 2);
	close_all();
}

static void borders__one_process_and_an_unnamed_file_have_none(void **state)
{
	struct read_case *c;

	(void)state;
	c = add_file(1000, "11");
	case_wake(c, 1100, 0, 7, 255);
	c = add_file(0, "");
	case_poll(c, 1300, 1400, 0, 7);
	open_all();
	assert_int_equal(delay_of(0, 0), 200);
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(borders__no_wait_reaches_into_the_next_process),
		cmocka_unit_test(borders__segments_of_one_process_have_none),
		cmocka_unit_test(borders__where_two_overlap_no_wait_is_known),
		cmocka_unit_test(borders__file_of_two_processes_gives_no_wait),
		cmocka_unit_test(borders__one_process_and_an_unnamed_file_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
