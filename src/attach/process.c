/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <attach/process.h>
#include <base/alloc.h>
#include <base/now.h>
#include <proc/proc_map.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Headers may be older. */
#ifndef PIDFS_MAGIC
#define PIDFS_MAGIC 0x50494446
#endif

#define LIBRARY_NAME "/libkymo-preload.so"
#define STATUS_BYTES 65536u             /* groups may be many */
#define KERNEL_THREAD_FLAG 0x00200000ul /* PF_KTHREAD in field 9 of stat */
#define EXITING_FLAG 0x4ul              /* PF_EXITING */
#define TURN_NS UINT64_C(10000000000)
#define TURN_PAUSE_NS 5000000
#define HOLE_BYTES_MIN (UINT64_C(1) << 20)
#define ADDRESS_END (UINT64_C(1) << 47)

int ky_attach_refuse(char *why, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, KY_ATTACH_WHY_BYTES, format, args);
	va_end(args);
	return err;
}

int ky_process_read_file(uint32_t pid, const char *name, char *out, size_t capacity)
{
	char path[96];
	size_t used = 0;
	ssize_t count = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (used < capacity - 1) {
		count = read(fd, out + used, capacity - 1 - used);
		if (count <= 0)
			break;
		used += (size_t)count;
	}
	if (count < 0)
		count = -errno;
	close(fd);
	out[used] = '\0';
	return count < 0 ? (int)count : (int)used;
}

const char *ky_process_status_line(const char *text, const char *name)
{
	size_t bytes = strlen(name);
	const char *at = text;

	while (at && !(strncmp(at, name, bytes) == 0 && at[bytes] == ':')) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	return at ? at + bytes + 1 + strspn(at + bytes + 1, " \t") : NULL;
}

static uint64_t status_number(const char *text, const char *name, int base)
{
	const char *at = ky_process_status_line(text, name);

	return at ? strtoull(at, NULL, base) : 0;
}

/* Field `wanted` of stat(5), 3 or more: after the name, which may hold anything. */
static const char *stat_field(const char *text, int wanted)
{
	const char *at = strrchr(text, ')');

	for (int field = 2; at && field < wanted; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at;
}

/* One whose memory is gone already is not. */
bool ky_process_is_there(const struct ky_process *process)
{
	char text[1024];
	const char *state, *flags, *start;

	if (ky_process_read_file(process->pid, "stat", text, sizeof(text)) <= 0)
		return false;
	state = stat_field(text, 3);
	flags = stat_field(text, 9);
	start = stat_field(text, 22);
	return state && flags && start && strtoull(start, NULL, 10) == process->start_time_ticks &&
	       *state != 'Z' && *state != 'X' && !(strtoul(flags, NULL, 10) & EXITING_FLAG);
}

/* Alive, of user space, not stopped. */
static int check_stat(struct ky_process *process, char *why)
{
	char text[1024];
	const char *state, *flags, *start;
	int got = ky_process_read_file(process->pid, "stat", text, sizeof(text));

	if (got < 0)
		return ky_attach_refuse(why, -ESRCH, "does not exist");
	state = stat_field(text, 3);
	flags = stat_field(text, 9);
	start = stat_field(text, 22);
	if (!state || !flags || !start)
		return ky_attach_refuse(why, -ESRCH, "has no readable /proc/%u/stat", process->pid);
	process->start_time_ticks = strtoull(start, NULL, 10);
	if (strtoul(flags, NULL, 10) & KERNEL_THREAD_FLAG)
		return ky_attach_refuse(why, -ENOTSUP, "is a thread of the kernel");
	if (*state == 'Z' || *state == 'X')
		return ky_attach_refuse(why, -ESRCH,
					"has ended; its parent has not waited for it yet");
	if (*state == 'T')
		return ky_attach_refuse(why, -EBUSY, "is stopped (SIGSTOP); continue it first");
	return 0;
}

/* A filter of one thread is enough: the new thread may inherit it. */
static int check_filters(const struct ky_process *process, char *why)
{
	static char text[STATUS_BYTES];
	char path[64];
	struct dirent *entry;
	bool is_filtered = false;
	DIR *stream;

	snprintf(path, sizeof(path), "/proc/%u/task", process->pid);
	stream = opendir(path);
	while (stream && !is_filtered && (entry = readdir(stream)) != NULL) {
		snprintf(path, sizeof(path), "task/%.16s/status", entry->d_name);
		if (entry->d_name[0] != '.' &&
		    ky_process_read_file(process->pid, path, text, sizeof(text)) > 0)
			is_filtered = status_number(text, "Seccomp", 10) != 0;
	}
	if (stream)
		closedir(stream);
	if (is_filtered)
		return ky_attach_refuse(
			why, -ENOTSUP,
			"is under a filter of system calls (seccomp), which may kill it for "
			"what a recorder needs; start it with `kymo run`");
	return 0;
}

static int check_status(struct ky_process *process, char *why)
{
	static char text[STATUS_BYTES];
	const char *uid, *features;
	unsigned long effective;
	uint64_t tracer, leader;

	if (ky_process_read_file(process->pid, "status", text, sizeof(text)) <= 0)
		return ky_attach_refuse(why, -ESRCH, "does not exist");
	leader = status_number(text, "Tgid", 10);
	if (leader != process->pid)
		return ky_attach_refuse(
			why, -EINVAL, "is a thread of process %" PRIu64 "; name that one", leader);
	uid = ky_process_status_line(text, "Uid");
	uid = uid ? strpbrk(uid, "\t ") : NULL; /* real, effective, … */
	effective = uid ? strtoul(uid, NULL, 10) : 0;
	process->uid = (uint32_t)effective;
	if (geteuid() != 0 && effective != geteuid())
		return ky_attach_refuse(
			why, -EPERM, "belongs to another user (uid %lu); only root may", effective);
	tracer = status_number(text, "TracerPid", 10);
	if (tracer != 0)
		return ky_attach_refuse(why, -EBUSY,
					"is traced by process %" PRIu64 " (a debugger?) already",
					tracer);
	features = ky_process_status_line(text, "x86_Thread_features");
	if (features && strncmp(features, "shstk", 5) == 0)
		return ky_attach_refuse(
			why, -ENOTSUP,
			"runs with a shadow stack, on which no thread can be borrowed");
	return check_filters(process, why);
}

static int open_memory(struct ky_process *process, char *why)
{
	static const char *const levels[] = {
		("only by its parent: kernel.yama.ptrace_scope is 1; it takes root or "
		 "CAP_SYS_PTRACE"),
		"by root alone: kernel.yama.ptrace_scope is 2",
		"by no process until the next boot: kernel.yama.ptrace_scope is 3"};
	char path[64], scope[8];
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/mem", process->pid);
	process->memory_fd = open(path, O_RDWR | O_CLOEXEC);
	if (process->memory_fd >= 0)
		return 0;
	if (errno != EACCES && errno != EPERM)
		return ky_attach_refuse(why, -errno, "cannot be read: %s", strerror(errno));
	fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t count = read(fd, scope, sizeof(scope));

		close(fd);
		if (count > 0 && scope[0] >= '1' && scope[0] <= '3')
			return ky_attach_refuse(why, -EPERM, "may be traced %s",
						levels[scope[0] - '1']);
	}
	return ky_attach_refuse(
		why, -EPERM,
		"may not be traced by this user: it takes root or CAP_SYS_PTRACE (it changed "
		"its user, or may not be dumped)");
}

