/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <base/out_text.h>
#include <string.h>

static struct ky_buf out;

static const char *text(void)
{
	(void)ky_buf_append(&out, "", 1);
	assert_int_equal(out.failed, 0);
	return (const char *)out.bytes;
}

static void out_text__counts_have_thousands_separators(void **state)
{
	char cell[KY_OUT_CELL_BYTES];

	(void)state;
	assert_string_equal(ky_out_count(cell, 0), "0");
	assert_string_equal(ky_out_count(cell, 999), "999");
	assert_string_equal(ky_out_count(cell, 1000), "1,000");
	assert_string_equal(ky_out_count(cell, 572815), "572,815");
	assert_string_equal(ky_out_count(cell, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void out_text__durations_round_to_three_digits(void **state)
{
	static const struct {
		uint64_t ns;
		const char *want;
	} cases[] = {
		{0, "0 ns"},
		{999, "999 ns"},
		{1000, "1.00 us"},
		{1994, "1.99 us"},
		{1995, "2.00 us"},
		{9994, "9.99 us"},
		{9995, "10.0 us"},
		{12345, "12.3 us"},
		{12350, "12.4 us"},
		{99949, "99.9 us"},
		{99950, "100 us"},
		{999499, "999 us"},
		{999500, "1.00 ms"},
		{60123456, "60.1 ms"},
		{999999999, "1.00 s"},
		{1500000000, "1.50 s"},
		{UINT64_C(1999999999), "2.00 s"},
		{UINT64_C(119499999999), "119 s"},
		{UINT64_C(119500000000), "2m 00s"},
		{UINT64_C(120000000000), "2m 00s"},
		{UINT64_C(3725000000000), "62m 05s"},
		{UINT64_C(3725500000000), "62m 06s"},
		{UINT64_C(7199499999999), "119m 59s"},
		{UINT64_C(7199500000000), "2h 00m"},
		{UINT64_C(28800000000000), "8h 00m"},
	};
	char cell[KY_OUT_CELL_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(ky_out_duration(cell, cases[i].ns), cases[i].want);
	assert_true(strlen(ky_out_duration(cell, UINT64_MAX)) < KY_OUT_CELL_BYTES);
}

static void out_text__bytes_percent_seconds_and_utc(void **state)
{
	char cell[KY_OUT_CELL_BYTES];

	(void)state;
	assert_string_equal(ky_out_bytes(cell, 17), "17 B");
	assert_string_equal(ky_out_bytes(cell, 4171054), "4.17 MB");
	assert_string_equal(ky_out_bytes(cell, UINT64_MAX), "18.4 EB");
	assert_string_equal(ky_out_permille(cell, 1000), "100.0 %");
	assert_string_equal(ky_out_permille(cell, 7), "0.7 %");
	assert_string_equal(ky_out_seconds(cell, UINT64_C(13906503651)), "13.906503651");
	assert_string_equal(ky_out_utc(cell, 0), "1970-01-01 00:00:00.000000");
	assert_string_equal(ky_out_utc(cell, UINT64_C(1793032811199747879)),
			    "2026-10-26 16:40:11.199747");
}

static void out_text__no_trace_can_control_the_terminal(void **state)
{
	static const char hostile[] = "a\033[2Jb\x9b"
				      "c\xc2\x9b"
				      "d\xff\n\xc3\xa9";

	(void)state;
	ky_out_safe(&out, hostile, sizeof(hostile) - 1);
	assert_string_equal(text(), "a\\x1b[2Jb\\x9bc\\xc2\\x9bd\\xff\\x0a\xc3\xa9");
}

static void out_text__tables_align_by_columns_not_bytes(void **state)
{
	struct ky_table table;

	(void)state;
	ky_table_begin(&table, "lrl", "Name|N|");
	ky_table_cell(&table, "\xc3\xa9");
	ky_table_cell(&table, "1,000");
	ky_table_cell(&table, "x");
	ky_table_cell(&table, "longer name");
	ky_table_cell(&table, "7");
	ky_table_cell(&table, "");
	ky_table_end(&table, &out, 1, false);
	assert_string_equal(text(), " Name             N\n"
				    " \xc3\xa9            1,000  x\n"
				    " longer name      7\n");
}

static void print_two_columns(uint32_t columns, const char *last)
{
	struct ky_table table;

	ky_buf_clear(&out);
	ky_table_begin(&table, "ll", "Check|Found");
	ky_table_format(&table, "%c", 'a');
	ky_table_cell(&table, last);
	ky_out_fold(columns);
	ky_table_end(&table, &out, 0, false);
	ky_out_fold(0);
}

static void out_text__the_last_column_is_folded_where_the_line_ends(void **state)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz";

	(void)state;
	print_two_columns(0, letters);
	assert_string_equal(text(), "Check  Found\na      abcdefghijklmnopqrstuvwxyz\n");
	print_two_columns(33, letters);
	assert_string_equal(text(), "Check  Found\na      abcdefghijklmnopqrstuvwxyz\n");
	print_two_columns(32, letters);
	assert_string_equal(text(), "Check  Found\na      abcdefghijklmnopqrstuvwxy\n       z\n");
	/* After a space where there is one, which is not shown; also when it would stand last. */
	print_two_columns(32, "some words, and yet more words of words");
	assert_string_equal(
		text(), "Check  Found\na      some words, and yet more\n       words of words\n");
	print_two_columns(32, "some words, and yet even more");
	assert_string_equal(text(), "Check  Found\na      some words, and yet even\n       more\n");
	/* Not after those in front, which would leave an empty line. */
	print_two_columns(32, "  abcdefghijklmnopqrstuvwxyz");
	assert_string_equal(text(), "Check  Found\na        abcdefghijklmnopqrstuvw\n       xyz\n");
	/* By characters: no letter is torn. */
	print_two_columns(28,
			  "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
			  "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
			  "\xc3\xa9\xc3\xa9\xc3\xa9z");
	assert_string_equal(
		text(), "Check  Found\na      "
			"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
			"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
			"\xc3\xa9\xc3\xa9\xc3\xa9\n       z\n");
	/* A strip of a few columns would be harder to read than what the terminal does. */
	print_two_columns(27, letters);
	assert_string_equal(text(), "Check  Found\na      abcdefghijklmnopqrstuvwxyz\n");
}

static void out_text__format_grows_past_its_first_buffer(void **state)
{
	char big[2000];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	ky_out_format(&out, "<%s>", big);
	assert_int_equal(strlen(text()), sizeof(big) + 1);
	assert_true(out.bytes[out.used - 2] == '>');
}

static int set_up(void **state)
{
	(void)state;
	ky_buf_init(&out, 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ky_buf_release(&out);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(out_text__counts_have_thousands_separators),
		TEST(out_text__durations_round_to_three_digits),
		TEST(out_text__bytes_percent_seconds_and_utc),
		TEST(out_text__no_trace_can_control_the_terminal),
		TEST(out_text__tables_align_by_columns_not_bytes),
		TEST(out_text__the_last_column_is_folded_where_the_line_ends),
		TEST(out_text__format_grows_past_its_first_buffer),
	};

	return cmocka_run_group_tests_name("out_text", tests, NULL, NULL);
}
