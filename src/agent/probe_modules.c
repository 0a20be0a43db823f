/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/probe_modules.h>

#include <base/alloc.h>
#include <proc/proc_map.h>
#include <fcntl.h>
#include <inttypes.h>
#include <elf/elf_image.h>
#include <elf/vdso.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS_NS UINT64_C(1000000)
#define FIRST_NS (250 * MS_NS)
#define PACE_NS (1000 * MS_NS)
#define MODULES_MAX 1024u

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
	if (fd < 0 || ky_elf_open_fd(&elf, fd) != 0)
		return;
	module->linked_at = ky_elf_linked_at(elf, module->file_offset);
	module->build_id_bytes = (uint32_t)ky_elf_build_id(elf, module->build_id);
	ky_elf_close(elf);
}

/* Adds to the drain what is new, takes out what is gone. */
static void read_modules(uint32_t pid, struct ky_drain *drain)
{
	struct ky_seen_module *seen = ky_alloc(MODULES_MAX * sizeof(*seen));
	size_t count = 0;
	int err;
	char *text = ky_proc_maps_read(pid, &err);

	if (seen != NULL && text != NULL)
		count = ky_probe_modules_parse(text, seen, MODULES_MAX);
	/* A process in the middle of its end has no mappings any more: that unloads nothing. */
	for (size_t i = 0; i < count; i++) {
		/* A process that records itself has named its vDSO, by the loader's name. */
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

struct ky_probe ky_probe_modules_init(struct ky_probe_modules *modules, uint32_t pid,
				      uint64_t found_ns)
{
	*modules = (struct ky_probe_modules){.pid = pid, .due_ns = found_ns + FIRST_NS};
	return (struct ky_probe){.self = modules, .step = step};
}
