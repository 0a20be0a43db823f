/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Events of the application as a trace has them, and what a hostile ring says of them. */
#include "../../lib/drain_case.h"

#include <kymo/runtime.h>
#include <kymo/schema.h>
#include <string.h>
#include <wire/event_schema.h>

#define TYPE 1

/* The bytes of a schema: each text ends in a NUL, a field begins with its type. */
static void add_schema(struct drain_case *c, uint32_t id, const char *bytes, size_t count)
{
	test_ring_entry(&c->ring, KY_ENTRY_SCHEMA, id, bytes, (uint32_t)count, "");
}

static void write_words(struct test_writer *w, uint64_t ns, uint32_t words, uint64_t type,
			uint64_t b, uint64_t d)
{
	test_emit(w, ns, KYMO_RECORD_CUSTOM, words, words, type, b, d);
}

static bool has(const struct drain_case *c, const char *bytes, size_t count)
{
	return memmem(c->sink.bytes.bytes, c->sink.bytes.used, bytes, count) != NULL;
}

static void event__is_written_with_its_schema_once_and_its_values(void **state)
{
	static const char schema[] = "Order\0\x09id\0\0\x87where\0unit";
	struct drain_case c;
	struct test_writer w;
	uint32_t place;

	(void)state;
	case_open(&c, 8);
	add_schema(&c, TYPE, schema, sizeof(schema));
	place = test_ring_string(&c.ring, "somewhere");
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	test_poll(&w, T0, 42, 0);
	write_words(&w, T0 + MS, 3, TYPE, 7, 0);
	test_poll_end(&w, T0 + 2 * MS, 0);
	test_emit(&w, T0 + 3 * MS, KYMO_RECORD_CUSTOM, 3, 3, TYPE, 8, 1); /* its text is missing */
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(test_sink_count(&c.sink, KY_EV_UNKNOWN), 1);
	assert_int_equal(COUNT(&c, LOSS), 1);
	assert_true(has(&c, "Order", 5) && has(&c, "where", 5) && has(&c, "task_id", 7));
	assert_false(has(&c, "somewhere", 9));
	(void)place;
	case_close(&c);
}

static void event__strings_are_in_the_event_or_in_the_pool(void **state)
{
	static const char inside[] = "Told\0\x04text\0", pooled[] = "Pooled\0\x07text\0";
	struct drain_case c;
	struct test_writer w;
	uint64_t word = 0;

	(void)state;
	case_open(&c, 8);
	add_schema(&c, 1, inside, sizeof(inside));
	add_schema(&c, 2, pooled, sizeof(pooled));
	memcpy(&word, "inline", 6);
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	write_words(&w, T0, 3, 1, 6, word);
	write_words(&w, T0 + MS, 2, 2, test_ring_string(&c.ring, "from the pool"), 0);
	write_words(&w, T0 + 2 * MS, 3, 1, 9, word);       /* longer than what is there */
	write_words(&w, T0 + 3 * MS, 2, 2, UINT32_MAX, 0); /* no such string: an empty one */
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(test_sink_count(&c.sink, KY_EV_UNKNOWN), 3);
	assert_true(has(&c, "inline", 6) && has(&c, "from the pool", 13));
	case_close(&c);
}

static void event__of_no_type_or_a_broken_one_is_a_loss(void **state)
{
	static const char *const broken[] = {"",
					     "\0",
					     "A",
					     "A\0\x09",
					     "A\0\x09"
					     "b",
					     "A\0\x09"
					     "b\0u"};
	static const size_t bytes[] = {0, 1, 1, 3, 4, 6};
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_open(&c, 8);
	for (uint32_t i = 0; i < 6; i++)
		add_schema(&c, i + 1, broken[i], bytes[i]);
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	for (uint32_t i = 0; i < 8; i++)
		for (uint32_t words = 0; words < 4; words++)
			write_words(&w, T0 + (i * 4 + words) * MS, words, i, i, 0);
	case_finish(&c, T0 + 60 * MS);
	assert_int_equal(test_sink_count(&c.sink, KY_EV_UNKNOWN), 0);
	assert_true(COUNT(&c, LOSS) > 0);
	case_close(&c);
}

