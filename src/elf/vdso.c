/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <elf/vdso.h>

#include <base/alloc.h>
#include <elf/elf_image.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define VDSO_BYTES_MAX 65536u

static uint64_t end_of(uint64_t from)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t end = 0;
	char line[512];

	while (maps && end == 0 && fgets(line, sizeof(line), maps)) {
		char *dash;

		if (strtoull(line, &dash, 16) == from && *dash == '-')
			end = strtoull(dash + 1, NULL, 16);
	}
	if (maps)
		(void)fclose(maps);
	return end;
}

void ky_vdso_open(struct ky_vdso *out)
{
	uintptr_t from = (uintptr_t)getauxval(AT_SYSINFO_EHDR);
	uint64_t end = from ? end_of(from) : 0;

	*out = (struct ky_vdso){NULL, NULL};
	if (end <= from || end - from > VDSO_BYTES_MAX)
		return;
	out->bytes = ky_alloc((size_t)(end - from));
	if (!out->bytes)
		return;
	memcpy(out->bytes, (const void *)from, (size_t)(end - from));
	(void)ky_elf_open_memory(&out->elf, out->bytes, (size_t)(end - from));
}

void ky_vdso_close(struct ky_vdso *vdso)
{
	ky_elf_close(vdso->elf);
	ky_free(vdso->bytes);
	*vdso = (struct ky_vdso){NULL, NULL};
}

bool ky_vdso_is(const char *path)
{
	return strcmp(path, "[vdso]") == 0 || strncmp(path, "linux-vdso.so", 13) == 0 ||
	       strncmp(path, "linux-gate.so", 13) == 0;
}
