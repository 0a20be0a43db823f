/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <attach/borrow.h>
#include <attach/park.h>
#include <base/alloc.h>
#include <base/now.h>
#include <base/testpoint.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define MS_NS UINT64_C(1000000)
/* A thread that sleeps stops within microseconds, once it is given a CPU. */
#define STOP_NS (500 * MS_NS)
#define BORROW_NS (10 * MS_NS) /* no new thread is begun later than this */
#define BACK_NS (500 * MS_NS)  /* a thread is made within a millisecond */
#define CHECK_NS 20000
#define GONE_CHECKS 50
#define GONE_PAUSE_NS 2000000
#define STACK_PAGES_MAX 64u
#define SYSCALL_STOP (SIGTRAP | 0x80)
#define TRACE_SYSGOOD 1 /* PTRACE_O_TRACESYSGOOD: named differently by each C library */

struct borrow {
	const struct ky_process *process;
	pid_t tid;
	uint64_t memory;
	struct ky_arch_context found, settled, now;
	struct ky_arch_layout layout;
	uint64_t stopped_at_ns;
	int signal; /* that came while we waited for our stop; the thread's, not ours */
};

static void pause_shortly(void)
{
	nanosleep(&(const struct timespec){0, CHECK_NS}, NULL);
}

/* Waits until the thread stops. Returns 0; -ESRCH; -ETIMEDOUT. */
static int wait_stop(pid_t tid, uint64_t limit_ns, int *status)
{
	uint64_t until_ns = ky_now_ns(CLOCK_MONOTONIC) + limit_ns;

	for (;;) {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);

		if (got == tid)
			return WIFSTOPPED(*status) ? 0 : -ESRCH;
		if (got < 0 && errno != EINTR)
			return -ESRCH;
		if (ky_now_ns(CLOCK_MONOTONIC) >= until_ns)
			return -ETIMEDOUT;
		pause_shortly();
	}
}

static bool is_our_stop(int status)
{
	return status >> 8 == (SIGTRAP | PTRACE_EVENT_STOP << 8);
}

/* A thread must be stopped to be let go, and has to be stopped for it where it continued alone: it
 * may be home by now, and in its wait. */
static void let_go(struct borrow *borrow)
{
	int status, signal = 0;

	if (ptrace(PTRACE_DETACH, borrow->tid, NULL, NULL) == 0)
		return;
	ptrace(PTRACE_INTERRUPT, borrow->tid, NULL, NULL);
	if (wait_stop(borrow->tid, BACK_NS, &status) != 0)
		return; /* gone, or not to be had: our end lets go of it */
	if (WSTOPSIG(status) != SYSCALL_STOP && status >> 16 == 0)
		signal = WSTOPSIG(status);
	if (is_our_stop(status) && ky_arch_read(borrow->tid, &borrow->now) == 0 &&
	    ky_arch_settle(&borrow->now) == KY_ARCH_INTERRUPTED)
		ky_arch_write(borrow->tid, &borrow->now);
	ptrace(PTRACE_DETACH, borrow->tid, NULL, (void *)(intptr_t)signal);
}

/* Seizing changes nothing; the interruption ends the wait like a signal without a handler. */
static int stop(struct borrow *borrow)
{
	int status, err;

	if (ptrace(PTRACE_SEIZE, borrow->tid, NULL, (void *)TRACE_SYSGOOD) != 0)
		return -errno;
	KY_TESTPOINT("attach.seized");
	if (ptrace(PTRACE_INTERRUPT, borrow->tid, NULL, NULL) != 0)
		return -EAGAIN;
	/* It stops when it has its turn on CPU; to take the interruption back would take
	 * the same turn. */
	err = wait_stop(borrow->tid, STOP_NS, &status);
	while (!err && !is_our_stop(status)) {
		if (status >> 16 == PTRACE_EVENT_STOP) /* the whole process is being stopped */
			return -EAGAIN;
		ptrace(PTRACE_CONT, borrow->tid, NULL, (void *)(intptr_t)WSTOPSIG(status));
		err = wait_stop(borrow->tid, STOP_NS, &status);
	}
	borrow->stopped_at_ns = ky_now_ns(CLOCK_MONOTONIC);
	return err ? -EAGAIN : 0;
}

/* Is a signal on its way to this thread? Then the wait ended for it, and shall end. */
static bool has_signal(const struct borrow *borrow)
{
	static char text[65536]; /* groups may be many */
	char path[64];
	uint64_t pending, blocked;
	const char *own, *shared, *mask;

	snprintf(path, sizeof(path), "task/%d/status", (int)borrow->tid);
	if (ky_process_read_file(borrow->process->pid, path, text, sizeof(text)) <= 0)
		return true;
	own = ky_process_status_line(text, "SigPnd");
	shared = ky_process_status_line(text, "ShdPnd");
	mask = ky_process_status_line(text, "SigBlk");
	if (!own || !shared || !mask)
		return true;
	pending = strtoull(own, NULL, 16) | strtoull(shared, NULL, 16);
	blocked = strtoull(mask, NULL, 16);
	return (pending & ~blocked) != 0;
}

