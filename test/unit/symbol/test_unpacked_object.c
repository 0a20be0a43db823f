/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A file of four sections made by hand: names, one as it is, one of zlib, one of zstd. What is made
 * of it is read back by its own headers. */
#include "../../lib/cmocka_all.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symbol/object_file.h>
#include <symbol/unpacked_object.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define PACKED_BYTES 300000u
#define ROOM 200000u
#define SECTIONS 5u
#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

static const char names[] = "\0.debug_line\0.debug_info\0.debug_str\0.shstrtab\0.gnu_debugaltlink";
static const char plain[] = "lines as they are";
static uint8_t content[PACKED_BYTES], file[ROOM + 65536];
static Elf64_Shdr sections[SECTIONS];
static size_t used;

static void put_packed(Elf64_Shdr *section, uint32_t kind)
{
	Elf64_Chdr head = {.ch_type = kind, .ch_size = PACKED_BYTES, .ch_addralign = 16};
	uLongf packed = ROOM / 2;

	memcpy(file + used, &head, sizeof(head));
	if (kind == ELFCOMPRESS_ZLIB)
		assert_int_equal(
			compress(file + used + sizeof(head), &packed, content, PACKED_BYTES), Z_OK);
	else
		packed = ZSTD_compress(file + used + sizeof(head), ROOM / 2, content, PACKED_BYTES,
				       1);
	section->sh_type = SHT_PROGBITS;
	section->sh_flags = SHF_COMPRESSED;
	section->sh_offset = used;
	section->sh_size = sizeof(head) + packed;
	used += section->sh_size;
}

static void make_file(void)
{
	Elf64_Ehdr header = {.e_type = ET_DYN,
			     .e_version = EV_CURRENT,
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = SECTIONS,
			     .e_shstrndx = 4};

	for (size_t i = 0; i < PACKED_BYTES; i++)
		content[i] = (uint8_t)((i * i / 977) & 0x3f);
	memset(file, 0, sizeof(file));
	memset(sections, 0, sizeof(sections));
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	used = sizeof(header);
	memcpy(file + used, plain, sizeof(plain));
	sections[1] = (Elf64_Shdr){
		.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = used, .sh_size = sizeof(plain)};
	used += sizeof(plain);
	put_packed(&sections[2], ELFCOMPRESS_ZLIB);
	sections[2].sh_name = 13;
	put_packed(&sections[3], ELFCOMPRESS_ZSTD);
	sections[3].sh_name = 25;
	sections[4] = (Elf64_Shdr){
		.sh_name = 36, .sh_type = SHT_STRTAB, .sh_offset = used, .sh_size = sizeof(names)};
	memcpy(file + used, names, sizeof(names));
	used = (used + sizeof(names) + 7) & ~(size_t)7;
	header.e_shoff = used;
	memcpy(file, &header, sizeof(header));
}

/* Returns what ky_unpacked_object_open() does. */
static int unpack(uint64_t bytes_max)
{
	char name[] = "/var/tmp/kymo-unpacked-XXXXXX";
	int fd = mkstemp(name), result;

	assert_true(fd >= 0);
	(void)unlink(name);
	memcpy(file + used, sections, sizeof(sections));
	assert_int_equal(write(fd, file, used + sizeof(sections)),
			 (ssize_t)(used + sizeof(sections)));
	result = ky_unpacked_object_open(fd, bytes_max);
	close(fd);
	return result;
}

static void unpacked_object__has_the_sections_as_they_were(void **state)
{
	static uint8_t read_back[PACKED_BYTES];
	Elf64_Shdr found[SECTIONS];
	struct ky_object object;
	Elf64_Ehdr header;
	int fd;

	(void)state;
	make_file();
	fd = unpack(10u << 20);
	assert_true(fd >= 0);
	assert_int_equal(ky_object_read_fd(&object, fd), 0);
	assert_true(object.is_sane && object.has_dwarf && !object.unpacked_bytes);
	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	assert_int_equal(pread(fd, found, sizeof(found), (off_t)header.e_shoff), sizeof(found));
	assert_int_equal(pread(fd, read_back, sizeof(plain), (off_t)found[1].sh_offset),
			 sizeof(plain));
	assert_memory_equal(read_back, plain, sizeof(plain));
	for (int i = 2; i < 4; i++) {
		assert_int_equal(found[i].sh_size, PACKED_BYTES);
		assert_int_equal(found[i].sh_flags & SHF_COMPRESSED, 0);
		assert_int_equal(found[i].sh_offset % 16, 0);
		assert_int_equal(pread(fd, read_back, PACKED_BYTES, (off_t)found[i].sh_offset),
				 PACKED_BYTES);
		assert_memory_equal(read_back, content, PACKED_BYTES);
	}
	close(fd);
}

static void unpacked_object__leaves_what_has_nothing_packed_or_needs_its_place(void **state)
{
	(void)state;
	make_file();
	sections[1].sh_name = 46; /* .gnu_debugaltlink */
	assert_int_equal(unpack(10u << 20), -ENOENT);
	make_file();
	sections[2].sh_flags = sections[3].sh_flags = 0;
	assert_int_equal(unpack(10u << 20), -ENOENT);
	make_file();
	memcpy(file, "text", 4);
	assert_int_equal(unpack(10u << 20), -ENOENT);
}

static void unpacked_object__refuses_damage_and_what_is_too_long(void **state)
{
	(void)state;
	make_file();
	assert_int_equal(unpack(PACKED_BYTES), KYMO_E_LIMIT);
	for (int i = 2; i < 4; i++) {
		Elf64_Chdr head;

		make_file();
		/* zstd's frame has no sum here: its beginning says what it is */
		memset(file + sections[i].sh_offset + sizeof(head) + (i == 2 ? 100 : 0), 0xff, 400);
		assert_int_equal(unpack(10u << 20), KYMO_E_CORRUPT);
		make_file();
		sections[i].sh_size -= 50; /* it ends too early */
		assert_int_equal(unpack(10u << 20), KYMO_E_CORRUPT);
		for (int more = -1; more <= 1; more += 2) { /* its header is wrong */
			make_file();
			memcpy(&head, file + sections[i].sh_offset, sizeof(head));
			head.ch_size = PACKED_BYTES + (uint64_t)(int64_t)more;
			memcpy(file + sections[i].sh_offset, &head, sizeof(head));
			assert_int_equal(unpack(10u << 20), KYMO_E_CORRUPT);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unpacked_object__has_the_sections_as_they_were),
		cmocka_unit_test(
			unpacked_object__leaves_what_has_nothing_packed_or_needs_its_place),
		cmocka_unit_test(unpacked_object__refuses_damage_and_what_is_too_long),
	};

	return cmocka_run_group_tests_name("unpacked_object", tests, NULL, NULL);
}