bool ky_process_read(const struct ky_process *process, uint64_t address, void *out, size_t bytes)
{
	return address <= INT64_MAX &&
	       pread(process->memory_fd, out, bytes, (off_t)address) == (ssize_t)bytes;
}

bool ky_process_write(const struct ky_process *process, uint64_t address, const void *bytes,
		      size_t byte_count)
{
	return address <= INT64_MAX &&
	       pwrite(process->memory_fd, bytes, byte_count, (off_t)address) == (ssize_t)byte_count;
}

/* ---- what is mapped ---- */

static void note_own(struct ky_process *process, const struct ky_proc_map *mapping)
{
	static const char deleted[] = " (deleted)";
	size_t bytes = strlen(mapping->path);
	const char *slash = strrchr(mapping->path, '/');

	if (bytes > sizeof(deleted) &&
	    strcmp(mapping->path + bytes - (sizeof(deleted) - 1), deleted) == 0)
		mapping->path[bytes - (sizeof(deleted) - 1)] = '\0';
	bytes = strlen(mapping->path);
	if (slash && strcmp(slash, LIBRARY_NAME) == 0)
		snprintf(process->library, sizeof(process->library), "%s", mapping->path);
	if (strncmp(mapping->path, "/memfd:kymo-ring", 16) == 0 ||
	    (bytes > 5 && strcmp(mapping->path + bytes - 5, ".ring") == 0))
		process->has_ring = true;
}

