/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "blocking.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/off_cpu.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tables.h"

_Atomic uint64_t ky_tokio_call_ticks_min;

/* Our own code, as the linker laid it out. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

__attribute__((noinline)) void ky_tokio_call_over(uint64_t begin, struct ky_tokio_call call)
{
	uint64_t end = ky_tokio_ticks(), least = kymo_off_cpu_ticks_min();
	struct kymo_off_cpu wait = {.begin_ticks = begin,
				    .end_ticks = end,
				    .reason = call.is_futex ? KYMO_OFF_CPU_FUTEX :
							      KYMO_OFF_CPU_SYSCALL,
				    .syscall = call.number,
				    .descriptor = call.descriptor,
				    .own_low = (uintptr_t)__ehdr_start,
				    .own_high = (uintptr_t)etext};
	int saved = errno;

	atomic_store_explicit(&ky_tokio_call_ticks_min, least, memory_order_relaxed);
	if (end - begin < least)
		return;
	KYMO_STACK_HERE(&wait.from);
	if (!kymo_off_cpu_emit(&wait))
		kymo_emit(KYMO_GATE_OFF_CPU, KYMO_RECORD_WAIT,
			  call.is_futex ? KYMO_WAIT_FUTEX : KYMO_WAIT_UNKNOWN, 1, end - begin, 0,
			  0);
	errno = saved;
}

/* Parameters a, b, c .. are what the C library declares. */
#define CALL_SYSCALL(number, a)                                                                    \
	{                                                                                          \
		number, false, -1                                                                  \
	}
#define CALL_FUTEX(number, a)                                                                      \
	{                                                                                          \
		number, true, -1                                                                   \
	}
#define CALL_IO(number, a)                                                                         \
	{                                                                                          \
		number, false, a                                                                   \
	}
#define REPLACE(name, number, reason, type, parameters, arguments)                                 \
	static type on_##name parameters                                                           \
	{                                                                                          \
		uint64_t begin = ky_tokio_call_begin();                                            \
		type result = name arguments;                                                      \
                                                                                                   \
		ky_tokio_call_end(begin, (struct ky_tokio_call)CALL_##reason(number, a));          \
		return result;                                                                     \
	}
KY_TOKIO_CALLS(REPLACE)

uintptr_t ky_tokio_call_address(uint32_t kind)
{
	switch (kind) {
#define ADDRESS(name, number, reason, type, parameters, arguments)                                 \
	case KY_TOKIO_GOT_CALL_##name:                                                             \
		return (uintptr_t)on_##name;
		KY_TOKIO_CALLS(ADDRESS)
	default:
		return 0;
	}
}
