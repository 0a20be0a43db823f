/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <symbol/unpacked_object.h>

#include <base/alloc.h>
#include <base/write_within.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define PIECE_BYTES ((size_t)64 << 10)
#define SECTIONS_MAX 4096u
#define SEGMENT_BYTES_MAX (64u << 10)
#define ALIGN_MAX 4096u
#define NAME_BYTES 24u
#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

struct unpacking {
	int from, to;
	uint64_t end, end_max; /* of what is written */
	uint8_t *in, *out;
	Elf64_Shdr *sections;
	size_t section_count;
};

/* What is being unpacked: packed bytes left, and where the next ones go. */
struct packed {
	uint64_t at, left, to, to_left;
};

static int read_at(int fd, uint64_t offset, void *out, size_t count)
{
	uint8_t *to = out;

	while (count > 0) {
		ssize_t got = offset > INT64_MAX ? 0 : pread(fd, to, count, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : KYMO_E_CORRUPT;
		to += got;
		offset += (uint64_t)got;
		count -= (size_t)got;
	}
	return 0;
}

static int copy(struct unpacking *file, uint64_t offset, uint64_t count)
{
	int err = 0;

	while (count > 0 && !err) {
		size_t piece = count < PIECE_BYTES ? (size_t)count : PIECE_BYTES;

		err = read_at(file->from, offset, file->in, piece);
		if (!err)
			err = ky_write_at(file->to, offset, file->in, piece);
		offset += piece;
		count -= piece;
	}
	return err;
}

/* ---- one section ---- */

/* Returns how many bytes are in file->in now, 0 after the last; negative errors. */
static int fill(struct unpacking *file, struct packed *packed)
{
	size_t piece = packed->left < PIECE_BYTES ? (size_t)packed->left : PIECE_BYTES;
	int err = read_at(file->from, packed->at, file->in, piece);

	packed->at += piece;
	packed->left -= piece;
	return err ? err : (int)piece;
}

static int drain(struct unpacking *file, struct packed *packed, size_t count)
{
	int err = count > packed->to_left ? KYMO_E_CORRUPT :
					    ky_write_at(file->to, packed->to, file->out, count);

	packed->to += count;
	packed->to_left -= err ? 0 : count;
	return err;
}

static int unpack_zlib(struct unpacking *file, struct packed *packed)
{
	z_stream stream = {.zalloc = Z_NULL};
	int result = inflateInit(&stream) == Z_OK ? 0 : -ENOMEM, status = Z_OK;

	if (result)
		return result;
	while (!result && status == Z_OK) {
		if (!stream.avail_in && packed->left) {
			result = fill(file, packed);
			stream.next_in = file->in;
			stream.avail_in = result > 0 ? (uInt)result : 0;
			if (result < 0)
				break;
		}
		stream.next_out = file->out;
		stream.avail_out = (uInt)PIECE_BYTES;
		status = inflate(&stream, Z_NO_FLUSH); /* Z_BUF_ERROR: it has no more to read */
		result = drain(file, packed, PIECE_BYTES - stream.avail_out);
	}
	(void)inflateEnd(&stream);
	return result ? result : status == Z_STREAM_END ? 0 : KYMO_E_CORRUPT;
}

static int unpack_zstd(struct unpacking *file, struct packed *packed)
{
	ZSTD_DCtx *stream = ZSTD_createDCtx();
	ZSTD_inBuffer in = {file->in, 0, 0};
	size_t left = 1;
	bool has_input;
	int result = stream ? 0 : -ENOMEM;

	while (!result && left) {
		ZSTD_outBuffer out = {file->out, PIECE_BYTES, 0};

		if (in.pos == in.size && packed->left) {
			result = fill(file, packed);
			in = (ZSTD_inBuffer){file->in, result > 0 ? (size_t)result : 0, 0};
			if (result < 0)
				break;
		}
		has_input = in.pos < in.size;
		left = ZSTD_decompressStream(stream, &out, &in);
		if (ZSTD_isError(left) || (left && !has_input && !out.pos))
			result = KYMO_E_CORRUPT;
		else
			result = drain(file, packed, out.pos);
	}
	ZSTD_freeDCtx(stream);
	return result ? result : left ? KYMO_E_CORRUPT : 0;
}

/* Behind all that the file has; its header says so from then on. */
static int unpack(struct unpacking *file, Elf64_Shdr *section)
{
	Elf64_Chdr head;
	struct packed packed = {.at = section->sh_offset + sizeof(head)};
	uint64_t align;
	int err = section->sh_size < sizeof(head) ?
			  KYMO_E_CORRUPT :
			  read_at(file->from, section->sh_offset, &head, sizeof(head));

	if (err)
		return err;
	align = head.ch_addralign && head.ch_addralign <= ALIGN_MAX ? head.ch_addralign : 1;
	file->end += (align - file->end % align) % align;
	if (file->end > file->end_max || head.ch_size > file->end_max - file->end)
		return KYMO_E_LIMIT;
	packed.left = section->sh_size - sizeof(head);
	packed.to = file->end;
	packed.to_left = head.ch_size;
	if (head.ch_type == ELFCOMPRESS_ZLIB)
		err = unpack_zlib(file, &packed);
	else if (head.ch_type == ELFCOMPRESS_ZSTD)
		err = unpack_zstd(file, &packed);
	else
		err = KYMO_E_CORRUPT;
	if (!err && packed.to_left)
		err = KYMO_E_CORRUPT;
	section->sh_offset = file->end;
	section->sh_size = head.ch_size;
	section->sh_addralign = align;
	section->sh_flags &= ~(uint64_t)SHF_COMPRESSED;
	file->end += head.ch_size;
	return err;
}

/* ---- all of them ---- */

static bool is_empty(const Elf64_Shdr *section)
{
	return section->sh_type == SHT_NULL || section->sh_type == SHT_NOBITS || !section->sh_size;
}

static int put_section(struct unpacking *file, Elf64_Shdr *section)
{
	if (is_empty(section))
		return 0;
	if ((section->sh_flags & SHF_COMPRESSED) != 0)
		return unpack(file, section);
	if (section->sh_type == SHT_PROGBITS && (section->sh_flags & SHF_ALLOC) != 0)
		return 0;
	return copy(file, section->sh_offset, section->sh_size);
}

/* A part of its debug information is in another file, which is searched for beside this one. */
static bool needs_neighbour(const struct unpacking *file, const Elf64_Ehdr *header)
{
	const Elf64_Shdr *names = &file->sections[header->e_shstrndx];

	for (size_t i = 0; i < file->section_count; i++) {
		char name[NAME_BYTES] = "";
		uint64_t at = file->sections[i].sh_name, count;

		if (at >= names->sh_size)
			continue;
		count = names->sh_size - at;
		count = count < sizeof(name) - 1 ? count : sizeof(name) - 1;
		if (read_at(file->from, names->sh_offset + at, name, (size_t)count) ||
		    strcmp(name, ".gnu_debugaltlink") == 0 || strcmp(name, ".debug_sup") == 0)
			return true;
	}
	return false;
}

static bool has_packed(const struct unpacking *file)
{
	for (size_t i = 0; i < file->section_count; i++)
		if (!is_empty(&file->sections[i]) &&
		    (file->sections[i].sh_flags & SHF_COMPRESSED) != 0)
			return true;
	return false;
}

static int read_headers(struct unpacking *file, Elf64_Ehdr *header)
{
	int err = read_at(file->from, 0, header, sizeof(*header));

	if (err)
		return err;
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || !header->e_shnum ||
	    header->e_shnum > SECTIONS_MAX || header->e_shstrndx >= header->e_shnum ||
	    header->e_shentsize != sizeof(Elf64_Shdr) ||
	    (size_t)header->e_phnum * header->e_phentsize > SEGMENT_BYTES_MAX)
		return -ENOENT;
	file->section_count = header->e_shnum;
	file->in = ky_alloc(PIECE_BYTES);
	file->out = ky_alloc(PIECE_BYTES);
	file->sections = ky_alloc(file->section_count * sizeof(*file->sections));
	if (!file->in || !file->out || !file->sections)
		return -ENOMEM;
	err = read_at(file->from, header->e_shoff, file->sections,
		      file->section_count * sizeof(*file->sections));
	if (err)
		return err;
	return has_packed(file) && !needs_neighbour(file, header) ? 0 : -ENOENT;
}

