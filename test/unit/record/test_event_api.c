/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Types and events of the application in the ring. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <kymo/event.h>
#include <stdio.h>
#include <string.h>

static const struct kymo_custom_field fields[] = {
	{"id", KYMO_CUSTOM_U64, NULL},
	{"where", KYMO_CUSTOM_STRING | KYMO_CUSTOM_OPTIONAL, "unit"},
};

static void register__equal_types_have_equal_ids(void **state)
{
	struct test_recorder test;
	uint32_t first;

	(void)state;
	assert_int_equal(kymo_custom_register("Order", fields, 2), 0); /* nothing is open */
	test_recorder_open(&test, 0, 0);
	first = kymo_custom_register("Order", fields, 2);
	assert_int_not_equal(first, 0);
	assert_int_equal(kymo_custom_register("Order", fields, 2), first);
	assert_int_not_equal(kymo_custom_register("Order", fields, 1), first);
	assert_int_not_equal(kymo_custom_register("Other", fields, 2), first);
	assert_int_not_equal(kymo_custom_register("Empty", NULL, 0), 0);
	test_recorder_close(&test);
}

static void register__what_is_no_type_is_refused(void **state)
{
	struct kymo_custom_field bad = {"id", 5, NULL};
	struct test_recorder test;
	char longer[200];

	(void)state;
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	test_recorder_open(&test, 0, 0);
	assert_int_equal(kymo_custom_register("", fields, 2), 0);
	assert_int_equal(kymo_custom_register(NULL, fields, 2), 0);
	assert_int_equal(kymo_custom_register(longer, fields, 2), 0);
	assert_int_equal(kymo_custom_register("Order", fields, KYMO_CUSTOM_FIELDS_MAX + 1), 0);
	assert_int_equal(kymo_custom_register("Order", &bad, 1), 0);
	bad = (struct kymo_custom_field){NULL, KYMO_CUSTOM_U64, NULL};
	assert_int_equal(kymo_custom_register("Order", &bad, 1), 0);
	bad = (struct kymo_custom_field){longer, KYMO_CUSTOM_U64, NULL};
	assert_int_equal(kymo_custom_register("Order", &bad, 1), 0);
	bad = (struct kymo_custom_field){"id", KYMO_CUSTOM_U64, longer};
	assert_int_equal(kymo_custom_register("Order", &bad, 1), 0);
	test_recorder_close(&test);
}

static void write__values_are_words_of_one_record(void **state)
{
	struct kymo_custom event;
	struct test_recorder test;
	uint32_t type, n = 0;
	char text[600];

	(void)state;
	memset(text, 'y', sizeof(text));
	test_recorder_open(&test, 0, 0);
	type = kymo_custom_register("Order", fields, 2);
	kymo_custom_begin(&event, type);
	kymo_custom_u64(&event, 7);
	kymo_custom_is_present(&event, true);
	kymo_custom_string(&event, text, sizeof(text)); /* cut */
	assert_int_equal(event.count, 1 + 1 + 1 + 1 + KYMO_CUSTOM_STRING_BYTES_MAX / 8);
	kymo_custom_end(&event);
	kymo_custom_string(&event, text, sizeof(text)); /* does not fit any more */
	assert_true(event.is_too_long);
	kymo_custom_end(&event); /* its type alone */
	kymo_recorder_gates(0, KYMO_GATE_CUSTOM);
	kymo_custom_end(&event);
	test_recorder_read(&test);
	for (size_t i = 0; i < test.ring.count; i++) {
		const struct test_record *record = &test.ring.records[i];

		if (record->type != KYMO_RECORD_CUSTOM)
			continue;
		assert_int_equal(record->words[0], type);
		assert_int_equal(record->arg, n == 0 ? 4 + KYMO_CUSTOM_STRING_BYTES_MAX / 8 : 1);
		n++;
	}
	assert_int_equal(n, 2);
	test_recorder_close(&test);
}

#define PLACE(FIELD) FIELD(country, opt_string, "") FIELD(zip, opt_u64, "")
#define PARCEL(FIELD)                                                                              \
	FIELD(weight, f64, "kg")                                                                   \
	FIELD(items, list_u64, "")                                                                 \
	FIELD(prices, map_u64, "EUR")                                                              \
	PLACE(FIELD)
KYMO_EVENT(parcel, "Parcel", PARCEL)

static void macro__writes_the_fields_in_their_order(void **state)
{
	static const struct kymo_custom_field same[] = {
		{"weight", KYMO_CUSTOM_F64, "kg"},
		{"items", KYMO_CUSTOM_LIST, ""},
		{"prices", KYMO_CUSTOM_MAP, "EUR"},
		{"country", KYMO_CUSTOM_STRING | KYMO_CUSTOM_OPTIONAL, ""},
		{"zip", KYMO_CUSTOM_U64 | KYMO_CUSTOM_OPTIONAL, ""}};
	static const uint64_t numbers[] = {5, 6};
	static const char *const keys[] = {"box"};
	const struct parcel event = {0.5, {numbers, 2}, {keys, numbers, 1}, NULL, {true, 10115}};
	struct test_recorder test;

	(void)state;
	parcel_record(&event); /* nothing is open */
	for (uint32_t round = 0; round < 2; round++) {
		const struct test_record *record = NULL;
		uint32_t id;

		test_recorder_open(&test, 0, 0);
		if (round) /* what one recorder calls it is not what the next one does */
			(void)kymo_custom_register("Before", same, 5);
		parcel_record(&event);
		id = kymo_custom_register("Parcel", same, 5);
		test_recorder_read(&test);
		for (size_t i = 0; i < test.ring.count; i++)
			if (test.ring.records[i].type == KYMO_RECORD_CUSTOM)
				record = &test.ring.records[i];
		assert_non_null(record);
		assert_int_equal(record->words[0], id);
		assert_int_equal(record->words[1], UINT64_C(0x3fe) << 52);
		assert_int_equal(record->words[2], (uint64_t)KYMO_CUSTOM_U64 << 32 | 2);
		/* type, weight, list of 2, map of one text and number, absent, present */
		assert_int_equal(record->arg, 1 + 1 + 3 + (1 + 2 + 1) + 1 + 2);
		test_recorder_close(&test);
	}
}

static void macro__a_list_that_is_too_long_makes_no_event(void **state)
{
	static const uint64_t numbers[200];
	const struct parcel event = {0.5, {numbers, 200}, {NULL, NULL, 0}, "de", {false, 0}};
	struct test_recorder test;
	uint32_t n = 0;

	(void)state;
	test_recorder_open(&test, 0, 0);
	parcel_record(&event);
	test_recorder_read(&test);
	for (size_t i = 0; i < test.ring.count; i++) {
		if (test.ring.records[i].type != KYMO_RECORD_CUSTOM)
			continue;
		assert_int_equal(test.ring.records[i].arg, 1); /* counted as lost */
		n++;
	}
	assert_int_equal(n, 1);
	test_recorder_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(register__equal_types_have_equal_ids),
		cmocka_unit_test(register__what_is_no_type_is_refused),
		cmocka_unit_test(write__values_are_words_of_one_record),
		cmocka_unit_test(macro__writes_the_fields_in_their_order),
		cmocka_unit_test(macro__a_list_that_is_too_long_makes_no_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
