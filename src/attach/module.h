/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* module.h - the files that a process has mapped for execution, as ELF.
 *
 * Invariants:  the files are untrusted: everything is read with bounds, nothing is mapped. What the
 *              process's memory says is read by the caller, never here.
 * Threads:     owner.
 */
#ifndef KY_ATTACH_MODULE_H
#define KY_ATTACH_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ky_elf;

#define KY_MODULE_PATH_BYTES 1024u
#define KY_MODULE_SEGMENTS_MAX 16u

struct ky_module_segment {
	uint64_t address, memory_bytes; /* as linked */
	uint64_t offset, file_bytes;
	uint32_t flags; /* PF_R | PF_W | PF_X */
};

struct ky_attach_module {
	char path[KY_MODULE_PATH_BYTES]; /* as the process names it */
	uint64_t device, inode;
	uint64_t low, high; /* of its mappings */
	int fd;
	uint64_t bias; /* address in the process = bias + address as linked */
	struct ky_module_segment segments[KY_MODULE_SEGMENTS_MAX];
	uint32_t segment_count;
	uint64_t frame_table, frame_table_bytes; /* .eh_frame_hdr, as linked; 0: none */
	bool has_interpreter, has_dynamic;
	struct ky_elf *elf; /* opened when first needed; see ky_module_function() */
	bool is_elf_tried;
};

/* fd is taken, also on failure. mapped_at, mapped_offset, is_code: any one of its mappings.
 * Returns 0; KYMO_E_UNSUPPORTED: not ELF for this machine; KYMO_E_CORRUPT; -errno. */
int ky_module_open(struct ky_attach_module *module, int fd, uint64_t mapped_at,
		   uint64_t mapped_offset, bool is_code);
void ky_module_close(struct ky_attach_module *module);

/* Up to `bytes` file-backed bytes at an address as linked. Returns how many. */
size_t ky_module_read(const struct ky_attach_module *module, uint64_t address, void *out,
		      size_t bytes);

/* In the process; 0: it exports no such function. byte_count: may be NULL. */
uint64_t ky_module_export(const struct ky_attach_module *module, const char *name,
			  uint64_t *byte_count);

/* The first place in executable code with these bytes, in the process; 0: none. */
uint64_t ky_module_code(const struct ky_attach_module *module, const uint8_t *bytes, size_t count);

/* Is this address of the process inside its code? */
bool ky_module_is_code(const struct ky_attach_module *module, uint64_t address);

/* Name of the function that covers this address of the process, by the full symbol table. Returns
 * its length; 0: not known. */
size_t ky_module_function(struct ky_attach_module *module, uint64_t address, char *out,
			  size_t capacity);

enum ky_module_tokio {
	KY_MODULE_NO_TOKIO = 0,
	KY_MODULE_STRIPPED, /* Tokio's own file names are in it, its symbols are not */
	KY_MODULE_TOKIO
};
enum ky_module_tokio ky_module_find_tokio(struct ky_attach_module *module, bool is_program);

#endif
