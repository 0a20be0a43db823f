/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/sample/stack_walk.h>

#include <errno.h>
#include <record/emit/bell.h>
#include <record/emit/emit_engine.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
/* Below the end of the first thread's stack the kernel leaves a gap of 128 MiB at least. */
#define FIRST_STACK_BYTES_MAX (UINT64_C(128) << 20)
#define THREAD_STACK_BYTES_MAX (UINT64_C(1) << 30)
#define PAGES_AT_ONCE 256u
#define WINDOW_BYTES 512u
#define MISSES_MAX 8u
#define MISSES_PACE 64u

/* What is known to be mapped of the calling thread's own stack, for as long as it lives: from the
 * page it was found on so far up to its end. */
static __thread uint64_t own_low KYMO_TLS_MODEL, own_high KYMO_TLS_MODEL;
/* Searches for it that found another stack: a thread may run coroutines alone. */
static __thread uint32_t misses KYMO_TLS_MODEL;

bool ky_stack_tables(struct ky_unwind_view *out)
{
	const struct ky_ring *ring = __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);

	out->area = NULL;
	out->area_bytes = 0;
	if (!ring || !ring->unwind ||
	    __atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE) != KY_LIVE ||
	    !__atomic_load_n(&ky_engine.pool->is_alive, __ATOMIC_ACQUIRE) ||
	    atomic_load_explicit(&ring->header->unwind_ready, memory_order_acquire) != 1)
		return false;
	out->area = ring->unwind;
	out->area_bytes = ring->unwind_bytes;
	return true;
}

/* The kernel reads a signal mask from there before it finds that the request makes no sense. */
static bool is_readable(uint64_t address)
{
	int before = errno;
	bool is_there = syscall(SYS_rt_sigprocmask, -1, address & ~UINT64_C(7), NULL,
				sizeof(uint64_t)) != 0 &&
			errno == EINVAL;

	errno = before;
	return is_there;
}

/* Where the stack ends that sp may lie on; 0: on none that we know. */
static uint64_t end_of_stack(uint64_t sp)
{
	uint64_t first = (uint64_t)getauxval(AT_EXECFN);
	uint64_t control = (uint64_t)(uintptr_t)__builtin_thread_pointer();

	if (sp < first && first - sp < FIRST_STACK_BYTES_MAX)
		return first & ~UINT64_C(7);
	if (sp < control && control - sp < THREAD_STACK_BYTES_MAX)
		return control & ~UINT64_C(7);
	return 0;
}

/* From sp up to its end, for there may be a hole. */
static bool find_own(uint64_t sp)
{
	uint64_t page = sp & ~(PAGE - 1), high = end_of_stack(sp);

	if (!high || (high - page) / PAGE > PAGES_AT_ONCE)
		return false;
	for (uint64_t at = page; at < high; at += PAGE)
		if (!is_readable(at))
			return false;
	own_high = high;
	own_low = page;
	return true;
}

/* Makes sure of the pages between sp and what is known. On another stack nothing changes: the page
 * in front of ours is a guard, or belongs to another thread. */
static void learn(uint64_t sp)
{
	uint64_t page = sp & ~(PAGE - 1), low = own_low;

	if (!own_high) {
		if ((misses < MISSES_MAX || misses % MISSES_PACE == 0) && find_own(sp))
			return;
		misses++;
		return;
	}
	if (page >= low || low - page > PAGES_AT_ONCE * PAGE)
		return;
	while (low > page && is_readable(low - PAGE))
		low -= PAGE;
	own_low = low;
}

bool ky_stack_is_own(uint64_t low, uint64_t high)
{
	return low >= own_low && high >= low && high <= own_high;
}

uint64_t ky_stack_own_end(void)
{
	return own_high;
}

bool ky_stack_may_be_own(uint64_t sp)
{
	if (!own_high)
		return misses < MISSES_MAX;
	return sp < own_high && sp + PAGES_AT_ONCE * PAGE >= own_low;
}

/* ---- stacks of others ---- */

struct stack_window {
	bool may_call;
	uint64_t start;
	size_t bytes;
	uint8_t data[WINDOW_BYTES];
};

static bool read_window(void *ctx, uint64_t address, uint64_t *out)
{
	struct stack_window *window = ctx;
	struct iovec to = {window->data, sizeof(window->data)};
	struct iovec from = {(void *)(uintptr_t)address, sizeof(window->data)};
	int before = errno;
	long got;

	if (!window->may_call)
		return false;
	if (address < window->start || address - window->start > window->bytes ||
	    window->bytes - (address - window->start) < sizeof(*out)) {
		got = syscall(SYS_process_vm_readv, syscall(SYS_getpid), &to, 1L, &from, 1L, 0L);
		errno = before;
		window->start = address;
		window->bytes = got > 0 ? (size_t)got : 0;
		if (window->bytes < sizeof(*out))
			return false;
	}
	memcpy(out, window->data + (address - window->start), sizeof(*out));
	return true;
}

