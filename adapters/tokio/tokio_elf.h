/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* tokio_elf.h - Tokio's symbols in one loaded object: which of its functions and tables are where.
 *
 * Invariants:  nothing in the file is trusted: every offset, size and index is checked against the
 *              file's size and against the loaded segments; the file is read, never mapped, so one
 *              that shrinks meanwhile is a short read and not a SIGBUS.
 * Memory:      anonymous mappings, gone after close.
 * Threads:     setup-only (the constructor).
 */
#ifndef KY_TOKIO_ELF_H
#define KY_TOKIO_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tokio_names.h"

/* A function or an object of Tokio's, or a function on the way from one to another. */
struct ky_tokio_symbol {
	uintptr_t address;
	uint32_t bytes;
	uint32_t name;    /* offset in ky_tokio_elf.names.texts */
	uint32_t is_task; /* it may be of Tokio's tasks: the others are not */
};

struct ky_tokio_elf {
	uintptr_t bias;
	const ElfW(Phdr) * phdr; /* as the loader shows them; lives as long as the object */
	size_t phdr_count;
	struct ky_tokio_names names;
	bool has_recorder;               /* kymo's own; said also of an object without Tokio */
	bool is_nameless;                /* its tables are known by their shape alone */
	bool is_unoptimised;             /* and a waker's clone calls what adds the reference */
	struct ky_tokio_symbol *symbols; /* by address */
	size_t symbol_count, symbol_capacity;
};

enum ky_tokio_elf_result {
	KY_TOKIO_ELF_FOUND = 0,
	KY_TOKIO_ELF_NONE = 1,      /* it has a symbol table, and nothing of Tokio in it */
	KY_TOKIO_ELF_STRIPPED = 2,  /* no symbol table, or one without local symbols */
	KY_TOKIO_ELF_UNREADABLE = 3 /* not an ELF file of this machine, or it contradicts itself */
};

/* Reads the symbols of the object that `info` describes from `path`.
 *
 * Returns  enum ky_tokio_elf_result; everything but FOUND leaves nothing but
 *          has_recorder. -errno: no memory,
 *          no such file.
 * Owner    the caller closes it.
 */
int ky_tokio_elf_open(struct ky_tokio_elf *out, const struct dl_phdr_info *info, const char *path);
void ky_tokio_elf_close(struct ky_tokio_elf *elf);

/* The symbol whose code or data holds `address`, the first one where several are folded; or
 * NULL. */
const struct ky_tokio_symbol *ky_tokio_elf_find(const struct ky_tokio_elf *elf, uintptr_t address);

/* Next symbol with the same address, or NULL: linkers fold identical functions. */
const struct ky_tokio_symbol *ky_tokio_elf_twin(const struct ky_tokio_elf *elf,
						const struct ky_tokio_symbol *symbol);

static inline const char *ky_tokio_elf_name(const struct ky_tokio_elf *elf,
					    const struct ky_tokio_symbol *symbol)
{
	return elf->names.texts + symbol->name;
}

/* True when [address, address + bytes) lies in a segment with all of `flags` (PF_R, PF_X) set and
 * none of `without`. */
bool ky_tokio_elf_is_in(const struct ky_tokio_elf *elf, uintptr_t address, size_t bytes,
			uint32_t flags, uint32_t without);

/* Where the words of a PT_GNU_RELRO lie. Its end may be rounded up to that of the last page (lld
 * before 18), where nothing is loaded any more.
 *
 * Returns  false: it is not within the pages of one readable segment, or of one with code.
 */
bool ky_tokio_elf_sealed(const struct ky_tokio_elf *elf, const ElfW(Phdr) * relro, uintptr_t *start,
			 uintptr_t *end);

/* Reads a loaded segment word by word, across whatever objects the compiler sees in it. */
#define KY_TOKIO_READS_RAW __attribute__((no_sanitize_address))

/* All of it, or false. */
bool ky_tokio_read_at(int fd, void *out, size_t bytes, uint64_t offset);

/* Anonymous zeroed memory, or NULL. */
void *ky_tokio_map(size_t bytes);

#endif
