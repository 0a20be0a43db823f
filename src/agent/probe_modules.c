/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/probe_modules.h>

#include <base/alloc.h>
#include <proc/proc_map.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <elf/elf_image.h>
#include <elf/vdso.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind/unwind_maps.h>

#define MS_NS UINT64_C(1000000)
#define FIRST_NS (250 * MS_NS)
#define PACE_NS (1000 * MS_NS)
#define MODULES_MAX 1024u
#define PAGE_BYTES_MIN 4096u

/* The rows of one file follow each other; what lies between them (bss) has no name. */
size_t ky_probe_modules_parse(char *text, struct ky_seen_module *out, size_t capacity)
{
	bool is_code = false;
	size_t count = 0;
	char *line, *rest = text;

	while ((line = strsep(&rest, "\n")) != NULL) {
		struct ky_proc_map map;

		if (!ky_proc_map_parse(&map, line) || (map.path[0] != '/' && !ky_vdso_is(map.path)))
			continue;
		if (count > 0 && strcmp(out[count - 1].path, map.path) == 0) {
			out[count - 1].end = map.end;
			is_code = is_code || map.is_code;
			continue;
		}
		if (count > 0 && !is_code)
			count--; /* data only: no module */
		if (count == capacity)
			return count;
		memset(&out[count], 0, sizeof(out[count]));
		out[count].path = map.path;
		out[count].start = map.start;
		out[count].end = map.end;
		out[count].file_offset = map.offset;
		is_code = map.is_code;
		count++;
	}
	return count > 0 && !is_code ? count - 1 : count;
}

uint64_t ky_probe_modules_linked_at(int fd, uint64_t file_offset)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(segment))
		return 0;
	for (uint32_t i = 0; i < header.e_phnum; i++) {
		uint64_t at = header.e_phoff + (uint64_t)i * sizeof(segment);

		if (at > INT64_MAX ||
		    pread(fd, &segment, sizeof(segment), (off_t)at) != (ssize_t)sizeof(segment))
			return 0;
		/* Mapped from the beginning of a page on. */
		if (segment.p_type == PT_LOAD &&
		    segment.p_offset / PAGE_BYTES_MIN * PAGE_BYTES_MIN <= file_offset &&
		    file_offset - segment.p_offset / PAGE_BYTES_MIN * PAGE_BYTES_MIN <
			    segment.p_filesz)
			return segment.p_vaddr - segment.p_offset;
	}
	return 0;
}

static void read_vdso(struct ky_seen_module *module)
{
	struct ky_vdso ours;

	ky_vdso_open(&ours);
	if (ours.elf != NULL)
		module->build_id_bytes = (uint32_t)ky_elf_build_id(ours.elf, module->build_id);
	ky_vdso_close(&ours);
}

void ky_probe_modules_read_file(uint32_t pid, struct ky_seen_module *module)
{
	struct ky_elf *elf;
	char path[3000];
	int bytes, fd;

	if (ky_vdso_is(module->path)) {
		read_vdso(module);
		return;
	}
	/* Its own root: it may live in another mount namespace. */
	bytes = snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root%s", pid, module->path);
	if (bytes < 0 || (size_t)bytes >= sizeof(path))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		module->linked_at = ky_probe_modules_linked_at(fd, module->file_offset);
	if (fd < 0 || ky_elf_open_fd(&elf, fd) != 0)
		return;
	module->build_id_bytes = (uint32_t)ky_elf_build_id(elf, module->build_id);
	ky_elf_close(elf);
}

size_t ky_probe_modules_read(uint32_t pid, struct ky_seen_module *out, size_t capacity, char **text)
{
	int err;

	*text = ky_unwind_maps_read(pid, &err);
	return *text != NULL ? ky_probe_modules_parse(*text, out, capacity) : 0;
}

/* Adds to the drain what is new, takes out what is gone. */
static void read_modules(uint32_t pid, struct ky_drain *drain)
{
	struct ky_seen_module *seen = ky_alloc(MODULES_MAX * sizeof(*seen));
	char *text = NULL;
	size_t count = seen != NULL ? ky_probe_modules_read(pid, seen, MODULES_MAX, &text) : 0;

	/* A process in the middle of its end has no mappings any more: that unloads nothing. */
	for (size_t i = 0; i < count; i++) {
		/* Who records itself has told of its vDSO, by the loader's name. */
		if (ky_vdso_is(seen[i].path) ||
		    ky_drain_knows_module(drain, seen[i].start, seen[i].path))
			continue;
		ky_probe_modules_read_file(pid, &seen[i]);
		if (ky_drain_add_module(drain, &seen[i]) < 0)
			break;
	}
	if (count > 0 && count < MODULES_MAX)
		ky_drain_keep_modules(drain, seen, count);
	ky_free(seen);
	ky_free(text);
}

static uint64_t step(void *self, const struct ky_probe_moment *moment)
{
	struct ky_probe_modules *modules = self;

	if (!moment->stream)
		return UINT64_MAX;
	if (moment->now_ns >= modules->due_ns) {
		read_modules(modules->pid, moment->stream);
		modules->due_ns = moment->now_ns + PACE_NS;
	}
	return modules->due_ns;
}

struct ky_probe ky_probe_modules_open(struct ky_probe_modules *modules, uint32_t pid,
				      uint64_t found_ns)
{
	*modules = (struct ky_probe_modules){.pid = pid, .due_ns = found_ns + FIRST_NS};
	return (struct ky_probe){.self = modules, .step = step};
}