/* ---- lists and maps ---- */

#define HEAD(value, count) ((uint64_t)(value) << 32 | (count))
#define MAP_HEAD(key, value, count) ((uint64_t)(value) << 40 | HEAD(key, count))
#define U64 KYMO_CUSTOM_U64
#define STRING KYMO_CUSTOM_STRING
#define LIST KYMO_CUSTOM_LIST
#define MAP KYMO_CUSTOM_MAP

/* One event after the other, each with these words; how many of them became events. */
static size_t written_of(const char *schema, size_t schema_bytes, const uint64_t (*words)[8],
			 const uint32_t *counts, uint32_t n, struct drain_case *c)
{
	struct test_writer w;

	case_open(c, 8);
	add_schema(c, TYPE, schema, schema_bytes);
	case_start(c);
	test_writer_open(&w, &c->ring, 501, T0);
	for (uint32_t i = 0; i < n; i++)
		test_emit_words(&w, T0 + i * MS, KYMO_RECORD_CUSTOM, counts[i], counts[i],
				words[i]);
	case_finish(c, T0 + 90 * MS);
	return test_sink_count(&c->sink, KY_EV_UNKNOWN);
}

static void event__has_lists_and_maps_of_each_depth(void **state)
{
	static const char list[] = "L\0\x0elist\0", map[] = "M\0\x8fmap\0";
	static const uint64_t lists[][8] = {{TYPE, HEAD(U64, 0)},
					    {TYPE, HEAD(U64, 2), 5, 6},
					    {TYPE, HEAD(LIST, 2), HEAD(U64, 1), 5, HEAD(U64, 0)},
					    {TYPE, HEAD(LIST, 1), HEAD(LIST, 1), HEAD(LIST, 1),
					     HEAD(U64, 1), 7}};
	static const uint32_t list_words[] = {2, 4, 5, 6};
	static const uint64_t maps[][8] = {{TYPE, 0},
					   {TYPE, 1, MAP_HEAD(U64, U64, 1), 5, 6},
					   {TYPE, 1, MAP_HEAD(STRING, STRING, 1), 3, 0x6c6c6c, 0},
					   {TYPE, 1, MAP_HEAD(U64, LIST, 1), 5, HEAD(U64, 1), 6}};
	static const uint32_t map_words[] = {2, 5, 6, 6};
	static const uint8_t nested[] = {2, 0, 0, 0, LIST, 1, 0, 0, 0, U64, 5, LIST, 0, 0, 0, 0};
	static const uint8_t pair[] = {1, 1, 0, 0, 0, STRING, 3, 0, 0, 0, 'l', 'l', 'l', STRING};
	struct drain_case c;

	(void)state;
	assert_int_equal(written_of(list, sizeof(list), lists, list_words, 4, &c), 4);
	assert_true(has(&c, (const char *)nested, sizeof(nested)));
	assert_int_equal(COUNT(&c, LOSS), 0);
	case_close(&c);
	assert_int_equal(written_of(map, sizeof(map), maps, map_words, 4, &c), 4);
	assert_true(has(&c, (const char *)pair, sizeof(pair)));
	assert_int_equal(COUNT(&c, LOSS), 0);
	case_close(&c);
}

