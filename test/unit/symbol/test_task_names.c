/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* On fake_tokio.c, built as a position-independent program, as one at a fixed address, and with
 * packed
 * relocations: the paths of the built files are the arguments. */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <elf/elf_image.h>
#include <symbol/task_names.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUILDS_MAX 4

static struct build {
	const char *path;
	uint8_t *bytes;
	size_t byte_count;
} builds[BUILDS_MAX];
static int build_count;

static void load(struct build *build, const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	build->path = path;
	build->byte_count = (size_t)st.st_size;
	build->bytes = malloc(build->byte_count);
	assert_int_equal(read(fd, build->bytes, build->byte_count), st.st_size);
	close(fd);
}

/* Tables are data; our index has functions only. A search of our own, so that the test does not
 * rest on
 * what it tests. */
static uint64_t address_of(const struct build *build, const char *symbol)
{
	const Elf64_Ehdr *header = (const void *)build->bytes;
	const Elf64_Shdr *sections = (const void *)(build->bytes + header->e_shoff);
	int i;

	for (i = 0; i < header->e_shnum; i++) {
		const Elf64_Sym *table = (const void *)(build->bytes + sections[i].sh_offset);
		const char *names = (const char *)build->bytes +
				    sections[sections[i].sh_link % header->e_shnum].sh_offset;
		size_t k;

		if (sections[i].sh_type != SHT_SYMTAB)
			continue;
		for (k = 0; k < sections[i].sh_size / sizeof(*table); k++)
			if (strcmp(names + table[k].st_name, symbol) == 0)
				return table[k].st_value;
	}
	fail_msg("%s has no symbol %s", build->path, symbol);
	return 0;
}

static const char *name_in(const struct build *build, const char *table)
{
	static char out[1024];
	struct ky_task_names *names;

	assert_int_equal(ky_task_names_open_memory(&names, build->bytes, build->byte_count), 0);
	out[0] = '\0';
	ky_task_name(names, address_of(build, table), out, sizeof(out));
	ky_task_names_close(names);
	return out;
}

static void task_names__type_is_found_through_the_call_graph(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < build_count; i++)
		assert_string_equal(name_in(&builds[i], "table_render"),
				    "report::render::{{closure}}");
}

static void task_names__folded_types_are_all_named(void **state)
{
	static const char expected[] =
		"net::fetch::{{closure}} or net::store<(u8,u16)>::{{closure}}";
	static const char reversed[] =
		"net::store<(u8,u16)>::{{closure}} or net::fetch::{{closure}}";
	int i;

	(void)state;
	for (i = 0; i < build_count; i++) {
		const char *name = name_in(&builds[i], "table_fetch");

		assert_true(strcmp(name, expected) == 0 || strcmp(name, reversed) == 0);
		name = name_in(&builds[i], "table_store");
		assert_true(strcmp(name, expected) == 0 || strcmp(name, reversed) == 0);
	}
}

static void task_names__twin_whose_symbol_is_gone_is_not_guessed(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < build_count; i++) {
		assert_string_equal(name_in(&builds[i], "table_twin_a"),
				    "net::twin or one with the same code");
		assert_string_equal(name_in(&builds[i], "table_twin_b"),
				    "net::twin or one with the same code");
	}
}

static void task_names__what_one_table_alone_leads_to_decides(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < build_count; i++) {
		assert_string_equal(name_in(&builds[i], "table_first"), "batch::first");
		assert_string_equal(name_in(&builds[i], "table_second"), "batch::second");
	}
}

static void task_names__merged_code_of_two_tables_is_not_guessed(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < build_count; i++) {
		assert_string_equal(name_in(&builds[i], "table_lost_a"),
				    "batch::lost or one with the same code");
		assert_string_equal(name_in(&builds[i], "table_lost_b"),
				    "batch::lost or one with the same code");
	}
}

static void task_names__v0_symbols_carry_the_type_themselves(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < build_count; i++)
		assert_string_equal(name_in(&builds[i], "table_v0"), "worker::run::{closure#0}");
}

static void task_names__without_evidence_there_is_no_name(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < build_count; i++)
		assert_string_equal(name_in(&builds[i], "table_mute"), "");
}

