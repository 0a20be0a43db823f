/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* On fake_objects.c, built as fake_tokio.c is: the paths of the built files are the arguments. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <elf.h>
#include <elf/elf_image.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symbol/hidden_names.h>
#include <symbol/object_methods.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* clang-format off */
#define SYMBOL_POLL_JOB \
	"_ZN43_$LT$F$u20$as$u20$web..Handler$LT$T$GT$$GT$4call28_$u7b$$u7b$clos" \
	"ure$u7d$$u7d$17h0000000000000002E"
#define SYMBOL_OTHER \
	"_ZN3app5other17h0000000000000007E"
#define SYMBOL_POLL_LOGIN \
	"_ZN43_$LT$F$u20$as$u20$web..Handler$LT$T$GT$$GT$4call28_$u7b$$u7b$clos" \
	"ure$u7d$$u7d$17h0000000000000006E"
/* clang-format on */

#define GENERIC "<F as web::Handler<T>>::call::{{closure}}"

static int build_count;
static char **builds;

static uint64_t address_of(const char *path, const char *symbol)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const uint8_t *bytes;
	const Elf64_Ehdr *header;
	const Elf64_Shdr *sections;
	uint64_t found = 0;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(bytes != MAP_FAILED);
	header = (const void *)bytes;
	sections = (const void *)(bytes + header->e_shoff);
	for (int i = 0; i < header->e_shnum; i++) {
		const Elf64_Sym *table = (const void *)(bytes + sections[i].sh_offset);
		const char *names = (const char *)bytes +
				    sections[sections[i].sh_link % header->e_shnum].sh_offset;

		if (sections[i].sh_type != SHT_SYMTAB)
			continue;
		for (size_t k = 0; k < sections[i].sh_size / sizeof(*table); k++)
			if (strcmp(names + table[k].st_name, symbol) == 0)
				found = table[k].st_value;
	}
	munmap((void *)(uintptr_t)bytes, (size_t)st.st_size);
	close(fd);
	assert_true(found != 0);
	return found;
}

/* What is reported, the rows joined by "|". */
static char said[1024];

static void say(void *ctx, const struct ky_symbol_row *row)
{
	size_t used = strlen(said);

	(void)ctx;
	(void)snprintf(said + used, sizeof(said) - used, "%s%.*s", used ? "|" : "",
		       (int)row->name_bytes, row->name);
}

static const char *said_of(const char *path, uint64_t address, uint64_t start, const char *name)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct ky_hidden_names *names = ky_hidden_names_open(fd);
	struct ky_symbol_row row = {.name = name, .name_bytes = strlen(name), .start = start};
	int more;

	assert_non_null(names);
	said[0] = '\0';
	ky_hidden_names_begin(names, address, say, NULL);
	ky_hidden_names_row(names, &row);
	more = ky_hidden_names_end(names);
	assert_int_equal(more, strchr(said, '|') != NULL);
	ky_hidden_names_close(names);
	close(fd);
	return said;
}

static const char *name_of(const char *path, const char *symbol, const char *name)
{
	uint64_t start = address_of(path, symbol);

	return said_of(path, start + 1, start, name);
}

static void hidden_names__boxed_future_has_the_name_of_its_type(void **state)
{
	(void)state;
	for (int i = 0; i < build_count; i++) {
		assert_string_equal(name_of(builds[i], SYMBOL_POLL_JOB, GENERIC),
				    "<app::job as web::Handler<T>>::call::{{closure}}");
		/* Another function's closure is none of it; a whole name says enough. */
		assert_string_equal(name_of(builds[i], SYMBOL_POLL_JOB,
					    "<F as web::A>::b::{{closure}}"),
				    "<F as web::A>::b::{{closure}}");
		assert_string_equal(name_of(builds[i], SYMBOL_POLL_JOB, "app::job::{{closure}}"),
				    "app::job::{{closure}}");
		assert_string_equal(name_of(builds[i], SYMBOL_OTHER, GENERIC), GENERIC);
	}
}

static void hidden_names__types_with_one_drop_glue_are_both_said(void **state)
{
	(void)state;
	for (int i = 0; i < build_count; i++) {
		const char *name = name_of(builds[i], SYMBOL_POLL_LOGIN, GENERIC);

		assert_non_null(strstr(name, "<app::ping as web::Handler<T>>::call::{{closure}}"));
		assert_non_null(strstr(name, " or "));
		assert_non_null(strstr(name, "<app::login as web::Handler<T>>::call::{{closure}}"));
	}
}

static void hidden_names__who_gave_back_is_named_by_the_call(void **state)
{
	(void)state;
	for (int i = 0; i < build_count; i++) {
		uint64_t after = address_of(builds[i], "after_gives_back");

		assert_string_equal(said_of(builds[i], after - 1, after - 5, "app::take"),
				    "app::take|<tokio::sync::semaphore::OwnedSemaphorePermit as "
				    "core::ops::drop::Drop>::drop");
		after = address_of(builds[i], "after_does_more");
		assert_string_equal(said_of(builds[i], after - 1, after - 5, "app::take"),
				    "app::take");
		/* No call ends there; no code is there. */
		assert_string_equal(said_of(builds[i], after, after - 5, "app::take"), "app::take");
		assert_string_equal(said_of(builds[i], 0, 0, "app::take"), "app::take");
		assert_string_equal(said_of(builds[i], UINT64_MAX, 0, "app::take"), "app::take");
	}
}

static void object_methods__damaged_file_gives_other_names_or_none(void **state)
{
	struct test_prng prng = {7};

	(void)state;
	for (int round = 0; round < 200; round++) {
		char out[256];
		struct stat st;
		int fd = open(builds[0], O_RDONLY | O_CLOEXEC);
		struct ky_object_methods methods;
		struct ky_elf *elf;
		uint8_t *bytes;

		assert_int_equal(fstat(fd, &st), 0);
		bytes = malloc((size_t)st.st_size);
		assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
		close(fd);
		for (int i = 0; i < 64; i++)
			bytes[test_random(&prng) % (uint64_t)st.st_size] ^= (uint8_t)test_random(
				&prng);
		if (ky_elf_open_memory(&elf, bytes, (size_t)st.st_size) == 0) {
			if (ky_object_methods_read(&methods, elf) == 0) {
				(void)ky_object_method_name(&methods, elf,
							    address_of(builds[0], SYMBOL_POLL_JOB),
							    GENERIC, out, sizeof(out));
				ky_object_methods_release(&methods);
			}
			ky_elf_close(elf);
		}
		free(bytes);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hidden_names__boxed_future_has_the_name_of_its_type),
		cmocka_unit_test(hidden_names__types_with_one_drop_glue_are_both_said),
		cmocka_unit_test(hidden_names__who_gave_back_is_named_by_the_call),
		cmocka_unit_test(object_methods__damaged_file_gives_other_names_or_none),
	};

	build_count = argc - 1;
	builds = argv + 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