static void event__with_a_broken_list_or_map_is_a_loss(void **state)
{
	static const char list[] = "L\0\x0elist\0", map[] = "M\0\x0fmap\0";
	static const uint64_t lists[][8] = {
		{TYPE},
		{TYPE, HEAD(U64, 3), 5, 6},          /* more than there are */
		{TYPE, HEAD(U64, 1), 5, 6},          /* fewer */
		{TYPE, HEAD(U64, UINT32_MAX), 5, 6}, /* many more */
		{TYPE, HEAD(3 + 128, 1), 1},         /* optional */
		{TYPE, HEAD(0, 1), 1},               /* of no type */
		{TYPE, HEAD(10, 1), 1},              /* of one that events have not */
		{TYPE, MAP_HEAD(U64, U64, 1), 1},    /* a map */
		{TYPE, HEAD(LIST, 1), HEAD(LIST, 1), HEAD(LIST, 1), HEAD(LIST, 1),
		 HEAD(U64, 0)},                /* too deep */
		{TYPE, HEAD(STRING, 1), 9, 0}, /* a text that is longer than the event */
	};
	static const uint32_t list_words[] = {1, 4, 4, 4, 3, 3, 3, 3, 6, 4};
	static const uint64_t maps[][8] = {
		{TYPE, HEAD(U64, 1), 1, 2},                   /* a list */
		{TYPE, MAP_HEAD(LIST, U64, 1), HEAD(U64, 0)}, /* its keys are lists */
		{TYPE, MAP_HEAD(U64, U64, 1), 1},             /* half a pair */
		{TYPE, (uint64_t)1 << 60 | MAP_HEAD(U64, U64, 0)},
	};
	static const uint32_t map_words[] = {4, 3, 3, 2};
	struct drain_case c;

	(void)state;
	assert_int_equal(written_of(list, sizeof(list), lists, list_words, 10, &c), 0);
	assert_int_not_equal(COUNT(&c, LOSS), 0);
	case_close(&c);
	assert_int_equal(written_of(map, sizeof(map), maps, map_words, 4, &c), 0);
	assert_int_not_equal(COUNT(&c, LOSS), 0);
	case_close(&c);
}

static void event__of_a_type_that_values_cannot_have_is_a_loss(void **state)
{
	static const char schema[] = "B\0\x05"
				     "bytes\0";
	static const uint64_t words[][8] = {{TYPE, 5}};
	static const uint32_t counts[] = {2};
	struct drain_case c;

	(void)state;
	assert_int_equal(written_of(schema, sizeof(schema), words, counts, 1, &c), 0);
	case_close(&c);
}

/* ---- numbers of a runtime ---- */

static void runtime_metrics__become_their_own_event(void **state)
{
	uint64_t words[2 + KY_RUNTIME_METRICS_COUNT] = {KY_SCHEMA_RUNTIME_METRICS};
	const struct test_event *event;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_open(&c, 8);
	words[1] = test_ring_string(&c.ring, "main");
	for (uint32_t i = 0; i < KY_RUNTIME_METRICS_COUNT; i++)
		words[2 + i] = 100 + i;
	words[5] = KYMO_RUNTIME_NUMBER_UNKNOWN;
	case_start(&c);
	test_writer_open(&w, &c.ring, 501, T0);
	test_emit_words(&w, T0, KYMO_RECORD_CUSTOM, 18, 18, words);
	test_emit_words(&w, T0 + MS, KYMO_RECORD_CUSTOM, 17, 17, words); /* one is missing */
	case_finish(&c, T0 + 20 * MS);
	assert_int_equal(COUNT(&c, RUNTIME_METRICS), 1);
	assert_int_equal(COUNT(&c, LOSS), 1);
	event = EVENT(&c, RUNTIME_METRICS, 0);
	assert_string_equal(TEXT(event, RUNTIME_METRICS, runtime_name), "main");
	assert_int_equal(NUMBER(event, RUNTIME_METRICS, global_queue_depth), 100);
	assert_int_equal(NUMBER(event, RUNTIME_METRICS, workers), 102);
	assert_int_equal(NUMBER(event, RUNTIME_METRICS, local_queue_depth), 0); /* absent */
	assert_int_equal(NUMBER(event, RUNTIME_METRICS, steal_count), 109);
	assert_int_equal(NUMBER(event, RUNTIME_METRICS, busy_ns), 115);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event__is_written_with_its_schema_once_and_its_values),
		cmocka_unit_test(event__strings_are_in_the_event_or_in_the_pool),
		cmocka_unit_test(event__of_no_type_or_a_broken_one_is_a_loss),
		cmocka_unit_test(event__has_lists_and_maps_of_each_depth),
		cmocka_unit_test(event__with_a_broken_list_or_map_is_a_loss),
		cmocka_unit_test(event__of_a_type_that_values_cannot_have_is_a_loss),
		cmocka_unit_test(runtime_metrics__become_their_own_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
