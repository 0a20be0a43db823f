/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "waits.h"

#include <errno.h>
#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <kymo/sampling.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "blocking.h"
#include "conns.h"
#include "failing.h"
#include "hooks.h"
#include "io_keys.h"
#include "nonblocking.h"
#include "parked_on.h"
#include "threads.h"

#define LOCK_CONTENDED 2

extern const char ky_tokio_syscall[];

enum role {
	ROLE_NONE,
	ROLE_PARK,
	ROLE_TURN,
	ROLE_WAIT,
	ROLE_ROOT /* until the root of this thread is woken */
};

struct wait_span {
	enum role role;
	uint64_t ticks;
	uintptr_t lock; /* that a futex wait is for */
};

/* futex: the word, NULL: for the driver. */
static enum role role_of(bool is_zero, const uint32_t *futex)
{
	struct ky_tokio_thread *self = &ky_tokio_self;

	if (self->depth)
		return !is_zero && kymo_gate_is_open(KYMO_GATE_OFF_CPU) ? ROLE_WAIT : ROLE_NONE;
	if (!ky_tokio_is_worker(self) && !(self->is_driver && ky_tokio_is_known(self)))
		return KYMO_UNLIKELY(self->root.data != NULL) && ky_tokio_root_sleeps(self, futex) ?
			       ROLE_ROOT :
			       ROLE_NONE;
	if (KYMO_UNLIKELY(self->root.is_open))
		ky_tokio_root_close(self, self->root.kind == KY_TOKIO_ROOT_RUNTIME);
	if (is_zero)
		return kymo_gate_is_open(KYMO_GATE_DRIVER) ? ROLE_TURN : ROLE_NONE;
	return ROLE_PARK;
}

/* True: it is a park, which the caller records. */
static bool begin(struct wait_span *span, bool is_zero, const uint32_t *futex)
{
	span->role = role_of(is_zero, futex);
	span->lock = (uintptr_t)futex;
	if (span->role == ROLE_WAIT || span->role == ROLE_TURN)
		span->ticks = ky_tokio_ticks();
	return span->role == ROLE_PARK;
}

/* For kymo_unpark(). events: NULL of a futex wait. */
static uint32_t ready_of(long result, const struct epoll_event *events)
{
	if (result < 0)
		return KYMO_READY_FAILED;
	if (events && result == 1)
		return kymo_ready_one(ky_tokio_io_key_descriptor(events[0].data.u64));
	return result > (long)KYMO_READY_MAX ? KYMO_READY_MAX : (uint32_t)result;
}

static void end(const struct wait_span *span, uint32_t wait, long result,
		const struct epoll_event *events)
{
	int saved = errno;

	switch (span->role) {
	case ROLE_NONE:
	case ROLE_ROOT:
		break;
	case ROLE_PARK:
		kymo_unpark(ready_of(result, events));
		break;
	case ROLE_TURN:
		kymo_emit(KYMO_GATE_DRIVER, KYMO_RECORD_DRIVER_TURN, ready_of(result, events), 1,
			  ky_tokio_ticks() - span->ticks, 0, 0);
		break;
	case ROLE_WAIT:
		if (!ky_tokio_call_is_long(span->ticks))
			break;
		ky_tokio_call_over(
			span->ticks,
			&(const struct ky_tokio_call){
				.number = wait == KYMO_WAIT_FUTEX ? SYS_futex : SYS_epoll_wait,
				.flags = wait == KYMO_WAIT_FUTEX ? KY_TOKIO_CALL_FUTEX : 0,
				.descriptor = -1,
				.result = result,
				.lock = span->lock});
		break;
	}
	if (KYMO_UNLIKELY(ky_tokio_self.root.data != NULL) && span->role != ROLE_NONE &&
	    span->role != ROLE_WAIT)
		ky_tokio_root_awake(&ky_tokio_self);
	errno = saved;
}

/* ---- parks ---- */

static int64_t ms_of(const struct timespec *time)
{
	if (time->tv_sec > KYMO_PARK_TIMEOUT_MS_MAX)
		return KYMO_PARK_TIMEOUT_MS_MAX;
	return (int64_t)time->tv_sec * 1000 + (time->tv_nsec + 999999) / 1000000;
}

/* Of a futex wait; below 0: none. One that is absolute takes a reading of the clock, which few
 * parks need: those of a runtime that has timers and no I/O. */
