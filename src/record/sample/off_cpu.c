/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <kymo/off_cpu.h>

#include <base/testpoint.h>
#include <errno.h>
#include <fcntl.h>
#include <record/emit/emit_engine.h>
#include <record/sample/descriptor.h>
#include <record/sample/poll_readings.h>
#include <record/sample/stack_walk.h>

#define FRAMES_MAX 128u
#define NANOSECONDS UINT64_C(1000000000)
#define ONE UINT64_C(0x100000000) /* 1 in parts of 2^32 */

_Static_assert((int)KYMO_OFF_CPU_SYSCALL == (int)KY_OFF_CPU_SYSCALL &&
		       (int)KYMO_OFF_CPU_FUTEX == (int)KY_OFF_CPU_FUTEX,
	       "the reasons have the same numbers");

/* The cells in the latest ring that another thread wanted them of. Under `is_making`; the thread
 * that reads checks `ring` before and after. */
static struct {
	const struct ky_ring *ring; /* atomic; NULL: none, or being changed */
	struct ky_sample_ring cells;
	const struct ky_ring *refused;
	uint32_t is_making; /* atomic */
} area;

static __thread struct {
	uint64_t refilled_ticks;
	uint32_t spent;
	uint32_t random;
} budget KYMO_TLS_MODEL;

static struct ky_ring *live_ring(void)
{
	struct ky_ring *ring = __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);

	if (!ring || __atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE) != KY_LIVE ||
	    !__atomic_load_n(&ky_engine.pool->is_alive, __ATOMIC_ACQUIRE))
		return NULL;
	return ring;
}

static uint64_t ticks_of(const struct ky_ring *ring, uint64_t ns)
{
	uint64_t hz = ring->clock.is_os ? NANOSECONDS : ring->clock.ticks_per_second;

	return hz / (NANOSECONDS / ns);
}

uint64_t kymo_off_cpu_ticks_min(void)
{
	const struct ky_ring *ring = live_ring();

	return ring ? ticks_of(ring, KYMO_OFF_CPU_NS_MIN) : UINT64_MAX;
}

/* ---- where samples go ---- */

static bool read_cells(const struct ky_ring *ring, struct ky_sample_ring *out)
{
	if (__atomic_load_n(&area.ring, __ATOMIC_ACQUIRE) != ring)
		return false;
	out->head = __atomic_load_n(&area.cells.head, __ATOMIC_RELAXED);
	out->cells = __atomic_load_n(&area.cells.cells, __ATOMIC_RELAXED);
	out->cell_count = __atomic_load_n(&area.cells.cell_count, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&area.ring, __ATOMIC_RELAXED) == ring;
}

/* Its pages are made by rt_sigprocmask, which no filter of system calls kills for. */
static bool make_cells(struct ky_ring *ring, struct ky_sample_ring *out)
{
	/* While another thread makes them, or the one that we have interrupted: pages may be made
	 * twice, and a call that does not wait keeps its stack. */
	if (__atomic_exchange_n(&area.is_making, 1, __ATOMIC_ACQUIRE))
		return ky_ring_samples(ring, KY_SAMPLES_OFF_CPU, out);
	KY_TESTPOINT("off_cpu.making");
	if (__atomic_load_n(&area.ring, __ATOMIC_RELAXED) != ring && area.refused != ring) {
		struct ky_sample_ring cells;

		if (ky_ring_samples(ring, KY_SAMPLES_OFF_CPU, &cells)) {
			atomic_fetch_or_explicit(&cells.head->source, 1u << KY_SOURCE_CALLS,
						 memory_order_relaxed);
			__atomic_store_n(&area.ring, NULL, __ATOMIC_RELAXED);
			__atomic_thread_fence(__ATOMIC_RELEASE);
			__atomic_store_n(&area.cells.head, cells.head, __ATOMIC_RELAXED);
			__atomic_store_n(&area.cells.cells, cells.cells, __ATOMIC_RELAXED);
			__atomic_store_n(&area.cells.cell_count, cells.cell_count,
					 __ATOMIC_RELAXED);
			__atomic_store_n(&area.ring, ring, __ATOMIC_RELEASE);
		} else {
			area.refused = ring;
		}
	}
	__atomic_store_n(&area.is_making, 0, __ATOMIC_RELEASE);
	return read_cells(ring, out);
}

static bool find_cells(struct ky_ring *ring, struct ky_sample_ring *out)
{
	return read_cells(ring, out) || make_cells(ring, out);
}

/* ---- the budget ---- */

static uint32_t draw(uint32_t tid)
{
	uint32_t x = budget.random ? budget.random : tid * 2654435761u | 1u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	budget.random = x;
	return x;
}

