/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <attach/module.h>
#include <base/alloc.h>
#include <elf.h>
#include <errno.h>
#include <kymo/base.h>
#include <elf/elf_image.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

#define STEP_BYTES (256u << 10)
#define TABLE_BYTES_MAX (64u << 20)
#define SECTIONS_MAX 65536u
#define TEXT_OVERLAP 64u

static bool read_exactly(int fd, void *out, size_t bytes, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, out, bytes, (off_t)offset) == (ssize_t)bytes;
}

static void take_segment(struct ky_attach_module *module, const Elf64_Phdr *phdr)
{
	if (phdr->p_type == PT_INTERP)
		module->has_interpreter = true;
	if (phdr->p_type == PT_DYNAMIC)
		module->has_dynamic = true;
	if (phdr->p_type == PT_GNU_EH_FRAME) {
		module->frame_table = phdr->p_vaddr;
		module->frame_table_bytes = phdr->p_filesz;
	}
	if (phdr->p_type != PT_LOAD || module->segment_count == KY_MODULE_SEGMENTS_MAX)
		return;
	module->segments[module->segment_count++] = (struct ky_module_segment){
		.address = phdr->p_vaddr,
		.memory_bytes = phdr->p_memsz,
		.offset = phdr->p_offset,
		.file_bytes = phdr->p_filesz,
		.flags = phdr->p_flags};
}

static int read_segments(struct ky_attach_module *module)
{
	Elf64_Ehdr header;
	Elf64_Phdr phdr;

	if (!read_exactly(module->fd, &header, sizeof(header), 0) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != OWN_MACHINE ||
	    (header.e_type != ET_EXEC && header.e_type != ET_DYN))
		return KYMO_E_UNSUPPORTED;
	if (header.e_phentsize != sizeof(phdr))
		return KYMO_E_CORRUPT;
	for (uint32_t i = 0; i < header.e_phnum; i++) {
		if (!read_exactly(module->fd, &phdr, sizeof(phdr),
				  header.e_phoff + (uint64_t)i * sizeof(phdr)))
			return KYMO_E_TRUNCATED;
		take_segment(module, &phdr);
	}
	return module->segment_count ? 0 : KYMO_E_CORRUPT;
}

/* A mapping starts at a page; so does what the file has there, up to the rest of the page, which
 * two segments may share. */
static int find_bias(struct ky_attach_module *module, uint64_t mapped_at, uint64_t mapped_offset,
		     bool is_code)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

	for (uint32_t i = 0; i < module->segment_count; i++) {
		const struct ky_module_segment *segment = &module->segments[i];

		if ((segment->offset & ~page) > mapped_offset ||
		    mapped_offset >= segment->offset + segment->file_bytes ||
		    is_code != ((segment->flags & PF_X) != 0))
			continue;
		module->bias = mapped_at - mapped_offset + segment->offset - segment->address;
		return 0;
	}
	return KYMO_E_CORRUPT;
}

int ky_module_open(struct ky_attach_module *module, int fd, uint64_t mapped_at,
		   uint64_t mapped_offset, bool is_code)
{
	int err;

	module->fd = fd;
	err = read_segments(module);
	if (!err)
		err = find_bias(module, mapped_at, mapped_offset, is_code);
	if (err)
		ky_module_close(module);
	return err;
}

void ky_module_close(struct ky_attach_module *module)
{
	ky_elf_close(module->elf);
	module->elf = NULL;
	if (module->fd >= 0)
		close(module->fd);
	module->fd = -1;
}

size_t ky_module_read(const struct ky_attach_module *module, uint64_t address, void *out,
		      size_t bytes)
{
	for (uint32_t i = 0; i < module->segment_count; i++) {
		const struct ky_module_segment *segment = &module->segments[i];
		uint64_t at = address - segment->address;
		ssize_t count;

		if (address < segment->address || at >= segment->file_bytes)
			continue;
		if (bytes > segment->file_bytes - at)
			bytes = (size_t)(segment->file_bytes - at);
		count = pread(module->fd, out, bytes, (off_t)(segment->offset + at));
		return count > 0 ? (size_t)count : 0;
	}
	return 0;
}

/* A section's bytes in memory of our own; NULL: not there, or larger than any we know. */
static void *read_section(const struct ky_attach_module *module, const Elf64_Shdr *section)
{
	uint8_t *bytes;

	if (section->sh_size == 0 || section->sh_size > TABLE_BYTES_MAX)
		return NULL;
	bytes = ky_alloc((size_t)section->sh_size + 1);
	if (bytes &&
	    !read_exactly(module->fd, bytes, (size_t)section->sh_size, section->sh_offset)) {
		ky_free(bytes);
		return NULL;
	}
	return bytes;
}

static bool find_dynamic_symbols(const struct ky_attach_module *module, Elf64_Shdr *symbols,
				 Elf64_Shdr *strings)
{
	Elf64_Ehdr header;

	if (!read_exactly(module->fd, &header, sizeof(header), 0) ||
	    header.e_shentsize != sizeof(*symbols))
		return false;
	for (uint32_t i = 0; i < header.e_shnum && i < SECTIONS_MAX; i++) {
		if (!read_exactly(module->fd, symbols, sizeof(*symbols),
				  header.e_shoff + (uint64_t)i * sizeof(*symbols)))
			return false;
		if (symbols->sh_type == SHT_DYNSYM)
			return symbols->sh_link < header.e_shnum &&
			       read_exactly(module->fd, strings, sizeof(*strings),
					    header.e_shoff +
						    (uint64_t)symbols->sh_link * sizeof(*strings));
	}
	return false;
}

