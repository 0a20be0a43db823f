/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "search.h"

#include <dlfcn.h>
#include <kymo/off_cpu.h>
#include <kymo/place.h>
#include <kymo/recorder.h>
#include <stdio.h>
#include <string.h>

#include "conns.h"
#include "late.h"
#include "next_ids.h"
#include "patch.h"
#include "root_tables.h"
#include "roots.h"
#include "spawned_at.h"
#include "tables.h"
#include "tokio_shape.h"

#define OBJECTS_MAX 4096u
#define VERSION_BYTES 32

struct ky_tokio_search ky_tokio_search;

/* Panic messages name Tokio's source files, "…/tokio-1.54.1/src/runtime/task/state.rs", and they
 * stay when the symbols are stripped. Unless the paths were remapped, the version is among them. */
static void add_version(char *versions, const char *from, size_t bytes)
{
	char version[VERSION_BYTES + 2];
	size_t used = strlen(versions);

	snprintf(version, sizeof(version), "%.*s,", (int)bytes, from);
	if (strstr(versions, version) || used + bytes + 2 > KY_TOKIO_VERSIONS_BYTES)
		return;
	snprintf(versions + used, KY_TOKIO_VERSIONS_BYTES - used, "%s", version);
}

/* As memcmp(), which a host that is built with AddressSanitizer has replaced. */
static KY_TOKIO_READS_RAW bool is_same(const char *one, const char *other, size_t bytes)
{
	while (bytes && *one == *other) {
		one++;
		other++;
		bytes--;
	}
	return bytes == 0;
}

/* versions: each followed by a comma. */
static KY_TOKIO_READS_RAW void read_version(char *versions, const char *start, const char *at)
{
	static const char name[] = "tokio-";
	const size_t name_bytes = sizeof(name) - 1;

	for (const char *from = at;
	     from - start >= (ptrdiff_t)name_bytes && from[-1] != '/' && at - from < VERSION_BYTES;
	     from--) {
		if (!is_same(from - name_bytes, name, name_bytes))
			continue;
		if (*from >= '0' && *from <= '9')
			add_version(versions, from, (size_t)(at - from));
		return;
	}
}

/* Linkers put constants into a segment of their own, or beside the code where there is none: then
 * code, the larger part, need not be searched. */
static bool may_hold_texts(const struct dl_phdr_info *info, const ElfW(Phdr) * phdr)
{
	const uint32_t access = PF_R | PF_W | PF_X;

	if (phdr->p_type != PT_LOAD || (phdr->p_flags & (PF_R | PF_W)) != PF_R)
		return false;
	for (size_t i = 0; phdr->p_flags & PF_X && i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    (info->dlpi_phdr[i].p_flags & access) == PF_R)
			return false;
	return true;
}

/* Of a host that is built with AddressSanitizer: its memmem() ends the program where it reads
 * between two texts. */
extern void __asan_init(void) __attribute__((weak));

static KY_TOKIO_READS_RAW const char *find_bytes(const char *at, size_t bytes, const char *text,
						 size_t text_bytes)
{
	if (!__asan_init)
		return memmem(at, bytes, text, text_bytes);
	for (; bytes >= text_bytes; at++, bytes--)
		if (is_same(at, text, text_bytes))
			return at;
	return NULL;
}

/* Whether the object has Tokio's texts; adds the versions they name. */
static bool find_text(const struct dl_phdr_info *info, char *versions)
{
	static const char text[] = "/src/runtime/task/";
	bool is_tokio = false;

	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const char *start = (const char *)(info->dlpi_addr + phdr->p_vaddr);
		const char *end = start + phdr->p_filesz, *at = start;

		if (!may_hold_texts(info, phdr))
			continue;
		while ((at = find_bytes(at, (size_t)(end - at), text, sizeof(text) - 1))) {
			is_tokio = true;
			read_version(versions, start, at++);
		}
	}
	return is_tokio;
}

/* Where symbols are gone, a recorder that is linked in shows by the name it gives to rings. */
static bool has_recorder_text(const struct dl_phdr_info *info)
{
	static const char text[] = "/dev/shm/kymo-%u";

	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const char *start = (const char *)(info->dlpi_addr + phdr->p_vaddr);

		if (may_hold_texts(info, phdr) &&
		    find_bytes(start, phdr->p_filesz, text, sizeof(text) - 1))
			return true;
	}
	return false;
}

static bool is_ours(const struct dl_phdr_info *info)
{
	struct ky_tokio_elf elf = {
		.bias = info->dlpi_addr, .phdr = info->dlpi_phdr, .phdr_count = info->dlpi_phnum};

	return ky_tokio_elf_is_in(&elf, (uintptr_t)&ky_tokio_search, 1, PF_R, 0);
}

void ky_tokio_search_object(const struct dl_phdr_info *info, const char *path)
{
	struct ky_tokio_search *search = &ky_tokio_search;
	bool is_own = is_ours(info);
	struct ky_tokio_elf elf;
	uint32_t objects;
	int result;

	if (is_own && !search->is_inside)
		return;
	search->is_program |= is_own && search->objects == 1;
	result = ky_tokio_elf_open(&elf, info, path);
	if (result >= 0 && elf.has_recorder && !is_own && !search->is_program)
		search->has_recorder = true;
	if (result != KY_TOKIO_ELF_FOUND) {
		result = ky_tokio_shape_open(&elf, info, find_text(info, search->unused_versions));
		if (result == KY_TOKIO_ELF_FOUND && !is_own && !search->is_program &&
		    has_recorder_text(info))
			search->has_recorder = true;
	}
	if (result != KY_TOKIO_ELF_FOUND)
		return;
	if (search->when != KY_TOKIO_WHEN_EARLY)
		search->found.got_count = search->found.range_count = 0;
	objects = search->found.object_count;
	search->has_jemalloc |= elf.names.has_jemalloc;
	search->has_mimalloc |= elf.names.has_mimalloc;
	ky_tokio_tables_find(&search->found, &elf);
	if (search->found.object_count != objects)
		(void)find_text(info, search->versions);
	if (search->when == KY_TOKIO_WHEN_LATE && ky_tokio_late_patch(&search->found, &elf) != 0)
		search->found.refused_count++;
	if (search->when == KY_TOKIO_WHEN_RUNNING && !ky_tokio_patch_later(&search->found, &elf))
		search->is_full = true;
	ky_tokio_elf_close(&elf);
}

