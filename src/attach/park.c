/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <attach/park.h>
#include <attach/unwind.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 4096u
#define NAME_BYTES 1500u
/* How a thread begins: clone and start_thread, or _start, __libc_start_main and its helper. */
#define START_FRAMES 4u

enum ky_park_name ky_park_name_of(const char *name)
{
	static const char *const tasks[] = {"5tokio7runtime4task", "tokio..runtime..task"};
	static const char *const own[] = {"5tokio7runtime", "tokio..runtime"};
	static const char *const parks[] = {"park", "scheduler", "8blocking4pool", "blocking..pool",
					    "river4turn"};
	bool is_own = false;

	/* A poll's name contains its scheduler's, too, so this comes first. */
	for (size_t i = 0; i < 2; i++) {
		if (strstr(name, tasks[i]))
			return KY_PARK_NAME_POLL;
		is_own |= strstr(name, own[i]) != NULL;
	}
	if (strstr(name, "alloc5alloc") || strstr(name, "__rust_alloc") || strstr(name, "malloc"))
		return KY_PARK_NAME_POLL; /* an allocator with locks of its own */
	for (size_t i = 0; is_own && i < sizeof(parks) / sizeof(parks[0]); i++)
		if (strstr(name, parks[i]))
			return KY_PARK_NAME_PARK;
	return KY_PARK_NAME_OTHER;
}

static bool is_in_wait(const struct ky_process *process, uint64_t pc)
{
	for (uint32_t i = 0; i < KY_WAITS_COUNT; i++)
		if (pc > process->waits[i].start && pc < process->waits[i].end)
			return true;
	return false;
}

/* The modules of libc's own code, the loader included: who shares a file with them. */
static bool is_of_system(const struct ky_process *process, const struct ky_attach_module *module)
{
	const char *name = strrchr(module->path, '/');

	for (uint32_t i = 0; i < KY_FUNCTION_COUNT; i++)
		if (ky_module_is_code(module, process->functions[i]))
			return true;
	return name && (strncmp(name, "/ld-", 4) == 0 || strncmp(name, "/ld.so", 6) == 0 ||
			strncmp(name, "/ld64", 5) == 0);
}

static enum ky_attach_park judge(const struct ky_process *process, const struct ky_unwind *walk)
{
	char name[NAME_BYTES];
	bool is_decided = false;

	for (uint32_t i = 1; i < walk->count; i++) {
		enum ky_park_name kind = KY_PARK_NAME_OTHER;
		struct ky_attach_module *module;
		uint32_t idx;

		module = ky_process_module_of(process, walk->pcs[i], &idx);
		if (!module)
			return KY_PARK_UNKNOWN;
		if (is_of_system(process, module)) {
			if (i + START_FRAMES < walk->count || !is_decided)
				return KY_PARK_IN_LIBRARY;
			continue;
		}
		if (is_decided)
			continue;
		/* While it is recorded, our own function stands before libc's. */
		if (strcmp(module->path, process->library) == 0)
			continue;
		if (!process->has_tokio[idx])
			return KY_PARK_ELSEWHERE;
		if (ky_module_function(module, walk->pcs[i] - 1, name, sizeof(name)))
			kind = ky_park_name_of(name);
		if (kind == KY_PARK_NAME_POLL)
			return KY_PARK_IN_POLL;
		is_decided = kind == KY_PARK_NAME_PARK;
	}
	return is_decided ? KY_PARK_YES : KY_PARK_ELSEWHERE;
}

enum ky_attach_park ky_park_of(const struct ky_process *process,
			       const struct ky_arch_frame *registers)
{
	struct ky_unwind walk;

	if (!is_in_wait(process, registers->pc))
		return KY_PARK_ELSEWHERE;
	ky_unwind_thread(&walk, process, registers);
	if (walk.end != KY_UNWIND_OUTERMOST)
		return KY_PARK_UNKNOWN;
	return judge(process, &walk);
}

/* "202 0x7f… 0x80 … 0xSP 0xPC", "running", or "-1 0xSP 0xPC". */
enum ky_arch_wait ky_park_parse(const char *text, uint64_t *pc)
{
	uint64_t arguments[6], sp;
	int64_t number;

	/* The kernel writes it, and 64 bits hold it. NOLINTNEXTLINE(cert-err34-c) */
	if (sscanf(text,
		   "%" SCNd64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
		   " %" SCNx64 " %" SCNx64 " %" SCNx64,
		   &number, &arguments[0], &arguments[1], &arguments[2], &arguments[3],
		   &arguments[4], &arguments[5], &sp, pc) != 9)
		return KY_ARCH_NO_WAIT;
	return ky_arch_wait_of(number, arguments);
}

struct candidate {
	pid_t tid;
	enum ky_arch_wait wait;
};

/* What the kernel takes up again by itself comes first. */
static int by_wait(const void *a, const void *b)
{
	const struct candidate *left = a, *right = b;

	return left->wait < right->wait ? -1 : left->wait > right->wait;
}

size_t ky_park_candidates(const struct ky_process *process, pid_t *out, size_t capacity)
{
	static struct candidate found[THREADS_MAX];
	char path[64], text[256];
	struct dirent *entry;
	size_t count = 0;
	DIR *stream;

	snprintf(path, sizeof(path), "/proc/%u/task", process->pid);
	stream = opendir(path);
	while (stream && count < THREADS_MAX && (entry = readdir(stream)) != NULL) {
		struct candidate *candidate = &found[count];
		uint64_t pc = 0;

		snprintf(path, sizeof(path), "task/%.16s/syscall", entry->d_name);
		if (entry->d_name[0] == '.' ||
		    ky_process_read_file(process->pid, path, text, sizeof(text)) <= 0)
			continue;
		candidate->tid = (pid_t)strtol(entry->d_name, NULL, 10);
		candidate->wait = ky_park_parse(text, &pc);
		if (candidate->wait != KY_ARCH_NO_WAIT && is_in_wait(process, pc))
			count++;
	}
	if (stream)
		closedir(stream);
	qsort(found, count, sizeof(found[0]), by_wait);
	for (size_t i = 0; i < count && i < capacity; i++)
		out[i] = found[i].tid;
	return count < capacity ? count : capacity;
}
