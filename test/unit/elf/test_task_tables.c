/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The test program is the file; on other architectures than x86-64 it has no waker table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <elf/task_tables.h>
#include <fcntl.h>
#include <string.h>

#if defined(__x86_64__)
/* clang-format off */
__asm__(
	".text\n"
	"tables_clone: mov $0x40, %eax\n lock xadd %rax, (%rdi)\n"
	"lea tables_waker(%rip), %rdx\n ret\n"
	"tables_add: mov $0x40, %eax\n lock xadd %rax, (%rdi)\n ret\n nop\n nop\n nop\n nop\n nop\n"
	".section .data.rel.ro, \"aw\"\n .balign 8\n .globl tables_task\n"
	"tables_waker: .quad tables_clone, tables_add, tables_add, tables_add\n"
	"tables_task: .rept 7\n .quad tables_add\n .endr\n .quad 0x80, 0x20, 0x28\n"
	/* Addresses, though as linked they may look like offsets. */
	"tables_none: .rept 7\n .quad tables_add\n .endr\n"
	".quad tables_task + 0x60, tables_task, tables_task + 8\n"
	"tables_slots: .quad tables_add, tables_add, tables_add, tables_add, 0\n"
	".text\n");
/* clang-format on */

extern const uint64_t tables_task[];

static void tables__are_counted_by_their_shape(void **state)
{
	struct ky_task_tables tables;
	struct ky_elf *elf;

	(void)state;
	assert_int_equal(tables_task[7], 0x80); /* the linker keeps it */
	assert_int_equal(ky_elf_open_fd(&elf, open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), 0);
	ky_task_tables_count(elf, &tables);
	assert_int_equal(tables.named, 0);
	assert_int_equal(tables.wakers, 1);
	assert_int_equal(tables.shaped, 1);
	ky_elf_close(elf);
}
#else
static void tables__are_counted_by_their_shape(void **state)
{
	(void)state;
	skip();
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables__are_counted_by_their_shape),
	};

	return cmocka_run_group_tests_name("task_tables", tests, NULL, NULL);
}
