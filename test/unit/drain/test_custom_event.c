/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Events of the application as a trace has them, and what a hostile ring says of them. */
#include "../../lib/drain_case.h"

#include <kymo/schema.h>
#include <string.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event__is_written_with_its_schema_once_and_its_values),
		cmocka_unit_test(event__strings_are_in_the_event_or_in_the_pool),
		cmocka_unit_test(event__of_no_type_or_a_broken_one_is_a_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