static bool has_budget(const struct ky_ring *ring, uint64_t now)
{
	uint64_t step = ticks_of(ring, NANOSECONDS / KYMO_OFF_CPU_BUDGET_HZ);
	uint64_t back = step ? (now - budget.refilled_ticks) / step : 0;

	if (back) {
		budget.spent = back < budget.spent ? budget.spent - (uint32_t)back : 0;
		/* What is left of a step counts towards the next one. */
		budget.refilled_ticks = budget.spent ? budget.refilled_ticks + back * step : now;
	}
	if (budget.spent >= KYMO_OFF_CPU_BUDGET_MAX)
		return false;
	budget.spent++;
	return true;
}

/* What the interval stands for, in parts of 2^32; 0: it is left out. Whether there is budget left
 * does not depend on this interval's length, so the weights are fair. */
static uint64_t weigh(const struct ky_ring *ring, const struct kymo_off_cpu *wait, uint32_t tid)
{
	uint64_t spent = wait->end_ticks - wait->begin_ticks;
	uint64_t sure = ticks_of(ring, KYMO_OFF_CPU_SURE_NS);

	if (has_budget(ring, wait->end_ticks) || spent >= sure)
		return ONE;
	if (draw(tid) >= spent * ONE / sure)
		return 0;
	return sure * ONE / spent;
}

/* ---- reporting ---- */

static uint64_t ns_of(const struct ky_ring *ring, uint64_t ticks)
{
	uint64_t hz = ring->clock.ticks_per_second;

	if (ring->clock.is_os || !hz)
		return ticks;
	return ticks / hz * NANOSECONDS + ticks % hz * NANOSECONDS / hz;
}

static uint32_t tid_here(void)
{
	struct kymo_thread *self = kymo_thread_self;

	return ky_thread_is_state(self) ? ((struct ky_thread *)(void *)self)->tid : 0;
}

/* A filter that the process has put itself under may kill for fcntl() and its kin. One that it was
 * started with, as in most containers, has let it open and size files. One that a library of its
 * own puts it under (libseccomp) is seen by nobody in it: where another process looks, it counts
 * what that one says. */
static bool may_ask(int32_t descriptor)
{
	return descriptor >= 0 && !__atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED) &&
	       ky_poll_cost_may_ask();
}

bool kymo_off_cpu_is_nonblocking(int32_t descriptor)
{
	int before = errno, flags;

	if (!may_ask(descriptor))
		return false;
	flags = fcntl(descriptor, F_GETFL);
	errno = before;
	return flags >= 0 && flags & O_NONBLOCK;
}

/* A call on a descriptor that never blocks was long because the kernel had to do, or because the
 * thread lost its CPU. */
static bool is_patient(const struct kymo_off_cpu *wait)
{
	return !(wait->flags & KYMO_OFF_CPU_BY_MODE) ||
	       !kymo_off_cpu_is_nonblocking(wait->descriptor);
}

static void set_facts(struct ky_sample *sample, const struct kymo_off_cpu *wait)
{
	struct ky_call_facts facts = {
		.reason = (uint8_t)wait->reason,
		.error = wait->error > 0 && wait->error <= UINT16_MAX ? (uint16_t)wait->error : 0,
		.fd = wait->descriptor,
		.bytes = wait->bytes,
		.lock = wait->lock,
	};

	if (may_ask(wait->descriptor))
		ky_descriptor_describe(wait->descriptor, &facts);
	if (!facts.peer_port)
		facts.peer_port = wait->peer_port;
	ky_call_facts_enc(&facts, &sample->more, &sample->other);
}

bool kymo_off_cpu_emit(const struct kymo_off_cpu *wait)
{
	struct ky_ring *ring = live_ring();
	struct ky_sample_ring cells;
	uint64_t frames[FRAMES_MAX] = {0};
	struct kymo_stack stack = {.frames = frames, .frames_max = FRAMES_MAX};
	struct ky_sample sample = {.kind = KY_SAMPLE_OFF_CPU, .tid = tid_here()};
	uint32_t own = 0;
	int before = errno;

	if (!ring || !sample.tid || wait->end_ticks <= wait->begin_ticks ||
	    !find_cells(ring, &cells))
		return false;
	if (is_patient(wait))
		sample.weight = weigh(ring, wait, sample.tid);
	if (sample.weight)
		set_facts(&sample, wait);
	errno = before;
	if (!sample.weight)
		return true;
	if (kymo_gate_is_open(KYMO_GATE_OFF_CPU_STACK))
		kymo_stack_capture(&stack, &wait->from);
	while (own < stack.count && stack.frames[own] >= wait->own_low &&
	       stack.frames[own] < wait->own_high)
		own++;
	sample.stamp = wait->end_ticks;
	sample.value = ns_of(ring, wait->end_ticks - wait->begin_ticks);
	sample.syscall = (int16_t)(wait->syscall >= 0 && wait->syscall <= INT16_MAX ?
					   wait->syscall :
					   -1);
	sample.flags = stack.end != KYMO_STACK_FIRST ? KY_SAMPLE_TRUNCATED : 0;
	sample.frames = frames + own;
	sample.frame_count = stack.count - own;
	(void)ky_sample_put(&cells, &sample);
	return true;
}
