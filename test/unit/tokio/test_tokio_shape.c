/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The test program is the object that has lost its symbols: they are not read here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "../../../adapters/tokio/hooks.h"
#include "../../../adapters/tokio/tokio_shape.h"
#include "fake_recorder.h"
#include "fake_tokio.h"

/* clang-format off */
#define FUNCTION(name, body)                                                                       \
	".type " name ", @function\n" name ": .cfi_startproc\n" body " ret\n .cfi_endproc\n"
__asm__(
	".text\n"
	FUNCTION("shape_clone", "mov $0x40, %eax\n lock xadd %rax, (%rdi)\n"
			       "lea shape_waker(%rip), %rdx\n mov %rdi, %rax\n")
	/* It adds a reference, and is no clone: what follows it in the table is not mentioned. */
	FUNCTION("shape_ref_inc", "mov $0x40, %eax\n lock xadd %rax, (%rdi)\n")
	FUNCTION("shape_other_clone", "mov $0x100, %eax\n lock xadd %rax, (%rdi)\n"
				     "lea shape_other_waker(%rip), %rdx\n")
	FUNCTION("shape_function", "nop\n nop\n")
	FUNCTION("shape_slow_clone", "call shape_slow_add\n call shape_slow_waker_of\n")
	FUNCTION("shape_slow_add", "mov $0x40, %esi\n call shape_add\n")
	FUNCTION("shape_add", "lock xadd %rsi, (%rdi)\n")
	FUNCTION("shape_slow_waker_of", "lea shape_slow_waker(%rip), %rdx\n")
	".section .data.rel.ro, \"aw\"\n .balign 8\n"
	"shape_waker: .quad shape_clone, shape_function, shape_function, shape_function\n"
	"shape_task: .rept 7\n .quad shape_function\n .endr\n .quad 0x80, 0x20, 0x28\n"
	"shape_blocking: .rept 7\n .quad shape_function\n .endr\n .quad 0x60, 0x20, 0x30\n"
	"shape_ref_slots: .quad shape_ref_inc, shape_function, shape_function, shape_function, 0\n"
	"shape_other_waker: .quad shape_other_clone\n"
	".rept 3\n .quad shape_function\n .endr\n .quad 0\n"
	"shape_slow_waker: .quad shape_slow_clone\n"
	".rept 3\n .quad shape_function\n .endr\n .quad 0\n"
	"shape_six: .rept 6\n .quad shape_function\n .endr\n .quad 0x80, 0x20, 0x28\n"
	"shape_inside: .rept 7\n .quad shape_function + 1\n .endr\n .quad 0x80, 0x20, 0x28\n"
	"shape_mixed: .rept 7\n .quad shape_function\n .endr\n .quad 0x20, 0x28, 0x80\n"
	".text\n");
/* clang-format on */
extern const uintptr_t shape_waker[], shape_task[], shape_blocking[], shape_ref_slots[],
	shape_other_waker[], shape_slow_waker[], shape_six[], shape_inside[], shape_mixed[];

struct look {
	bool is_tokio;
	struct ky_tokio_elf elf;
	int result;
	uintptr_t wakers[64];
	uint32_t waker_count;
};

static int open_first(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	struct look *look = ctx;

	(void)info_bytes;
	look->result = ky_tokio_shape_open(&look->elf, info, look->is_tokio);
	return 1; /* the program itself */
}

static bool take_waker(void *ctx, uintptr_t address)
{
	struct look *look = ctx;

	look->wakers[look->waker_count++] = address;
	return look->waker_count < 64;
}

static bool has_waker(const struct look *look, const uintptr_t *table)
{
	for (uint32_t i = 0; i < look->waker_count; i++)
		if (look->wakers[i] == (uintptr_t)table)
			return true;
	return false;
}

static bool has_table(const struct ky_tokio_found *found, const uintptr_t *table)
{
	for (uint32_t i = 0; i < found->table_count; i++)
		if (ky_tokio_tables[i].words == table)
			return true;
	return false;
}

static void shape__a_waker_table_adds_a_reference_and_names_itself(void **state)
{
	struct look look = {0};

	(void)state;
	dl_iterate_phdr(open_first, &look);
	assert_int_equal(look.result, KY_TOKIO_ELF_FOUND);
	ky_tokio_shape_wakers(&look.elf, take_waker, &look);
	assert_true(has_waker(&look, shape_waker));
	assert_false(has_waker(&look, shape_ref_slots));
	assert_false(has_waker(&look, shape_other_waker));
	ky_tokio_elf_close(&look.elf);
}