static int put_all(struct unpacking *file, Elf64_Ehdr *header)
{
	int err = copy(file, header->e_phoff, (uint64_t)header->e_phnum * header->e_phentsize);

	for (size_t i = 0; i < file->section_count && !err; i++)
		err = put_section(file, &file->sections[i]);
	file->end = (file->end + 7) & ~UINT64_C(7);
	header->e_shoff = file->end;
	if (!err)
		err = ky_write_at(file->to, 0, header, sizeof(*header));
	if (!err)
		err = ky_write_at(file->to, file->end, file->sections,
				  file->section_count * sizeof(*file->sections));
	return err;
}

/* On disk rather than in memory, where /tmp may be. */
static int open_unnamed(void)
{
	const char *directory = getenv("TMPDIR");
	int fd = open(directory && directory[0] ? directory : "/var/tmp",
		      O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int ky_unpacked_object_open(int fd, uint64_t bytes_max)
{
	struct unpacking file = {.from = fd, .to = -1, .end_max = bytes_max};
	off_t end = lseek(fd, 0, SEEK_END);
	Elf64_Ehdr header;
	int err;

	if (end < 0)
		return -errno;
	file.end = (uint64_t)end;
	err = read_headers(&file, &header);
	if (!err) {
		file.to = open_unnamed();
		err = file.to < 0 ? file.to : put_all(&file, &header);
	}
	if (err && file.to >= 0)
		close(file.to);
	ky_free(file.in);
	ky_free(file.out);
	ky_free(file.sections);
	return err ? err : file.to;
}
