/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* preload.c - the constructor of libkymo-preload.so. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/alloc.h>
#include <kymo/emit.h>
#include <kymo/off_cpu.h>
#include <kymo/place.h>
#include <kymo/recorder.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "allocs.h"
#include "blocking.h"
#include "conns.h"
#include "hooks.h"
#include "late.h"
#include "live.h"
#include "parked_on.h"
#include "patch.h"
#include "preload.h"
#include "runtimes.h"
#include "next_ids.h"
#include "tables.h"
#include "tokio_elf.h"
#include "tokio_shape.h"
#include "waits.h"

#define OBJECTS_MAX 4096u
#define STATUS_BYTES 256u
#define TABLES_MS_MAX 250u
#define VERSION_BYTES 32
#define VERSIONS_BYTES 256

enum when {
	WHEN_EARLY = 0, /* in the constructor */
	WHEN_LATE,      /* a library that the program opened */
	WHEN_ATTACHED   /* the program's threads run */
};

struct search {
	struct ky_tokio_found found;
	uint32_t objects;
	bool is_full; /* more words than can be remembered */
	enum when when;
	char versions[VERSIONS_BYTES], unused_versions[VERSIONS_BYTES];
	bool is_open;                    /* the recorder */
	bool has_recorder;               /* an object has one linked in */
	bool has_jemalloc, has_mimalloc; /* an object with Tokio has, under names of its own */
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

/* Whether the object has Tokio's texts; adds the versions they name. */
static bool find_text(const struct dl_phdr_info *info, char *versions)
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

/* Where symbols are gone, a recorder that is linked in shows by the name it gives to rings. */
static bool has_recorder_text(const struct dl_phdr_info *info)
{
	static const char text[] = "/dev/shm/kymo-%u";

	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const char *start = (const char *)(info->dlpi_addr + phdr->p_vaddr);

		if (phdr->p_type == PT_LOAD && (phdr->p_flags & (PF_R | PF_W)) == PF_R &&
		    memmem(start, phdr->p_filesz, text, sizeof(text) - 1))
			return true;
	}
	return false;
}

static bool is_ours(const struct dl_phdr_info *info)
{
	struct ky_tokio_elf elf = {
		.bias = info->dlpi_addr, .phdr = info->dlpi_phdr, .phdr_count = info->dlpi_phnum};

	return ky_tokio_elf_is_in(&elf, (uintptr_t)&search_state, 1, PF_R, 0);
}

static void inspect(struct search *search, const struct dl_phdr_info *info, const char *path)
{
	struct ky_tokio_elf elf;
	uint32_t objects;
	int result;

	if (is_ours(info))
		return;
	result = ky_tokio_elf_open(&elf, info, path);
	if (result >= 0 && elf.has_recorder)
		search->has_recorder = true;
	if (result != KY_TOKIO_ELF_FOUND) {
		result = ky_tokio_shape_open(&elf, info, find_text(info, search->unused_versions));
		if (result == KY_TOKIO_ELF_FOUND && has_recorder_text(info))
			search->has_recorder = true;
	}
	if (result != KY_TOKIO_ELF_FOUND)
		return;
	if (search->when != WHEN_EARLY)
		search->found.got_count = search->found.range_count = 0;
	objects = search->found.object_count;
	search->has_jemalloc |= elf.names.has_jemalloc;
	search->has_mimalloc |= elf.names.has_mimalloc;
	ky_tokio_tables_find(&search->found, &elf);
	if (search->found.object_count != objects)
		(void)find_text(info, search->versions);
	if (search->when == WHEN_LATE && ky_tokio_late_patch(&search->found, &elf) != 0)
		search->found.refused_count++;
	if (search->when == WHEN_ATTACHED && !ky_tokio_patch_later(&search->found, &elf))
		search->is_full = true;
	ky_tokio_elf_close(&elf);
}

static int on_object(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	struct search *search = ctx;
	bool is_main = search->objects == 0;

	(void)info_bytes;
	if (search->objects++ == OBJECTS_MAX)
		return 1;
	if (search->when == WHEN_EARLY) {
		(void)ky_tokio_late_note(info);
		ky_tokio_late_watch(info);
	}
	if (is_main)
		inspect(search, info, "/proc/self/exe");
	else if (info->dlpi_name && info->dlpi_name[0] == '/')
		inspect(search, info, info->dlpi_name);
	return 0;
}

/* Only the direct child of a `kymo` has a reader of its status. */
static bool is_heard(void)
{
	const char *parent = getenv("KYMO_STATUS_PARENT");

	return getenv("KYMO_STATUS_DIR") && parent && strtol(parent, NULL, 10) == getppid();
}

/* One line about this process for the `kymo` that started it, and for no other reader. */
static void say(const char *line)
{
	const char *directory = getenv("KYMO_STATUS_DIR");
	char path[PATH_MAX / 2];
	struct rlimit limit;
	int fd, length;

	/* Beyond RLIMIT_FSIZE a write raises SIGXFSZ, whose default kills the host. */
	if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < strlen(line))
		return;
	if (!is_heard())
		return;
	length = snprintf(path, sizeof(path), "%s/%d.status", directory, (int)getpid());
	if (length < 0 || (size_t)length >= sizeof(path))
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	/* Its reader treats a short line as no line. */
	if (write(fd, line, strlen(line)) < 0)
		(void)unlink(path);
	close(fd);
}