/* Without force: a guard page must not pass for stack. */
static bool has_stack(const struct borrow *borrow)
{
	struct iovec local[STACK_PAGES_MAX], remote[STACK_PAGES_MAX];
	uint64_t at = borrow->layout.stack_low & ~UINT64_C(4095);
	uint64_t end = borrow->layout.stack_address + borrow->layout.stack_bytes;
	uint8_t bytes[STACK_PAGES_MAX];
	size_t count = 0;

	for (; at < end && count < STACK_PAGES_MAX; at += 4096, count++) {
		local[count] = (struct iovec){&bytes[count], 1};
		remote[count] = (struct iovec){(void *)(uintptr_t)at, 1};
	}
	return at >= end && process_vm_readv((pid_t)borrow->process->pid, local, count, remote,
					     count, 0) == (ssize_t)count;
}

/* 0: it may be borrowed, and what it returns to is laid out. -EAGAIN: it goes back to its wait. */
static int examine(struct borrow *borrow, const struct ky_arch_code *code)
{
	struct ky_arch_frame frame;
	enum ky_arch_interrupted how;
	int err = ky_arch_read(borrow->tid, &borrow->found);

	if (err)
		return -EAGAIN;
	borrow->settled = borrow->found;
	how = has_signal(borrow) ? KY_ARCH_NOT_IN_CALL : ky_arch_settle(&borrow->settled);
	/* At once: should we be killed now, no EINTR reaches the program either. */
	if (how != KY_ARCH_INTERRUPTED || ky_arch_write(borrow->tid, &borrow->settled) != 0)
		return -EAGAIN;
	KY_TESTPOINT("attach.settled");
	ky_arch_frame_of(&borrow->found, &frame);
	if (ky_park_of(borrow->process, &frame) != KY_PARK_YES)
		return -EAGAIN;
	err = ky_arch_lay_out(&borrow->layout, &borrow->settled, code, borrow->memory);
	if (err || !has_stack(borrow) ||
	    !ky_process_write(borrow->process, borrow->layout.stack_address, borrow->layout.stack,
			      borrow->layout.stack_bytes))
		return -EAGAIN;
	KY_TESTPOINT("attach.laid_out");
	return 0;
}

/* To the next entry or return of a system call. A signal on the way is the thread's. */
static int next_call(struct borrow *borrow)
{
	int status, err, signal = 0;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, borrow->tid, NULL, (void *)(intptr_t)signal) != 0)
			return -ESRCH;
		err = wait_stop(borrow->tid, STOP_NS, &status);
		if (err || WSTOPSIG(status) == SYSCALL_STOP)
			return err;
		signal = status >> 16 ? 0 : WSTOPSIG(status);
	}
}

/* Into mmap() and out of it: two stops. Where the machine is so busy that they take too long, the
 * thread goes home by itself. */
static int get_memory(struct borrow *borrow)
{
	int err = ky_arch_write(borrow->tid, &borrow->layout.enter);
	bool is_taken;

	KY_TESTPOINT("attach.entered");
	if (!err)
		err = ky_arch_block_signals(borrow->tid);
	for (int i = 0; i < 2 && !err; i++)
		err = next_call(borrow);
	KY_TESTPOINT("attach.memory");
	if (!err)
		err = ky_arch_read(borrow->tid, &borrow->now);
	if (err)
		return err == -ETIMEDOUT ? -EAGAIN : err;
	if (ky_arch_result(&borrow->now) == (int64_t)borrow->memory)
		return ky_now_ns(CLOCK_MONOTONIC) - borrow->stopped_at_ns > BORROW_NS ? -EAGAIN : 0;
	is_taken = ky_arch_result(&borrow->now) == -EEXIST;
	/* What is there is another's: on no account give it back, however late it is. */
	err = ky_arch_write(borrow->tid, &borrow->layout.leave);
	return err ? err : is_taken ? -EEXIST : -ENOMEM;
}

static int start_stub(struct borrow *borrow, const struct kymo_attach_block *block)
{
	uint64_t memory = borrow->memory;
	size_t bytes;
	const uint8_t *stub = ky_arch_stub(&bytes);

	if (!ky_process_write(borrow->process, memory, stub, bytes) ||
	    !ky_process_write(borrow->process, memory + KY_STUB_BLOCK, block, sizeof(*block)))
		return -EFAULT; /* the way back gives the memory back */
	KY_TESTPOINT("attach.stub");
	return ky_arch_write(borrow->tid, &borrow->layout.run);
}

