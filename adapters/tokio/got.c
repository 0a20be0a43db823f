/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* got.c - reads the dynamic relocations as the loader left them in memory. */
#include "got.h"

#include <elf.h>
#include <string.h>

#define NAME_BYTES_MAX 24u
#define RELOCATIONS_MAX (1u << 24)
#define GOT_KEPT 48u /* places that blocking calls leave to the others */

struct dynamic {
	uintptr_t relocations[2];
	size_t counts[2];
	uintptr_t symbols, strings;
};

/* glibc stores absolute addresses here at load time, musl leaves the file's. */
static uintptr_t absolute(const struct ky_tokio_elf *elf, uintptr_t value)
{
	return value < elf->bias ? value + elf->bias : value;
}

static void read_dynamic(struct dynamic *out, const struct ky_tokio_elf *elf)
{
	for (size_t i = 0; i < elf->phdr_count; i++) {
		const ElfW(Phdr) *phdr = &elf->phdr[i];
		const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(elf->bias + phdr->p_vaddr);

		if (phdr->p_type != PT_DYNAMIC ||
		    !ky_tokio_elf_is_in(elf, elf->bias + phdr->p_vaddr, phdr->p_memsz, PF_R, PF_X))
			continue;
		for (size_t n = phdr->p_memsz / sizeof(*entry); n && entry->d_tag != DT_NULL;
		     n--, entry++) {
			uintptr_t value = entry->d_un.d_ptr;

			if (entry->d_tag == DT_RELA)
				out->relocations[0] = absolute(elf, value);
			else if (entry->d_tag == DT_RELASZ)
				out->counts[0] = value / sizeof(ElfW(Rela));
			else if (entry->d_tag == DT_JMPREL)
				out->relocations[1] = absolute(elf, value);
			else if (entry->d_tag == DT_PLTRELSZ)
				out->counts[1] = value / sizeof(ElfW(Rela));
			else if (entry->d_tag == DT_SYMTAB)
				out->symbols = absolute(elf, value);
			else if (entry->d_tag == DT_STRTAB)
				out->strings = absolute(elf, value);
		}
	}
}

/* The name of the symbol that a relocation stores the address of; NULL: none, or not to be read. */
static const char *name_of(const struct ky_tokio_elf *elf, const struct dynamic *dynamic,
			   uint64_t info, bool *is_defined)
{
	uintptr_t symbol = dynamic->symbols + ELF64_R_SYM(info) * sizeof(ElfW(Sym));
	uintptr_t name;

	if (!KY_TOKIO_GOT_RELOCATION(ELF64_R_TYPE(info)) ||
	    !ky_tokio_elf_is_in(elf, symbol, sizeof(ElfW(Sym)), PF_R, 0))
		return NULL;
	name = dynamic->strings + ((const ElfW(Sym) *)symbol)->st_name;
	*is_defined = ((const ElfW(Sym) *)symbol)->st_shndx != SHN_UNDEF;
	return ky_tokio_elf_is_in(elf, name, NAME_BYTES_MAX, PF_R, 0) ? (const char *)name : NULL;
}

static uint32_t kind_of(const char *name)
{
	static const char names[KY_TOKIO_GOT_KINDS][NAME_BYTES_MAX] = {"epoll_wait",
								       "epoll_pwait",
								       "epoll_pwait2",
								       "syscall",
								       "eventfd",
								       "write",
								       "eventfd_write",
								       "epoll_ctl",
								       "prctl",
								       "pthread_setname_np",
								       "pthread_create",
								       "sigaction",
								       "signal",
								       "close",
								       "ioctl",
								       "fcntl",
								       "fcntl64",
								       "dup2",
								       "dup3",
#define NAME(name, number, reason, type, parameters, arguments) #name,
								       KY_TOKIO_CALLS(NAME)
#undef NAME
	};

	for (uint32_t kind = 0; kind < KY_TOKIO_GOT_KINDS; kind++)
		if (strncmp(name, names[kind], NAME_BYTES_MAX) == 0)
			return kind;
	return KY_TOKIO_GOT_KINDS;
}

bool ky_tokio_got_each(const struct ky_tokio_elf *elf, ky_tokio_got_fn visit, void *ctx)
{
	struct dynamic dynamic = {{0, 0}, {0, 0}, 0, 0};

	read_dynamic(&dynamic, elf);
	if (!dynamic.symbols || !dynamic.strings)
		return true;
	for (uint32_t which = 0; which < 2; which++) {
		const ElfW(Rela) *rela = (const ElfW(Rela) *)dynamic.relocations[which];
		size_t count = dynamic.counts[which];

		if (!rela || count > RELOCATIONS_MAX ||
		    !ky_tokio_elf_is_in(elf, (uintptr_t)rela, count * sizeof(*rela), PF_R, 0))
			continue;
		for (size_t i = 0; i < count; i++) {
			uintptr_t slot = elf->bias + rela[i].r_offset;
			bool is_defined = false;
			struct ky_tokio_got_place place = {
				.slot = (uintptr_t *)slot,
				.name = name_of(elf, &dynamic, rela[i].r_info, &is_defined)};

			place.is_lazy = which == 1 && !is_defined;
			if (place.name && slot % sizeof(slot) == 0 &&
			    ky_tokio_elf_is_in(elf, slot, sizeof(slot), PF_R | PF_W, PF_X) &&
			    !visit(ctx, &place))
				return false;
		}
	}
	return true;
}

/* Present where the recorder is linked into the program: own_calls.h. */
extern const uintptr_t ky_tokio_own_calls[] __attribute__((weak));
extern const uintptr_t ky_tokio_own_calls_end[] __attribute__((weak));

static bool is_own(const uintptr_t *slot)
{
	return (uintptr_t)slot >= (uintptr_t)ky_tokio_own_calls &&
	       (uintptr_t)slot < (uintptr_t)ky_tokio_own_calls_end;
}

static bool add_slot(void *ctx, const struct ky_tokio_got_place *place)
{
	struct ky_tokio_found *found = ctx;
	uint32_t kind = kind_of(place->name);

	if (kind == KY_TOKIO_GOT_KINDS || is_own(place->slot))
		return true;
	/* Without a park or a wake what is reported would be wrong; without a blocking call,
	 * less. */
	if (kind >= KY_TOKIO_GOT_CALLS && found->got_count >= KY_TOKIO_GOT_MAX - GOT_KEPT)
		return true;
	if (found->got_count == KY_TOKIO_GOT_MAX)
		return false;
	found->got[found->got_count++] = (struct ky_tokio_got){place->slot, kind};
	return true;
}

bool ky_tokio_got_find(struct ky_tokio_found *found, const struct ky_tokio_elf *elf)
{
	return ky_tokio_got_each(elf, add_slot, found);
}

struct dlsym_search {
	uintptr_t **out;
	uint32_t count, capacity;
	bool is_opening;
};

static bool add_dlsym(void *ctx, const struct ky_tokio_got_place *place)
{
	struct dlsym_search *search = ctx;

	if (strcmp(place->name, "dlopen") == 0)
		search->is_opening = true;
	if (strcmp(place->name, "dlsym") == 0 && search->count < search->capacity)
		search->out[search->count++] = place->slot;
	return true;
}

uint32_t ky_tokio_got_dlsym(const struct ky_tokio_elf *elf, uintptr_t **out, uint32_t capacity)
{
	struct dlsym_search search = {out, 0, capacity, false};

	ky_tokio_got_each(elf, add_dlsym, &search);
	return search.is_opening ? search.count : 0;
}
