/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/crash/fatal_sig.h>

#include <base/now.h>
#include <errno.h>
#include <record/emit/emit_engine.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define FIRST_COUNTS_NS UINT64_C(2000000000)
#define WAIT_MS 200
#define PROBE_BYTES 4096u

/* The copy reads what instrumentation has its own opinion about. */
#define RAW __attribute__((no_sanitize("address"), no_sanitize("thread")))

const int ky_fatal_signals[KY_FATAL_SIGNALS] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
struct sigaction ky_fatal_previous[KY_FATAL_SIGNALS];

static uint32_t writer_tid;  /* atomic; 0: no thread writes a record */
static uint64_t recorded_ns; /* atomic; when the last one was written; 0: there is none */

/* Of this process: a forked child must not write into its parent's ring. */
static struct ky_ring *live_ring(void)
{
	if (__atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE) != KY_LIVE ||
	    !__atomic_load_n(&ky_engine.pool->is_alive, __ATOMIC_ACQUIRE))
		return NULL;
	return __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);
}

/* The kernel reads a signal mask from there before it finds that the request makes no sense. */
static bool is_readable(uintptr_t address)
{
	return syscall(SYS_rt_sigprocmask, -1, address & ~(uintptr_t)7, NULL, sizeof(uint64_t)) !=
		       0 &&
	       errno == EINVAL;
}

/* From sp upwards, up to the first page that is not there. When the stack has overflowed, sp may
 * stand in front of what is mapped: those bytes stay 0. */
RAW static uint32_t copy_stack(uint8_t *out, uintptr_t sp)
{
	uintptr_t at = sp, end = sp + KY_CRASH_STACK_BYTES;
	bool has_begun = false;

	while (at < end) {
		uintptr_t page_end = (at & ~(uintptr_t)(PROBE_BYTES - 1)) + PROBE_BYTES;

		if (page_end > end)
			page_end = end;
		if (is_readable(at)) {
			has_begun = true;
			for (; at < page_end; at++)
				out[at - sp] = *(const volatile uint8_t *)at;
		} else if (has_begun) {
			break;
		}
		at = page_end;
	}
	return has_begun ? (uint32_t)(at - sp) : 0;
}

static void copy_registers(struct ky_ring_crash *crash, const ucontext_t *context)
{
#if defined(__x86_64__)
	const greg_t *registers = context->uc_mcontext.gregs;

	crash->pc = (uint64_t)registers[REG_RIP];
	crash->sp = (uint64_t)registers[REG_RSP];
	crash->fp = (uint64_t)registers[REG_RBP];
	for (uint32_t i = 0; i < NGREG && i < KY_CRASH_REGISTERS; i++)
		crash->registers[i] = (uint64_t)registers[i];
	crash->register_count = NGREG < KY_CRASH_REGISTERS ? NGREG : KY_CRASH_REGISTERS;
#elif defined(__aarch64__)
	const mcontext_t *machine = &context->uc_mcontext;

	crash->pc = machine->pc;
	crash->sp = machine->sp;
	crash->fp = machine->regs[29];
	for (uint32_t i = 0; i < 31; i++)
		crash->registers[i] = machine->regs[i];
	crash->registers[31] = machine->sp;
	crash->register_count = 32;
#else
	(void)context;
	crash->pc = crash->fp = 0;
	crash->sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	crash->register_count = 0;
#endif
}

static void fill(struct ky_ring_crash *crash, const struct ky_ring *ring, uint32_t tid,
		 const siginfo_t *info, const ucontext_t *context)
{
	crash->signal = (uint32_t)info->si_signo;
	crash->code = info->si_code;
	crash->tid = tid;
	/* Of a signal that another thread sent, this is where its pid lies. */
	crash->address = info->si_code > 0 ? (uint64_t)(uintptr_t)info->si_addr : 0;
	crash->monotonic_ns = ky_now_ns(CLOCK_MONOTONIC);
	crash->ticks = ky_clock_ticks(&ring->clock);
	copy_registers(crash, context);
	crash->stack_bytes = copy_stack(crash->stack, (uintptr_t)crash->sp);
}