static void task_names__name_is_cut_to_the_callers_buffer(void **state)
{
	struct ky_task_names *names;
	char out[16];
	size_t capacity;

	(void)state;
	assert_int_equal(ky_task_names_open_memory(&names, builds[0].bytes, builds[0].byte_count),
			 0);
	for (capacity = 0; capacity < 12; capacity++) {
		memset(out, '#', sizeof(out));
		assert_int_equal(ky_task_name(names, address_of(&builds[0], "table_render"), out,
					      capacity),
				 capacity > 0 ? capacity - 1 : 0);
		assert_memory_equal(out, "report::rend", capacity > 0 ? capacity - 1 : 0);
		assert_int_equal(out[capacity], '#');
	}
	ky_task_names_close(names);
}

static void task_names__function_is_found_by_any_address_in_it(void **state)
{
	struct ky_task_names *names;
	char out[256];
	uint64_t start;

	(void)state;
	assert_int_equal(ky_task_names_open_memory(&names, builds[0].bytes, builds[0].byte_count),
			 0);
	start = address_of(&builds[0], "_ZN3app6helper17h00000000000000ffE");
	assert_int_equal(ky_function_name(names, start + 1, out, sizeof(out)), 11);
	assert_string_equal(out, "app::helper");
	assert_true(ky_function_name(names, address_of(&builds[0], "main"), out, sizeof(out)) > 0);
	assert_string_equal(out, "main");
	assert_int_equal(ky_function_name(names, 8, out, sizeof(out)), 0);
	assert_int_equal(ky_function_name(names, UINT64_MAX, out, sizeof(out)), 0);
	ky_task_names_close(names);
}

static void task_names__another_build_id_is_another_file(void **state)
{
	uint8_t id[KY_BUILD_ID_BYTES_MAX];
	struct ky_task_names *names;
	struct ky_elf *elf;
	size_t id_bytes;

	(void)state;
	assert_int_equal(ky_elf_open_memory(&elf, builds[0].bytes, builds[0].byte_count), 0);
	id_bytes = ky_elf_build_id(elf, id);
	ky_elf_close(elf);
	assert_int_equal(id_bytes, 20);
	assert_int_equal(ky_task_names_open(&names, builds[0].path, id, id_bytes), 0);
	ky_task_names_close(names);
	id[19] ^= 1;
	assert_int_equal(ky_task_names_open(&names, builds[0].path, id, id_bytes), KYMO_E_CORRUPT);
	assert_null(names);
	assert_int_equal(ky_task_names_open(&names, builds[0].path, NULL, 0), KYMO_E_CORRUPT);
	assert_int_equal(ky_task_names_open(&names, "/proc/nonexistent", NULL, 0), -ENOENT);
	assert_int_equal(ky_task_names_open(&names, "/dev/null", NULL, 0), KYMO_E_UNSUPPORTED);
}

static void task_names__failed_allocations_leave_nothing(void **state)
{
	struct ky_task_names *names;
	uint64_t n;
	int err;

	(void)state;
	for (n = 0;; n++) {
		test_alloc_fail_at(n);
		err = ky_task_names_open_memory(&names, builds[0].bytes, builds[0].byte_count);
		test_alloc_normal();
		if (err == 0)
			break;
		assert_int_equal(err, -ENOMEM);
		assert_null(names);
	}
	assert_true(n >= 4);
	ky_task_names_close(names);
}

static uint64_t tables_of[7];

/* Opens a damaged copy and asks for everything; the answers may be anything, but bounded. */
static void ask_everything(const uint8_t *bytes, size_t byte_count)
{
	struct ky_task_names *names;
	char out[512];
	size_t i;

	test_alloc_fail_at(UINT64_MAX);
	if (ky_task_names_open_memory(&names, bytes, byte_count) == 0) {
		for (i = 0; i < sizeof(tables_of) / sizeof(tables_of[0]); i++) {
			assert_true(ky_task_name(names, tables_of[i], out, sizeof(out)) <
				    sizeof(out));
			assert_true(ky_function_name(names, tables_of[i] ^ i, out, sizeof(out)) <
				    sizeof(out));
		}
		ky_task_names_close(names);
	}
	test_alloc_normal();
	assert_true(test_alloc_bytes < 4 * byte_count + (8u << 20));
}

