/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* preload.c - the constructor of libkymo-preload.so. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/recorder.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include "late.h"
#include "patch.h"
#include "tables.h"
#include "tokio_elf.h"

#define OBJECTS_MAX 4096u
#define STATUS_BYTES 256u
#define VERSION_BYTES 32
#define VERSIONS_BYTES 256

struct search {
	struct ky_tokio_found found;
	uint32_t objects;
	bool is_main_stripped;
	bool is_main_unreadable;
	bool is_late; /* the constructor is over */
	char versions[VERSIONS_BYTES];
	bool is_open;      /* the recorder */
	bool has_recorder; /* an object has one linked in */
};

static struct search search_state;

/* Panic messages name Tokio's source files, "…/tokio-1.54.1/src/runtime/task/state.rs", and they
 * stay when the symbols are stripped. Unless the paths were remapped, the version is among them. */
static void add_version(char *versions, const char *from, size_t bytes)
{
	char version[VERSION_BYTES + 2];
	size_t used = strlen(versions);

	snprintf(version, sizeof(version), "%.*s,", (int)bytes, from);
	if (strstr(versions, version) || used + bytes + 2 > VERSIONS_BYTES)
		return;
	snprintf(versions + used, VERSIONS_BYTES - used, "%s", version);
}

/* versions: each followed by a comma. */
static void read_version(char *versions, const char *start, const char *at)
{
	static const char name[] = "tokio-";
	const size_t name_bytes = sizeof(name) - 1;

	for (const char *from = at;
	     from - start >= (ptrdiff_t)name_bytes && from[-1] != '/' && at - from < VERSION_BYTES;
	     from--) {
		if (memcmp(from - name_bytes, name, name_bytes) != 0)
			continue;
		if (*from >= '0' && *from <= '9')
			add_version(versions, from, (size_t)(at - from));
		return;
	}
}

/* Whether the object has Tokio's texts; adds the versions they tell. */
static bool look_for_text(const struct dl_phdr_info *info, char *versions)
{
	static const char text[] = "/src/runtime/task/";
	bool is_tokio = false;

	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const char *start = (const char *)(info->dlpi_addr + phdr->p_vaddr);
		const char *end = start + phdr->p_filesz, *at = start;

		if (phdr->p_type != PT_LOAD || (phdr->p_flags & (PF_R | PF_W)) != PF_R)
			continue;
		while ((at = memmem(at, (size_t)(end - at), text, sizeof(text) - 1))) {
			is_tokio = true;
			read_version(versions, start, at++);
		}
	}
	return is_tokio;
}

static bool is_ours(const struct dl_phdr_info *info)
{
	struct ky_tokio_elf elf = {
		.bias = info->dlpi_addr, .phdr = info->dlpi_phdr, .phdr_count = info->dlpi_phnum};

	return ky_tokio_elf_is_in(&elf, (uintptr_t)&search_state, 1, PF_R, 0);
}

static void inspect(struct search *search, const struct dl_phdr_info *info, const char *path,
		    bool is_main)
{
	struct ky_tokio_elf elf;
	uint32_t objects;
	int result;

	if (is_ours(info))
		return;
	result = ky_tokio_elf_open(&elf, info, path);
	if (result >= 0 && elf.has_recorder)
		search->has_recorder = true;
	if (is_main && result == KY_TOKIO_ELF_STRIPPED)
		search->is_main_stripped = true;
	if (is_main && (result < 0 || result == KY_TOKIO_ELF_UNREADABLE))
		search->is_main_unreadable = true;
	if (result != KY_TOKIO_ELF_FOUND)
		return;
	if (search->is_late)
		search->found.got_count = search->found.range_count = 0;
	objects = search->found.object_count;
	ky_tokio_tables_find(&search->found, &elf);
	if (search->found.object_count != objects)
		(void)look_for_text(info, search->versions);
	if (search->is_late && ky_tokio_late_patch(&search->found, &elf) != 0)
		search->found.refused_count++;
	ky_tokio_elf_close(&elf);
}

static int on_object(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	struct search *search = ctx;
	bool is_main = search->objects == 0;

	(void)info_bytes;
	if (search->objects++ == OBJECTS_MAX)
		return 1;
	(void)ky_tokio_late_note(info);
	ky_tokio_late_watch(info);
	if (is_main)
		inspect(search, info, "/proc/self/exe", true);
	else if (info->dlpi_name && info->dlpi_name[0] == '/')
		inspect(search, info, info->dlpi_name, false);
	return 0;
}

/* One line about this process for the `kymo` that started it, and for nobody else. */
static void say(const char *line)
{
	const char *directory = getenv("KYMO_STATUS_DIR"), *parent = getenv("KYMO_STATUS_PARENT");
	char path[PATH_MAX / 2];
	struct rlimit limit;
	int fd, length;

	/* Beyond RLIMIT_FSIZE a write raises SIGXFSZ, whose default kills the host. */
	if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < strlen(line))
		return;
	if (!directory || !parent || strtol(parent, NULL, 10) != getppid())
		return;
	length = snprintf(path, sizeof(path), "%s/%d.status", directory, (int)getpid());
	if (length < 0 || (size_t)length >= sizeof(path))
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	/* Whoever reads it treats a short line as no line. */
	if (write(fd, line, strlen(line)) < 0)
		(void)unlink(path);
	close(fd);
}

