/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <elf.h>
#include <errno.h>
#include <kymo/base.h>
#include <symbol/object_file.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define SECTIONS_MAX 65536u
#define SEGMENTS_MAX 256u
#define NOTE_BYTES_MAX 2048u
#define NAME_BYTES 24u
/* zlib and zstd pack debug information three- to tenfold; beyond this it is a bomb. */
#define RATIO_MAX 1024u
#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

struct bytes {
	int fd; /* -1: memory */
	const uint8_t *memory;
	uint64_t count;
};

static int read_at(const struct bytes *file, uint64_t offset, void *out, size_t count)
{
	uint8_t *to = out;

	if (offset > file->count || count > file->count - offset)
		return KYMO_E_TRUNCATED;
	if (count == 0)
		return 0;
	if (file->fd < 0) {
		if (!file->memory || !out)
			return KYMO_E_TRUNCATED;
		memcpy(out, file->memory + offset, count);
		return 0;
	}
	while (count > 0) {
		ssize_t got = pread(file->fd, to, count, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return KYMO_E_TRUNCATED;
		to += got;
		offset += (uint64_t)got;
		count -= (size_t)got;
	}
	return 0;
}

static void read_note(struct ky_object *out, const struct bytes *file, uint64_t offset,
		      uint64_t byte_count)
{
	uint8_t notes[NOTE_BYTES_MAX];
	size_t count = byte_count < sizeof(notes) ? (size_t)byte_count : sizeof(notes);

	if (out->build_id_bytes == 0 && read_at(file, offset, notes, count) == 0)
		out->build_id_bytes = ky_elf_notes_build_id(notes, count, out->build_id);
}

static int read_segments(struct ky_object *out, const struct bytes *file, const Elf64_Ehdr *header)
{
	if (header->e_phnum == 0)
		return 0;
	if (header->e_phentsize != sizeof(Elf64_Phdr))
		return KYMO_E_CORRUPT;
	if (header->e_phnum > SEGMENTS_MAX)
		return KYMO_E_LIMIT;
	for (size_t i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr segment;
		int err = read_at(file, header->e_phoff + i * sizeof(segment), &segment,
				  sizeof(segment));

		if (err < 0)
			return err;
		/* A debug file keeps the headers of segments whose bytes it does not have. */
		if (segment.p_type == PT_NOTE)
			read_note(out, file, segment.p_offset, segment.p_filesz);
	}
	return 0;
}

/* Adds what a compressed section unpacks to. Returns false for a bomb. */
static bool is_unpackable(struct ky_object *out, const struct bytes *file,
			  const Elf64_Shdr *section, const char *name)
{
	uint64_t unpacked = 0;
	Elf64_Chdr packed;
	uint8_t old[12];

	if ((section->sh_flags & SHF_COMPRESSED) != 0) {
		if (section->sh_size < sizeof(packed) ||
		    read_at(file, section->sh_offset, &packed, sizeof(packed)) < 0 ||
		    (packed.ch_type != ELFCOMPRESS_ZLIB && packed.ch_type != ELFCOMPRESS_ZSTD))
			return false;
		unpacked = packed.ch_size;
	} else if (strncmp(name, ".zdebug_", 8) == 0) { /* as it was before 2015 */
		if (section->sh_size < sizeof(old) ||
		    read_at(file, section->sh_offset, old, sizeof(old)) < 0)
			return false;
		for (size_t i = 4; i < sizeof(old); i++)
			unpacked = unpacked << 8 | old[i];
	}
	if (unpacked > KY_OBJECT_UNPACKED_MAX - out->unpacked_bytes ||
	    unpacked / RATIO_MAX > section->sh_size)
		return false;
	out->unpacked_bytes += unpacked;
	return true;
}

static void read_link(struct ky_object *out, const struct bytes *file, const Elf64_Shdr *section)
{
	char text[KY_OBJECT_LINK_BYTES + 8];
	size_t count = section->sh_size < sizeof(text) ? (size_t)section->sh_size : sizeof(text);
	size_t name_bytes, crc_at;

	if (read_at(file, section->sh_offset, text, count) < 0)
		return;
	name_bytes = strnlen(text, count);
	crc_at = (name_bytes + 4) & ~(size_t)3; /* after the NUL, aligned */
	if (name_bytes == 0 || name_bytes >= sizeof(out->link) || crc_at + 4 > count ||
	    memchr(text, '/', name_bytes) != NULL || strcmp(text, "..") == 0)
		return; /* a name that leads elsewhere is not followed */
	memcpy(out->link, text, name_bytes + 1);
	memcpy(&out->link_crc, text + crc_at, sizeof(out->link_crc));
}

static void read_section(struct ky_object *out, const struct bytes *file, const Elf64_Shdr *section,
			 const char *name)
{
	if (section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL)
		return;
	if (section->sh_offset > file->count ||
	    section->sh_size > file->count - section->sh_offset ||
	    !is_unpackable(out, file, section, name)) {
		out->is_sane = false;
		return;
	}
	if (section->sh_type == SHT_SYMTAB || section->sh_type == SHT_DYNSYM)
		out->has_symbols = true;
	if (section->sh_type == SHT_SYMTAB)
		out->has_symtab = true;
	else if (section->sh_type == SHT_NOTE)
		read_note(out, file, section->sh_offset, section->sh_size);
	else if (strcmp(name, ".gnu_debuglink") == 0)
		read_link(out, file, section);
	else if (strcmp(name, ".debug_info") == 0 || strcmp(name, ".zdebug_info") == 0)
		out->has_dwarf = section->sh_size > 0;
}

static int read_sections(struct ky_object *out, const struct bytes *file, const Elf64_Ehdr *header)
{
	uint64_t count = header->e_shnum, names_at = header->e_shstrndx;
	Elf64_Shdr section, names;
	int err;

	if (header->e_shoff == 0)
		return 0;
	if (header->e_shentsize != sizeof(section))
		return KYMO_E_CORRUPT;
	err = read_at(file, header->e_shoff, &section, sizeof(section));
	if (err < 0)
		return err;
	/* More than fit 16 bits: the first one carries the numbers. */
	count = count == 0 ? section.sh_size : count;
	names_at = names_at == SHN_XINDEX ? section.sh_link : names_at;
	if (count > SECTIONS_MAX)
		return KYMO_E_LIMIT;
	if (names_at >= count)
		return KYMO_E_CORRUPT;
	err = read_at(file, header->e_shoff + names_at * sizeof(names), &names, sizeof(names));
	for (uint64_t i = 0; i < count && err == 0; i++) {
		char name[NAME_BYTES] = "";
		size_t room = sizeof(name) - 1;

		err = read_at(file, header->e_shoff + i * sizeof(section), &section,
			      sizeof(section));
		if (err < 0)
			break;
		if (section.sh_name < names.sh_size && names.sh_size - section.sh_name < room)
			room = (size_t)(names.sh_size - section.sh_name);
		if (section.sh_name < names.sh_size && names.sh_offset <= file->count &&
		    section.sh_name <= file->count &&
		    read_at(file, names.sh_offset + section.sh_name, name, room) < 0)
			name[0] = '\0';
		read_section(out, file, &section, name);
	}
	return err;
}

static int read_object(struct ky_object *out, const struct bytes *file)
{
	Elf64_Ehdr header;
	int err = read_at(file, 0, &header, sizeof(header));

	memset(out, 0, sizeof(*out));
	out->file_bytes = file->count;
	out->is_sane = true;
	if (err < 0)
		return err;
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return KYMO_E_UNSUPPORTED;
	err = read_segments(out, file, &header);
	return err < 0 ? err : read_sections(out, file, &header);
}

int ky_object_read_memory(struct ky_object *out, const uint8_t *bytes, size_t byte_count)
{
	struct bytes file = {.fd = -1, .memory = bytes, .count = byte_count};

	return read_object(out, &file);
}

int ky_object_read_fd(struct ky_object *out, int fd)
{
	struct bytes file = {.fd = fd};
	struct stat st;

	memset(out, 0, sizeof(*out));
	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return KYMO_E_UNSUPPORTED;
	file.count = (uint64_t)st.st_size;
	return read_object(out, &file);
}

int ky_object_crc(int fd, uint32_t *out)
{
	uint8_t buffer[2048];
	uint64_t offset = 0;
	uLong crc = crc32(0, NULL, 0);

	for (;;) {
		ssize_t got = pread(fd, buffer, sizeof(buffer), (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		crc = crc32(crc, buffer, (uInt)got);
		offset += (uint64_t)got;
	}
	*out = (uint32_t)crc;
	return 0;
}
