/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Streams made by the encoder, read by the decoder into the table. */
#include "../../lib/cmocka_all.h"

#include <kymo/base.h>
#include <read/symbol_table.h>
#include <stdio.h>
#include <string.h>
#include <wire/trc_enc.h>

struct trace {
	struct ky_trc_enc enc;
	struct ky_buf bytes;
};

static void begin(struct trace *trace)
{
	ky_buf_init(&trace->bytes, 0);
	assert_int_equal(ky_trc_enc_init(&trace->enc, &trace->bytes), 0);
	ky_trc_enc_begin(&trace->enc);
}

static void put_map(struct trace *trace, const char *path, uint64_t start, uint64_t bias,
		    uint64_t from_ns, uint64_t to_ns)
{
	ky_trc_enc_event(&trace->enc, KY_EV_PROCESS_MAP, from_ns);
	ky_trc_enc_text(&trace->enc, path, strlen(path));
	ky_trc_enc_bytes(&trace->enc, "\xab\xcd\xef", 3);
	ky_trc_enc_varint(&trace->enc, start);
	ky_trc_enc_varint(&trace->enc, start + 0x1000);
	ky_trc_enc_varint(&trace->enc, bias);
	ky_trc_enc_varint(&trace->enc, 0);
	ky_trc_enc_varint(&trace->enc, from_ns);
	ky_trc_enc_opt_varint(&trace->enc, to_ns != 0, to_ns);
}

static void put_symbol(struct trace *trace, uint64_t address, const char *name, uint64_t depth,
		       uint64_t from_ns, uint64_t to_ns)
{
	uint32_t text = ky_trc_enc_string(&trace->enc, 0, name, strlen(name));
	uint32_t file = ky_trc_enc_string(&trace->enc, 0, "a.rs", 4);

	ky_trc_enc_event(&trace->enc, KY_EV_SYMBOL, 0);
	ky_trc_enc_varint(&trace->enc, address);
	ky_trc_enc_varint(&trace->enc, 64);
	ky_trc_enc_u32(&trace->enc, text);
	ky_trc_enc_varint(&trace->enc, depth);
	ky_trc_enc_u32(&trace->enc, file);
	ky_trc_enc_varint(&trace->enc, 7);
	ky_trc_enc_opt_varint(&trace->enc, from_ns != 0, from_ns);
	ky_trc_enc_opt_varint(&trace->enc, to_ns != 0, to_ns);
}

static struct ky_symbol_table *read_back(struct trace *trace)
{
	struct ky_symbol_table *table;
	struct ky_trc_dec *dec;
	struct ky_frame frame;
	size_t at = 0;

	assert_int_equal(trace->bytes.failed, 0);
	assert_int_equal(ky_symbol_table_open(&table, 0), 0);
	assert_int_equal(ky_trc_dec_open(&dec, NULL), 0);
	while (at < trace->bytes.used) {
		int64_t count = ky_trc_dec_next(dec, trace->bytes.bytes + at,
						trace->bytes.used - at, &frame);

		assert_true(count > 0);
		at += (size_t)count;
		if (frame.kind == KY_FRAME_EVENT)
			assert_int_equal(ky_symbol_table_event(table, frame.schema, frame.values),
					 0);
	}
	ky_trc_dec_close(dec);
	ky_trc_enc_release(&trace->enc);
	ky_buf_release(&trace->bytes);
	return table;
}

static const char *name_at(struct ky_symbol_table *table, uint64_t address, uint64_t time_ns)
{
	const struct ky_symbol_frame *frames;

	assert_true(ky_symbol_table_find(table, address, time_ns, &frames) >= 1);
	return frames[0].name;
}

/* Answers "PATH:address", twice for inlines; counts how often it is asked. */
struct fake {
	uint32_t asked;
	uint32_t why;
};

static int fake_find(void *ctx, const struct ky_code_place *place, ky_symbol_fn report,
		     void *report_ctx, uint32_t *why)
{
	struct fake *fake = ctx;
	struct ky_symbol_row row = {.file = "f.c", .file_bytes = 3, .line = 12};
	char text[64];

	fake->asked++;
	*why = fake->why;
	if (fake->why)
		return 0;
	row.name = text;
	row.name_bytes = (size_t)snprintf(text, sizeof(text), "%s:%llx", place->path,
					  (unsigned long long)place->address);
	row.start = place->address & ~UINT64_C(15);
	report(report_ctx, &row);
	row.name = "inlined";
	row.name_bytes = 7;
	row.depth = 1;
	report(report_ctx, &row);
	return 2;
}