static int check_program(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	char versions[VERSIONS_BYTES] = "";

	(void)info_bytes;
	*(bool *)ctx = find_text(info, versions);
	return 1; /* the program itself comes first */
}

/* Tokio's texts, and neither its symbols nor tables of the shape that is known. */
static void say_nothing_found(const struct search *search)
{
	bool is_tokio = false;

	if (search->found.refused_count) {
		say("unknown-layout no table is laid out as expected\n");
		return;
	}
	if (!is_heard())
		return;
	dl_iterate_phdr(check_program, &is_tokio);
	say(is_tokio ? "stripped\n" : "no-tokio\n");
}

static void say_ok(const struct ky_tokio_found *found)
{
	char line[STATUS_BYTES];

	snprintf(line, sizeof(line), "ok tables=%u copies=%u refused=%u shaped=%u\n",
		 found->table_count, found->copy_count, found->refused_count, found->shape_count);
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

static void describe(const struct ky_tokio_found *found)
{
	char tables[16], copies[16], refused[16], shaped[16];

	snprintf(tables, sizeof(tables), "%u", found->table_count);
	snprintf(copies, sizeof(copies), "%u", found->copy_count);
	snprintf(refused, sizeof(refused), "%u", found->refused_count);
	snprintf(shaped, sizeof(shaped), "%u", found->shape_count);
	say_versions();
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

/* Stays open until `kymo detach`: the ring must outlive every thread. */
static struct kymo_recorder *recorder;

/* Reported whether or not there is anything to see: who asked for it wants to know. */
static void take_allocs(void)
{
	char text[96];
	uint32_t count = ky_tokio_allocs_start();

	snprintf(text, sizeof(text),
		 count ? "malloc and its kin, through %u slots" :
			 "refused: no slot of malloc could be written",
		 count);
	(void)kymo_metadata_set("alloc.source", text);
	if (!search_state.has_jemalloc && !search_state.has_mimalloc)
		return;
	snprintf(text, sizeof(text), "%s%s%s: linked into the program, called through no slot",
		 search_state.has_jemalloc ? "jemalloc" : "",
		 search_state.has_jemalloc && search_state.has_mimalloc ? ", " : "",
		 search_state.has_mimalloc ? "mimalloc" : "");
	(void)kymo_metadata_set("alloc.unseen", text);
}

static int open_recorder(const struct ky_tokio_found *found)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	const char *bytes = getenv("KYMO_RING_BYTES"), *mode = getenv("KYMO_MODE");
	const char *gates = getenv("KYMO_GATES");
	int result;

	options.service = getenv("KYMO_SERVICE");
	options.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_PREPARED;
	if (!mode || strcmp(mode, "flight") != 0)
		options.flags |= KYMO_RECORDER_STREAM;
	if (bytes)
		options.ring_bytes = strtoull(bytes, NULL, 10);
	/* Already before the first event, from which on the recorder opens what is wanted. */
	options.gates = KYMO_GATES_DEFAULT;
	if (getenv("KYMO_ALLOC"))
		options.gates |= KYMO_GATE_ALLOC;
	if (gates)
		options.gates |= (uint32_t)strtoul(gates, NULL, 16) & KYMO_GATE_CONN;
	result = kymo_recorder_open(&recorder, &options);
	if (result == 0)
		describe(found);
	if (result == 0 && options.gates & KYMO_GATE_ALLOC)
		take_allocs();
	return result;
}

/* All at once and now: later it would happen inside polls, under a lock and with a reading of the
 * loader's list, which a thread in dlopen may hold while it waits for that very poll. */
static void name_tables(struct ky_tokio_found *found)
{
	ky_tokio_roots_name();
	ky_tokio_conns_name();
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
	if (search_state.when != WHEN_LATE)
		return;
	ky_tokio_allocs_late(info);
	if (info->dlpi_name && strchr(info->dlpi_name, '/'))
		inspect(&search_state, info, info->dlpi_name);
}

/* New objects are patched; what they do is recorded from here on. */
static void finish_late(void)
{
	struct search *search = &search_state;

	if (search->when != WHEN_LATE || search->found.table_count == 0)
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

	search_state.when = WHEN_LATE;
	ky_tokio_late_start(&calls);
}

/* Tasks that wait from their first poll on, as what accepts connections does, are seen that once:
 * so the tables for walks should be there. `kymo run` makes them of every ring that is prepared, in
 * some 20 ms; a program that starts meanwhile waits for it, but not for long. */
static void wait_for_tables(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	if (!getenv("KYMO_STATUS_PARENT") || !kymo_gate_is_open(KYMO_GATE_PLACE))
		return;
	for (uint32_t ms = 0; ms < TABLES_MS_MAX; ms++) {
		/* Our own code stands at the leaf of each walk. */
		if (kymo_place_is_ready((uintptr_t)ky_tokio_tables[0].poll) &&
		    kymo_place_is_ready((uintptr_t)wait_for_tables))
			return;
		(void)nanosleep(&pause, NULL);
	}
}

__attribute__((constructor)) static void preload_start(void)
{
	struct search *search = &search_state;
	char line[STATUS_BYTES];
	int result;

	if (!getenv("KYMO_SESSION") || getauxval(AT_SECURE))
		return;
	/* Not before main, but opened by the thread that kymo attach made: it will say. */
	if (syscall(SYS_gettid) != getpid())
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
		wait_for_tables();
	}
}

