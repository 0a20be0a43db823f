/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* vdso.h - the kernel's library that is mapped into every process: the same in all of a boot, and
 * in no file.
 * Threads: owner.
 */
#ifndef KY_ELF_VDSO_H
#define KY_ELF_VDSO_H

#include <stdbool.h>
#include <stdint.h>

struct ky_elf;

struct ky_vdso {
	struct ky_elf *elf; /* NULL: there is none */
	uint8_t *bytes;     /* a copy, which elf reads */
};

/* This process's own. */
void ky_vdso_open(struct ky_vdso *out);
void ky_vdso_close(struct ky_vdso *vdso);

/* Is this what a list of mapped modules calls it? */
bool ky_vdso_is(const char *path);

#endif