static int on_object(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	struct ky_tokio_search *search = ctx;
	bool is_main = search->objects == 0;

	(void)info_bytes;
	if (search->objects++ == OBJECTS_MAX)
		return 1;
	if (search->when == KY_TOKIO_WHEN_EARLY) {
		(void)ky_tokio_late_note(info);
		ky_tokio_late_watch(info);
	}
	if (is_main)
		ky_tokio_search_object(info, "/proc/self/exe");
	else if (info->dlpi_name && info->dlpi_name[0] == '/')
		ky_tokio_search_object(info, info->dlpi_name);
	return 0;
}

void ky_tokio_search_all(void)
{
	struct ky_tokio_search *search = &ky_tokio_search;

	search->objects = 0;
	dl_iterate_phdr(on_object, search);
}

static int check_program(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	char versions[KY_TOKIO_VERSIONS_BYTES] = "";

	(void)info_bytes;
	*(bool *)ctx = find_text(info, versions);
	return 1; /* the program itself comes first */
}

bool ky_tokio_search_is_tokio(void)
{
	bool is_tokio = false;

	dl_iterate_phdr(check_program, &is_tokio);
	return is_tokio;
}

/* Of all copies, "1.38.0, 1.54.1". */
void ky_tokio_search_describe_versions(void)
{
	const char *from = ky_tokio_search.versions;
	char text[KY_TOKIO_VERSIONS_BYTES * 2] = "";
	size_t used = 0;

	for (; *from; from++) {
		if (*from == ',' && !from[1])
			break;
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 *from == ',' ? ", " : "%c", *from);
	}
	(void)kymo_metadata_set("tokio.version", text[0] ? text : "unknown");
}

/* Which futures of block_on are seen: those whose waker's table has a name. */
static void describe_roots(const struct ky_tokio_found *found)
{
	bool has[2] = {false, false};

	for (uint32_t i = 0; i < found->root_count; i++)
		has[ky_tokio_root_tables[i].kind] = true;
	(void)kymo_metadata_set("tokio.roots",
				has[KY_TOKIO_ROOT_THREAD] && has[KY_TOKIO_ROOT_RUNTIME] ?
					"of threads and runtimes" :
				has[KY_TOKIO_ROOT_THREAD]  ? "of threads" :
				has[KY_TOKIO_ROOT_RUNTIME] ? "of runtimes" :
							     "none");
}

void ky_tokio_search_describe(void)
{
	const struct ky_tokio_found *found = &ky_tokio_search.found;
	char tables[16], copies[16], refused[16], shaped[16];

	snprintf(tables, sizeof(tables), "%u", found->table_count);
	snprintf(copies, sizeof(copies), "%u", found->copy_count);
	snprintf(refused, sizeof(refused), "%u", found->refused_count);
	snprintf(shaped, sizeof(shaped), "%u", found->shape_count);
	ky_tokio_search_describe_versions();
	(void)kymo_metadata_set("tokio.unstable", found->unstable_count == 0 ? "false" :
						  found->unstable_count == found->table_count ?
									       "true" :
									       "in part");
	(void)kymo_metadata_set("tokio.local_queue", "false");
	(void)kymo_metadata_set("tokio.tables", tables);
	(void)kymo_metadata_set("tokio.tables_by_shape", shaped);
	(void)kymo_metadata_set("tokio.copies", copies);
	describe_roots(found);
	(void)kymo_metadata_set("tokio.next_id", ky_tokio_ids_count() == 0 ? "none" :
						 ky_tokio_ids_count() == found->copy_count ?
									     "of all copies" :
									     "of some copies");
	(void)kymo_metadata_set("tokio.tables_unrecognised", refused);
	(void)kymo_metadata_set("places.rule", KYMO_PLACE_RULE);
	(void)kymo_metadata_set("offcpu.rule", KYMO_OFF_CPU_RULE);
}

void ky_tokio_search_name(void)
{
	struct ky_tokio_found *found = &ky_tokio_search.found;

	kymo_usdt_places_by(ky_tokio_spawned_at);
	ky_tokio_roots_name();
	ky_tokio_conns_name();
	for (uint32_t i = 0; i < found->table_count; i++) {
		struct ky_tokio_table *table = &ky_tokio_tables[i];

		table->name = kymo_name_intern(NULL, 0, (uintptr_t)table->poll,
					       (uintptr_t)table->words, table->copy);
	}
	found->early_count = found->table_count;
}

bool ky_tokio_search_met_recorder(void)
{
	const void *other = dlsym(RTLD_DEFAULT, "kymo_recorder_open");

	/* Our own, where the program exports its functions. */
	return ky_tokio_search.has_recorder ||
	       (other && (uintptr_t)other != (uintptr_t)kymo_recorder_open);
}
