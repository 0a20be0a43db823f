/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* tokio_elf.c - reads .symtab and keeps what is Tokio's. */
#include "tokio_elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADERS_AT_ONCE 32u
#define TABLE_BYTES_MAX (UINT64_C(1) << 30)
#define SYMBOLS_MAX (1u << 20)
#define CHUNK_SYMBOLS 2048u

struct elf_tables {
	uint64_t symbols_offset, symbols_bytes;
	uint64_t names_offset, names_bytes;
};

void *ky_tokio_map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

bool ky_tokio_read_at(int fd, void *out, size_t bytes, uint64_t offset)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = pread(fd, (char *)out + done, bytes - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

static bool is_within(uint64_t offset, uint64_t bytes, uint64_t file_bytes)
{
	return offset <= file_bytes && bytes <= file_bytes - offset;
}

/* The loader mapped this very file: its program headers are what lies in memory. */
static bool is_same_file(int fd, const ElfW(Ehdr) * header, const struct dl_phdr_info *info,
			 uint64_t file_bytes)
{
	ElfW(Phdr) phdrs[HEADERS_AT_ONCE];

	if (header->e_phnum != info->dlpi_phnum || header->e_phentsize != sizeof(phdrs[0]))
		return false;
	for (size_t first = 0; first < info->dlpi_phnum; first += HEADERS_AT_ONCE) {
		size_t left = info->dlpi_phnum - first;
		size_t bytes = (left < HEADERS_AT_ONCE ? left : HEADERS_AT_ONCE) * sizeof(phdrs[0]);
		uint64_t at = header->e_phoff + first * sizeof(phdrs[0]);

		if (!is_within(at, bytes, file_bytes) || !ky_tokio_read_at(fd, phdrs, bytes, at))
			return false;
		if (memcmp(phdrs, &info->dlpi_phdr[first], bytes) != 0)
			return false;
	}
	return true;
}

/* Checks the symbol table's header and its string table's. */
static int take_tables(int fd, const ElfW(Ehdr) * header, const ElfW(Shdr) * section,
		       uint64_t file_bytes, struct elf_tables *out)
{
	ElfW(Shdr) names;
	uint64_t at = header->e_shoff + (uint64_t)section->sh_link * sizeof(names);

	if (section->sh_link >= header->e_shnum || section->sh_entsize != sizeof(ElfW(Sym)) ||
	    !is_within(at, sizeof(names), file_bytes) ||
	    !ky_tokio_read_at(fd, &names, sizeof(names), at) || names.sh_type != SHT_STRTAB ||
	    !is_within(section->sh_offset, section->sh_size, file_bytes) ||
	    !is_within(names.sh_offset, names.sh_size, file_bytes) ||
	    section->sh_size > TABLE_BYTES_MAX || names.sh_size > TABLE_BYTES_MAX)
		return KY_TOKIO_ELF_UNREADABLE;
	*out = (struct elf_tables){section->sh_offset, section->sh_size, names.sh_offset,
				   names.sh_size};
	return KY_TOKIO_ELF_FOUND;
}

static int find_section(int fd, const ElfW(Ehdr) * header, uint64_t file_bytes,
			struct elf_tables *out)
{
	ElfW(Shdr) sections[HEADERS_AT_ONCE] = {0};

	for (uint32_t first = 0; first < header->e_shnum; first += HEADERS_AT_ONCE) {
		uint32_t left = header->e_shnum - first;
		uint32_t count = left < HEADERS_AT_ONCE ? left : HEADERS_AT_ONCE;
		uint64_t at = header->e_shoff + (uint64_t)first * sizeof(sections[0]);

		if (!is_within(at, count * sizeof(sections[0]), file_bytes) ||
		    !ky_tokio_read_at(fd, sections, count * sizeof(sections[0]), at))
			return KY_TOKIO_ELF_UNREADABLE;
		for (uint32_t i = 0; i < count; i++)
			if (sections[i].sh_type == SHT_SYMTAB)
				return take_tables(fd, header, &sections[i], file_bytes, out);
	}
	return KY_TOKIO_ELF_STRIPPED;
}

static int find_tables(int fd, const struct dl_phdr_info *info, struct elf_tables *out)
{
	ElfW(Ehdr) header;
	struct stat st;
	uint64_t file_bytes;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0)
		return KY_TOKIO_ELF_UNREADABLE;
	file_bytes = (uint64_t)st.st_size;
	if (file_bytes < sizeof(header) || !ky_tokio_read_at(fd, &header, sizeof(header), 0) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return KY_TOKIO_ELF_UNREADABLE;
	if (!is_same_file(fd, &header, info, file_bytes))
		return KY_TOKIO_ELF_UNREADABLE;
	if (header.e_shoff == 0 || header.e_shnum == 0)
		return KY_TOKIO_ELF_STRIPPED;
	if (header.e_shentsize != sizeof(ElfW(Shdr)))
		return KY_TOKIO_ELF_UNREADABLE;
	return find_section(fd, &header, file_bytes, out);
}

static int keep(struct ky_tokio_elf *elf, const ElfW(Sym) * symbol, uint32_t name, bool is_task)
{
	struct ky_tokio_symbol *entry;

	if (elf->symbol_count == elf->symbol_capacity) {
		size_t capacity = elf->symbol_capacity ? elf->symbol_capacity * 2 : 4096;
		struct ky_tokio_symbol *more;

		if (capacity > SYMBOLS_MAX)
			return 0;
		more = ky_tokio_map(capacity * sizeof(*more));
		if (!more)
			return -ENOMEM;
		if (elf->symbols) {
			memcpy(more, elf->symbols, elf->symbol_count * sizeof(*more));
			munmap(elf->symbols, elf->symbol_capacity * sizeof(*more));
		}
		elf->symbols = more;
		elf->symbol_capacity = capacity;
	}
	entry = &elf->symbols[elf->symbol_count++];
	entry->address = elf->bias + symbol->st_value;
	entry->bytes = symbol->st_size > UINT32_MAX ? UINT32_MAX : (uint32_t)symbol->st_size;
	entry->name = name;
	entry->is_task = is_task;
	return 0;
}

/* Without local ones (strip -x) most task tables have no name, and their tasks would be missing
 * without a word: every linker puts some in. */
static int read_symbols(struct ky_tokio_elf *elf, int fd, const struct elf_tables *tables)
{
	uint64_t count = tables->symbols_bytes / sizeof(ElfW(Sym));
	ElfW(Sym) *chunk = ky_tokio_map(CHUNK_SYMBOLS * sizeof(*chunk));
	bool has_local = false;
	int result = 0;

	if (!chunk)
		return -ENOMEM;
	for (uint64_t first = 0; first < count && result == 0; first += CHUNK_SYMBOLS) {
		size_t some = count - first < CHUNK_SYMBOLS ? (size_t)(count - first) :
							      CHUNK_SYMBOLS;

		if (!ky_tokio_read_at(fd, chunk, some * sizeof(*chunk),
				      tables->symbols_offset + first * sizeof(*chunk))) {
			result = KY_TOKIO_ELF_UNREADABLE;
			break;
		}
		for (size_t i = 0; i < some && result == 0; i++) {
			uint32_t type = chunk[i].st_info & 15u;
			bool is_task;
			uint32_t name;

			if ((type != STT_FUNC && type != STT_OBJECT) ||
			    chunk[i].st_shndx == SHN_UNDEF ||
			    chunk[i].st_name >= tables->names_bytes)
				continue;
			has_local |= chunk[i].st_info >> 4 == STB_LOCAL;
			name = ky_tokio_names_find(&elf->names, chunk[i].st_name, &is_task);
			if (name != UINT32_MAX)
				result = keep(elf, &chunk[i], name, is_task);
		}
	}
	munmap(chunk, CHUNK_SYMBOLS * sizeof(*chunk));
	return result == 0 && elf->symbol_count && !has_local ? KY_TOKIO_ELF_STRIPPED : result;
}

static int by_address(const void *left, const void *right)
{
	const struct ky_tokio_symbol *a = left, *b = right;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->name < b->name ? -1 : a->name > b->name;
}

int ky_tokio_elf_open(struct ky_tokio_elf *out, const struct dl_phdr_info *info, const char *path)
{
	struct elf_tables tables;
	bool has_recorder;
	int fd, result;

	memset(out, 0, sizeof(*out));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	result = find_tables(fd, info, &tables);
	if (result != KY_TOKIO_ELF_FOUND)
		goto done;
	out->bias = info->dlpi_addr;
	out->phdr = info->dlpi_phdr;
	out->phdr_count = info->dlpi_phnum;
	result = ky_tokio_names_read(&out->names, fd, tables.names_offset,
				     (uint32_t)tables.names_bytes);
	if (result > 0)
		result = KY_TOKIO_ELF_UNREADABLE;
	else if (result == 0)
		result = out->names.has_proof ? read_symbols(out, fd, &tables) : KY_TOKIO_ELF_NONE;
	if (result == 0 && out->symbol_count)
		qsort(out->symbols, out->symbol_count, sizeof(*out->symbols), by_address);
done:
	close(fd);
	has_recorder = out->names.has_recorder;
	if (result != 0)
		ky_tokio_elf_close(out);
	out->has_recorder = has_recorder;
	return result;
}

void ky_tokio_elf_close(struct ky_tokio_elf *elf)
{
	ky_tokio_names_release(&elf->names);
	if (elf->symbols)
		munmap(elf->symbols, elf->symbol_capacity * sizeof(*elf->symbols));
	memset(elf, 0, sizeof(*elf));
}

const struct ky_tokio_symbol *ky_tokio_elf_find(const struct ky_tokio_elf *elf, uintptr_t address)
{
	size_t low = 0, high = elf->symbol_count;
	const struct ky_tokio_symbol *at;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (elf->symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return NULL;
	at = &elf->symbols[low - 1];
	while (at > elf->symbols && at[-1].address == at->address)
		at--;
	return address == at->address || address - at->address < at->bytes ? at : NULL;
}

const struct ky_tokio_symbol *ky_tokio_elf_twin(const struct ky_tokio_elf *elf,
						const struct ky_tokio_symbol *symbol)
{
	const struct ky_tokio_symbol *next = symbol + 1;

	if (next == elf->symbols + elf->symbol_count || next->address != symbol->address)
		return NULL;
	return next;
}

bool ky_tokio_elf_is_in(const struct ky_tokio_elf *elf, uintptr_t address, size_t bytes,
			uint32_t flags, uint32_t without)
{
	for (size_t i = 0; i < elf->phdr_count; i++) {
		const ElfW(Phdr) *phdr = &elf->phdr[i];
		uintptr_t start = elf->bias + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && (phdr->p_flags & flags) == flags &&
		    (phdr->p_flags & without) == 0 && address >= start &&
		    address - start <= phdr->p_memsz && bytes <= phdr->p_memsz - (address - start))
			return true;
	}
	return false;
}

bool ky_tokio_elf_sealed(const struct ky_tokio_elf *elf, const ElfW(Phdr) * relro, uintptr_t *start,
			 uintptr_t *end)
{
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE), sealed_end;

	*start = elf->bias + relro->p_vaddr;
	sealed_end = *start + relro->p_memsz;
	for (size_t i = 0; i < elf->phdr_count; i++) {
		const ElfW(Phdr) *phdr = &elf->phdr[i];
		uintptr_t low = elf->bias + phdr->p_vaddr, high = low + phdr->p_memsz;

		if (phdr->p_type != PT_LOAD || (phdr->p_flags & (PF_R | PF_X)) != PF_R ||
		    *start < low || *start > high || sealed_end < *start)
			continue;
		*end = sealed_end < high ? sealed_end : high;
		return sealed_end <= ((high + page_bytes - 1) & ~(page_bytes - 1));
	}
	return false;
}
