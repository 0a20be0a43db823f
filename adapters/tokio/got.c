/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* got.c - reads the dynamic relocations as the loader left them in memory. */
#include "got.h"

#include <elf.h>
#include <string.h>

#define NAME_BYTES_MAX 20u
#define RELOCATIONS_MAX (1u << 24)

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

static uint32_t kind_of(const struct ky_tokio_elf *elf, const struct dynamic *dynamic,
			uint64_t info)
{
	static const char names[KY_TOKIO_GOT_KINDS][NAME_BYTES_MAX] = {
		"epoll_wait", "epoll_pwait", "syscall",           "eventfd",
		"write",      "prctl",       "pthread_setname_np"};
	uintptr_t symbol = dynamic->symbols + ELF64_R_SYM(info) * sizeof(ElfW(Sym));
	uintptr_t name;

	if (!KY_TOKIO_GOT_RELOCATION(ELF64_R_TYPE(info)) ||
	    !ky_tokio_elf_is_in(elf, symbol, sizeof(ElfW(Sym)), PF_R, 0))
		return KY_TOKIO_GOT_KINDS;
	name = dynamic->strings + ((const ElfW(Sym) *)symbol)->st_name;
	if (!ky_tokio_elf_is_in(elf, name, NAME_BYTES_MAX, PF_R, 0))
		return KY_TOKIO_GOT_KINDS;
	for (uint32_t kind = 0; kind < KY_TOKIO_GOT_KINDS; kind++)
		if (strncmp((const char *)name, names[kind], NAME_BYTES_MAX) == 0)
			return kind;
	return KY_TOKIO_GOT_KINDS;
}

bool ky_tokio_got_find(struct ky_tokio_found *found, const struct ky_tokio_elf *elf)
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
			uint32_t kind = kind_of(elf, &dynamic, rela[i].r_info);

			if (kind == KY_TOKIO_GOT_KINDS || slot % sizeof(slot) ||
			    !ky_tokio_elf_is_in(elf, slot, sizeof(slot), PF_R | PF_W, PF_X))
				continue;
			if (found->got_count == KY_TOKIO_GOT_MAX)
				return false;
			found->got[found->got_count++] = (struct ky_tokio_got){(uintptr_t *)slot,
									       kind};
		}
	}
	return true;
}