static int64_t ms_until(const struct timespec *time, long operation)
{
	struct timespec now, left;

	if (!time)
		return -1;
	if ((operation & FUTEX_CMD_MASK) == FUTEX_WAIT)
		return ms_of(time);
	clock_gettime(operation & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, &now);
	if (time->tv_sec < now.tv_sec)
		return 0;
	left.tv_sec = time->tv_sec - now.tv_sec;
	left.tv_nsec = time->tv_nsec - now.tv_nsec;
	if (left.tv_nsec < 0) {
		left.tv_sec--;
		left.tv_nsec += 1000000000;
	}
	return left.tv_sec < 0 ? 0 : ms_of(&left);
}

static int on_epoll_wait(int fd, struct epoll_event *events, int count, int timeout)
{
	struct wait_span span;
	int result;

	if (begin(&span, timeout == 0, NULL))
		ky_tokio_park_in_driver(fd, timeout);
	result = epoll_wait(fd, events, count, timeout);
	end(&span, KYMO_WAIT_EPOLL, result, events);
	return result;
}

static int on_epoll_pwait(int fd, struct epoll_event *events, int count, int timeout,
			  const sigset_t *mask)
{
	struct wait_span span;
	int result;

	if (begin(&span, timeout == 0, NULL))
		ky_tokio_park_in_driver(fd, timeout);
	result = epoll_pwait(fd, events, count, timeout, mask);
	end(&span, KYMO_WAIT_EPOLL, result, events);
	return result;
}

static int on_epoll_pwait2(int fd, struct epoll_event *events, int count,
			   const struct timespec *timeout, const sigset_t *mask)
{
	bool is_zero = timeout && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
	struct wait_span span;
	int result;

	if (begin(&span, is_zero, NULL))
		ky_tokio_park_in_driver(fd, timeout ? ms_of(timeout) : -1);
	/* By number: older C libraries do not have it, and then no thread calls us. */
	result = (int)syscall(SYS_epoll_pwait2, fd, events, count, timeout, mask, NSIG / 8);
	end(&span, KYMO_WAIT_EPOLL, result, events);
	return result;
}

/* The other way to wake a worker: the driver's eventfd. */
static int on_eventfd(unsigned int value, int flags)
{
	int fd = eventfd(value, flags);

	ky_tokio_eventfd_note(fd);
	return fd;
}

static int on_epoll_ctl(int poller, int operation, int fd, struct epoll_event *event)
{
	int result;

	if (operation == EPOLL_CTL_DEL)
		ky_tokio_nonblocking_forget(fd);
	result = epoll_ctl(poller, operation, fd, event);
	if (operation == EPOLL_CTL_ADD && result == 0)
		ky_tokio_nonblocking_note(fd);
	/* The kernel has read the event: it is there. */
	if (operation != EPOLL_CTL_DEL && result == 0)
		ky_tokio_io_key_note(event->data.u64, fd);
	if (operation == EPOLL_CTL_ADD && result == 0 && ky_tokio_is_eventfd(fd))
		ky_tokio_driver_note(poller, fd, event->data.u64);
	return result;
}

static void notify(int fd)
{
	kymo_emit(KYMO_GATE_DRIVER, KYMO_RECORD_NOTIFY, KYMO_WAIT_EVENTFD, 1, (uint64_t)fd, 0, 0);
}

static ssize_t on_write(int fd, const void *bytes, size_t count)
{
	uint64_t begin = ky_tokio_call_begin_on(fd, false);
	ssize_t result;

	if (KYMO_UNLIKELY(count == sizeof(uint64_t)) && ky_tokio_is_eventfd(fd))
		notify(fd);
	result = write(fd, bytes, count);
	ky_tokio_call_ended(begin, SYS_write, fd, result);
	if (ky_tokio_conn_is_any())
		ky_tokio_conn_out(fd, result);
	if (ky_tokio_call_is_long(begin))
		ky_tokio_call_over(begin,
				   &(const struct ky_tokio_call){.number = SYS_write,
								 .flags = KY_TOKIO_CALL_BY_MODE |
									  KY_TOKIO_CALL_MOVES,
								 .descriptor = fd,
								 .result = result});
	return result;
}

/* Never long, as its file's last end may be elsewhere; it is what a connection ends with. */
static int on_close(int fd)
{
	ky_tokio_conn_close(fd);
	ky_tokio_nonblocking_forget(fd);
	return close(fd);
}

static int on_eventfd_write(int fd, eventfd_t value)
{
	if (fd >= 0)
		notify(fd);
	return eventfd_write(fd, value);
}

/* A worker outside polls waits for its condition variable, whose word counts, or for a contended
 * lock, whose word is 2. Only the first is a park; the counter passes 2 as well, on an address that
 * is known by then. */
static bool is_lock(const uint32_t *address, long value)
{
	struct ky_tokio_thread *self = &ky_tokio_self;

	if (self->depth || !ky_tokio_is_worker(self))
		return false;
	if (value == LOCK_CONTENDED)
		return address != self->parker;
	self->parker = address;
	return false;
}

