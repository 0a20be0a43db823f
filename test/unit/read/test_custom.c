/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Events of the program by field, counters, annotations, and lists that are full. */
#include "read_case.h"

#include <read/custom.h>
#include <read/labels.h>
#include <read/left_out.h>

#define TYPE 900

static struct read_case c;

static int setup(void **state)
{
	(void)state;
	case_begin(&c);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	case_finish(&c);
	return 0;
}

static const struct ky_trc_field_def fields[] = {
	{"price", 5, KY_TYPE_VARINT},   {"change", 6, KY_TYPE_I64},
	{"rate", 4, KY_TYPE_F64},       {"done", 4, KY_TYPE_BOOL},
	{"who", 3, KY_TYPE_STRING},     {"note", 4, KY_TYPE_OPTIONAL | KY_TYPE_STRING},
	{"tags", 4, KY_TYPE_STRING_MAP}};

static void put_schema(uint16_t type, const char *name, uint32_t count)
{
	ky_trc_enc_schema(&c.enc, type, name, strlen(name), true, fields, count);
}

static void put_event(uint64_t ns, uint64_t price, const char *note)
{
	ky_trc_enc_raw_event(&c.enc, TYPE, true, ns);
	ky_trc_enc_varint(&c.enc, price);
	ky_trc_enc_i64(&c.enc, -7);
	ky_trc_enc_f64(&c.enc, 0.5);
	ky_trc_enc_u8(&c.enc, 1);
	ky_trc_enc_text(&c.enc, "ann", 3);
	ky_trc_enc_u8(&c.enc, note != NULL);
	if (note)
		ky_trc_enc_text(&c.enc, note, strlen(note));
	ky_trc_enc_count(&c.enc, 0);
}

static struct ky_custom_value value_of(uint32_t row, uint32_t field)
{
	struct ky_custom_value value;

	ky_custom_value(c.trace, &c.trace->custom_rows[row], field, &value);
	return value;
}

static void values__have_their_type_and_stand_by_time(void **state)
{
	(void)state;
	put_schema(TYPE, "Order", 7);
	put_event(2000, 12, "late");
	put_event(1000, UINT64_MAX, NULL);
	assert_int_equal(case_try_open(&c, c.buf.used, NULL), 0);
	assert_int_equal(c.trace->custom_type_count, 1);
	assert_int_equal(c.trace->custom_types[0].count, 2);
	assert_int_equal(c.trace->custom_types[0].first_ns, 1000);
	assert_int_equal(c.trace->custom_types[0].last_ns, 2000);
	assert_string_equal(ky_trace_name(c.trace, c.trace->custom_types[0].name), "Order");
	assert_int_equal(c.trace->custom_rows[0].time_ns, 1000);
	assert_true(value_of(0, 0).as.number == UINT64_MAX);
	assert_int_equal(value_of(0, 0).kind, KY_CUSTOM_NUMBER);
	assert_int_equal(value_of(1, 0).as.number, 12);
	assert_int_equal(value_of(1, 1).kind, KY_CUSTOM_SIGNED);
	assert_int_equal(value_of(1, 1).as.i64, -7);
	assert_int_equal(value_of(1, 2).kind, KY_CUSTOM_REAL);
	assert_true(value_of(1, 2).as.f64 == 0.5);
	assert_int_equal(value_of(1, 3).kind, KY_CUSTOM_FLAG);
	assert_string_equal(ky_trace_name(c.trace, value_of(1, 4).text), "ann");
	assert_int_equal(value_of(0, 5).kind, KY_CUSTOM_ABSENT);
	assert_string_equal(ky_trace_name(c.trace, value_of(1, 5).text), "late");
	assert_int_equal(value_of(1, 6).kind, KY_CUSTOM_TEXT);
	assert_string_equal(ky_trace_name(c.trace, value_of(1, 6).text), "{}");
	assert_int_equal(value_of(1, 7).kind, KY_CUSTOM_ABSENT);
	assert_int_equal(c.trace->left_out_count, 0);
}

static void a_name_with_other_fields__is_another_type(void **state)
{
	(void)state;
	put_schema(TYPE, "Order", 1);
	ky_trc_enc_raw_event(&c.enc, TYPE, true, 1000);
	ky_trc_enc_varint(&c.enc, 1);
	put_schema(TYPE + 1, "Order", 2);
	ky_trc_enc_raw_event(&c.enc, TYPE + 1, true, 2000);
	ky_trc_enc_varint(&c.enc, 2);
	ky_trc_enc_i64(&c.enc, 3);
	/* The same again in another stream. */
	ky_trc_enc_begin(&c.enc);
	put_schema(TYPE + 7, "Order", 1);
	ky_trc_enc_raw_event(&c.enc, TYPE + 7, true, 3000);
	ky_trc_enc_varint(&c.enc, 4);
	assert_int_equal(case_try_open(&c, c.buf.used, NULL), 0);
	assert_int_equal(c.trace->custom_type_count, 2);
	assert_int_equal(c.trace->custom_types[0].count, 2);
	assert_int_equal(c.trace->custom_types[1].count, 1);
	assert_int_equal(value_of(2, 0).as.number, 4);
}

