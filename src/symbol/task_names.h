/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* task_names.h - from a task's dispatch table in an ELF file to the type of its future.
 *
 * With legacy mangling the functions in the table do not say what they were compiled for, but what
 * they call does: the walk follows direct calls and jumps from the table's poll, dealloc,
 * try_read_output and shutdown, six levels deep, to functions over Cell<T, S>, CoreStage<T> and
 * Stage<T>. What no other table of the file leads to decides (type_evidence.h), then the type that
 * most of the four agree on; where the linker or LLVM folded functions of several types into one,
 * all of them are named ("A or B"): never a guess.
 *
 * Memory:   the file's symbol index, 8 KiB per walk, 16 B per function that names a type.
 * Cost:     at most WALK_BYTES_MAX of code per table; the first name walks all tables of the file.
 * Threads:  owner; never one of the host's.
 */
#ifndef KY_SYMBOL_TASK_NAMES_H
#define KY_SYMBOL_TASK_NAMES_H

#include <elf/elf_image.h>

struct ky_task_names;

/* build_id: what the file must carry; NULL or 0 bytes: it must carry none, or none is known of.
 * Returns 0; -errno of opening; KYMO_E_CORRUPT when it is another file by now; those of
 * ky_elf_open_fd. */
int ky_task_names_open(struct ky_task_names **out, const char *path, const uint8_t *build_id,
		       size_t build_id_bytes);

/* The same from a descriptor, which is taken, also on failure. */
int ky_task_names_open_fd(struct ky_task_names **out, int fd, const uint8_t *build_id,
			  size_t build_id_bytes);

/* The same over memory (tests, fuzzing); no build id is asked for. */
int ky_task_names_open_memory(struct ky_task_names **out, const uint8_t *bytes, size_t byte_count);
/* The symbols of a file that was stripped: those of its debug file, whose descriptor is taken.
 * Returns 0; those of ky_elf_open_fd. */
int ky_task_names_add_symbols(struct ky_task_names *names, int fd);
void ky_task_names_close(struct ky_task_names *names);

/* The future's type of the table at this virtual address, NUL-terminated, cut at capacity - 1.
 * Returns bytes; 0 when the file does not report. */
size_t ky_task_name(struct ky_task_names *names, uint64_t table_address, char *out,
		    size_t capacity);

/* The function at a virtual address: its symbol, demangled, without hash. Returns bytes; 0 unknown.
 */
size_t ky_function_name(struct ky_task_names *names, uint64_t code_address, char *out,
			size_t capacity);

#endif