/* ---- captures ---- */

static void walk_from(struct ky_walk *walk, const struct ky_unwind_view *view,
		      const struct ky_walk_start *start, bool may_call)
{
	struct stack_window window = {0};
	struct ky_walk_memory memory = {.read = read_window, .ctx = &window};

	if (start->sp < own_low || start->sp >= own_high)
		learn(start->sp);
	memory.low = own_low;
	memory.high = own_high;
	/* From there nothing leads elsewhere but what was no frame pointer; and the kernel may kill
	 * for the call, by a filter that does not show. */
	window.may_call = may_call && (start->sp < own_low || start->sp >= own_high);
	ky_unwind_walk(walk, view, &memory, start);
}

void ky_stack_capture_by(struct ky_walk *walk, const struct ky_unwind_view *view,
			 const struct kymo_stack_start *start, bool may_call)
{
	const struct ky_walk_start from = {.pc = start->pc,
					   .sp = start->sp,
					   .fp = start->fp,
					   .second = start->second,
					   .is_fp_known = true,
					   .is_second_known = true};

	walk_from(walk, view, &from, may_call);
}

void ky_stack_context_by(struct ky_walk *walk, const struct ky_unwind_view *view,
			 const void *context, bool may_call)
{
	const ucontext_t *from = context;
	struct ky_walk_start start = {.is_fp_known = true, .is_second_known = true};
	uint64_t registers[KY_UNWIND_REGISTERS] = {0};

#if defined(__x86_64__)
	static const uint8_t order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
					REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
					REG_R12, REG_R13, REG_R14, REG_R15};

	for (uint32_t i = 0; i < sizeof(order); i++)
		registers[i] = (uint64_t)from->uc_mcontext.gregs[order[i]];
	start.pc = (uint64_t)from->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	for (uint32_t i = 0; i < 31; i++)
		registers[i] = from->uc_mcontext.regs[i];
	registers[KY_UNWIND_SP] = from->uc_mcontext.sp;
	start.pc = from->uc_mcontext.pc;
#else
	(void)from;
#endif
	start.sp = registers[KY_UNWIND_SP];
	start.fp = registers[KY_UNWIND_FP];
	start.second = registers[KY_UNWIND_SECOND];
	start.registers = registers;
	walk_from(walk, view, &start, may_call);
}

/* ---- the public calls ---- */

_Static_assert((int)KYMO_STACK_FULL == (int)KY_WALK_FULL &&
		       (int)KYMO_STACK_UNREADABLE == (int)KY_WALK_UNREADABLE &&
		       (int)KYMO_STACK_UNKNOWN == (int)KY_WALK_UNKNOWN &&
		       (int)KYMO_STACK_REACHED == (int)KY_WALK_REACHED,
	       "the ends have the same numbers");

static uint32_t is_wanted; /* atomic */

bool ky_stack_is_wanted(void)
{
	return __atomic_load_n(&is_wanted, __ATOMIC_RELAXED) != 0;
}

/* The thread that makes tables in this process sleeps until it is woken. */
void ky_stack_want(void)
{
	int before = errno;

	if (!__atomic_exchange_n(&is_wanted, 1, __ATOMIC_RELAXED))
		ky_bell_ring(ky_engine_ring());
	errno = before;
}

static bool begin(struct ky_walk *walk, struct ky_unwind_view *view, struct kymo_stack *stack)
{
	*walk = (struct ky_walk){.frames = stack->frames,
				 .frames_max = stack->frames_max,
				 .until_sp = stack->until_sp};
	stack->count = stack->guessed_count = 0;
	stack->end = KYMO_STACK_NO_TABLES;
	if (!ky_stack_is_wanted())
		ky_stack_want();
	return ky_stack_tables(view);
}

static void give(const struct ky_walk *walk, struct kymo_stack *stack)
{
	stack->count = walk->count;
	stack->guessed_count = walk->guessed_count;
	stack->end = walk->end;
}

void kymo_stack_capture(struct kymo_stack *stack, const struct kymo_stack_start *start)
{
	struct ky_unwind_view view;
	struct ky_walk walk;

	if (!begin(&walk, &view, stack))
		return;
	ky_stack_capture_by(&walk, &view, start, !ky_engine_is_under_filter());
	give(&walk, stack);
}

void kymo_stack_capture_context(struct kymo_stack *stack, const void *context)
{
	struct ky_unwind_view view;
	struct ky_walk walk;

	if (!begin(&walk, &view, stack))
		return;
	ky_stack_context_by(&walk, &view, context, !ky_engine_is_under_filter());
	give(&walk, stack);
}
