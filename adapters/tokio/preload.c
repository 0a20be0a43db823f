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

#include "tokio_elf.h"
#include "patch.h"
#include "tables.h"

#define OBJECTS_MAX 4096u
#define STATUS_BYTES 256u
#define VERSION_BYTES 32

struct search {
	struct ky_tokio_found found;
	uint32_t objects;
	bool is_main_stripped;
	bool is_main_unreadable;
};

static void inspect(struct search *search, const struct dl_phdr_info *info, const char *path,
		    bool is_main)
{
	struct ky_tokio_elf elf;
	int result = ky_tokio_elf_open(&elf, info, path);

	if (is_main && result == KY_TOKIO_ELF_STRIPPED)
		search->is_main_stripped = true;
	if (is_main && (result < 0 || result == KY_TOKIO_ELF_UNREADABLE))
		search->is_main_unreadable = true;
	if (result != KY_TOKIO_ELF_FOUND)
		return;
	ky_tokio_tables_find(&search->found, &elf);
	ky_tokio_elf_close(&elf);
}

static int on_object(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	struct search *search = ctx;
	bool is_main = search->objects == 0;

	(void)info_bytes;
	if (search->objects++ == OBJECTS_MAX)
		return 1;
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

/* Panic messages name Tokio's source files, "…/tokio-1.54.1/src/runtime/task/state.rs", and they
 * stay when the symbols are stripped. Unless the paths were remapped, the version is among them. */
struct text_search {
	bool is_tokio;
	char version[VERSION_BYTES];
};

static void read_version(struct text_search *search, const char *start, const char *at)
{
	static const char name[] = "/tokio-";
	const char *from;
	size_t bytes;

	for (from = at; from > start && at - from < VERSION_BYTES; from--)
		if (from[-1] == '/')
			break;
	bytes = (size_t)(at - from);
	if (from == start || bytes <= sizeof(name) - 2 || bytes >= VERSION_BYTES ||
	    memcmp(from - 1, name, sizeof(name) - 1) != 0)
		return;
	from += sizeof(name) - 2;
	bytes -= sizeof(name) - 2;
	if (*from < '0' || *from > '9')
		return;
	memcpy(search->version, from, bytes);
	search->version[bytes] = 0;
}

static int look_for_text(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	static const char text[] = "/src/runtime/task/";
	struct text_search *search = ctx;

	(void)info_bytes;
	for (size_t i = 0; i < info->dlpi_phnum && !search->is_tokio; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const char *start = (const char *)(info->dlpi_addr + phdr->p_vaddr), *at;

		if (phdr->p_type != PT_LOAD || (phdr->p_flags & (PF_R | PF_W)) != PF_R)
			continue;
		at = memmem(start, phdr->p_filesz, text, sizeof(text) - 1);
		if (!at)
			continue;
		search->is_tokio = true;
		read_version(search, start, at);
	}
	return 1; /* the program itself comes first, and only it is looked at */
}

static void say_nothing_found(const struct search *search)
{
	struct text_search text = {false, ""};

	if (search->found.refused_count) {
		say("unknown-layout no table looks as expected\n");
		return;
	}
	if (!getenv("KYMO_STATUS_DIR"))
		return;
	if (search->is_main_stripped || search->is_main_unreadable)
		dl_iterate_phdr(look_for_text, &text);
	say(text.is_tokio ? "stripped\n" : "no-tokio\n");
}

static int open_recorder(const struct ky_tokio_found *found)
{
	static struct kymo_recorder *recorder; /* stays open: the ring must outlive every thread */
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	const char *bytes = getenv("KYMO_RING_BYTES"), *mode = getenv("KYMO_MODE");
	char tables[16], copies[16], refused[16];
	struct text_search text = {false, ""};
	int result;

	options.service = getenv("KYMO_SERVICE");
	options.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_PREPARED;
	if (mode && strcmp(mode, "flight") == 0)
		options.flags |= KYMO_RECORDER_FLIGHT;
	if (bytes)
		options.ring_bytes = strtoull(bytes, NULL, 10);
	result = kymo_recorder_open(&recorder, &options);
	if (result < 0)
		return result;
	snprintf(tables, sizeof(tables), "%u", found->table_count);
	snprintf(copies, sizeof(copies), "%u", found->copy_count);
	snprintf(refused, sizeof(refused), "%u", found->refused_count);
	dl_iterate_phdr(look_for_text, &text);
	(void)kymo_metadata_set("tokio.version", text.version[0] ? text.version : "unknown");
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
static void name_tables(const struct ky_tokio_found *found)
{
	for (uint32_t i = 0; i < found->table_count; i++) {
		struct ky_tokio_table *table = &ky_tokio_tables[i];

		table->name = kymo_name_intern(NULL, 0, (uintptr_t)table->poll,
					       (uintptr_t)table->words, table->copy);
	}
}

static bool is_another_recorder_here(void)
{
	return dlsym(RTLD_DEFAULT, "kymo_recorder_open") != NULL;
}

__attribute__((constructor)) static void preload_start(void)
{
	static struct search search;
	char line[STATUS_BYTES];
	int result;

	if (!getenv("KYMO_SESSION") || getauxval(AT_SECURE))
		return;
	dl_iterate_phdr(on_object, &search);
	if (search.found.table_count == 0) {
		say_nothing_found(&search);
		return;
	}
	if (is_another_recorder_here()) {
		say("refused another recorder is part of this program\n");
		return;
	}
	result = open_recorder(&search.found);
	if (result < 0) {
		snprintf(line, sizeof(line), "refused the recorder could not be opened: %s\n",
			 kymo_error_text(result));
		say(line);
		return;
	}
	name_tables(&search.found);
	result = ky_tokio_patch(&search.found);
	if (result < 0) {
		kymo_recorder_gates(0, UINT32_MAX);
		snprintf(line, sizeof(line), "refused memory could not be made writable: %s\n",
			 kymo_error_text(result));
	} else {
		snprintf(line, sizeof(line), "ok tables=%u copies=%u refused=%u\n",
			 search.found.table_count, search.found.copy_count,
			 search.found.refused_count);
	}
	say(line);
}
