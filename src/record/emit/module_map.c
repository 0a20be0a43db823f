/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/emit/module_map.h>

#include <link.h>
#include <string.h>
#include <unistd.h>

#define BUILD_ID_BYTES_MAX 32u
#define PATH_BYTES_MAX 480u

struct map_scan {
	struct ky_module_map *map;
	struct ky_directory *directory;
	uint64_t ticks;
	bool is_first;
};

/* Is it in memory at all? The loader takes objects whose notes lie in no segment that it loads, as
 * packers leave them. */
static bool is_loaded(const struct dl_phdr_info *info, const ElfW(Phdr) * part)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) &&
		    part->p_vaddr >= segment->p_vaddr &&
		    part->p_vaddr - segment->p_vaddr <= segment->p_memsz &&
		    part->p_memsz <= segment->p_memsz - (part->p_vaddr - segment->p_vaddr))
			return true;
	}
	return false;
}

static const uint8_t *find_build_id(const struct dl_phdr_info *info, size_t *count)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t address = (uintptr_t)(info->dlpi_addr + header->p_vaddr);
		const uint8_t *at, *end;

		if (header->p_type != PT_NOTE || !is_loaded(info, header))
			continue;
		at = (const uint8_t *)address;
		end = at + header->p_memsz;
		while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
			ElfW(Nhdr) note;
			size_t name_bytes, desc_bytes;

			memcpy(&note, at, sizeof(note));
			at += sizeof(note);
			name_bytes = ((size_t)note.n_namesz + 3) & ~(size_t)3;
			desc_bytes = ((size_t)note.n_descsz + 3) & ~(size_t)3;
			if (name_bytes > (size_t)(end - at) ||
			    desc_bytes > (size_t)(end - at) - name_bytes)
				break;
			if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
			    memcmp(at, "GNU", 4) == 0 && note.n_descsz <= BUILD_ID_BYTES_MAX) {
				*count = note.n_descsz;
				return at + name_bytes;
			}
			at += name_bytes + desc_bytes;
		}
	}
	*count = 0;
	return NULL;
}

static void measure(const struct dl_phdr_info *info, struct ky_entry_module *out)
{
	out->start = UINT64_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uint64_t start = (info->dlpi_addr + header->p_vaddr) & ~UINT64_C(4095);
		uint64_t end = info->dlpi_addr + header->p_vaddr + header->p_memsz;

		if (header->p_type != PT_LOAD)
			continue;
		if (start < out->start) {
			out->start = start;
			out->file_offset = header->p_offset & ~UINT64_C(4095);
		}
		if (end > out->end)
			out->end = end;
	}
	out->load_bias = info->dlpi_addr;
}

static uint32_t append(struct map_scan *scan, const struct dl_phdr_info *info,
		       struct ky_entry_module *module)
{
	uint8_t fixed[sizeof(*module) + BUILD_ID_BYTES_MAX];
	char path[PATH_BYTES_MAX];
	size_t path_bytes = 0, build_id_bytes;
	const uint8_t *build_id = find_build_id(info, &build_id_bytes);
	struct ky_directory_item item = {.kind = KY_ENTRY_MODULE, .fixed = fixed, .text = path};

	if (info->dlpi_name && info->dlpi_name[0]) {
		path_bytes = strnlen(info->dlpi_name, sizeof(path));
		memcpy(path, info->dlpi_name, path_bytes);
	} else if (scan->is_first) { /* the loader names the executable "" */
		ssize_t count = readlink("/proc/self/exe", path, sizeof(path));

		path_bytes = count > 0 ? (size_t)count : 0;
	}
	module->from_ticks = scan->ticks;
	module->build_id_bytes = (uint32_t)build_id_bytes;
	module->path_bytes = (uint32_t)path_bytes;
	memcpy(fixed, module, sizeof(*module));
	if (build_id_bytes)
		memcpy(fixed + sizeof(*module), build_id, build_id_bytes);
	item.fixed_bytes = sizeof(*module) + build_id_bytes;
	item.text_bytes = path_bytes;
	return ky_directory_append(scan->directory, &item);
}

static int visit(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	struct map_scan *scan = ctx;
	struct ky_module_map *map = scan->map;
	struct ky_entry_module module = {0};

	if (scan->is_first && info_bytes >= offsetof(struct dl_phdr_info, dlpi_tls_modid)) {
		if (map->round && map->adds == info->dlpi_adds && map->subs == info->dlpi_subs)
			return 1;
		map->adds = info->dlpi_adds;
		map->subs = info->dlpi_subs;
		map->round++;
	}
	measure(info, &module);
	for (uint32_t i = 0; i < map->count; i++) {
		if (map->modules[i].start == module.start && map->modules[i].end == module.end) {
			map->modules[i].seen = map->round;
			scan->is_first = false;
			return 0;
		}
	}
	if (module.start < module.end && map->count < KY_MODULES_MAX)
		map->modules[map->count++] = (struct ky_module){
			module.start, module.end, append(scan, info, &module), map->round};
	scan->is_first = false;
	return 0;
}

static void retire_missing(struct map_scan *scan)
{
	struct ky_module_map *map = scan->map;

	for (uint32_t i = 0; i < map->count;) {
		struct ky_module *module = &map->modules[i];
		struct ky_directory_item item = {.kind = KY_ENTRY_MODULE_GONE,
						 .id = module->id,
						 .fixed = &scan->ticks,
						 .fixed_bytes = sizeof(scan->ticks),
						 .text = ""};

		if (module->seen == map->round) {
			i++;
			continue;
		}
		if (module->id)
			ky_directory_append(scan->directory, &item);
		*module = map->modules[--map->count];
	}
}

void ky_module_map_scan(struct ky_module_map *map, struct ky_directory *directory,
			const struct ky_clock *clock)
{
	struct map_scan scan = {map, directory, ky_clock_ticks(clock), true};

	if (dl_iterate_phdr(visit, &scan) == 0)
		retire_missing(&scan);
}

bool ky_module_map_knows(const struct ky_module_map *map, uint64_t address)
{
	for (uint32_t i = 0; i < map->count; i++)
		if (address >= map->modules[i].start && address < map->modules[i].end)
			return true;
	return false;
}
