/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../read/read_case.h"

#include <analyze/report.h>
#include <analyze/span_groups.h>
#include <base/alloc.h>

#define MS UINT64_C(1000000)

static void enter(struct read_case *c, uint64_t ns, uint64_t id, const char *name)
{
	uint32_t pool = case_text(c, name);

	ky_trc_enc_event(&c->enc, KY_EV_SPAN_ENTER, ns);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_varint(&c->enc, id);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_u32(&c->enc, pool);
}

static void leave(struct read_case *c, uint64_t ns, uint64_t id, const char *name,
		  uint64_t start_ns)
{
	uint32_t pool = case_text(c, name);

	ky_trc_enc_event(&c->enc, KY_EV_SPAN_EXIT, ns);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_varint(&c->enc, id);
	ky_trc_enc_u32(&c->enc, pool);
	ky_trc_enc_varint(&c->enc, start_ns);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
}

static void open_at_end(struct read_case *c, uint64_t ns, uint64_t id, const char *name,
			uint64_t start_ns)
{
	uint32_t pool = case_text(c, name);

	ky_trc_enc_event(&c->enc, KY_EV_OPEN_SPAN, ns);
	ky_trc_enc_varint(&c->enc, id);
	ky_trc_enc_u32(&c->enc, pool);
	ky_trc_enc_varint(&c->enc, start_ns);
	ky_trc_enc_u8(&c->enc, 0);
}

static uint32_t groups_of(struct read_case *c, uint64_t from_ns, uint64_t to_ns,
			  struct ky_span_group **out)
{
	uint32_t count;

	assert_int_equal(ky_span_groups(c->trace, from_ns, to_ns, out, &count), 0);
	return count;
}

static void spans__are_counted_by_name_with_those_that_stay_open(void **state)
{
	struct ky_span_group *groups;
	struct read_case c;

	(void)state;
	case_begin(&c);
	for (uint64_t i = 1; i <= 100; i++) {
		enter(&c, 1000 * MS + i * MS, i, "get");
		leave(&c, 1000 * MS + i * MS + i * 1000, i, "get", 1000 * MS + i * MS);
	}
	enter(&c, 1200 * MS, 200, "put");
	leave(&c, 1250 * MS, 200, "put", 1200 * MS);
	enter(&c, 1260 * MS, 201, "put");              /* never ends */
	leave(&c, 1270 * MS, 5000, "early", 100 * MS); /* began before the trace */
	open_at_end(&c, 1300 * MS, 201, "put", 1260 * MS);
	open_at_end(&c, 1300 * MS, 6000, "old", 50 * MS);
	case_open(&c);
	assert_int_equal(c.trace->span_count, 104);
	assert_int_equal(groups_of(&c, 0, 0, &groups), 4);
	assert_string_equal(ky_trace_name(c.trace, groups[0].name), "early");
	assert_int_equal(groups[0].lengths.max, 1170 * MS);
	assert_string_equal(ky_trace_name(c.trace, groups[1].name), "put");
	assert_int_equal(groups[1].lengths.count, 1);
	assert_int_equal(groups[1].open_count, 1);
	assert_string_equal(ky_trace_name(c.trace, groups[2].name), "get");
	assert_int_equal(groups[2].lengths.count, 100);
	assert_int_equal(groups[2].lengths.max, 100000);
	assert_in_range(groups[2].lengths.p50, 50000, 50400);
	assert_int_equal(groups[2].open_count, 0);
	assert_string_equal(ky_trace_name(c.trace, groups[3].name), "old");
	assert_int_equal(groups[3].lengths.count, 0);
	assert_int_equal(groups[3].open_count, 1);
	ky_free(groups);
	/* By where they begin. */
	assert_int_equal(groups_of(&c, 1051 * MS, 1061 * MS, &groups), 1);
	assert_int_equal(groups[0].lengths.count, 10);
	ky_free(groups);
	case_finish(&c);
}

static void spans__are_in_the_report_only_where_there_are_any(void **state)
{
	struct ky_report *report;
	struct read_case c;
	struct ky_buf json;

	(void)state;
	for (int has_spans = 0; has_spans < 2; has_spans++) {
		case_begin(&c);
		case_start(&c, 1000 * MS, 1, 7, "svc::task");
		if (has_spans)
			leave(&c, 1001 * MS, 1, "get", 999 * MS);
		case_end(&c, 1002 * MS, 1);
		case_open(&c);
		ky_buf_init(&json, 0);
		assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
		ky_report_json(&json, c.trace, report, NULL);
		assert_int_equal(ky_buf_append(&json, "", 1), 0);
		assert_int_equal(strstr((const char *)json.bytes, "\"spans\":[{\"name\":\"get\"") !=
					 NULL,
				 has_spans);
		ky_report_free(report);
		ky_buf_release(&json);
		case_finish(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spans__are_counted_by_name_with_those_that_stay_open),
		cmocka_unit_test(spans__are_in_the_report_only_where_there_are_any),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("span_groups", tests, NULL, NULL);
}
