/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* elf_image.h - an ELF file as numbers: bytes and words at virtual addresses, function symbols by
 * address.
 *
 * Invariants:  the file is untrusted: every offset, size and count is checked against its length,
 *              and what we allocate never exceeds a small multiple of it. Nothing is mapped, so a
 *              file that shrinks while it is read gives an error, not SIGBUS.
 * Memory:      24 B per function symbol and 16 B per relative relocation; names are read when asked
 *              for.
 * Threads:     owner.
 */
#ifndef KY_ELF_ELF_IMAGE_H
#define KY_ELF_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_BUILD_ID_BYTES_MAX 32u

struct ky_elf;

struct ky_elf_symbol {
	uint64_t address;
	uint64_t byte_count; /* as the symbol table says; not checked */
	uint32_t name;       /* offset in the string table */
	uint32_t reserved;
};

/* Takes the descriptor, also on failure. Returns 0; KYMO_E_CORRUPT; KYMO_E_TRUNCATED;
 * KYMO_E_UNSUPPORTED (no ELF for a 64-bit little-endian machine, or none that we can walk);
 * KYMO_E_LIMIT; -ENOMEM; -errno. */
int ky_elf_open_fd(struct ky_elf **out, int fd);

/* The same over memory that outlives the object. */
int ky_elf_open_memory(struct ky_elf **out, const uint8_t *bytes, size_t byte_count);
void ky_elf_close(struct ky_elf *elf);

/* The symbols of a stripped file: those of `from`, which is taken. */
void ky_elf_take_symbols(struct ky_elf *elf, struct ky_elf *from);

uint16_t ky_elf_machine(const struct ky_elf *elf);

/* Bytes of the build id in the notes of a PT_NOTE segment or section (name "GNU", type 3; see
 * elf(5)), 0 when there is none. */
size_t ky_elf_notes_build_id(const uint8_t *notes, size_t byte_count,
			     uint8_t out[KY_BUILD_ID_BYTES_MAX]);

/* Bytes of the build id, 0 when the file has none. */
size_t ky_elf_build_id(const struct ky_elf *elf, uint8_t out[KY_BUILD_ID_BYTES_MAX]);

/* Address as linked of the file's first byte, for the segment that holds this offset; 0: none. */
uint64_t ky_elf_linked_at(const struct ky_elf *elf, uint64_t file_offset);

/* Up to `count` file-backed bytes at a virtual address. Returns how many; 0 when nothing is there.
 */
size_t ky_elf_read(const struct ky_elf *elf, uint64_t address, uint8_t *out, size_t count);

/* The 64-bit word at an address as the loader leaves it, minus the load bias (relative relocations
 * are applied). Returns 0 or KYMO_E_CORRUPT. */
int ky_elf_word(const struct ky_elf *elf, uint64_t address, uint64_t *out);

/* Up to `count` such words from an aligned address on. Returns how many. */
size_t ky_elf_words(const struct ky_elf *elf, uint64_t address, uint64_t *out, size_t count);

/* Where segment `index` of the file lies, with p_type and p_flags of elf(5).
 * Returns false when there is none. */
struct ky_elf_segment {
	uint64_t address, byte_count;
	uint32_t type, flags;
};
bool ky_elf_segment(const struct ky_elf *elf, size_t index, struct ky_elf_segment *out);

/* True when the address lies in a segment that can be executed. */
bool ky_elf_is_code(const struct ky_elf *elf, uint64_t address);

/* True when the loader adds the load bias to the word at this address. */
bool ky_elf_is_relocated(const struct ky_elf *elf, uint64_t address);

/* True for a program that was linked to a fixed address. */
bool ky_elf_is_fixed(const struct ky_elf *elf);

struct ky_elf_pointer {
	uint64_t address, value;
};

/* Every aligned word in data that holds the address of a function symbol, by address. Collected at
 * the first call. Returns NULL and 0 when there is none or no memory. */
const struct ky_elf_pointer *ky_elf_function_pointers(struct ky_elf *elf, size_t *count);

/* All function symbols, by address. */
const struct ky_elf_symbol *ky_elf_symbols(const struct ky_elf *elf, size_t *count);

/* Function symbols at exactly this address (several where the linker folded them); NULL and 0:
 * none. */
const struct ky_elf_symbol *ky_elf_symbols_at(const struct ky_elf *elf, uint64_t address,
					      size_t *count);

/* The function symbol whose range covers the address, or NULL. */
const struct ky_elf_symbol *ky_elf_symbol_covering(const struct ky_elf *elf, uint64_t address);

/* Copies the symbol's name, NUL-terminated. Returns its length; 0 when unreadable or too long. */
size_t ky_elf_symbol_name(const struct ky_elf *elf, const struct ky_elf_symbol *symbol, char *out,
			  size_t capacity);

#endif