/* ---- in a process that runs already ---- */

__attribute__((format(printf, 3, 4))) static int answer(struct kymo_attach_block *block, int result,
							const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(block->text, sizeof(block->text), format, args);
	va_end(args);
	return result;
}

/* Looks through everything that is loaded now. Tables that were known keep their indexes, for polls
 * of an earlier recording may still be under way. */
static int check_again(struct search *search, struct kymo_attach_block *block)
{
	search->when = WHEN_ATTACHED;
	search->objects = 0;
	search->is_full = search->has_recorder = false;
	search->found.early_count = search->found.table_count;
	search->found.refused_count = search->found.unstable_count = search->found.object_count = 0;
	search->found.shape_count = 0;
	search->versions[0] = '\0';
	dl_iterate_phdr(on_object, search);
	if (is_another_recorder_here())
		return answer(block, KYMO_E_ACTIVE,
			      "refused another recorder is part of this program\n");
	if (search->found.object_count == 0)
		return answer(block, KYMO_E_UNSUPPORTED,
			      search->found.refused_count ?
				      "unknown-layout no table is laid out as expected\n" :
				      "no-tokio\n");
	if (search->is_full)
		return answer(block, KYMO_E_LIMIT, "refused it has more tables than kymo keeps\n");
	return 0;
}

static int open_attached(const struct ky_tokio_found *found, const struct kymo_attach_block *block)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	int result;

	options.service = block->service[0] ? block->service : NULL;
	options.ring_directory = block->ring_directory[0] ? block->ring_directory : NULL;
	/* At once: `kymo attach` waits for the result, and this thread may do everything. */
	options.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_EAGER;
	if (block->is_streaming)
		options.flags |= KYMO_RECORDER_STREAM;
	options.gates = block->gates;
	options.sample_hz = block->sample_hz ? block->sample_hz : KYMO_SAMPLE_OFF;
	options.ring_bytes = block->ring_bytes;
	options.session = block->session;
	result = kymo_recorder_open(&recorder, &options);
	if (result == 0) {
		describe(found);
		(void)kymo_metadata_set("tokio.attached", "true");
	}
	return result;
}

int ky_preload_start(struct kymo_attach_block *block)
{
	struct search *search = &search_state;
	int result;

	if (search->is_open)
		return answer(block, KYMO_E_ACTIVE, "refused it is recorded already\n");
	result = check_again(search, block);
	if (result < 0)
		goto forget;
	result = open_attached(&search->found, block);
	if (result < 0) {
		answer(block, result, "refused the recorder could not be opened: %s\n",
		       kymo_error_text(result));
		goto forget;
	}
	atomic_fetch_add_explicit(&ky_tokio_generation, 1, memory_order_relaxed);
	ky_tokio_runtimes_start_over();
	ky_tokio_parked_on_learn();
	atomic_store_explicit(&ky_tokio_call_ticks_min, 0, memory_order_relaxed);
	name_tables(&search->found);
	result = ky_tokio_live_apply();
	if (result < 0) {
		kymo_recorder_close(recorder);
		return answer(block, result, "refused memory could not be made writable: %s\n",
			      kymo_error_text(result));
	}
	search->is_open = true;
	return answer(block, 0, "ok tables=%u copies=%u refused=%u shaped=%u\n",
		      search->found.table_count, search->found.copy_count,
		      search->found.refused_count, search->found.shape_count);
forget:
	(void)ky_tokio_live_restore(); /* nothing was stored: forgets what was noted */
	return result;
}

int ky_preload_stop(struct kymo_attach_block *block)
{
	struct search *search = &search_state;
	uint32_t count = ky_tokio_live_count();
	int result;

	if (!search->is_open)
		return answer(block, KYMO_E_CLOSED, "refused it is not recorded\n");
	search->when = WHEN_ATTACHED; /* libraries that it opens from now on are left alone */
	ky_tokio_allocs_stop();
	result = ky_tokio_live_restore();
	if (result < 0)
		return answer(block, result, "refused memory could not be made writable: %s\n",
			      kymo_error_text(result));
	/* Polls that are under way continue through our thunks, which stay; what they record now is
	 * counted as dropped in memory that is theirs alone. */
	search->is_open = false;
	result = kymo_recorder_close(recorder);
	recorder = NULL;
	return answer(block, result, "ok words=%u\n", count);
}