static int open_file(const struct ky_process *process, const struct ky_proc_map *mapping,
		     bool is_program)
{
	char path[KY_MODULE_PATH_BYTES + 32];
	struct stat st;
	int fd;

	if (is_program)
		snprintf(path, sizeof(path), "/proc/%u/exe", process->pid);
	else
		snprintf(path, sizeof(path), "/proc/%u/root%s", process->pid, mapping->path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	/* Replaced since: its addresses are another file's. */
	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
			(uint64_t)st.st_ino != mapping->inode)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void add_module(struct ky_process *process, const struct ky_proc_map *mapping)
{
	bool is_program = process->module_count == 0;
	struct ky_attach_module *module;
	int fd;

	for (uint32_t i = 0; i < process->module_count; i++) {
		module = process->modules[i];
		if (module->inode == mapping->inode && module->device == mapping->device) {
			module->high = mapping->end;
			return;
		}
	}
	if (process->module_count == KY_PROCESS_MODULES_MAX ||
	    (mapping->path[0] != '/' && !is_program))
		return;
	fd = open_file(process, mapping, is_program);
	module = fd >= 0 ? ky_alloc(sizeof(*module)) : NULL;
	if (!module) {
		if (fd >= 0)
			close(fd);
		return;
	}
	snprintf(module->path, sizeof(module->path), "%s", mapping->path);
	module->inode = mapping->inode;
	module->device = mapping->device;
	module->low = mapping->start;
	module->high = mapping->end;
	if (ky_module_open(module, fd, mapping->start, mapping->offset, mapping->is_code) != 0)
		ky_free(module);
	else
		process->modules[process->module_count++] = module;
}

static void check_mappings(struct ky_process *process, char *text)
{
	struct stat program = {.st_ino = 0};
	uint64_t last_end = 0, hole_bytes = HOLE_BYTES_MIN;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/exe", process->pid);
	if (stat(path, &program) != 0)
		program.st_ino = 0;
	for (int pass = 0; pass < 2; pass++) {
		/* The program comes first, wherever it lies: the first pass adds only it. */
		for (char *line = text, *next; *line; line = next) {
			struct ky_proc_map mapping;
			char saved;
			size_t bytes = strcspn(line, "\n");

			next = line + bytes + (line[bytes] == '\n');
			saved = line[bytes];
			line[bytes] = '\0';
			if (ky_proc_map_parse(&mapping, line)) {
				bool is_program = mapping.inode == (uint64_t)program.st_ino &&
						  mapping.inode != 0;

				if (pass == 0 ? is_program && process->module_count == 0 :
						mapping.is_code || is_program)
					add_module(process, &mapping);
				if (pass == 1 && mapping.start < ADDRESS_END &&
				    mapping.start - last_end > hole_bytes && last_end) {
					hole_bytes = mapping.start - last_end;
					process->free_address = (last_end + hole_bytes / 2) &
								~UINT64_C(0xffff);
				}
				last_end = pass == 1 ? mapping.end : 0;
				if (pass == 1)
					note_own(process, &mapping);
			}
			line[bytes] = pass == 0 ? saved : '\0';
		}
	}
}

static int read_mappings(struct ky_process *process, char *why)
{
	int err;
	char *text = ky_proc_maps_read(process->pid, &err);

	if (text)
		check_mappings(process, text);
	ky_free(text);
	if (!text)
		return ky_attach_refuse(why, err, "has no readable /proc/%u/maps", process->pid);
	if (process->module_count == 0)
		return ky_attach_refuse(
			why, -ENOTSUP,
			"is not a program that kymo can read: for another architecture or word "
			"size, or its file is gone");
	return 0;
}

/* ---- what is in it ---- */

static uint64_t exported(const struct ky_process *process, const char *name, uint64_t *byte_count)
{
	uint64_t found = 0;

	/* Libraries before the program: what a program exports may only pass on. */
	for (uint32_t i = 1; i < process->module_count && !found; i++)
		if (strstr(process->modules[i]->path, "/libc.so") ||
		    strstr(process->modules[i]->path, "/libc-") ||
		    strstr(process->modules[i]->path, "/libpthread") ||
		    strstr(process->modules[i]->path, "/libdl"))
			found = ky_module_export(process->modules[i], name, byte_count);
	return found;
}

static int find_functions(struct ky_process *process, char *why)
{
	static const char *const names[KY_FUNCTION_COUNT] = {"dlopen",       "dlsym",
							     "dlerror",      "pthread_create",
							     "pthread_self", "pthread_detach",
							     "munmap"};
	static const char *const waits[KY_WAITS_COUNT] = {"epoll_wait", "epoll_pwait",
							  "epoll_pwait2", "syscall"};

	if (!exported(process, "gnu_get_libc_version", NULL))
		return ky_attach_refuse(
			why, -ENOTSUP,
			"does not use the GNU C library, the only one a library can be "
			"loaded into so far");
	for (uint32_t i = 0; i < KY_FUNCTION_COUNT; i++) {
		process->functions[i] = exported(process, names[i], NULL);
		if (!process->functions[i])
			return ky_attach_refuse(
				why, -ENOTSUP,
				"has no %s() loaded, which it takes to load a library", names[i]);
	}
	for (uint32_t i = 0; i < KY_WAITS_COUNT; i++) {
		uint64_t bytes = 0, start = exported(process, waits[i], &bytes);

		process->waits[i] = (struct ky_process_range){start, start + bytes};
	}
	return 0;
}

static int find_tokio(struct ky_process *process, char *why)
{
	bool is_stripped = false;

	for (uint32_t i = 0; i < process->module_count; i++) {
		enum ky_module_tokio found = ky_module_find_tokio(process->modules[i], i == 0);

		process->has_tokio[i] = found == KY_MODULE_TOKIO;
		process->tokio_count += process->has_tokio[i];
		is_stripped |= found == KY_MODULE_STRIPPED;
	}
	if (process->tokio_count)
		return 0;
	if (is_stripped)
		return ky_attach_refuse(
			why, -ENOTSUP,
			"is stripped: without symbols no thread is seen to sleep in Tokio; kymo "
			"run records it");
	return ky_attach_refuse(why, -ENOTSUP, "does not use Tokio");
}

static int wait_for_turn(int fd, uint64_t until_ns, char *why)
{
	while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return ky_attach_refuse(why, -errno, "cannot be locked: %s",
						strerror(errno));
		if (ky_now_ns(CLOCK_MONOTONIC) > until_ns)
			return ky_attach_refuse(why, -EBUSY,
						"has another kymo attach or detach at work in it");
		nanosleep(&(const struct timespec){0, TURN_PAUSE_NS}, NULL);
	}
	return 0;
}

