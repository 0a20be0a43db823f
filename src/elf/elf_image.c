/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <base/sort_by_key.h>
#include <elf.h>
#include <errno.h>
#include <kymo/base.h>
#include <elf/elf_image.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (UINT64_C(16) << 30)
#define TABLE_BYTES_MAX (UINT64_C(512) << 20)
#define SECTIONS_MAX 65536u
#define SEGMENTS_MAX 256u
#define DATA_BYTES_MAX (UINT64_C(256) << 20)
#define POINTERS_MAX (1u << 22)
#ifndef SHT_RELR
#define SHT_RELR 19
#endif

#define PAGE_BYTES_MIN 4096u

#define BLOCK_BYTES 4096u
#define BLOCKS 32u
#define NAME_PIECE 256u

/* Names and code are asked for in small pieces, close to each other: thousands of a file. */
struct blocks {
	uint64_t number[BLOCKS]; /* of the file's block that is there, + 1; 0: none */
	uint8_t bytes[BLOCKS][BLOCK_BYTES];
};

struct ky_elf {
	int fd;                /* -1: memory */
	struct ky_elf *lender; /* of the symbols; NULL: they are its own */
	const uint8_t *bytes;
	uint64_t byte_count;
	Elf64_Ehdr header;
	Elf64_Phdr *segments;
	size_t segment_count;
	struct ky_elf_symbol *symbols; /* by address */
	size_t symbol_count;
	uint64_t names_offset, names_bytes;
	struct ky_elf_pointer *relocations; /* by address */
	size_t relocation_count;
	uint64_t packed_offset, packed_bytes; /* SHT_RELR */
	struct ky_elf_pointer *pointers;      /* by address; collected when asked for */
	uint32_t pointer_count, pointer_capacity;
	bool has_pointers;
	struct blocks *blocks; /* NULL: nothing is kept */
};

static int read_file(const struct ky_elf *elf, uint64_t offset, void *out, size_t count)
{
	uint8_t *to = out;

	while (count > 0) {
		ssize_t got = pread(elf->fd, to, count, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0) /* it shrank since we asked for its size */
			return KYMO_E_TRUNCATED;
		to += got;
		offset += (uint64_t)got;
		count -= (size_t)got;
	}
	return 0;
}

/* The block with this number, where it is kept from now on; NULL: it cannot be read. */
static const uint8_t *block_of(const struct ky_elf *elf, uint64_t number)
{
	struct blocks *blocks = elf->blocks;
	uint64_t left = elf->byte_count - number * BLOCK_BYTES;
	size_t at = number % BLOCKS;

	if (blocks->number[at] == number + 1)
		return blocks->bytes[at];
	blocks->number[at] = 0;
	if (read_file(elf, number * BLOCK_BYTES, blocks->bytes[at],
		      left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES) < 0)
		return NULL;
	blocks->number[at] = number + 1;
	return blocks->bytes[at];
}

/* Exactly count bytes at a file offset. Returns 0 or KYMO_E_TRUNCATED / -errno. */
static int read_at(const struct ky_elf *elf, uint64_t offset, void *out, size_t count)
{
	uint8_t *to = out;

	if (offset > elf->byte_count || count > elf->byte_count - offset)
		return KYMO_E_TRUNCATED;
	if (elf->fd < 0) {
		memcpy(out, elf->bytes + offset, count);
		return 0;
	}
	if (elf->blocks == NULL || count > BLOCK_BYTES)
		return read_file(elf, offset, out, count);
	while (count > 0) {
		const uint8_t *block = block_of(elf, offset / BLOCK_BYTES);
		size_t skip = offset % BLOCK_BYTES, here = BLOCK_BYTES - skip;

		if (block == NULL) /* it shrank: perhaps not as far as that */
			return read_file(elf, offset, to, count);
		here = here < count ? here : count;
		memcpy(to, block + skip, here);
		to += here;
		offset += here;
		count -= here;
	}
	return 0;
}

