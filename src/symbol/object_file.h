/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* object_file.h - what an ELF file says of itself: its build id, its debug information and where
 * the rest of that is, and whether a library may be let at it.
 *
 * Invariants:  the file is untrusted: every offset, size and count is checked against its length.
 *              Nothing is mapped and nothing is kept but the answer. is_sane promises that every
 *              section lies in the file and that all compressed ones together unpack to at most
 *              KY_OBJECT_UNPACKED_MAX bytes.
 * Threads:     any.
 */
#ifndef KY_SYMBOL_OBJECT_FILE_H
#define KY_SYMBOL_OBJECT_FILE_H

#include <elf/elf_image.h>

#define KY_OBJECT_LINK_BYTES 256u
#define KY_OBJECT_UNPACKED_MAX (UINT64_C(2) << 30)

struct ky_object {
	uint8_t build_id[KY_BUILD_ID_BYTES_MAX];
	size_t build_id_bytes; /* 0: none */
	uint64_t file_bytes;
	uint64_t unpacked_bytes; /* of its compressed sections */
	bool has_dwarf;          /* .debug_info with bytes in it */
	bool has_symbols;        /* .symtab or .dynsym */
	bool has_symtab;         /* what strip takes away */
	bool is_sane;
	char link[KY_OBJECT_LINK_BYTES]; /* .gnu_debuglink: a name without directory; "" none */
	uint32_t link_crc;
};

/* Does not take the descriptor. Returns 0; KYMO_E_CORRUPT; KYMO_E_TRUNCATED; KYMO_E_UNSUPPORTED;
 * KYMO_E_LIMIT; -errno. */
int ky_object_read_fd(struct ky_object *out, int fd);
int ky_object_read_memory(struct ky_object *out, const uint8_t *bytes, size_t byte_count);

/* CRC-32 of a whole file, as .gnu_debuglink has it. Returns 0, -errno. */
int ky_object_crc(int fd, uint32_t *out);

#endif
