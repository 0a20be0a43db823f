/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "nonblocking.h"

#include <errno.h>
#include <fcntl.h>
#include <kymo/off_cpu.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "blocking.h"

_Atomic uint64_t ky_tokio_nonblocking[KY_TOKIO_NONBLOCKING_MAX];
_Atomic uint32_t ky_tokio_nonblocking_epoch = 1;

static bool see(int fd, uint32_t unit)
{
	/* Before it is asked: what changes meanwhile makes this one an earlier epoch's. */
	uint64_t epoch = atomic_load_explicit(&ky_tokio_nonblocking_epoch, memory_order_acquire);
	bool is_seen = kymo_off_cpu_is_nonblocking(fd);

	if (is_seen)
		atomic_store_explicit(&ky_tokio_nonblocking[fd], epoch << 32 | unit,
				      memory_order_relaxed);
	else
		ky_tokio_nonblocking_forget(fd);
	return is_seen;
}

void ky_tokio_nonblocking_note(int fd)
{
	if ((uint32_t)fd >= KY_TOKIO_NONBLOCKING_MAX)
		return;
	if (!kymo_gate_is_open(KYMO_GATE_OFF_CPU))
		ky_tokio_nonblocking_forget(fd);
	else /* a poll may have begun long ago, or none is open */
		(void)see(fd, (uint32_t)(ky_tokio_ticks() >> KY_TOKIO_NONBLOCKING_UNIT));
}

__attribute__((noinline)) bool ky_tokio_nonblocking_ask(int fd)
{
	struct ky_tokio_thread *self = &ky_tokio_self;

	if (!self->poll_ticks ||
	    self->poll_ticks - self->asked_ticks < UINT64_C(1) << KY_TOKIO_NONBLOCKING_REST)
		return false;
	self->asked_ticks = self->poll_ticks;
	return see(fd, ky_tokio_nonblocking_now());
}

void ky_tokio_nonblocking_start_over(void)
{
	uint32_t before = atomic_fetch_add_explicit(&ky_tokio_nonblocking_epoch, 1,
						    memory_order_release);

	if (KYMO_UNLIKELY(before == UINT32_MAX)) /* 0 is that of descriptors that are not known */
		atomic_fetch_add_explicit(&ky_tokio_nonblocking_epoch, 1, memory_order_release);
}

/* ---- what changes a descriptor ---- */

/* ioctl() and fcntl() are declared with what follows their second argument left open; all callers
 * pass one word or none. */
static int on_ioctl(int fd, unsigned long request, void *argument)
{
	int result = ioctl(fd, request, argument);

	/* The kernel has read it: it is there. */
	if (request == FIONBIO && result == 0 && !*(const int *)argument)
		ky_tokio_nonblocking_start_over();
	return result;
}

static int on_fcntl(int fd, int command, uintptr_t argument)
{
	int result = fcntl(fd, command, argument);

	if (command == F_SETFL && result == 0 && !(argument & O_NONBLOCK))
		ky_tokio_nonblocking_start_over();
	return result;
}

static int on_dup2(int fd, int other)
{
	ky_tokio_nonblocking_forget(other);
	return dup2(fd, other);
}

static int on_dup3(int fd, int other, int flags)
{
	ky_tokio_nonblocking_forget(other);
	return dup3(fd, other, flags);
}

uintptr_t ky_tokio_nonblocking_address(uint32_t kind)
{
	switch (kind) {
	case KY_TOKIO_GOT_IOCTL:
		return (uintptr_t)on_ioctl;
	case KY_TOKIO_GOT_FCNTL:
	case KY_TOKIO_GOT_FCNTL64: /* the same function where an offset has 64 bits */
		return (uintptr_t)on_fcntl;
	case KY_TOKIO_GOT_DUP2:
		return (uintptr_t)on_dup2;
	case KY_TOKIO_GOT_DUP3:
		return (uintptr_t)on_dup3;
	default:
		return 0;
	}
}