/* Another thread is in the middle of its record: ending the process now would tear it. */
static void wait_for_writer(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (int i = 0; i < WAIT_MS && __atomic_load_n(&writer_tid, __ATOMIC_ACQUIRE); i++)
		(void)nanosleep(&pause, NULL);
}

/* Returns the record when it is ours, whole now. */
static struct ky_ring_crash *record(const siginfo_t *info, const ucontext_t *context)
{
	struct ky_ring *ring = live_ring();
	struct ky_ring_crash *crash;
	uint32_t tid, none = 0;
	uint64_t last_ns;

	if (!ring)
		return NULL;
	tid = (uint32_t)syscall(SYS_gettid);
	if (!__atomic_compare_exchange_n(&writer_tid, &none, tid, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE)) {
		/* Ourselves: the handler crashed, and there is nothing to wait for. */
		if (none != tid)
			wait_for_writer();
		return NULL;
	}
	crash = &ring->side->crash;
	last_ns = __atomic_load_n(&recorded_ns, __ATOMIC_RELAXED);
	if (last_ns && ky_now_ns(CLOCK_MONOTONIC) - last_ns < FIRST_COUNTS_NS) {
		crash = NULL;
	} else {
		atomic_store_explicit(&crash->state, 1, memory_order_relaxed);
		atomic_thread_fence(memory_order_release); /* 1 before what follows */
		fill(crash, ring, tid, info, context);
		/* Pairs with the reader's acquire. */
		atomic_store_explicit(&crash->state, 2, memory_order_release);
		__atomic_store_n(&recorded_ns, crash->monotonic_ns, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&writer_tid, 0, __ATOMIC_RELEASE);
	return crash;
}

static bool is_ours_still(int number)
{
	struct sigaction now;

	return sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
	       now.sa_sigaction == ky_fatal_handle;
}

/* The kernel raised it for what the thread did: executing that again raises it again. */
static bool is_forced(const siginfo_t *info)
{
	return info->si_code > 0 && !(info->si_signo == SIGBUS && info->si_code == BUS_MCEERR_AO) &&
	       info->si_signo != SIGABRT;
}

/* As if no thread had ever handled it: same signal, same sender, same core dump. */
static void die(int number, siginfo_t *info)
{
	struct sigaction standard = {.sa_handler = SIG_DFL};
	long pid = getpid(), tid = syscall(SYS_gettid);

	(void)sigaction(number, &standard, NULL);
	/* Blocked until we return; a forced one comes by itself then. */
	if (!is_forced(info) && syscall(SYS_rt_tgsigqueueinfo, pid, tid, number, info) != 0)
		(void)syscall(SYS_tgkill, pid, tid, number);
}

/* Returns true when the process continues for all we know. */
static bool chain(int idx, int number, siginfo_t *info, void *context)
{
	struct sigaction previous = ky_fatal_previous[idx];

	if (!(previous.sa_flags & SA_SIGINFO) &&
	    (previous.sa_handler == SIG_DFL ||
	     (previous.sa_handler == SIG_IGN && is_forced(info)))) { /* cannot be ignored */
		die(number, info);
		return false;
	}
	if (!(previous.sa_flags & SA_SIGINFO) && previous.sa_handler == SIG_IGN)
		/* abort() tries again, without a handler then. */
		return number != SIGABRT || info->si_code != SI_TKILL;
	if ((uint32_t)previous.sa_flags & SA_RESETHAND) {
		ky_fatal_previous[idx].sa_flags = 0;
		ky_fatal_previous[idx].sa_handler = SIG_DFL;
	}
	if (previous.sa_flags & SA_SIGINFO)
		previous.sa_sigaction(number, info, context);
	else
		previous.sa_handler(number);
	/* One that puts the default back and returns has given up. */
	return is_ours_still(number);
}

void ky_fatal_handle(int number, siginfo_t *info, void *context)
{
	struct ky_ring_crash *crash;
	int err = errno, idx = 0;

	while (idx < KY_FATAL_SIGNALS - 1 && ky_fatal_signals[idx] != number)
		idx++;
	crash = record(info, context);
	if (chain(idx, number, info, context) && crash) {
		atomic_store_explicit(&crash->state, 0, memory_order_release);
		__atomic_store_n(&recorded_ns, 0, __ATOMIC_RELAXED);
	}
	errno = err;
}