uint64_t ky_module_export(const struct ky_attach_module *module, const char *name,
			  uint64_t *byte_count)
{
	Elf64_Shdr symbols, strings;
	Elf64_Sym *table = NULL;
	char *text = NULL;
	uint64_t found = 0;

	if (find_dynamic_symbols(module, &symbols, &strings)) {
		table = read_section(module, &symbols);
		text = read_section(module, &strings);
	}
	for (size_t i = 0; table && text && i < symbols.sh_size / sizeof(*table) && !found; i++) {
		if (ELF64_ST_TYPE(table[i].st_info) != STT_FUNC || table[i].st_value == 0 ||
		    table[i].st_name >= strings.sh_size ||
		    strcmp(text + table[i].st_name, name) != 0)
			continue;
		found = module->bias + table[i].st_value;
		if (byte_count)
			*byte_count = table[i].st_size;
	}
	ky_free(table);
	ky_free(text);
	return found;
}

/* Runs over the segments with one of these flags; found: the address as linked, or UINT64_MAX. */
static uint64_t search(const struct ky_attach_module *module, uint32_t flags, uint32_t mask,
		       const void *wanted, size_t count)
{
	uint8_t *step = ky_alloc(STEP_BYTES + TEXT_OVERLAP);
	uint64_t found = UINT64_MAX;

	if (!step || count > TEXT_OVERLAP)
		goto out;
	for (uint32_t i = 0; i < module->segment_count && found == UINT64_MAX; i++) {
		const struct ky_module_segment *segment = &module->segments[i];

		if ((segment->flags & mask) != flags)
			continue;
		for (uint64_t at = 0; at < segment->file_bytes; at += STEP_BYTES) {
			size_t got = ky_module_read(module, segment->address + at, step,
						    STEP_BYTES + TEXT_OVERLAP);
			const uint8_t *hit = memmem(step, got, wanted, count);

			if (hit)
				found = segment->address + at + (uint64_t)(hit - step);
			if (hit || got == 0)
				break;
		}
	}
out:
	ky_free(step);
	return found;
}

uint64_t ky_module_code(const struct ky_attach_module *module, const uint8_t *bytes, size_t count)
{
	uint64_t found = search(module, PF_R | PF_X, PF_R | PF_W | PF_X, bytes, count);

	return found == UINT64_MAX ? 0 : module->bias + found;
}

bool ky_module_is_code(const struct ky_attach_module *module, uint64_t address)
{
	for (uint32_t i = 0; i < module->segment_count; i++) {
		const struct ky_module_segment *segment = &module->segments[i];

		if ((segment->flags & PF_X) &&
		    address - module->bias - segment->address < segment->memory_bytes)
			return true;
	}
	return false;
}

static struct ky_elf *open_symbols(struct ky_attach_module *module)
{
	int fd;

	if (module->is_elf_tried)
		return module->elf;
	module->is_elf_tried = true;
	fd = dup(module->fd);
	if (fd >= 0 && ky_elf_open_fd(&module->elf, fd) != 0)
		module->elf = NULL;
	return module->elf;
}

size_t ky_module_function(struct ky_attach_module *module, uint64_t address, char *out,
			  size_t capacity)
{
	struct ky_elf *elf = open_symbols(module);
	const struct ky_elf_symbol *symbol;

	if (!elf)
		return 0;
	symbol = ky_elf_symbol_covering(elf, address - module->bias);
	return symbol ? ky_elf_symbol_name(elf, symbol, out, capacity) : 0;
}

static bool has_poll_symbols(struct ky_attach_module *module)
{
	struct ky_elf *elf = open_symbols(module);
	const struct ky_elf_pointer *pointers;
	size_t count = 0, symbols;
	char name[1024];

	if (!elf)
		return false;
	pointers = ky_elf_function_pointers(elf, &count);
	for (size_t i = 0; i < count; i++) {
		const struct ky_elf_symbol *symbol = ky_elf_symbols_at(elf, pointers[i].value,
								       &symbols);

		for (size_t k = 0; symbol && k < symbols; k++)
			if (ky_elf_symbol_name(elf, &symbol[k], name, sizeof(name)) &&
			    strstr(name, "5tokio7runtime4task3raw4poll"))
				return true;
	}
	return false;
}

enum ky_module_tokio ky_module_find_tokio(struct ky_attach_module *module, bool is_program)
{
	/* Put together here: a search of this program would find its own pattern. */
	char text[] = "_src/runtime/task/";
	bool has_text;

	*(volatile char *)text = '/';
	has_text = search(module, PF_R, PF_R | PF_W, text, sizeof(text) - 1) != UINT64_MAX;

	/* File names may be left out of a program; most libraries need no second reading. */
	if ((has_text || is_program) && has_poll_symbols(module))
		return KY_MODULE_TOKIO;
	return has_text ? KY_MODULE_STRIPPED : KY_MODULE_NO_TOKIO;
}