static void known_events__are_not_the_programs(void **state)
{
	(void)state;
	case_poll(&c, 1000, 2000, 0, 7);
	assert_int_equal(case_try_open(&c, c.buf.used, NULL), 0);
	assert_int_equal(c.trace->custom_type_count, 0);
}

static void texts__end_at_a_limit_and_are_counted(void **state)
{
	char text[3000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	put_schema(TYPE, "Order", 7);
	put_event(1000, 1, text);
	assert_int_equal(case_try_open(&c, c.buf.used, NULL), 0);
	assert_int_equal(strlen(ky_trace_name(c.trace, value_of(0, 5).text)), 1024);
	assert_int_equal(c.trace->left_out_count, 1);
	assert_int_equal(c.trace->left_outs[0].kind, KY_LEFT_CUSTOM_TEXTS);
	assert_int_equal(c.trace->left_outs[0].count, 1);
}

static void put_counter(uint64_t ns, const char *name, int64_t value)
{
	uint32_t text = case_text(&c, name);

	ky_trc_enc_event(&c.enc, KY_EV_COUNTER, ns);
	ky_trc_enc_u32(&c.enc, text);
	ky_trc_enc_i64(&c.enc, value);
}

static void put_annotation(uint64_t ns, uint32_t tid, const char *label)
{
	uint32_t text = case_text(&c, label);

	ky_trc_enc_event(&c.enc, KY_EV_ANNOTATION, ns);
	ky_trc_enc_u32(&c.enc, tid);
	ky_trc_enc_u32(&c.enc, text);
}

static void counters_and_annotations__stand_by_time(void **state)
{
	(void)state;
	put_counter(2000, "depth", -5);
	put_counter(1000, "depth", INT64_MIN);
	put_annotation(3000, 11, "deployed");
	put_annotation(500, 0, "started");
	assert_int_equal(case_try_open(&c, c.buf.used, NULL), 0);
	assert_int_equal(c.trace->counter_count, 2);
	assert_true(c.trace->counters[0].value == INT64_MIN);
	assert_int_equal(c.trace->counters[1].value, -5);
	assert_string_equal(ky_trace_name(c.trace, c.trace->counters[1].name), "depth");
	assert_int_equal(c.trace->annotation_count, 2);
	assert_string_equal(ky_trace_name(c.trace, c.trace->annotations[0].label), "started");
	assert_int_equal(c.trace->annotations[1].tid, 11);
}

static void put_span(uint64_t ns, uint64_t id, bool is_enter)
{
	uint32_t name = case_text(&c, "work");

	ky_trc_enc_event(&c.enc, is_enter ? KY_EV_SPAN_ENTER : KY_EV_SPAN_EXIT, ns);
	ky_trc_enc_opt_varint(&c.enc, false, 0);
	ky_trc_enc_varint(&c.enc, id);
	if (is_enter)
		ky_trc_enc_opt_varint(&c.enc, false, 0);
	ky_trc_enc_u32(&c.enc, name);
	if (!is_enter) {
		ky_trc_enc_varint(&c.enc, 0);
		ky_trc_enc_opt_varint(&c.enc, false, 0);
	}
}

static void lists_that_are_full__say_what_they_lack(void **state)
{
	static const uint64_t counts[KY_LEFT_KINDS] = {[KY_LEFT_SPAN_EVENTS] = 4,
						       [KY_LEFT_CUSTOM_EVENTS] = 1,
						       [KY_LEFT_COUNTERS] = 2,
						       [KY_LEFT_ANNOTATIONS] = 1};
	struct ky_trace_options options = {.list_rows_max = 2};
	uint32_t at = 0;

	(void)state;
	put_schema(TYPE, "Order", 7);
	for (uint64_t i = 1; i <= 3; i++) {
		put_event(i * 1000, i, NULL);
		put_annotation(i * 1000, 0, "x");
		put_span(i * 1000, i, true);
		put_span(i * 1000 + 500, i, false);
	}
	for (uint64_t i = 1; i <= 4; i++)
		put_counter(i * 1000, "depth", 1);
	assert_int_equal(case_try_open(&c, c.buf.used, &options), 0);
	assert_int_equal(c.trace->custom_row_count, 2);
	assert_int_equal(c.trace->custom_types[0].count, 3);
	assert_int_equal(c.trace->custom_types[0].left_out, 1);
	assert_int_equal(c.trace->counter_count, 2);
	assert_int_equal(c.trace->annotation_count, 2);
	assert_int_equal(c.trace->span_count, 1);
	for (uint32_t kind = 0; kind < KY_LEFT_KINDS; kind++) {
		if (!counts[kind])
			continue;
		assert_int_equal(c.trace->left_outs[at].kind, kind);
		assert_int_equal(c.trace->left_outs[at].count, counts[kind]);
		at++;
	}
	assert_int_equal(c.trace->left_out_count, at);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(values__have_their_type_and_stand_by_time),
		CASE(a_name_with_other_fields__is_another_type),
		CASE(known_events__are_not_the_programs),
		CASE(texts__end_at_a_limit_and_are_counted),
		CASE(counters_and_annotations__stand_by_time),
		CASE(lists_that_are_full__say_what_they_lack),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