static void wait_back(struct borrow *borrow, struct ky_borrowed *out)
{
	uint64_t until_ns = ky_now_ns(CLOCK_MONOTONIC) + BACK_NS;
	uint32_t is_back = 0;

	while (!is_back && ky_now_ns(CLOCK_MONOTONIC) < until_ns) {
		struct iovec local = {&is_back, sizeof(is_back)};
		struct iovec remote = {
			(void *)(uintptr_t)(out->block +
					    offsetof(struct kymo_attach_block, is_back)),
			sizeof(is_back)};

		if (process_vm_readv((pid_t)borrow->process->pid, &local, 1, &remote, 1, 0) < 0)
			break; /* it gave the memory back: no thread was made */
		if (!is_back)
			pause_shortly();
	}
	out->stopped_ns = ky_now_ns(CLOCK_MONOTONIC) - borrow->stopped_at_ns;
}

/* Its thread is not to be had any more. That of a process that was killed goes before the rest. */
static void tell_lost(const struct ky_process *process, char *why)
{
	for (int i = 0; i < GONE_CHECKS && ky_process_is_there(process); i++)
		nanosleep(&(const struct timespec){0, GONE_PAUSE_NS}, NULL);
	snprintf(why, KY_ATTACH_WHY_BYTES, "%s",
		 ky_process_is_there(process) ?
			 "took its thread back before it could be used (another attach at the same "
			 "moment?); it runs as before" :
			 "ended meanwhile");
}

static int report(const struct ky_process *process, int err, char *why)
{
	if (err == -EAGAIN || err == 0)
		return err;
	if (err == -EPERM)
		snprintf(why, KY_ATTACH_WHY_BYTES,
			 "may not be traced by this user (ptrace_scope, another user), or a "
			 "debugger or another attach came first");
	else if (err == -ESRCH)
		tell_lost(process, why);
	else if (err == -EEXIST)
		snprintf(why, KY_ATTACH_WHY_BYTES,
			 "has something new where our code was to lie: another attach at the same "
			 "moment? nothing was changed");
	else if (err == -ENOMEM)
		snprintf(why, KY_ATTACH_WHY_BYTES,
			 "gives no executable memory (its limits or a security module)");
	else
		snprintf(why, KY_ATTACH_WHY_BYTES, "could not be borrowed a thread of: %s",
			 strerror(-err));
	return err;
}

struct haste {
	int policy;
	struct sched_param param;
};

/* While a thread of another process stands still for us, nothing may make us wait, where we
 * may ask for that. */
static void make_haste(struct haste *before)
{
	const struct sched_param param = {.sched_priority = 1};

	before->policy = sched_getscheduler(0);
	if (before->policy < 0 || sched_getparam(0, &before->param) != 0 ||
	    sched_setscheduler(0, SCHED_RR, &param) != 0)
		before->policy = -1;
}

static void take_time(const struct haste *before)
{
	if (before->policy >= 0)
		(void)sched_setscheduler(0, before->policy, &before->param);
}

int ky_borrow(const struct ky_process *process, pid_t tid, const struct ky_arch_code *code,
	      const struct kymo_attach_block *block, struct ky_borrowed *out, char *why)
{
	struct borrow *borrow = ky_alloc(sizeof(*borrow));
	struct haste before;
	int err;

	if (!borrow)
		return -ENOMEM;
	borrow->process = process;
	borrow->tid = tid;
	borrow->memory = out->memory;
	*out = (struct ky_borrowed){
		.tid = tid, .memory = borrow->memory, .block = borrow->memory + KY_STUB_BLOCK};
	make_haste(&before);
	err = stop(borrow);
	if (err == -EPERM || err == -ESRCH) {
		take_time(&before);
		ky_free(borrow);
		return err == -ESRCH ? -EAGAIN : report(process, err, why);
	}
	KY_TESTPOINT("attach.stopped");
	if (!err)
		err = examine(borrow, code);
	if (!err) {
		err = get_memory(borrow);
		if (err) /* where the machine is busy it may keep it for a while yet */
			out->memory += KY_STUB_MEMORY_BYTES;
	}
	if (!err)
		err = start_stub(borrow, block);
	KY_TESTPOINT("attach.running");
	let_go(borrow);
	KY_TESTPOINT("attach.let_go");
	if (!err)
		wait_back(borrow, out);
	else
		out->stopped_ns = ky_now_ns(CLOCK_MONOTONIC) - borrow->stopped_at_ns;
	take_time(&before);
	ky_free(borrow);
	return report(process, err, why);
}
