/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "tokio_shape.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "code.h"
#include "tokio_arch.h"

#define WAKER_FUNCTIONS 4u
#define CLONE_BYTES 32u
#define CLONE_FUNCTIONS_MAX 24u
#define FUNCTIONS_MAX (1u << 22)

/* The only form that linkers write: a count, then pairs of distances from the header, sorted. */
struct unwind_header {
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frames;
	uint32_t count;
	int32_t entries[][2]; /* where a function begins, and its description */
};
#define UDATA4 0x03
#define SDATA4_RELATIVE_TO_HEADER 0x3b

static const struct unwind_header *find_unwind_header(const struct ky_tokio_elf *elf)
{
	for (size_t i = 0; i < elf->phdr_count; i++) {
		const ElfW(Phdr) *phdr = &elf->phdr[i];
		uintptr_t at = elf->bias + phdr->p_vaddr;
		const struct unwind_header *header = (const struct unwind_header *)at;

		if (phdr->p_type != PT_GNU_EH_FRAME || phdr->p_memsz < sizeof(*header) ||
		    at % sizeof(header->count) ||
		    !ky_tokio_elf_is_in(elf, at, phdr->p_memsz, PF_R, 0))
			continue;
		if (header->version == 1 && header->count_encoding == UDATA4 &&
		    header->table_encoding == SDATA4_RELATIVE_TO_HEADER &&
		    header->count < FUNCTIONS_MAX &&
		    header->count <= (phdr->p_memsz - sizeof(*header)) / sizeof(header->entries[0]))
			return header;
	}
	return NULL;
}

/* A function is taken to end where the next one begins. */
static int read_functions(struct ky_tokio_elf *elf)
{
	const struct unwind_header *header = find_unwind_header(elf);

	if (!header || header->count == 0)
		return 0;
	elf->symbols = ky_tokio_map(header->count * sizeof(*elf->symbols));
	if (!elf->symbols)
		return -ENOMEM;
	elf->symbol_capacity = header->count;
	for (uint32_t i = 0; i < header->count; i++) {
		struct ky_tokio_symbol *symbol = &elf->symbols[elf->symbol_count];
		uintptr_t at = (uintptr_t)header + (uintptr_t)(intptr_t)header->entries[i][0];

		if (elf->symbol_count && at <= symbol[-1].address)
			continue;
		if (elf->symbol_count)
			symbol[-1].bytes = (uint32_t)(at - symbol[-1].address);
		symbol->address = at;
		elf->symbol_count++;
	}
	return 0;
}

bool ky_tokio_shape_are_functions(const struct ky_tokio_elf *elf, const uintptr_t *words,
				  size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct ky_tokio_symbol *symbol = ky_tokio_elf_find(elf, words[i]);

		if (!symbol || symbol->address != words[i])
			return false;
	}
	return true;
}

static bool is_code(const struct ky_tokio_elf *elf, uintptr_t address, size_t bytes)
{
	return ky_tokio_elf_is_in(elf, address, bytes, PF_R | PF_X, PF_W);
}

/* Cheap, and before the functions of the object are known. */
static bool is_clone(const uint8_t *code)
{
	return ky_tokio_arch_adds_reference(code, CLONE_BYTES);
}

struct halves {
	bool has_reference, has_addition;
};

static bool read_halves(void *ctx, const uint8_t *code, size_t bytes)
{
	struct halves *halves = ctx;

	halves->has_reference |= ky_tokio_arch_has_reference(code, bytes);
	halves->has_addition |= ky_tokio_arch_has_addition(code, bytes);
	return halves->has_reference && halves->has_addition;
}

KY_TOKIO_READS_RAW static bool resembles_waker(const struct ky_tokio_elf *elf,
					       const uintptr_t *words)
{
	struct halves halves = {false, false};

	for (uint32_t i = 0; i < WAKER_FUNCTIONS; i++)
		if (!is_code(elf, words[i], 1))
			return false;
	if (!is_code(elf, words[0], CLONE_BYTES))
		return false;
	if (!elf->is_unoptimised)
		return is_clone((const uint8_t *)words[0]);
	return ky_tokio_code_each(elf, words[0], CLONE_FUNCTIONS_MAX, read_halves, &halves);
}

/* Slots of the GOT that stand together may resemble one, too; but code reads those, and does not
 * take their address. */
static bool is_waker(const struct ky_tokio_elf *elf, const uintptr_t *words)
{
	const uintptr_t table = (uintptr_t)words;

	return ky_tokio_shape_are_functions(elf, words, WAKER_FUNCTIONS) &&
	       ky_tokio_code_mention(elf, words[0], &table, 1) == table;
}

bool ky_tokio_shape_may_hold(const struct ky_tokio_elf *elf, const ElfW(Phdr) * phdr)
{
	return phdr->p_type == PT_LOAD && elf->bias == 0 &&
	       (phdr->p_flags & (PF_R | PF_W | PF_X)) == PF_R;
}

KY_TOKIO_READS_RAW static void each_candidate(const struct ky_tokio_elf *elf,
					      ky_tokio_shape_fn visit, void *ctx)
{
	for (size_t i = 0; i < elf->phdr_count; i++) {
		const ElfW(Phdr) *phdr = &elf->phdr[i];
		uintptr_t at = elf->bias + phdr->p_vaddr, end = at + phdr->p_memsz;

		if (phdr->p_type == PT_GNU_RELRO ? !ky_tokio_elf_sealed(elf, phdr, &at, &end) :
						   !ky_tokio_shape_may_hold(elf, phdr))
			continue;
		at = (at + 7) & ~(uintptr_t)7;
		for (; at + WAKER_FUNCTIONS * sizeof(at) <= end; at += sizeof(at))
			if (resembles_waker(elf, (const uintptr_t *)at) && !visit(ctx, at))
				return;
	}
}

struct waker_search {
	const struct ky_tokio_elf *elf;
	ky_tokio_shape_fn visit;
	void *ctx;
};

static bool visit_candidate(void *ctx, uintptr_t address)
{
	const struct waker_search *search = ctx;

	return !is_waker(search->elf, (const uintptr_t *)address) ||
	       search->visit(search->ctx, address);
}

void ky_tokio_shape_wakers(const struct ky_tokio_elf *elf, ky_tokio_shape_fn visit, void *ctx)
{
	struct waker_search search = {elf, visit, ctx};

	each_candidate(elf, visit_candidate, &search);
}

static bool is_one_enough(void *ctx, uintptr_t address)
{
	(void)address;
	*(bool *)ctx = true;
	return false;
}

int ky_tokio_shape_open(struct ky_tokio_elf *out, const struct dl_phdr_info *info, bool is_tokio)
{
	bool is_there = false;
	int err;

	memset(out, 0, sizeof(*out));
	out->bias = info->dlpi_addr;
	out->phdr = info->dlpi_phdr;
	out->phdr_count = info->dlpi_phnum;
	out->is_nameless = true;
	each_candidate(out, is_one_enough, &is_there);
	if (!is_there && !is_tokio)
		return KY_TOKIO_ELF_NONE;
	out->is_unoptimised = !is_there;
	err = read_functions(out);
	if (err == 0 && !is_there)
		ky_tokio_shape_wakers(out, is_one_enough, &is_there);
	if (is_there)
		return KY_TOKIO_ELF_FOUND;
	ky_tokio_elf_close(out);
	return err ? err : KY_TOKIO_ELF_NONE;
}