static int read_header(struct ky_elf *elf)
{
	int err = read_at(elf, 0, &elf->header, sizeof(elf->header));

	if (err < 0)
		return err;
	if (memcmp(elf->header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf->header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf->header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    (elf->header.e_machine != EM_X86_64 && elf->header.e_machine != EM_AARCH64))
		return KYMO_E_UNSUPPORTED;
	return 0;
}

static int read_segments(struct ky_elf *elf)
{
	size_t count = elf->header.e_phnum;

	if (elf->header.e_phentsize != sizeof(Elf64_Phdr) || count == 0)
		return KYMO_E_CORRUPT;
	if (count > SEGMENTS_MAX)
		return KYMO_E_LIMIT;
	elf->segments = ky_alloc(count * sizeof(Elf64_Phdr));
	if (elf->segments == NULL)
		return -ENOMEM;
	elf->segment_count = count;
	return read_at(elf, elf->header.e_phoff, elf->segments, count * sizeof(Elf64_Phdr));
}

static int compare_symbols(const void *a, const void *b)
{
	const struct ky_elf_symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	/* By name offset too, so that equal files always give equal answers. */
	return x->name < y->name ? -1 : x->name > y->name;
}

/* They come nearly in the order of their addresses, or in no order at all. */
static void sort_symbols(struct ky_elf *elf)
{
	struct ky_elf_symbol *symbols = elf->symbols;

	if (!ky_sort_by_key(symbols, elf->symbol_count, sizeof(*symbols)))
		qsort(symbols, elf->symbol_count, sizeof(*symbols), compare_symbols);
	/* Those of one address, which are few. */
	for (size_t i = 0, end; i < elf->symbol_count; i = end) {
		for (end = i + 1;
		     end < elf->symbol_count && symbols[end].address == symbols[i].address; end++)
			;
		if (end - i > 1)
			qsort(symbols + i, end - i, sizeof(*symbols), compare_symbols);
	}
}

static int compare_relocations(const void *a, const void *b)
{
	const struct ky_elf_pointer *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static void sort_pointers(struct ky_elf_pointer *pointers, size_t count)
{
	if (count > 0 && !ky_sort_by_key(pointers, count, sizeof(*pointers)))
		qsort(pointers, count, sizeof(*pointers), compare_relocations);
}

/* Fits the file and our own limit. */
static int check_table(const struct ky_elf *elf, const Elf64_Shdr *section, size_t entry_bytes)
{
	if (section->sh_entsize != entry_bytes)
		return KYMO_E_CORRUPT;
	if (section->sh_size > TABLE_BYTES_MAX)
		return KYMO_E_LIMIT;
	if (section->sh_offset > elf->byte_count ||
	    section->sh_size > elf->byte_count - section->sh_offset)
		return KYMO_E_TRUNCATED;
	return 0;
}

static int read_symbols(struct ky_elf *elf, const Elf64_Shdr *table, const Elf64_Shdr *names)
{
	size_t count = (size_t)(table->sh_size / sizeof(Elf64_Sym)), done = 0, i;
	Elf64_Sym batch[64];
	int err = check_table(elf, table, sizeof(Elf64_Sym));

	if (err < 0)
		return err;
	if (names->sh_offset > elf->byte_count ||
	    names->sh_size > elf->byte_count - names->sh_offset)
		return KYMO_E_TRUNCATED;
	elf->names_offset = names->sh_offset;
	elf->names_bytes = names->sh_size;
	elf->symbols = ky_alloc((count + 1) * sizeof(*elf->symbols));
	if (elf->symbols == NULL)
		return -ENOMEM;
	while (done < count) {
		size_t now = count - done < 64 ? count - done : 64;

		err = read_at(elf, table->sh_offset + done * sizeof(Elf64_Sym), batch,
			      now * sizeof(Elf64_Sym));
		if (err < 0)
			return err;
		for (i = 0; i < now; i++)
			if (ELF64_ST_TYPE(batch[i].st_info) == STT_FUNC &&
			    batch[i].st_shndx != SHN_UNDEF && batch[i].st_value != 0)
				elf->symbols[elf->symbol_count++] = (struct ky_elf_symbol){
					.address = batch[i].st_value,
					.byte_count = batch[i].st_size,
					.name = batch[i].st_name,
				};
		done += now;
	}
	sort_symbols(elf);
	return 0;
}

static int read_relocations(struct ky_elf *elf, const Elf64_Shdr *section)
{
	uint32_t relative = elf->header.e_machine == EM_X86_64 ? R_X86_64_RELATIVE :
								 R_AARCH64_RELATIVE;
	size_t count = (size_t)(section->sh_size / sizeof(Elf64_Rela)), done = 0, i;
	struct ky_elf_pointer *grown;
	Elf64_Rela batch[64];
	int err = check_table(elf, section, sizeof(Elf64_Rela));

	if (err < 0)
		return err;
	/* Sections may overlap in a hostile file: all of them together are bounded too. */
	if (count > TABLE_BYTES_MAX / sizeof(Elf64_Rela) - elf->relocation_count)
		return KYMO_E_LIMIT;
	grown = ky_realloc(elf->relocations,
			   (elf->relocation_count + count + 1) * sizeof(*elf->relocations));
	if (grown == NULL)
		return -ENOMEM;
	elf->relocations = grown;
	while (done < count) {
		size_t now = count - done < 64 ? count - done : 64;

		err = read_at(elf, section->sh_offset + done * sizeof(Elf64_Rela), batch,
			      now * sizeof(Elf64_Rela));
		if (err < 0)
			return err;
		for (i = 0; i < now; i++)
			if (ELF64_R_TYPE(batch[i].r_info) == relative)
				elf->relocations[elf->relocation_count++] = (struct ky_elf_pointer){
					.address = batch[i].r_offset,
					.value = (uint64_t)batch[i].r_addend,
				};
		done += now;
	}
	return 0;
}

/* SHT_RELR needs no reading: such a word already stands in the file as it will be, minus the bias.
 */
static int read_tables(struct ky_elf *elf, const Elf64_Shdr *sections, size_t count)
{
	const Elf64_Shdr *symbols = NULL;
	size_t i;
	int err = 0;

	for (i = 0; i < count && err == 0; i++) {
		if (sections[i].sh_type == SHT_SYMTAB ||
		    (sections[i].sh_type == SHT_DYNSYM && symbols == NULL))
			symbols = &sections[i];
		else if (sections[i].sh_type == SHT_RELA && (sections[i].sh_flags & SHF_ALLOC) != 0)
			err = read_relocations(elf, &sections[i]);
		if (sections[i].sh_type == SHT_RELR) {
			elf->packed_offset = sections[i].sh_offset;
			elf->packed_bytes = sections[i].sh_size;
		}
	}
	if (err < 0)
		return err;
	sort_pointers(elf->relocations, elf->relocation_count);
	if (symbols == NULL)
		return 0;
	if (symbols->sh_link >= count)
		return KYMO_E_CORRUPT;
	return read_symbols(elf, symbols, &sections[symbols->sh_link]);
}

static int read_sections(struct ky_elf *elf)
{
	Elf64_Shdr *sections;
	size_t count = elf->header.e_shnum;
	Elf64_Shdr first;
	int err;

	if (elf->header.e_shoff == 0)
		return 0; /* stripped to the bone: segments only */
	if (elf->header.e_shentsize != sizeof(Elf64_Shdr))
		return KYMO_E_CORRUPT;
	if (count == 0) { /* more than 65,279 sections: the first one carries the number */
		err = read_at(elf, elf->header.e_shoff, &first, sizeof(first));
		if (err < 0)
			return err;
		if (first.sh_size > SECTIONS_MAX)
			return KYMO_E_LIMIT;
		count = (size_t)first.sh_size;
	}
	if (count == 0)
		return 0;
	if (elf->header.e_shoff > elf->byte_count ||
	    count * sizeof(Elf64_Shdr) > elf->byte_count - elf->header.e_shoff)
		return KYMO_E_TRUNCATED;
	sections = ky_alloc(count * sizeof(Elf64_Shdr));
	if (sections == NULL)
		return -ENOMEM;
	err = read_at(elf, elf->header.e_shoff, sections, count * sizeof(Elf64_Shdr));
	if (err == 0)
		err = read_tables(elf, sections, count);
	ky_free(sections);
	return err;
}

static int open_any(struct ky_elf **out, int fd, const uint8_t *bytes, uint64_t byte_count)
{
	struct ky_elf *elf = ky_alloc(sizeof(*elf));
	int err;

	*out = NULL;
	if (elf == NULL) {
		if (fd >= 0)
			close(fd);
		return -ENOMEM;
	}
	elf->fd = fd;
	elf->bytes = bytes;
	elf->byte_count = byte_count;
	/* Without it everything is read as it is asked for. */
	elf->blocks = fd >= 0 ? ky_alloc(sizeof(*elf->blocks)) : NULL;
	err = read_header(elf);
	if (err == 0)
		err = read_segments(elf);
	if (err == 0)
		err = read_sections(elf);
	if (err < 0) {
		ky_elf_close(elf);
		return err;
	}
	*out = elf;
	return 0;
}

int ky_elf_open_fd(struct ky_elf **out, int fd)
{
	struct stat st;
	int err = 0;

	*out = NULL;
	if (fstat(fd, &st) != 0)
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = KYMO_E_UNSUPPORTED;
	else if ((uint64_t)st.st_size > FILE_BYTES_MAX)
		err = KYMO_E_LIMIT;
	if (err < 0) {
		close(fd);
		return err;
	}
	return open_any(out, fd, NULL, (uint64_t)st.st_size);
}

int ky_elf_open_memory(struct ky_elf **out, const uint8_t *bytes, size_t byte_count)
{
	return open_any(out, -1, bytes, byte_count);
}

void ky_elf_close(struct ky_elf *elf)
{
	if (elf == NULL)
		return;
	if (elf->fd >= 0)
		close(elf->fd);
	ky_free(elf->segments);
	ky_free(elf->symbols);
	ky_free(elf->relocations);
	ky_free(elf->pointers);
	ky_free(elf->blocks);
	ky_elf_close(elf->lender);
	ky_free(elf);
}

void ky_elf_take_symbols(struct ky_elf *elf, struct ky_elf *from)
{
	ky_elf_close(elf->lender);
	ky_free(elf->symbols);
	elf->symbols = from->symbols;
	elf->symbol_count = from->symbol_count;
	from->symbols = NULL;
	from->symbol_count = 0;
	elf->lender = from;
	/* Which words hold the address of a function was not known before. */
	elf->pointer_count = 0;
	elf->has_pointers = false;
}

uint16_t ky_elf_machine(const struct ky_elf *elf)
{
	return elf->header.e_machine;
}

uint64_t ky_elf_linked_at(const struct ky_elf *elf, uint64_t file_offset)
{
	for (size_t i = 0; i < elf->segment_count; i++) {
		const Elf64_Phdr *segment = &elf->segments[i];
		uint64_t page = segment->p_offset / PAGE_BYTES_MIN * PAGE_BYTES_MIN;

		/* Mapped from the beginning of a page on. */
		if (segment->p_type == PT_LOAD && page <= file_offset &&
		    file_offset - page < segment->p_filesz)
			return segment->p_vaddr - segment->p_offset;
	}
	return 0;
}

size_t ky_elf_read(const struct ky_elf *elf, uint64_t address, uint8_t *out, size_t count)
{
	size_t i;

	for (i = 0; i < elf->segment_count; i++) {
		const Elf64_Phdr *segment = &elf->segments[i];
		uint64_t inside, room;

		if (segment->p_type != PT_LOAD || address < segment->p_vaddr)
			continue;
		inside = address - segment->p_vaddr;
		if (inside >= segment->p_filesz || segment->p_offset > elf->byte_count ||
		    inside >= elf->byte_count - segment->p_offset)
			continue;
		room = segment->p_filesz - inside;
		if (room > elf->byte_count - segment->p_offset - inside)
			room = elf->byte_count - segment->p_offset - inside;
		if (room < count)
			count = (size_t)room;
		return read_at(elf, segment->p_offset + inside, out, count) == 0 ? count : 0;
	}
	return 0;
}

int ky_elf_word(const struct ky_elf *elf, uint64_t address, uint64_t *out)
{
	struct ky_elf_pointer key = {.address = address};
	const struct ky_elf_pointer *found = NULL;

	if (elf->relocation_count > 0)
		found = bsearch(&key, elf->relocations, elf->relocation_count, sizeof(key),
				compare_relocations);
	if (found != NULL) {
		*out = found->value;
		return 0;
	}
	return ky_elf_read(elf, address, (uint8_t *)out, sizeof(*out)) == sizeof(*out) ?
		       0 :
		       KYMO_E_CORRUPT;
}

/* Index of the first symbol at or above the address. */
static size_t lower_bound(const struct ky_elf *elf, uint64_t address)
{
	size_t low = 0, high = elf->symbol_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (elf->symbols[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct ky_elf_symbol *ky_elf_symbols(const struct ky_elf *elf, size_t *count)
{
	*count = elf->symbol_count;
	return elf->symbols;
}

const struct ky_elf_symbol *ky_elf_symbols_at(const struct ky_elf *elf, uint64_t address,
					      size_t *count)
{
	size_t first = lower_bound(elf, address), end = first;

	while (end < elf->symbol_count && elf->symbols[end].address == address)
		end++;
	*count = end - first;
	return end > first ? &elf->symbols[first] : NULL;
}

const struct ky_elf_symbol *ky_elf_symbol_covering(const struct ky_elf *elf, uint64_t address)
{
	size_t at = lower_bound(elf, address);

	if (at < elf->symbol_count && elf->symbols[at].address == address)
		return &elf->symbols[at];
	if (at == 0)
		return NULL;
	at--;
	return address - elf->symbols[at].address < elf->symbols[at].byte_count ?
		       &elf->symbols[at] :
		       NULL;
}

size_t ky_elf_symbol_name(const struct ky_elf *elf, const struct ky_elf_symbol *symbol, char *out,
			  size_t capacity)
{
	size_t room, used = 0;

	if (elf->lender)
		elf = elf->lender;
	if (symbol->name >= elf->names_bytes || capacity == 0)
		return 0;
	room = elf->names_bytes - symbol->name < capacity ?
		       (size_t)(elf->names_bytes - symbol->name) :
		       capacity;
	/* Most are much shorter than what there is room for. */
	while (used < room) {
		size_t here = room - used < NAME_PIECE ? room - used : NAME_PIECE;
		const char *end;

		if (read_at(elf, elf->names_offset + symbol->name + used, out + used, here) < 0)
			return 0;
		end = memchr(out + used, '\0', here);
		if (end != NULL)
			return (size_t)(end - out);
		used += here;
	}
	return 0;
}

size_t ky_elf_notes_build_id(const uint8_t *notes, size_t byte_count,
			     uint8_t out[KY_BUILD_ID_BYTES_MAX])
{
	size_t at = 0;

	while (byte_count - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		uint64_t name_bytes, text_bytes;

		memcpy(&note, notes + at, sizeof(note));
		at += sizeof(note);
		name_bytes = ((uint64_t)note.n_namesz + 3) & ~UINT64_C(3);
		text_bytes = ((uint64_t)note.n_descsz + 3) & ~UINT64_C(3);
		if (name_bytes > byte_count - at || text_bytes > byte_count - at - name_bytes)
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp(notes + at, "GNU", 4) == 0 && note.n_descsz > 0 &&
		    note.n_descsz <= KY_BUILD_ID_BYTES_MAX) {
			memcpy(out, notes + at + name_bytes, note.n_descsz);
			return note.n_descsz;
		}
		at += name_bytes + text_bytes;
	}
	return 0;
}

size_t ky_elf_build_id(const struct ky_elf *elf, uint8_t out[KY_BUILD_ID_BYTES_MAX])
{
	uint8_t notes[1024];
	size_t i;

	for (i = 0; i < elf->segment_count; i++) {
		const Elf64_Phdr *segment = &elf->segments[i];
		size_t count = segment->p_filesz < sizeof(notes) ? (size_t)segment->p_filesz :
								   sizeof(notes);
		size_t id_bytes;

		if (segment->p_type != PT_NOTE || read_at(elf, segment->p_offset, notes, count) < 0)
			continue;
		id_bytes = ky_elf_notes_build_id(notes, count, out);
		if (id_bytes > 0)
			return id_bytes;
	}
	return 0;
}

static bool add_pointer(struct ky_elf *elf, uint64_t address, uint64_t value)
{
	size_t count;

	if (elf->symbol_count == 0 || value < elf->symbols[0].address ||
	    value > elf->symbols[elf->symbol_count - 1].address ||
	    ky_elf_symbols_at(elf, value, &count) == NULL)
		return true;
	if (elf->pointer_count == POINTERS_MAX ||
	    ky_grow(&elf->pointers, &elf->pointer_capacity, elf->pointer_count + 1,
		    sizeof(*elf->pointers)))
		return false;
	elf->pointers[elf->pointer_count++] = (struct ky_elf_pointer){.address = address,
								      .value = value};
	return true;
}

/* Words that stand in the file as they will be: programs at a fixed address, and SHT_RELR. */
static bool add_pointers_of(struct ky_elf *elf, const Elf64_Phdr *segment, uint64_t *bytes_left)
{
	uint64_t words[256], at, address = (segment->p_vaddr + 7) & ~UINT64_C(7);
	size_t got, i;

	while (*bytes_left >= sizeof(words) && address >= segment->p_vaddr) {
		at = address;
		got = ky_elf_read(elf, address, (uint8_t *)words, sizeof(words));
		if (got < 8 || address - segment->p_vaddr >= segment->p_filesz)
			return true;
		for (i = 0; i < got / 8; i++, at += 8)
			if (words[i] != 0 && !add_pointer(elf, at, words[i]))
				return false;
		*bytes_left -= got;
		address = at;
	}
	return true;
}

size_t ky_elf_words(const struct ky_elf *elf, uint64_t address, uint64_t *out, size_t count)
{
	size_t got = ky_elf_read(elf, address, (uint8_t *)out, count * sizeof(*out)) / sizeof(*out);
	size_t low = 0, high = elf->relocation_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (elf->relocations[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < elf->relocation_count; low++) {
		uint64_t at = elf->relocations[low].address - address;

		if (at >= got * sizeof(*out))
			break;
		if (at % sizeof(*out) == 0)
			out[at / sizeof(*out)] = elf->relocations[low].value;
	}
	return got;
}

bool ky_elf_segment(const struct ky_elf *elf, size_t index, struct ky_elf_segment *out)
{
	if (index >= elf->segment_count)
		return false;
	*out = (struct ky_elf_segment){elf->segments[index].p_vaddr, elf->segments[index].p_filesz,
				       elf->segments[index].p_type, elf->segments[index].p_flags};
	return true;
}

bool ky_elf_is_code(const struct ky_elf *elf, uint64_t address)
{
	for (size_t i = 0; i < elf->segment_count; i++)
		if (elf->segments[i].p_type == PT_LOAD && (elf->segments[i].p_flags & PF_X) &&
		    address - elf->segments[i].p_vaddr < elf->segments[i].p_filesz)
			return true;
	return false;
}

/* An even entry is an address; an odd one says which of the next 63 words follow. */
static bool is_packed(const struct ky_elf *elf, uint64_t address)
{
	uint64_t entries[64], next = 0;

	for (uint64_t done = 0; done < elf->packed_bytes; done += sizeof(entries)) {
		uint64_t left = elf->packed_bytes - done;
		size_t bytes = left < sizeof(entries) ? (size_t)left : sizeof(entries);

		if (read_at(elf, elf->packed_offset + done, entries, bytes) < 0)
			return false;
		for (size_t i = 0; i < bytes / 8; i++) {
			uint64_t ahead = (address - next) / 8;

			if ((entries[i] & 1) == 0) {
				next = entries[i] + 8;
				if (entries[i] == address)
					return true;
			} else {
				if (address >= next && ahead < 63 &&
				    (entries[i] >> (ahead + 1) & 1))
					return true;
				next += UINT64_C(63) * 8;
			}
		}
	}
	return false;
}

bool ky_elf_is_relocated(const struct ky_elf *elf, uint64_t address)
{
	size_t low = 0, high = elf->relocation_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (elf->relocations[middle].address == address)
			return true;
		if (elf->relocations[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	return elf->packed_bytes && is_packed(elf, address);
}

bool ky_elf_is_fixed(const struct ky_elf *elf)
{
	return elf->header.e_type == ET_EXEC;
}

/* Do words stand in the file as addresses? Where all are relocated, and none is packed, the
 * relocations have them all. */
static bool holds_addresses(const struct ky_elf *elf)
{
	return elf->header.e_type != ET_DYN || elf->packed_bytes || !elf->relocation_count;
}

const struct ky_elf_pointer *ky_elf_function_pointers(struct ky_elf *elf, size_t *count)
{
	uint64_t bytes_left = DATA_BYTES_MAX;
	bool has_room = true;
	size_t i;

	if (!elf->has_pointers) {
		elf->has_pointers = true;
		for (i = 0; i < elf->relocation_count && has_room; i++)
			has_room = add_pointer(elf, elf->relocations[i].address,
					       elf->relocations[i].value);
		for (i = 0; i < elf->segment_count && has_room && holds_addresses(elf); i++)
			if (elf->segments[i].p_type == PT_LOAD &&
			    (elf->segments[i].p_flags & PF_X) == 0)
				has_room = add_pointers_of(elf, &elf->segments[i], &bytes_left);
		sort_pointers(elf->pointers, elf->pointer_count);
	}
	*count = elf->pointer_count;
	return elf->pointers;
}
