/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <unwind/plain_code.h>
#include <unwind/unwind_table.h>

#if defined(__x86_64__)

/* As rustc makes it with panic=abort. */
static const uint8_t rust_main[] = {0x50,             /* push %rax */
				    0x48, 0x89, 0xf1, /* mov %rsi, %rcx */
				    0x48, 0x63, 0xd7, /* movslq %edi, %rdx */
				    0x48, 0x8d, 0x05, 0xf2, 0xf3, 0xff,
				    0xff,                   /* lea -0xc0e(%rip), %rax */
				    0x48, 0x89, 0x04, 0x24, /* mov %rax, (%rsp) */
				    0x48, 0x8d, 0x35, 0x7f, 0x2c, 0x06,
				    0x00,             /* lea 0x62c7f(%rip), %rsi */
				    0x48, 0x89, 0xe7, /* mov %rsp, %rdi */
				    0x45, 0x31, 0xc0, /* xor %r8d, %r8d */
				    0xff, 0x15, 0x73, 0x68, 0x06, 0x00, /* call *0x66873(%rip) */
				    0x59,                               /* pop %rcx */
				    0xc3,                               /* ret */
				    0xcc};

static void check_offset(const struct ky_plain *plain, uint32_t idx, uint32_t at, uint32_t words)
{
	assert_true(idx < plain->row_count);
	assert_int_equal(plain->rows[idx].at, at);
	assert_int_equal(ky_unwind_rule_kind(plain->rows[idx].rule), KY_UNWIND_BY_SP);
	assert_int_equal(ky_unwind_rule_offset(plain->rows[idx].rule), words);
}

static void read__follows_the_stack_pointer(void **state)
{
	struct ky_plain plain;

	(void)state;
	assert_int_equal(ky_plain_read(rust_main, sizeof(rust_main), &plain), 0);
	assert_int_equal(plain.bytes, sizeof(rust_main) - 1);
	assert_int_equal(plain.row_count, 3);
	check_offset(&plain, 0, 0, 1);
	check_offset(&plain, 1, 1, 2);
	check_offset(&plain, 2, sizeof(rust_main) - 2, 1);
}

/* _init of the C library's start files: sub, a jump over a call, add. */
static void read__takes_a_jump_forward(void **state)
{
	static const uint8_t code[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83, 0xec, 0x08, 0x48,
				       0x8b, 0x05, 0xd9, 0x2f, 0x00, 0x00, 0x48, 0x85, 0xc0,
				       0x74, 0x02, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3};
	struct ky_plain plain;

	(void)state;
	assert_int_equal(ky_plain_read(code, sizeof(code), &plain), 0);
	assert_int_equal(plain.bytes, sizeof(code));
	assert_int_equal(plain.row_count, 3);
	check_offset(&plain, 1, 8, 2);
}

static void read__says_where_registers_are_saved(void **state)
{
	/* push %rbp; push %rbx; xor %ebx, %ebx; call; pop %rbx; pop %rbp; ret */
	static const uint8_t code[] = {0x55, 0x53, 0x31, 0xdb, 0xe8, 0, 0, 0, 0, 0x5b, 0x5d, 0xc3};
	struct ky_plain plain;

	(void)state;
	assert_int_equal(ky_plain_read(code, sizeof(code), &plain), 0);
	assert_int_equal(plain.row_count, 5);
	check_offset(&plain, 2, 2, 3);
	assert_int_equal(ky_unwind_rule_fp(plain.rows[2].rule), 2);
	assert_int_equal(ky_unwind_rule_second(plain.rows[2].rule), 3);
	assert_int_equal(ky_unwind_rule_second(plain.rows[3].rule), 0);
	assert_int_equal(ky_unwind_rule_fp(plain.rows[4].rule), 0);
}

/* Each would make the rows wrong. */
static void read__refuses_what_it_does_not_follow(void **state)
{
	static const struct {
		uint8_t bytes[12];
		size_t count;
	} codes[] = {
		{{0x50, 0xc3}, 2},                         /* returns with a word on the stack */
		{{0x48, 0x89, 0xc4, 0xc3}, 4},             /* mov %rax, %rsp */
		{{0x31, 0xdb, 0xc3}, 3},                   /* rbx lost: xor %ebx, %ebx */
		{{0x74, 0xfe, 0xc3}, 3},                   /* a jump back */
		{{0x74, 0x01, 0x50, 0xc3}, 4},             /* two ways, two depths */
		{{0x48, 0x83, 0xec, 0x04, 0xc3}, 5},       /* half a word */
		{{0xc9, 0xc3}, 2},                         /* leave */
		{{0xe8, 0, 0}, 3},                         /* cut */
		{{0x58, 0x50, 0xc3}, 3},                   /* pops what is not its own */
		{{0x50, 0x48, 0x83, 0xe4, 0xf0, 0xc3}, 6}, /* and $-16, %rsp */
	};
	struct ky_plain plain;

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		assert_int_equal(ky_plain_read(codes[i].bytes, codes[i].count, &plain), -1);
}

static void read__survives_every_cut(void **state)
{
	struct ky_plain plain;

	(void)state;
	for (size_t bytes = 0; bytes + 1 < sizeof(rust_main); bytes++)
		assert_int_equal(ky_plain_read(rust_main, bytes, &plain), -1);
	assert_int_equal(ky_plain_padding((const uint8_t *)"\xcc\xcc\x90\xc3", 4), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read__follows_the_stack_pointer),
		cmocka_unit_test(read__takes_a_jump_forward),
		cmocka_unit_test(read__says_where_registers_are_saved),
		cmocka_unit_test(read__refuses_what_it_does_not_follow),
		cmocka_unit_test(read__survives_every_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	print_message("1..0 # SKIP code of another CPU\n");
	return 0;
}

#endif
