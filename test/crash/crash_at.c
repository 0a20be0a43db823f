/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Preloaded into kymo: kills it with SIGKILL at the N-th call that changes a disk or the ring,
 * CRASH_AT=N, just before the call, or with CRASH_AFTER just after it, or with CRASH_TORN=PERCENT
 * when so much of what it writes is written, or -BYTES when all but so much is. So a test can go
 * through all of them: what a process leaves is what these calls have done. CRASH_GROUP: its
 * process group dies at once.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static _Atomic long count;

/* The program that kymo runs inherits the group's death, not the calls. */
static bool is_it(void)
{
	const char *at = getenv("CRASH_AT");

	if (at == NULL ||
	    (getenv("CRASH_GROUP") != NULL && strcmp(program_invocation_short_name, "kymo") != 0))
		return false;
	return atomic_fetch_add(&count, 1) + 1 == strtol(at, NULL, 10);
}

static void end(void)
{
	kill(getenv("CRASH_GROUP") != NULL ? 0 : getpid(), SIGKILL);
}

static void step(void)
{
	if (is_it())
		end();
}

static void before(void)
{
	if (getenv("CRASH_AFTER") == NULL && getenv("CRASH_TORN") == NULL)
		step();
}

/* Of a write of so many bytes, how many are written before the end; SIZE_MAX: it is not now. */
static size_t torn(size_t size)
{
	const char *how = getenv("CRASH_TORN");
	long part;

	if (how == NULL || !is_it())
		return SIZE_MAX;
	part = strtol(how, NULL, 10);
	if (part < 0)
		return size > (size_t)-part ? size - (size_t)-part : 0;
	return size * (size_t)part / 100;
}

static void after(void)
{
	if (getenv("CRASH_AFTER") != NULL)
		step();
}

/* Data and code pointers are alike wherever dlsym() is. */
#define REAL(name) (__extension__(__typeof__(&name)) dlsym(RTLD_NEXT, #name))
#define WRAP(type, name, parameters, arguments)                                                    \
	__attribute__((visibility("default"))) type name parameters                                \
	{                                                                                          \
		type result;                                                                       \
                                                                                                   \
		before();                                                                          \
		result = REAL(name) arguments;                                                     \
		after();                                                                           \
		return result;                                                                     \
	}

WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
WRAP(int, link, (const char *from, const char *to), (from, to))
WRAP(int, unlink, (const char *path), (path))
WRAP(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, ftruncate, (int fd, off_t bytes), (fd, bytes))
#define WRAP_WRITE(name, parameters, part, whole)                                                  \
	__attribute__((visibility("default"))) ssize_t name parameters                             \
	{                                                                                          \
		size_t half = torn(size);                                                          \
		ssize_t result;                                                                    \
                                                                                                   \
		if (half != SIZE_MAX) {                                                            \
			(void)!REAL(name) part;                                                    \
			end();                                                                     \
		}                                                                                  \
		before();                                                                          \
		result = REAL(name) whole;                                                         \
		after();                                                                           \
		return result;                                                                     \
	}

WRAP_WRITE(write, (int fd, const void *bytes, size_t size), (fd, bytes, half), (fd, bytes, size))
WRAP_WRITE(pwrite, (int fd, const void *bytes, size_t size, off_t at), (fd, bytes, half, at),
	   (fd, bytes, size, at))