static void find_tables(const struct build *build)
{
	static const char *const symbols[] = {"table_render", "table_fetch",  "table_store",
					      "table_twin_a", "table_twin_b", "table_v0",
					      "table_mute"};
	size_t i;

	for (i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		tables_of[i] = address_of(build, symbols[i]);
}

static void task_names__truncated_file_is_survived_at_every_length(void **state)
{
	size_t length, step = builds[0].byte_count / 1500 + 1;
	uint8_t *copy;

	(void)state;
	find_tables(&builds[0]);
	for (length = 0; length < builds[0].byte_count; length += length < 4096 ? 13 : step) {
		copy = malloc(length + 1); /* exactly as long: the sanitizer sees every overrun */
		memcpy(copy, builds[0].bytes, length);
		ask_everything(copy, length);
		free(copy);
	}
}

static void task_names__flipped_bits_are_survived(void **state)
{
	struct test_prng prng = {11};
	const struct build *build = &builds[0];
	const Elf64_Ehdr *header = (const void *)build->bytes;
	uint8_t *copy = malloc(build->byte_count);
	int round, flips;

	(void)state;
	find_tables(build);
	for (round = 0; round < 1500; round++) {
		memcpy(copy, build->bytes, build->byte_count);
		for (flips = 0; flips < 4; flips++) {
			size_t at = test_below(&prng, (uint32_t)build->byte_count);

			/* Half of them where they hurt: headers and the section table. */
			if (flips == 1)
				at = test_below(&prng, 1024);
			else if (flips == 2)
				at = header->e_shoff +
				     test_below(&prng,
						(uint32_t)(header->e_shnum * sizeof(Elf64_Shdr)));
			copy[at] ^= (uint8_t)(1u << test_below(&prng, 8));
		}
		ask_everything(copy, build->byte_count);
	}
	free(copy);
}

static void task_names__absurd_numbers_in_the_headers_are_refused(void **state)
{
	static const uint64_t absurd[] = {UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 40, 0};
	const struct build *build = &builds[0];
	uint8_t *copy = malloc(build->byte_count);
	size_t i, at;

	(void)state;
	find_tables(build);
	for (i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
		for (at = 16; at + 8 <= 1024; at += 8) {
			memcpy(copy, build->bytes, build->byte_count);
			memcpy(copy + at, &absurd[i], 8);
			ask_everything(copy, build->byte_count);
		}
		for (at = ((const Elf64_Ehdr *)(const void *)build->bytes)->e_shoff;
		     at + 8 <= build->byte_count; at += 8) {
			memcpy(copy, build->bytes, build->byte_count);
			memcpy(copy + at, &absurd[i], 8);
			ask_everything(copy, build->byte_count);
		}
	}
	free(copy);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(task_names__type_is_found_through_the_call_graph),
		cmocka_unit_test(task_names__folded_types_are_all_named),
		cmocka_unit_test(task_names__twin_whose_symbol_is_gone_is_not_guessed),
		cmocka_unit_test(task_names__what_one_table_alone_leads_to_decides),
		cmocka_unit_test(task_names__merged_code_of_two_tables_is_not_guessed),
		cmocka_unit_test(task_names__v0_symbols_carry_the_type_themselves),
		cmocka_unit_test(task_names__without_evidence_there_is_no_name),
		cmocka_unit_test(task_names__name_is_cut_to_the_callers_buffer),
		cmocka_unit_test(task_names__function_is_found_by_any_address_in_it),
		cmocka_unit_test(task_names__another_build_id_is_another_file),
		cmocka_unit_test(task_names__failed_allocations_leave_nothing),
		cmocka_unit_test(task_names__truncated_file_is_survived_at_every_length),
		cmocka_unit_test(task_names__flipped_bits_are_survived),
		cmocka_unit_test(task_names__absurd_numbers_in_the_headers_are_refused),
	};
	int err, i;

	for (i = 1; i < argc && build_count < BUILDS_MAX; i++)
		load(&builds[build_count++], argv[i]);
	assert_true(build_count > 0);
	err = cmocka_run_group_tests(tests, NULL, NULL);
	for (i = 0; i < build_count; i++)
		free(builds[i].bytes);
	return err;
}