static void symbol_table__without_anything_an_address_is_a_number(void **state)
{
	struct trace trace;
	struct ky_symbol_table *table;

	(void)state;
	begin(&trace);
	table = read_back(&trace);
	assert_string_equal(name_at(table, 0x1234, 5), "0x1234");
	assert_string_equal(name_at(table, UINT64_C(0xffffffff81000010), 5),
			    "kernel+0xffffffff81000010");
	ky_symbol_table_close(table);
}

static void symbol_table__a_module_gives_its_name_and_the_offset_in_its_file(void **state)
{
	const struct ky_symbol_frame *frames;
	struct trace trace;
	struct ky_symbol_table *table;

	(void)state;
	begin(&trace);
	put_map(&trace, "/usr/lib/libx.so.1", 0x7f0000001000, 0x7f0000000000, 100, 0);
	table = read_back(&trace);
	assert_string_equal(name_at(table, 0x7f0000001040, 150), "libx.so.1+0x1040");
	assert_int_equal(ky_symbol_table_find(table, 0x7f0000001040, 150, &frames), 1);
	assert_int_equal(frames[0].why, KY_SYMBOL_NOT_ASKED);
	/* One module only ever lay there: it was, before it was noticed, too. */
	assert_string_equal(name_at(table, 0x7f0000001040, 50), "libx.so.1+0x1040");
	assert_string_equal(name_at(table, 0x7f0000002000, 150), "0x7f0000002000");
	ky_symbol_table_close(table);
}

static void symbol_table__two_modules_at_one_address_are_distinguished_by_time(void **state)
{
	struct trace trace;
	struct ky_symbol_table *table;

	(void)state;
	begin(&trace);
	put_map(&trace, "/a.so", 0x10000, 0x10000, 100, 0);
	put_map(&trace, "/a.so", 0x10000, 0x10000, 100, 200); /* the next segment knows the end */
	put_map(&trace, "/b.so", 0x10000, 0xf000, 300, 0);
	table = read_back(&trace);
	assert_int_equal(ky_symbol_table_map(table)->count, 2);
	assert_string_equal(name_at(table, 0x10010, 150), "a.so+0x10");
	assert_string_equal(name_at(table, 0x10010, 350), "b.so+0x1010");
	assert_string_equal(name_at(table, 0x10010, 50), "a.so+0x10");
	/* Gone is gone; a new one is noticed late. */
	assert_string_equal(name_at(table, 0x10010, 250), "b.so+0x1010");
	assert_string_equal(name_at(table, 0x10010, 0), "b.so+0x1010");
	ky_symbol_table_close(table);
}

static void symbol_table__the_traces_own_names_come_first(void **state)
{
	const struct ky_symbol_frame *frames;
	struct fake fake = {0};
	struct ky_symbol_source source = {.find = fake_find, .ctx = &fake};
	struct trace trace;
	struct ky_symbol_table *table;

	(void)state;
	begin(&trace);
	put_map(&trace, "/a.so", 0x10000, 0x10000, 100, 0);
	put_symbol(&trace, 0x10010, "outer", 0, 0, 0);
	put_symbol(&trace, 0x10010, "inner", 1, 0, 0);
	put_symbol(&trace, 0x10010, "outer", 0, 0, 0); /* repeated */
	table = read_back(&trace);
	ky_symbol_table_source(table, &source);
	assert_true(ky_symbol_table_has(table, 0x10010, 150));
	assert_false(ky_symbol_table_has(table, 0x10020, 150));
	assert_int_equal(ky_symbol_table_find(table, 0x10010, 150, &frames), 2);
	assert_string_equal(frames[0].name, "inner");
	assert_string_equal(frames[1].name, "outer");
	assert_string_equal(frames[1].file, "a.rs");
	assert_int_equal(frames[1].line, 7);
	assert_int_equal(fake.asked, 0);
	ky_symbol_table_close(table);
}

static void symbol_table__entries_with_a_window_hold_in_it(void **state)
{
	struct trace trace;
	struct ky_symbol_table *table;
	struct ky_symbol_entry entry;

	(void)state;
	begin(&trace);
	put_symbol(&trace, 0x10010, "first", 0, 100, 200);
	put_symbol(&trace, 0x10010, "second", 0, 300, 0);
	table = read_back(&trace);
	assert_string_equal(name_at(table, 0x10010, 150), "first");
	assert_string_equal(name_at(table, 0x10010, 350), "second");
	assert_string_equal(name_at(table, 0x10010, 0), "second");
	assert_string_equal(name_at(table, 0x10010, 250), "0x10010");
	assert_true(ky_symbol_table_entry(table, 0, &entry));
	assert_int_equal(entry.to_ns, 200);
	assert_true(ky_symbol_table_entry(table, 1, &entry));
	assert_int_equal(entry.from_ns, 300);
	assert_true(entry.to_ns == UINT64_MAX);
	assert_false(ky_symbol_table_entry(table, 2, &entry));
	ky_symbol_table_close(table);
}

