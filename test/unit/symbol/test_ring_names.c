/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A hand-made ring directory over this very process. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <fcntl.h>
#include <link.h>
#include <elf/elf_image.h>
#include <symbol/ring_names.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IMAGE_BYTES 65536u
#define DIRECTORY_OFFSET 8192u

struct image {
	uint8_t *bytes;
	struct ky_ring_header *header;
};

static struct image make_image(void)
{
	struct image image;

	image.bytes = aligned_alloc(4096, IMAGE_BYTES);
	memset(image.bytes, 0, IMAGE_BYTES);
	image.header = (struct ky_ring_header *)(void *)image.bytes;
	image.header->pid = (uint32_t)getpid();
	image.header->directory_offset = DIRECTORY_OFFSET;
	image.header->directory_bytes = IMAGE_BYTES - DIRECTORY_OFFSET;
	return image;
}

static void add_module(struct image *image, uint32_t id, const struct ky_entry_module *fixed,
		       const uint8_t *build_id, const char *path)
{
	uint8_t *to = image->bytes + DIRECTORY_OFFSET + image->header->directory_used;
	struct ky_entry_module module = *fixed;
	struct ky_entry entry = {.kind = KY_ENTRY_MODULE, .id = id};

	module.path_bytes = (uint32_t)strlen(path);
	entry.payload_bytes = (uint32_t)sizeof(module) + module.build_id_bytes + module.path_bytes;
	memcpy(to, &entry, sizeof(entry));
	to += sizeof(entry);
	memcpy(to, &module, sizeof(module));
	memcpy(to + sizeof(module), build_id, module.build_id_bytes);
	memcpy(to + sizeof(module) + module.build_id_bytes, path, module.path_bytes);
	image->header->directory_used += sizeof(entry) + ((entry.payload_bytes + 7u) & ~7u);
}

static int describe(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	struct ky_entry_module *module = ctx;
	uint64_t end;
	int i;

	(void)info_bytes;
	module->load_bias = info->dlpi_addr;
	module->start = UINT64_MAX;
	for (i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
		if (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr < module->start)
			module->start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		if (end > module->end)
			module->end = end;
	}
	return 1;
}

/* As the recorder would describe it; the build id is the file's own. */
static void own_module(struct ky_entry_module *module, uint8_t *build_id, char *path)
{
	ssize_t bytes = readlink("/proc/self/exe", path, 2047);
	struct ky_elf *elf;

	assert_true(bytes > 0);
	path[bytes] = '\0';
	memset(module, 0, sizeof(*module));
	dl_iterate_phdr(describe, module);
	assert_int_equal(ky_elf_open_fd(&elf, open(path, O_RDONLY | O_CLOEXEC)), 0);
	module->build_id_bytes = (uint32_t)ky_elf_build_id(elf, build_id);
	ky_elf_close(elf);
}

static size_t text_of(struct image *image, uint64_t table, uint64_t code, char *out,
		      size_t capacity)
{
	struct ky_entry_name entry = {.table_address = table, .code_address = code};
	struct ky_ring_names *names;
	size_t bytes;

	assert_int_equal(ky_ring_names_open(&names, image->bytes, IMAGE_BYTES, NULL), 0);
	bytes = ky_ring_names_text(names, &entry, out, capacity);
	ky_ring_names_close(names);
	return bytes;
}

static void ring_names__function_of_this_process_is_named(void **state)
{
	struct image image = make_image();
	struct ky_entry_module module;
	uint8_t build_id[32];
	char path[2048], out[256];
	uint64_t address;

	(void)state;
	own_module(&module, build_id, path);
	add_module(&image, 1, &module, build_id, path);
	address = (uint64_t)(uintptr_t)&ring_names__function_of_this_process_is_named;
	assert_true(text_of(&image, 0, address + 4, out, sizeof(out)) > 0);
	assert_string_equal(out, "ring_names__function_of_this_process_is_named");
	/* Outside every module, and inside one without symbol there. */
	assert_int_equal(text_of(&image, 0, module.end, out, sizeof(out)), 0);
	assert_int_equal(text_of(&image, 0, 1, out, sizeof(out)), 0);
	assert_int_equal(text_of(&image, 0, 0, out, sizeof(out)), 0);
	free(image.bytes);
}

