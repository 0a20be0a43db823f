/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* preload.c - the constructor of libkymo-preload.so. */
#include <errno.h>
#include <fcntl.h>
#include <kymo/emit.h>
#include <kymo/place.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "allocs.h"
#include "late.h"
#include "patch.h"
#include "preload.h"
#include "search.h"

#define STATUS_BYTES 256u
#define TABLES_MS_MAX 250u

struct kymo_recorder *ky_preload_recorder;

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

/* Tokio's texts, and neither its symbols nor tables of the shape that is known. */
static void say_nothing_found(const struct ky_tokio_search *search)
{
	if (search->found.refused_count) {
		say("unknown-layout no table is laid out as expected\n");
		return;
	}
	if (!is_heard())
		return;
	say(ky_tokio_search_is_tokio() ? "stripped\n" : "no-tokio\n");
}

static void say_ok(const struct ky_tokio_found *found)
{
	char line[STATUS_BYTES];

	snprintf(line, sizeof(line), "ok tables=%u copies=%u refused=%u shaped=%u\n",
		 found->table_count, found->copy_count, found->refused_count, found->shape_count);
	say(line);
}

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
	if (!ky_tokio_search.has_jemalloc && !ky_tokio_search.has_mimalloc)
		return;
	snprintf(text, sizeof(text), "%s%s%s: linked into the program, called through no slot",
		 ky_tokio_search.has_jemalloc ? "jemalloc" : "",
		 ky_tokio_search.has_jemalloc && ky_tokio_search.has_mimalloc ? ", " : "",
		 ky_tokio_search.has_mimalloc ? "mimalloc" : "");
	(void)kymo_metadata_set("alloc.unseen", text);
}

static int open_recorder(void)
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
	result = kymo_recorder_open(&ky_preload_recorder, &options);
	if (result == 0)
		ky_tokio_search_describe();
	if (result == 0 && options.gates & KYMO_GATE_ALLOC)
		take_allocs();
	return result;
}

static void inspect_late(const struct dl_phdr_info *info)
{
	if (ky_tokio_search.when != KY_TOKIO_WHEN_LATE)
		return;
	ky_tokio_allocs_late(info);
	if (info->dlpi_name && strchr(info->dlpi_name, '/'))
		ky_tokio_search_object(info, info->dlpi_name);
}

/* New objects are patched; what they do is recorded from here on. */
static void finish_late(void)
{
	struct ky_tokio_search *search = &ky_tokio_search;

	if (search->when != KY_TOKIO_WHEN_LATE || search->found.table_count == 0)
		return;
	if (!search->is_open) {
		if (ky_tokio_search_met_recorder() || open_recorder() < 0)
			return;
		search->is_open = true;
		say_ok(&search->found);
	}
	kymo_modules_refresh();
	ky_tokio_search_name();
	ky_tokio_search_describe_versions();
}

static void watch_loader(void)
{
	static const struct ky_tokio_late_calls calls = {inspect_late, finish_late};

	ky_tokio_search.when = KY_TOKIO_WHEN_LATE;
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
	struct ky_tokio_search *search = &ky_tokio_search;
	char line[STATUS_BYTES];
	int result;

	if (!getenv("KYMO_SESSION") || getauxval(AT_SECURE))
		return;
	/* Not before main, but opened by the thread that kymo attach made: it will say. */
	if (syscall(SYS_gettid) != getpid())
		return;
	ky_tokio_search_all();
	watch_loader();
	if (search->found.table_count == 0) {
		say_nothing_found(search);
		return;
	}
	if (ky_tokio_search_met_recorder()) {
		say("own-recorder\n");
		return;
	}
	result = open_recorder();
	if (result < 0) {
		snprintf(line, sizeof(line), "refused the recorder could not be opened: %s\n",
			 kymo_error_text(result));
		say(line);
		return;
	}
	search->is_open = true;
	ky_tokio_search_name();
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