static void symbol_table__a_source_is_asked_once_an_address(void **state)
{
	const struct ky_symbol_frame *frames;
	struct fake fake = {0};
	struct ky_symbol_source source = {.find = fake_find, .ctx = &fake};
	struct trace trace;
	struct ky_symbol_table *table;

	(void)state;
	begin(&trace);
	put_map(&trace, "/a.so", 0x20000, 0x10000, 100, 0);
	table = read_back(&trace);
	ky_symbol_table_source(table, &source);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ky_symbol_table_find(table, 0x20018, 150, &frames), 2);
		assert_string_equal(frames[0].name, "inlined");
		assert_string_equal(frames[1].name, "/a.so:10018");
		assert_true(frames[1].start == 0x20010);
		assert_int_equal(frames[0].why, KY_SYMBOL_FOUND);
	}
	assert_int_equal(fake.asked, 1);
	/* Enough of them to make the table grow; each keeps its own name. */
	for (uint64_t i = 0; i < 2000; i++)
		(void)name_at(table, 0x20000 + i, 150);
	assert_int_equal(fake.asked, 2000);
	assert_int_equal(ky_symbol_table_find(table, 0x20018, 150, &frames), 2);
	assert_string_equal(frames[1].name, "/a.so:10018");
	ky_symbol_table_close(table);
}

static void symbol_table__a_source_that_does_not_know_says_why(void **state)
{
	const struct ky_symbol_frame *frames;
	struct fake fake = {.why = KY_SYMBOL_OTHER_FILE};
	struct ky_symbol_source source = {.find = fake_find, .ctx = &fake};
	struct trace trace;
	struct ky_symbol_table *table;

	(void)state;
	begin(&trace);
	put_map(&trace, "/a.so", 0x20000, 0x10000, 100, 0);
	table = read_back(&trace);
	ky_symbol_table_source(table, &source);
	assert_int_equal(ky_symbol_table_find(table, 0x20018, 150, &frames), 1);
	assert_int_equal(frames[0].why, KY_SYMBOL_OTHER_FILE);
	assert_string_equal(frames[0].name, "a.so+0x10018");
	ky_symbol_table_close(table);
}

static void symbol_table__spent_memory_leaves_numbers(void **state)
{
	struct ky_symbol_table *table;
	const struct ky_symbol_frame *frames;

	(void)state;
	assert_int_equal(ky_symbol_table_open(&table, 48u << 10), 0);
	for (uint64_t i = 1; i < 5000; i++) {
		assert_int_equal(ky_symbol_table_find(table, i << 12, 1, &frames), 1);
		assert_memory_equal(frames[0].name, "0x", 2);
	}
	ky_symbol_table_close(table);
}

static void code_map__maps_that_cannot_be_are_refused(void **state)
{
	struct trace trace;
	struct ky_symbol_table *table;

	(void)state;
	begin(&trace);
	put_map(&trace, "/kernel", UINT64_C(0xffffffff80000000), 0, 1, 0);
	put_map(&trace, "/wraps", UINT64_MAX - 10, 0, 1, 0);
	table = read_back(&trace);
	assert_int_equal(ky_symbol_table_map(table)->count, 0);
	assert_int_equal(ky_symbol_table_map(table)->refused_count, 2);
	ky_symbol_table_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(symbol_table__without_anything_an_address_is_a_number),
		cmocka_unit_test(symbol_table__a_module_gives_its_name_and_the_offset_in_its_file),
		cmocka_unit_test(
			symbol_table__two_modules_at_one_address_are_distinguished_by_time),
		cmocka_unit_test(symbol_table__the_traces_own_names_come_first),
		cmocka_unit_test(symbol_table__entries_with_a_window_hold_in_it),
		cmocka_unit_test(symbol_table__a_source_is_asked_once_an_address),
		cmocka_unit_test(symbol_table__a_source_that_does_not_know_says_why),
		cmocka_unit_test(symbol_table__spent_memory_leaves_numbers),
		cmocka_unit_test(code_map__maps_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests_name("symbol_table", tests, NULL, NULL);
}