static void ring_names__process_of_another_namespace_is_asked_by_its_number_here(void **state)
{
	struct image image = make_image();
	struct ky_entry_name entry = {.table_address = 0};
	struct ky_entry_module module;
	struct ky_ring_names *names;
	uint8_t build_id[32];
	char path[2048], out[256];

	(void)state;
	own_module(&module, build_id, path);
	/* No file here is called so; the program that its process runs begins so. */
	path[strlen(path) - 1] = '\0';
	add_module(&image, 1, &module, build_id, path);
	entry.code_address = (uint64_t)(uintptr_t)&own_module;
	image.header->pid = 0;
	assert_int_equal(ky_ring_names_open(&names, image.bytes, IMAGE_BYTES, NULL), 0);
	assert_int_equal(ky_ring_names_text(names, &entry, out, sizeof(out)), 0);
	ky_ring_names_close(names);
	assert_int_equal(ky_ring_names_open(&names, image.bytes, IMAGE_BYTES, NULL), 0);
	ky_ring_names_process(names, (uint32_t)getpid());
	assert_true(ky_ring_names_text(names, &entry, out, sizeof(out)) > 0);
	assert_string_equal(out, "own_module");
	ky_ring_names_close(names);
	free(image.bytes);
}

static void ring_names__wrong_build_id_gives_no_name(void **state)
{
	struct image image = make_image();
	struct ky_entry_module module;
	uint8_t build_id[32];
	char path[2048], out[256];
	uint64_t address;

	(void)state;
	own_module(&module, build_id, path);
	build_id[0] ^= 1;
	module.build_id_bytes = 20; /* also where the linker writes none */
	add_module(&image, 1, &module, build_id, path);
	address = (uint64_t)(uintptr_t)&ring_names__wrong_build_id_gives_no_name;
	assert_int_equal(text_of(&image, 0, address, out, sizeof(out)), 0);
	free(image.bytes);
}

static void ring_names__latest_module_over_an_address_counts(void **state)
{
	struct image image = make_image();
	struct ky_entry_module module, gone;
	uint8_t build_id[32];
	char path[2048], out[256];
	uint64_t address;

	(void)state;
	own_module(&module, build_id, path);
	gone = module;
	add_module(&image, 1, &gone, build_id, "/proc/nonexistent/unloaded.so");
	address = (uint64_t)(uintptr_t)&ring_names__latest_module_over_an_address_counts;
	assert_int_equal(text_of(&image, 0, address, out, sizeof(out)), 0);
	add_module(&image, 2, &module, build_id, path);
	assert_true(text_of(&image, 0, address, out, sizeof(out)) > 0);
	free(image.bytes);
}

/* The directory is another process's memory: nothing in it may lead outside the image. */
static void ring_names__damaged_directory_is_survived(void **state)
{
	struct test_prng prng = {3};
	struct image image = make_image(), copy = make_image();
	struct ky_entry_module module;
	uint8_t build_id[32];
	char path[2048], out[64];
	int round, flips;

	(void)state;
	own_module(&module, build_id, path);
	add_module(&image, 1, &module, build_id, "/proc/nonexistent/a");
	add_module(&image, 2, &module, build_id, "/proc/nonexistent/b");
	for (round = 0; round < 20000; round++) {
		memcpy(copy.bytes, image.bytes, IMAGE_BYTES);
		for (flips = 0; flips < 3; flips++) {
			uint32_t at = DIRECTORY_OFFSET + test_below(&prng, 256);

			copy.bytes[at] = (uint8_t)test_random(&prng);
		}
		if (round % 3 == 0)
			copy.header->directory_used = test_random_length(&prng);
		if (round % 5 == 0)
			copy.header->directory_offset = test_random_length(&prng);
		if (round % 7 == 0)
			copy.header->directory_bytes = test_random_length(&prng);
		text_of(&copy, 0, module.start, out, sizeof(out));
	}
	free(image.bytes);
	free(copy.bytes);
}

static void ring_names__image_shorter_than_its_header_gives_nothing(void **state)
{
	struct ky_entry_name entry = {.code_address = 4096};
	struct ky_ring_names *names;
	uint8_t bytes[16] = {0};
	char out[16];

	(void)state;
	assert_int_equal(ky_ring_names_open(&names, bytes, sizeof(bytes), NULL), 0);
	assert_int_equal(ky_ring_names_text(names, &entry, out, sizeof(out)), 0);
	ky_ring_names_close(names);
	ky_ring_names_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring_names__function_of_this_process_is_named),
		cmocka_unit_test(
			ring_names__process_of_another_namespace_is_asked_by_its_number_here),
		cmocka_unit_test(ring_names__wrong_build_id_gives_no_name),
		cmocka_unit_test(ring_names__latest_module_over_an_address_counts),
		cmocka_unit_test(ring_names__damaged_directory_is_survived),
		cmocka_unit_test(ring_names__image_shorter_than_its_header_gives_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