/* Each mount of /proc has inodes of its own, and so has each pid namespace; what a pidfd is of is
 * one and the same everywhere, since Linux 6.9. Before, all pidfds of the machine are one inode,
 * which is not ours to lock. */
static int open_pidfd(uint32_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	struct statfs system;

	if (fd >= 0 && fstatfs(fd, &system) == 0 && system.f_type == PIDFS_MAGIC)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Two at once in one process would take each other's memory in it for their own. What locks are
 * these open files: a process that is killed lets go. */
static int take_turn(struct ky_process *process, char *why)
{
	uint64_t until_ns = ky_now_ns(CLOCK_MONOTONIC) + TURN_NS;
	int err = wait_for_turn(process->memory_fd, until_ns, why);

	if (err)
		return err;
	process->turn_fd = open_pidfd(process->pid);
	return process->turn_fd >= 0 ? wait_for_turn(process->turn_fd, until_ns, why) : 0;
}

void ky_process_unlock(const struct ky_process *process)
{
	if (process->turn_fd >= 0)
		(void)flock(process->turn_fd, LOCK_UN);
	(void)flock(process->memory_fd, LOCK_UN);
}

static int check_inside(struct ky_process *process, char *why)
{
	int err = check_status(process, why);

	if (!err)
		err = open_memory(process, why);
	if (!err)
		err = take_turn(process, why);
	if (!err)
		err = read_mappings(process, why);
	if (!err && (!process->modules[0]->has_interpreter || !process->modules[0]->has_dynamic))
		err = ky_attach_refuse(why, -ENOTSUP,
				       "is statically linked: no library can be loaded into it");
	if (!err)
		err = find_functions(process, why);
	/* What lacks then are its files, not what they are asked for. */
	return err && !ky_process_is_there(process) ?
		       ky_attach_refuse(why, -ESRCH, "ended meanwhile") :
		       err;
}

int ky_process_check(struct ky_process *process, uint32_t pid, char *why)
{
	int err;

	memset(process, 0, sizeof(*process));
	process->memory_fd = process->turn_fd = -1;
	process->pid = pid;
	err = check_stat(process, why);
	if (!err)
		err = check_inside(process, why);
	if (err)
		ky_process_close(process);
	return err;
}

int ky_process_open(struct ky_process *process, uint32_t pid, char *why)
{
	int err = ky_process_check(process, pid, why);

	if (!err)
		err = find_tokio(process, why);
	if (err)
		ky_process_close(process);
	return err;
}

void ky_process_close(struct ky_process *process)
{
	for (uint32_t i = 0; i < process->module_count; i++) {
		ky_module_close(process->modules[i]);
		ky_free(process->modules[i]);
	}
	process->module_count = 0;
	if (process->turn_fd >= 0)
		close(process->turn_fd);
	if (process->memory_fd >= 0)
		close(process->memory_fd);
	process->memory_fd = process->turn_fd = -1;
}

struct ky_attach_module *ky_process_module_of(const struct ky_process *process, uint64_t address,
					      uint32_t *idx)
{
	for (uint32_t i = 0; i < process->module_count; i++) {
		if (!ky_module_is_code(process->modules[i], address))
			continue;
		if (idx)
			*idx = i;
		return process->modules[i];
	}
	return NULL;
}
