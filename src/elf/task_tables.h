/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* task_tables.h - which tables of Tokio's tasks a file has, as adapters/tokio would find them.
 *
 * A table is seven functions, then three offsets; by the symbol of its first function, or in a file
 * without such symbols by its shape, where the file also has a waker table by its shape.
 *
 * Threads: any.
 */
#ifndef KY_ELF_TASK_TABLES_H
#define KY_ELF_TASK_TABLES_H

#include <elf/elf_image.h>

struct ky_task_tables {
	size_t named;  /* pointers to Tokio's polls, different ones */
	size_t known;  /* tables of those with the layout that is known */
	size_t shaped; /* tables by their shape; counted where named is 0 */
	size_t wakers; /* waker tables by their shape; likewise */
};

void ky_task_tables_count(struct ky_elf *elf, struct ky_task_tables *out);

#define KY_TASK_TABLE_WORDS 10u

/* True for the (mangled) symbol of what tables begin with. */
bool ky_task_table_is_poll(const char *symbol);

/* True when ten words at this address, as the loader leaves them, are a task's table. */
bool ky_task_table_is_known(const struct ky_elf *elf, uint64_t address, const uint64_t words[10]);

#endif
