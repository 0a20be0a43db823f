/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* process.h - a running process before it is touched: may we, can we, and where is what.
 *
 * Everything here only reads /proc and files. Whatever speaks against borrowing one of its threads
 * is found here, so that a process which cannot be recorded is never stopped.
 *
 * Threads:     owner.
 */
#ifndef KY_ATTACH_PROCESS_H
#define KY_ATTACH_PROCESS_H

#include <attach/module.h>
#include <stdbool.h>
#include <stdint.h>

#define KY_ATTACH_WHY_BYTES 512u
#define KY_PROCESS_MODULES_MAX 512u

/* What the code in the process calls, in the order of kymo_attach_block.functions. */
enum ky_process_function {
	KY_FUNCTION_DLOPEN,
	KY_FUNCTION_DLSYM,
	KY_FUNCTION_DLERROR,
	KY_FUNCTION_THREAD_CREATE,
	KY_FUNCTION_THREAD_SELF,
	KY_FUNCTION_THREAD_DETACH,
	KY_FUNCTION_MUNMAP,
	KY_FUNCTION_COUNT
};

/* libc functions that Tokio's park sleeps in. */
enum ky_process_wait {
	KY_WAITS_IN_EPOLL_WAIT,
	KY_WAITS_IN_EPOLL_PWAIT,
	KY_WAITS_IN_EPOLL_PWAIT2,
	KY_WAITS_IN_SYSCALL, /* futexes: the C library's own locks never come this way */
	KY_WAITS_COUNT
};

struct ky_process_range {
	uint64_t start, end;
};

struct ky_process {
	uint32_t pid;
	uint32_t uid; /* effective */
	uint64_t start_time_ticks;
	int memory_fd; /* /proc/PID/mem, read and write */
	int turn_fd;   /* a pidfd, locked; -1: none */
	struct ky_attach_module *modules[KY_PROCESS_MODULES_MAX]; /* the program first */
	uint32_t module_count;
	uint32_t tokio_count; /* modules with Tokio */
	bool has_tokio[KY_PROCESS_MODULES_MAX];
	uint64_t functions[KY_FUNCTION_COUNT];
	struct ky_process_range waits[KY_WAITS_COUNT]; /* start 0: not there */
	uint64_t free_address;              /* in the middle of the largest hole in its memory */
	char library[KY_MODULE_PATH_BYTES]; /* ours, when it is loaded already; else "" */
	bool has_ring;                      /* maps a ring: something records it */
};

/* why: KY_ATTACH_WHY_BYTES, a sentence without its subject ("process 12") and full stop, when the
 * process cannot be recorded: "does not use Tokio".
 * Others that open it wait, up to 10 s, until it is unlocked, closed, or this process has ended.
 * Returns 0; -ESRCH, -EPERM, -ENOTSUP, -EBUSY, -ENOMEM, other -errno with why. */
int ky_process_open(struct ky_process *process, uint32_t pid, char *why);
void ky_process_unlock(const struct ky_process *process);
void ky_process_close(struct ky_process *process);

/* The same whether it uses Tokio or not. */
int ky_process_check(struct ky_process *process, uint32_t pid, char *why);

/* Is there still the same process, and not about to end? */
bool ky_process_is_there(const struct ky_process *process);

/* All bytes or false. */
bool ky_process_read(const struct ky_process *process, uint64_t address, void *out, size_t bytes);
bool ky_process_write(const struct ky_process *process, uint64_t address, const void *bytes,
		      size_t byte_count);

/* The module whose code an address lies in, or NULL. */
struct ky_attach_module *ky_process_module_of(const struct ky_process *process, uint64_t address,
					      uint32_t *idx);

/* Value of a "Name:\tvalue" line in the text of a status file, after its blanks; NULL: none. */
const char *ky_process_status_line(const char *text, const char *name);

/* Puts the sentence together. Returns err. */
__attribute__((format(printf, 3, 4))) int ky_attach_refuse(char *why, int err, const char *format,
							   ...);

/* Reads a file below /proc/PID; NUL-terminated. Returns bytes or -errno. */
int ky_process_read_file(uint32_t pid, const char *name, char *out, size_t capacity);

#endif