long ky_tokio_on_futex(long number, uint32_t *address, long operation, long value, long timeout,
		       long address2, long value3)
{
	long command = operation & FUTEX_CMD_MASK, result;
	struct wait_span span;

	if (command == FUTEX_WAKE) {
		if (ky_tokio_is_worker(&ky_tokio_self) || ky_tokio_self.depth ||
		    ky_tokio_is_waited_on(address))
			kymo_emit(KYMO_GATE_DRIVER, KYMO_RECORD_NOTIFY, KYMO_WAIT_FUTEX, 1,
				  (uintptr_t)address, 0, 0);
		return syscall(number, address, operation, value, timeout, address2, value3);
	}
	if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET)
		return syscall(number, address, operation, value, timeout, address2, value3);
	if (is_lock(address, value))
		return syscall(number, address, operation, value, timeout, address2, value3);
	if (begin(&span, false, address))
		ky_tokio_park_on(address, ms_until((const struct timespec *)timeout, operation));
	else if (ky_tokio_self.depth)
		ky_tokio_lock_note(address);
	result = syscall(number, address, operation, value, timeout, address2, value3);
	end(&span, KYMO_WAIT_FUTEX, result, NULL);
	return result;
}

long ky_tokio_on_confining(long number, unsigned long a, unsigned long b, unsigned long c,
			   unsigned long d, unsigned long e)
{
	long result;

	if (number == SYS_seccomp || a == PR_SET_SECCOMP)
		kymo_recorder_confine();
	result = syscall(number, a, b, c, d, e);
	/* The kernel has read it: it is a string. */
	if (number == SYS_prctl && a == PR_SET_NAME && result == 0)
		kymo_thread_name((const char *)b);
	return result;
}

/* Declared with what follows its first argument left open; all callers pass words. */
static int on_prctl(int option, unsigned long b, unsigned long c, unsigned long d, unsigned long e)
{
	return (int)ky_tokio_on_confining(SYS_prctl, (unsigned long)option, b, c, d, e);
}

static int on_setname(pthread_t thread, const char *name)
{
	int result = pthread_setname_np(thread, name);

	if (result == 0 && pthread_equal(thread, pthread_self()))
		kymo_thread_name(name);
	return result;
}

/* Where the process samples itself, ticks come as the signal that the program wants. */
static int on_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	if (number == SIGPROF && action)
		kymo_sampling_leave_signal();
	return sigaction(number, action, old);
}

static void (*on_signal(int number, void (*handler)(int)))(int)
{
	if (number == SIGPROF)
		kymo_sampling_leave_signal();
	return signal(number, handler);
}

uintptr_t ky_tokio_wait_address(uint32_t kind)
{
	switch (kind) {
	case KY_TOKIO_GOT_EPOLL_WAIT:
		return (uintptr_t)on_epoll_wait;
	case KY_TOKIO_GOT_EPOLL_PWAIT:
		return (uintptr_t)on_epoll_pwait;
	case KY_TOKIO_GOT_EVENTFD:
		return (uintptr_t)on_eventfd;
	case KY_TOKIO_GOT_EPOLL_CTL:
		return (uintptr_t)on_epoll_ctl;
	case KY_TOKIO_GOT_WRITE:
		return (uintptr_t)on_write;
	case KY_TOKIO_GOT_EPOLL_PWAIT2:
		return (uintptr_t)on_epoll_pwait2;
	case KY_TOKIO_GOT_EVENTFD_WRITE:
		return (uintptr_t)on_eventfd_write;
	case KY_TOKIO_GOT_PRCTL:
		return (uintptr_t)on_prctl;
	case KY_TOKIO_GOT_SETNAME:
		return (uintptr_t)on_setname;
	case KY_TOKIO_GOT_SIGACTION:
		return (uintptr_t)on_sigaction;
	case KY_TOKIO_GOT_SIGNAL:
		return (uintptr_t)on_signal;
	case KY_TOKIO_GOT_CLOSE:
		return (uintptr_t)on_close;
	case KY_TOKIO_GOT_CREATE:
		return ky_tokio_create_address();
	case KY_TOKIO_GOT_SYSCALL:
		return (uintptr_t)ky_tokio_syscall;
	case KY_TOKIO_GOT_IOCTL:
	case KY_TOKIO_GOT_FCNTL:
	case KY_TOKIO_GOT_FCNTL64:
	case KY_TOKIO_GOT_DUP2:
	case KY_TOKIO_GOT_DUP3:
		return ky_tokio_nonblocking_address(kind);
	default:
		return ky_tokio_call_address(kind);
	}
}
