/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The test program is the object that contains Tokio. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../adapters/tokio/hooks.h"
#include "../../../adapters/tokio/patch.h"
#include "../../../adapters/tokio/waits.h"
#include "fake_recorder.h"
#include "fake_tokio.h"

static void tables__all_are_found_and_distinguished(void **state)
{
	(void)state;
	assert_int_equal(fake_find()->table_count, FAKE_TABLES);
	assert_int_equal(fake_find()->object_count, 1);
	assert_int_equal(fake_table_of(FAKE_MULTI)->kind, KY_TOKIO_KIND_MULTI_THREAD);
	assert_int_equal(fake_table_of(FAKE_CURRENT)->kind, KY_TOKIO_KIND_CURRENT_THREAD);
	assert_int_equal(fake_table_of(FAKE_BLOCKING)->kind, KY_TOKIO_KIND_BLOCKING);
	assert_int_equal(fake_table_of(FAKE_LAUNCH)->kind, KY_TOKIO_KIND_LAUNCH);
}

static void tables__an_impostor_is_counted_and_left_alone(void **state)
{
	(void)state;
	assert_int_equal(fake_find()->refused_count, 1);
}

static void tables__the_waker_table_makes_one_copy(void **state)
{
	(void)state;
	assert_int_equal(fake_find()->copy_count, 1);
	assert_non_null(ky_tokio_wakers[0].words);
}

static void got__slots_of_libc_waits_are_found(void **state)
{
	uint64_t kinds = 0;

	(void)state;
	/* Called here, so that this program has the slot. */
	assert_int_equal(syscall(SYS_getpid), getpid());
	for (uint32_t i = 0; i < fake_find()->got_count; i++)
		kinds |= UINT64_C(1) << fake_find()->got[i].kind;
	assert_true(kinds & UINT64_C(1) << KY_TOKIO_GOT_SYSCALL);
}

/* Permissions of the mapping that holds an address, as /proc says. */
static void permissions_of(uintptr_t address, char out[5])
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char line[512];

	out[0] = 0;
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, out) == 3 && address >= start &&
		    address < end)
			break;
	fclose(maps);
}

static void patch__seals_what_it_unsealed(void **state)
{
	const struct ky_tokio_table *table = fake_table_of(FAKE_MULTI);
	char before[5], after[5];

	(void)state;
	permissions_of((uintptr_t)table->words, before);
	fake_patch();
	permissions_of((uintptr_t)table->words, after);
	assert_string_equal(before, after);
	assert_int_equal(after[1], '-');
	assert_int_equal(table->words[KY_TOKIO_SLOT_POLL] - (uintptr_t)ky_tokio_poll_thunks,
			 (uintptr_t)(table - ky_tokio_tables) * KY_TOKIO_THUNK_BYTES);
}

static void patch__puts_waits_into_the_slots_it_was_given(void **state)
{
	struct ky_tokio_found found;
	uintptr_t slots[KY_TOKIO_GOT_KINDS];

	(void)state;
	memset(&found, 0, sizeof(found));
	for (uint32_t kind = 0; kind < KY_TOKIO_GOT_KINDS; kind++) {
		slots[kind] = 1;
		found.got[found.got_count++] = (struct ky_tokio_got){&slots[kind], kind};
	}
	assert_int_equal(ky_tokio_patch(&found), 0);
	for (uint32_t kind = 0; kind < KY_TOKIO_GOT_KINDS; kind++)
		assert_int_equal(slots[kind], ky_tokio_wait_address(kind));
}

static void patch__refusal_changes_nothing(void **state)
{
	struct ky_tokio_found found;
	uintptr_t slot = 1;

	(void)state;
	memset(&found, 0, sizeof(found));
	found.got[found.got_count++] = (struct ky_tokio_got){&slot, KY_TOKIO_GOT_SYSCALL};
	/* Nothing is mapped there, so the kernel refuses. */
	found.ranges[found.range_count++] = (struct ky_tokio_range){4096, 8192};
	assert_int_equal(ky_tokio_patch(&found), -ENOMEM);
	assert_int_equal(slot, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables__all_are_found_and_distinguished),
		cmocka_unit_test(tables__an_impostor_is_counted_and_left_alone),
		cmocka_unit_test(tables__the_waker_table_makes_one_copy),
		cmocka_unit_test(got__slots_of_libc_waits_are_found),
		cmocka_unit_test(patch__seals_what_it_unsealed),
		cmocka_unit_test(patch__puts_waits_into_the_slots_it_was_given),
		cmocka_unit_test(patch__refusal_changes_nothing),
	};

	return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
