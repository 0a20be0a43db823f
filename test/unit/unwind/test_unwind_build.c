/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The tables of real libraries against the machine they were made by, pc by pc. */
#include "../../lib/cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind/unwind_build.h>
#include <unwind/unwind_maps.h>
#include <unwind/unwind_object.h>
#include <unwind/unwind_table.h>

#define OFFSET 65536u
#define LOOK_UPS 100000u

static struct ky_unwind_object object;
static struct ky_unwind_builder builder;
static uint8_t *area;
static uint64_t seed = 7;

static uint64_t next(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 17;
}

static int put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	(void)ctx;
	assert_true(offset + count <= KY_UNWIND_AREA_BYTES);
	memcpy(area + offset, bytes, count);
	return 0;
}

static int refuse(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	(void)ctx;
	(void)offset;
	(void)bytes;
	(void)count;
	return -ENOSPC;
}

static const struct ky_unwind_segment *code_of(void)
{
	for (uint32_t i = 0; i < object.segment_count; i++)
		if (object.segments[i].is_code)
			return &object.segments[i];
	fail_msg("no code");
	return NULL;
}

static int build(uint64_t end_offset, ky_unwind_write_fn write, struct ky_unwind_built *built)
{
	const struct ky_unwind_segment *code = code_of();

	return ky_unwind_build(&builder, &object.source, code->address,
			       code->address + code->memory_bytes, OFFSET, end_offset, write, NULL,
			       built);
}

static struct ky_unwind_code tables(const struct ky_unwind_built *built)
{
	return (struct ky_unwind_code){
		.base = built->base,
		.blocks = (const uint32_t *)(const void *)(area + built->blocks_offset),
		.rows = (const struct ky_unwind_row *)(const void *)(area + built->rows_offset),
		.wides = (const struct ky_unwind_wide *)(const void *)(area + built->wide_offset),
		.block_count = built->block_count,
		.row_count = built->row_count,
		.wide_count = built->wide_count};
}

static void check_rule(const struct ky_unwind_code *code, uint64_t pc,
		       const struct ky_cfi_machine *machine)
{
	struct ky_unwind_wide found = {0}, wanted = {0};
	uint32_t rule = ky_unwind_rule_at(code, pc, &found);
	uint32_t want = ky_unwind_pack(&machine->row, machine->is_signal, &wanted);

	if (want == KY_UNWIND_WIDE) {
		assert_int_equal(ky_unwind_rule_kind(rule), KY_UNWIND_WIDE);
		assert_memory_equal(&found, &wanted, sizeof(found));
	} else {
		assert_int_equal(rule, want);
	}
}

static void compare(int fd)
{
	static struct ky_cfi_machine machine;
	const struct ky_unwind_segment *code;
	struct ky_unwind_built built;
	struct ky_unwind_code looked_up;
	uint32_t checked = 0;

	assert_int_equal(ky_unwind_object_init(&object, ky_unwind_read_file, &fd, false, 0), 0);
	assert_int_equal(build(KY_UNWIND_AREA_BYTES, put, &built), 0);
	assert_true(built.function_count > 0 && built.unknown_count == 0);
	looked_up = tables(&built);
	code = code_of();
	ky_cfi_reset(&machine);
	for (uint32_t i = 0; i < LOOK_UPS; i++) {
		uint64_t pc = code->address + next() % code->memory_bytes;

		if (!ky_cfi_find(&machine, &object.source, pc))
			continue;
		check_rule(&looked_up, pc, &machine);
		checked++;
	}
	assert_true(checked > LOOK_UPS / 2);
	print_message("# %u functions, %u rows, %u wide rules, %u places compared\n",
		      built.function_count, built.row_count, built.wide_count, checked);
}

static int compare_object(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	uint32_t *count = ctx;
	int fd = info->dlpi_name[0] == '/' ? open(info->dlpi_name, O_RDONLY | O_CLOEXEC) : -1;

	(void)bytes;
	/* A sanitizer's own library may be an archive of something else. */
	if (fd < 0)
		return 0;
	compare(fd);
	close(fd);
	(*count)++;
	return 0;
}

static void build__says_the_same_as_the_machine(void **state)
{
	uint32_t count = 0;

	(void)state;
	dl_iterate_phdr(compare_object, &count);
	assert_true(count >= 2); /* the C library and its loader */
}

static void open_own(int *fd)
{
	*fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(*fd >= 0);
	assert_int_equal(ky_unwind_object_init(&object, ky_unwind_read_file, fd, false, 0), 0);
}

static void build__writes_nothing_after_its_end(void **state)
{
	struct ky_unwind_built whole, built;
	int fd, err;

	(void)state;
	open_own(&fd);
	assert_int_equal(build(KY_UNWIND_AREA_BYTES, put, &whole), 0);
	for (uint64_t end = OFFSET; end < whole.end_offset; end += 997) {
		memset(area + end, 0xa5, 4096);
		err = build(end, put, &built);
		assert_int_equal(err, KYMO_E_LIMIT);
		for (uint32_t i = 0; i < 4096; i++)
			assert_int_equal(area[end + i], 0xa5);
	}
	assert_int_equal(build(whole.end_offset, put, &built), 0);
	assert_int_equal(built.row_count, whole.row_count);
	close(fd);
}

static void build__a_refused_write_is_reported(void **state)
{
	struct ky_unwind_built built;
	int fd;

	(void)state;
	open_own(&fd);
	assert_int_equal(build(KY_UNWIND_AREA_BYTES, refuse, &built), -ENOSPC);
	close(fd);
}

static void build__code_without_an_index_has_none(void **state)
{
	struct ky_unwind_built built;
	int fd;

	(void)state;
	open_own(&fd);
	object.source.header_bytes = 0;
	assert_int_equal(build(KY_UNWIND_AREA_BYTES, put, &built), KYMO_E_UNSUPPORTED);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(build__says_the_same_as_the_machine),
		cmocka_unit_test(build__writes_nothing_after_its_end),
		cmocka_unit_test(build__a_refused_write_is_reported),
		cmocka_unit_test(build__code_without_an_index_has_none),
	};

	area = mmap(NULL, KY_UNWIND_AREA_BYTES + 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