static int look_at_program(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	char versions[VERSIONS_BYTES] = "";

	(void)info_bytes;
	*(bool *)ctx = look_for_text(info, versions);
	return 1; /* the program itself comes first */
}

static void say_nothing_found(const struct search *search)
{
	bool is_tokio = false;

	if (search->found.refused_count) {
		say("unknown-layout no table looks as expected\n");
		return;
	}
	if (!getenv("KYMO_STATUS_DIR"))
		return;
	if (search->is_main_stripped || search->is_main_unreadable)
		dl_iterate_phdr(look_at_program, &is_tokio);
	say(is_tokio ? "stripped\n" : "no-tokio\n");
}

static void say_ok(const struct ky_tokio_found *found)
{
	char line[STATUS_BYTES];

	snprintf(line, sizeof(line), "ok tables=%u copies=%u refused=%u\n", found->table_count,
		 found->copy_count, found->refused_count);
	say(line);
}

/* Of all copies, "1.38.0, 1.54.1". */
static void say_versions(void)
{
	const char *from = search_state.versions;
	char text[VERSIONS_BYTES * 2] = "";
	size_t used = 0;

	for (; *from; from++) {
		if (*from == ',' && !from[1])
			break;
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 *from == ',' ? ", " : "%c", *from);
	}
	(void)kymo_metadata_set("tokio.version", text[0] ? text : "unknown");
}

static int open_recorder(const struct ky_tokio_found *found)
{
	static struct kymo_recorder *recorder; /* stays open: the ring must outlive every thread */
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	const char *bytes = getenv("KYMO_RING_BYTES"), *mode = getenv("KYMO_MODE");
	char tables[16], copies[16], refused[16];
	int result;

	options.service = getenv("KYMO_SERVICE");
	options.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_PREPARED;
	if (!mode || strcmp(mode, "flight") != 0)
		options.flags |= KYMO_RECORDER_STREAM;
	if (bytes)
		options.ring_bytes = strtoull(bytes, NULL, 10);
	result = kymo_recorder_open(&recorder, &options);
	if (result < 0)
		return result;
	snprintf(tables, sizeof(tables), "%u", found->table_count);
	snprintf(copies, sizeof(copies), "%u", found->copy_count);
	snprintf(refused, sizeof(refused), "%u", found->refused_count);
	say_versions();
	(void)kymo_metadata_set("tokio.unstable", found->unstable_count == 0 ? "false" :
						  found->unstable_count == found->table_count ?
									       "true" :
									       "in part");
	(void)kymo_metadata_set("tokio.local_queue", "false");
	(void)kymo_metadata_set("tokio.tables", tables);
	(void)kymo_metadata_set("tokio.copies", copies);
	(void)kymo_metadata_set("tokio.tables_unrecognised", refused);
	return 0;
}

/* All at once and now: later it would happen inside polls, under a lock and with a look at the
 * loader's list, which a thread in dlopen may hold while it waits for that very poll. */
static void name_tables(struct ky_tokio_found *found)
{
	for (uint32_t i = 0; i < found->table_count; i++) {
		struct ky_tokio_table *table = &ky_tokio_tables[i];

		table->name = kymo_name_intern(NULL, 0, (uintptr_t)table->poll,
					       (uintptr_t)table->words, table->copy);
	}
	found->early_count = found->table_count;
}

static bool is_another_recorder_here(void)
{
	return search_state.has_recorder || dlsym(RTLD_DEFAULT, "kymo_recorder_open") != NULL;
}

static void inspect_late(const struct dl_phdr_info *info)
{
	if (info->dlpi_name && strchr(info->dlpi_name, '/'))
		inspect(&search_state, info, info->dlpi_name, false);
}

/* New objects are patched; what they do is recorded from here on. */
static void finish_late(void)
{
	struct search *search = &search_state;

	if (search->found.table_count == 0)
		return;
	if (!search->is_open) {
		if (is_another_recorder_here() || open_recorder(&search->found) < 0)
			return;
		search->is_open = true;
		say_ok(&search->found);
	}
	kymo_modules_refresh();
	name_tables(&search->found);
	say_versions();
}

static void watch_loader(void)
{
	static const struct ky_tokio_late_calls calls = {inspect_late, finish_late};

	search_state.is_late = true;
	ky_tokio_late_start(&calls);
}

__attribute__((constructor)) static void preload_start(void)
{
	struct search *search = &search_state;
	char line[STATUS_BYTES];
	int result;

	if (!getenv("KYMO_SESSION") || getauxval(AT_SECURE))
		return;
	dl_iterate_phdr(on_object, search);
	watch_loader();
	if (search->found.table_count == 0) {
		say_nothing_found(search);
		return;
	}
	if (is_another_recorder_here()) {
		say("refused another recorder is part of this program\n");
		return;
	}
	result = open_recorder(&search->found);
	if (result < 0) {
		snprintf(line, sizeof(line), "refused the recorder could not be opened: %s\n",
			 kymo_error_text(result));
		say(line);
		return;
	}
	search->is_open = true;
	name_tables(&search->found);
	result = ky_tokio_patch(&search->found);
	if (result < 0) {
		kymo_recorder_gates(0, UINT32_MAX);
		snprintf(line, sizeof(line), "refused memory could not be made writable: %s\n",
			 kymo_error_text(result));
		say(line);
	} else {
		say_ok(&search->found);
	}
}
