/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Preloaded into kymo: kills it with SIGKILL at the N-th call that changes a disk, CRASH_AT=N, just
 * before the call, or with CRASH_AFTER just behind it. So a test can go through all of them.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static _Atomic long count;

static void step(void)
{
	const char *at = getenv("CRASH_AT");

	if (at != NULL && atomic_fetch_add(&count, 1) + 1 == strtol(at, NULL, 10))
		kill(getpid(), SIGKILL);
}

static void before(void)
{
	if (getenv("CRASH_AFTER") == NULL)
		step();
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
WRAP(ssize_t, write, (int fd, const void *bytes, size_t size), (fd, bytes, size))
WRAP(ssize_t, pwrite, (int fd, const void *bytes, size_t size, off_t at), (fd, bytes, size, at))
