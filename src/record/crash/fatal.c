/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Setting up what fatal_sig.c needs: handlers, and a stack of their own for each thread. */
#include <base/gnu.h>

#include <kymo/fatal.h>

#include <errno.h>
#include <pthread.h>
#include <record/crash/fatal_sig.h>
#include <record/emit/emit_engine.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
/* For ours and for handlers that ran on the ordinary stack until now; touched as used. */
#define STACK_BYTES ((size_t)64 << 10)

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* the mapping of a thread's stack */
static bool has_key;

static size_t stack_bytes(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), frame = getauxval(AT_MINSIGSTKSZ);

	/* The registers alone may need 11 KiB. */
	return (STACK_BYTES + frame + page - 1) & ~(page - 1);
}

static size_t guard_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void unguard(void *value)
{
	stack_t now, none = {.ss_flags = SS_DISABLE};
	uint8_t *area = value;

	if (sigaltstack(NULL, &now) != 0)
		return;
	if (!(now.ss_flags & SS_DISABLE) && now.ss_sp == area + guard_bytes() &&
	    sigaltstack(&none, NULL) != 0)
		return; /* exiting from a handler, on that very stack */
	munmap(area, guard_bytes() + stack_bytes());
}

static void make_key(void)
{
	has_key = pthread_key_create(&key, unguard) == 0;
}

static int give_stack(void)
{
	size_t bytes = stack_bytes(), guard = guard_bytes();
	uint8_t *area = mmap(NULL, guard + bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	stack_t stack = {.ss_size = bytes};
	int err;

	if (area == MAP_FAILED)
		return -errno;
	stack.ss_sp = area + guard;
	err = mprotect(area, guard, PROT_NONE) == 0 ? 0 : -errno;
	if (!err)
		err = -pthread_setspecific(key, area);
	if (!err && sigaltstack(&stack, NULL) != 0) {
		err = -errno;
		pthread_setspecific(key, NULL);
	}
	if (err)
		munmap(area, guard + bytes);
	return err;
}

int kymo_thread_guard(void)
{
	int result, err = errno;
	stack_t now;

	if (sigaltstack(NULL, &now) != 0)
		return -errno;
	if (!(now.ss_flags & SS_DISABLE))
		return 0; /* the program's own, or ours already */
	pthread_once(&key_once, make_key);
	result = has_key ? give_stack() : -EAGAIN;
	errno = err;
	return result;
}

static void guard_thread(void)
{
	(void)kymo_thread_guard();
}

static int install(int idx)
{
	struct sigaction ours = {.sa_sigaction = ky_fatal_handle};
	int number = ky_fatal_signals[idx];

	/* Noted first: it may be needed as soon as ours is there. */
	if (sigaction(number, NULL, &ky_fatal_previous[idx]) != 0)
		return -errno;
	/* The earlier handler is called by ours, in the circumstances it asked for. */
	ours.sa_mask = ky_fatal_previous[idx].sa_mask;
	ours.sa_flags = SA_SIGINFO | SA_ONSTACK |
			(ky_fatal_previous[idx].sa_flags & (SA_RESTART | SA_NODEFER));
	return sigaction(number, &ours, NULL) == 0 ? 0 : -errno;
}

int kymo_fatal_signals_install(void)
{
	static uint32_t is_installed; /* atomic */
	uint32_t no = 0;
	int err = 0;

	/* Never twice: a handler installed in between may call ours, and would be called by it. */
	if (!__atomic_compare_exchange_n(&is_installed, &no, 1, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return 0;
	for (int i = 0; i < KY_FATAL_SIGNALS && !err; i++)
		err = install(i);
	guard_thread();
	__atomic_store_n(&ky_engine.on_thread, guard_thread, __ATOMIC_RELEASE);
	return err;
}