static void shape__a_clone_that_was_not_optimised_is_followed(void **state)
{
	struct look look = {.is_tokio = true};

	(void)state;
	dl_iterate_phdr(open_first, &look);
	look.elf.is_unoptimised = true;
	ky_tokio_shape_wakers(&look.elf, take_waker, &look);
	assert_true(has_waker(&look, shape_slow_waker));
	assert_false(has_waker(&look, shape_other_waker));
	ky_tokio_elf_close(&look.elf);
}

static void shape__a_task_table_is_seven_functions_and_three_offsets(void **state)
{
	static struct ky_tokio_found found;
	struct look look = {0};

	(void)state;
	memset(&found, 0, sizeof(found));
	dl_iterate_phdr(open_first, &look);
	ky_tokio_tables_find(&found, &look.elf);
	assert_true(has_table(&found, shape_task));
	assert_true(has_table(&found, shape_blocking));
	assert_false(has_table(&found, shape_six));
	assert_false(has_table(&found, shape_inside));
	assert_false(has_table(&found, shape_mixed));
	assert_int_equal(found.shape_count, found.table_count);
	assert_int_equal(found.refused_count, 0);
	assert_int_equal(ky_tokio_tables[0].kind, KY_TOKIO_KIND_UNKNOWN);
	assert_true(ky_tokio_tables[0].is_by_shape);
	ky_tokio_elf_close(&look.elf);
}

/* ---- what has the shape, and is another library's ---- */

typedef double (*many_fn)(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
			  double x, double y);

static double many(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, double x,
		   double y)
{
	return (double)(a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f) + x / y;
}

static double call_thunk(uintptr_t thunk)
{
	many_fn function;

	memcpy(&function, &thunk, sizeof(function));
	return function(1, 2, 3, 4, 5, 6, 1.0, 4.0);
}

static void stand_in(struct ky_tokio_table *table, uintptr_t *words)
{
	many_fn function = many;

	memset(table, 0, sizeof(*table));
	memcpy(&table->poll, &function, sizeof(function));
	memcpy(&table->shutdown, &function, sizeof(function));
	table->words = words;
	table->scheduler_offset = 32;
	table->id_offset = 40;
	table->is_by_shape = true;
}

static void guard__passes_every_argument_of_what_is_no_table(void **state)
{
	struct ky_tokio_table *table = &ky_tokio_tables[5];
	uintptr_t words[10] = {0};

	(void)state;
	stand_in(table, words);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(call_thunk(ky_tokio_poll_thunk(5)) == 654321.25);
	assert_int_equal(table->state, KY_TOKIO_STATE_REFUSED);
	stand_in(table, words);
	for (uint32_t i = 0; i < 2; i++)
		assert_true(call_thunk(ky_tokio_shutdown_thunk(5)) == 654321.25);
	assert_int_equal(table->state, KY_TOKIO_STATE_REFUSED);
	assert_string_not_equal(fake_metadata("tokio.tables_refused"), "");
}

static struct fake_task *polled;

static void poll_plain(void *header)
{
	polled = header;
	polled->poll_count++;
}

static void guard__a_header_of_the_table_makes_it_one(void **state)
{
	struct ky_tokio_table *table = &ky_tokio_tables[6];
	uintptr_t words[10] = {0}, thunk;
	void (*poll)(void *header);
	struct fake_task task = fake_task(FAKE_CURRENT, 9);

	(void)state;
	stand_in(table, words);
	table->poll = poll_plain;
	table->trailer_offset = 80;
	task.table = words;
	thunk = ky_tokio_poll_thunk(6);
	memcpy(&poll, &thunk, sizeof(poll));
	poll(&task);
	assert_int_equal(task.poll_count, 1);
	assert_ptr_equal(polled, &task);
	assert_int_equal(table->state, KY_TOKIO_STATE_TASK);
	assert_int_equal(table->kind, KY_TOKIO_KIND_CURRENT_THREAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shape__a_waker_table_adds_a_reference_and_names_itself),
		cmocka_unit_test(shape__a_clone_that_was_not_optimised_is_followed),
		cmocka_unit_test(shape__a_task_table_is_seven_functions_and_three_offsets),
		cmocka_unit_test(guard__passes_every_argument_of_what_is_no_table),
		cmocka_unit_test(guard__a_header_of_the_table_makes_it_one),
	};

	return cmocka_run_group_tests_name("tokio_shape", tests, NULL, NULL);
}
