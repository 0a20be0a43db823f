/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The last stacks of a recovered process: which event counts for which poll, as text and JSON. */
#include "../../lib/cmocka_all.h"

#include <base/alloc.h>
#include <base/byte_source.h>
#include <read/symbol_table.h>
#include <report/end_stacks.h>
#include <wire/trc_enc.h>

#define T0 UINT64_C(5000000000)
#define MS UINT64_C(1000000)

struct end_case {
	struct ky_buf bytes, out;
	struct ky_trc_enc enc;
	struct ky_end_stacks end;
};

/* Poll of task 7 on thread 501, from T0 + 1 ms on; the ring's newest record is of T0 + 9 ms. */
static struct end_case *begin(void)
{
	struct end_case *c = ky_alloc(sizeof(*c));

	assert_non_null(c);
	ky_buf_init(&c->bytes, 0);
	ky_buf_init(&c->out, 0);
	assert_int_equal(ky_trc_enc_init(&c->enc, &c->bytes), 0);
	ky_trc_enc_begin(&c->enc);
	c->end.newest_ns = T0 + 9 * MS;
	c->end.polls[c->end.poll_count++] = (struct ky_end_poll){
		.task = 7, .start_ns = T0 + MS, .tid = 501};
	return c;
}

static void put_stuck(struct end_case *c, uint64_t ns, uint32_t tid, uint64_t pc)
{
	uint32_t wchan_id = ky_trc_enc_string(&c->enc, 0, "", 0);

	ky_trc_enc_event(&c->enc, KY_EV_STUCK_THREAD, ns);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 7);
	ky_trc_enc_varint(&c->enc, T0 + MS);
	ky_trc_enc_u8(&c->enc, 'R');
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_u8(&c->enc, 1);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_u32(&c->enc, wchan_id);
	ky_trc_enc_frames(&c->enc, &pc, pc != 0);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
}

static void put_crash(struct end_case *c)
{
	ky_trc_enc_event(&c->enc, KY_EV_CRASH, T0 + 9 * MS);
	ky_trc_enc_u32(&c->enc, 11);
	ky_trc_enc_i64(&c->enc, -6);
	ky_trc_enc_varint(&c->enc, 0xdead);
	ky_trc_enc_u32(&c->enc, 501);
	for (int i = 0; i < 4; i++)
		ky_trc_enc_varint(&c->enc, 0x1000);
	ky_trc_enc_frames(&c->enc, NULL, 0);
	ky_trc_enc_bytes(&c->enc, "", 0);
}

/* What is printed once every event was seen; addresses have no names. */
static const char *print(struct end_case *c, bool is_json)
{
	struct ky_event_stream_options options = {.is_stored_order = true};
	struct ky_code_names names = {.table = NULL};
	struct ky_event_stream *stream;
	const struct ky_event *event;
	struct ky_byte_source source;

	assert_int_equal(ky_byte_source_memory(&source, c->bytes.bytes, c->bytes.used, "memory"),
			 0);
	assert_int_equal(ky_event_stream_open(&stream, &source, 1, &options), 0);
	while (ky_event_stream_next(stream, &event) > 0)
		ky_end_stacks_event(&c->end, event);
	ky_event_stream_close(stream);
	source.close(source.ctx);
	assert_int_equal(ky_symbol_table_open(&names.table, 0), 0);
	ky_end_stacks_put(&c->out, &c->end, &names, is_json);
	ky_symbol_table_close(names.table);
	ky_buf_append(&c->out, "", 1);
	return (const char *)c->out.bytes;
}

static void end(struct end_case *c)
{
	ky_trc_enc_release(&c->enc);
	ky_buf_release(&c->bytes);
	ky_buf_release(&c->out);
	ky_free(c);
}

static void end__trace_without_a_stack_adds_no_text(void **state)
{
	struct end_case *c = begin();

	(void)state;
	assert_string_equal(print(c, false), "");
	end(c);
}

static void end__json_has_its_members_without_anything(void **state)
{
	struct end_case *c = begin();

	(void)state;
	assert_string_equal(print(c, true), "\"crashes\":[],\"open_poll_stacks\":[]");
	end(c);
}

static void end__last_stack_inside_the_poll_counts(void **state)
{
	struct end_case *c = begin();

	(void)state;
	put_stuck(c, T0, 501, 0x1000);          /* before the poll */
	put_stuck(c, T0 + 2 * MS, 501, 0x2000); /* an earlier one */
	put_stuck(c, T0 + 5 * MS, 501, 0x3000);
	put_stuck(c, T0 + 6 * MS, 502, 0x4000); /* of another thread */
	put_stuck(c, T0 + 7 * MS, 501, 0);      /* without frames */
	assert_string_equal(print(c, false),
			    "  task 7 on thread 501, last seen stuck 4.00 ms before the end:\n"
			    "    in 0x3000\n");
	end(c);
}

static void end__crash_whose_stack_is_not_walked_has_its_pc(void **state)
{
	struct end_case *c = begin();

	(void)state;
	put_crash(c);
	assert_string_equal(print(c, false), "  signal 11 on thread 501:\n"
					     "    in 0x1000\n");
	end(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(end__trace_without_a_stack_adds_no_text),
		cmocka_unit_test(end__json_has_its_members_without_anything),
		cmocka_unit_test(end__last_stack_inside_the_poll_counts),
		cmocka_unit_test(end__crash_whose_stack_is_not_walked_has_its_pc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
