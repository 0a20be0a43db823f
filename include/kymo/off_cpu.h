/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* off_cpu.h - a blocking call inside a poll, recorded when it returns: duration, reason, stack.
 *
 * For adapters that interpose functions of the C library:
 *
 *   begin = counter;  the call;  spent = counter - begin. Not of a descriptor that is known to be
 *       in O_NONBLOCK: kymo_off_cpu_is_nonblocking()
 *   spent < kymo_off_cpu_ticks_min(), kept from call to call: no more to do. A short call costs two
 *       readings of the counter
 *   else kymo_off_cpu_emit()
 *
 * Rule:     intervals from KYMO_OFF_CPU_NS_MIN on are recorded with their stack. Each thread has a
 *           budget of KYMO_OFF_CPU_BUDGET_HZ a second, KYMO_OFF_CPU_BUDGET_MAX at once; beyond it
 *           one of length d is recorded with probability min(1, d / KYMO_OFF_CPU_SURE_NS) and its
 *           weight. So a thread that only ever blocks records at most some 200 a second.
 * Threads   any.      Signals  safe.      Since 0.1
 */
#ifndef KYMO_OFF_CPU_H
#define KYMO_OFF_CPU_H

#include <kymo/stack.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KYMO_OFF_CPU_NS_MIN 100000u
#define KYMO_OFF_CPU_BUDGET_HZ 100u
#define KYMO_OFF_CPU_BUDGET_MAX 256u
#define KYMO_OFF_CPU_SURE_NS 10000000u

/* In words, as metadata "offcpu.rule" of a trace. */
#define KYMO_OFF_CPU_RULE                                                                          \
	"calls of 100 us and more inside polls; within 100/s a thread, 256 at once, beyond that "  \
	"by length / 10 ms"

enum kymo_off_cpu_reason {
	KYMO_OFF_CPU_UNKNOWN = 0,
	KYMO_OFF_CPU_SYSCALL = 1,
	KYMO_OFF_CPU_FUTEX = 2
};

enum kymo_off_cpu_flags {
	/* It waits only where the descriptor blocks: of one that does not, nothing is recorded. */
	KYMO_OFF_CPU_BY_MODE = 1u << 0
};

struct kymo_off_cpu {
	uint64_t begin_ticks, end_ticks; /* as records are stamped */
	uint32_t reason;                 /* enum kymo_off_cpu_reason */
	int32_t syscall;                 /* number; -1: several, or not known */
	int32_t descriptor;              /* of the call, or that it opened; -1: none. What it is,
					  * and with whom a socket talks, is asked here */
	uint32_t flags;                  /* enum kymo_off_cpu_flags */
	int32_t error;                   /* errno of a call that failed; 0 */
	int64_t bytes;                   /* that it moved; -1: none, or not known */
	uint64_t lock;                   /* of a wait on a futex: its address; 0: not known */
	uint16_t peer_port;              /* that a connect() named; 0 */
	struct kymo_stack_start from;    /* KYMO_STACK_HERE() of the caller */
	uintptr_t own_low, own_high;     /* code of the adapter: left out at the leaf's end */
};

/* Ticks of the shortest interval to record, in this process's recording; UINT64_MAX: nothing is
 * recorded. Another recording may have another clock.
 */
KYMO_API uint64_t kymo_off_cpu_ticks_min(void);

/* Whether calls on it with KYMO_OFF_CPU_BY_MODE are not recorded: it is in O_NONBLOCK. False also
 * where that cannot be asked. errno is kept.
 * Cost     a system call.
 */
KYMO_API bool kymo_off_cpu_is_nonblocking(int32_t descriptor);

/* True: it was recorded, or others that were stand for it. False: there is no room for stacks:
 * record it in another way.
 * Cost     some 30 ns a frame; the first time in a process some hundred system calls.
 */
KYMO_API bool kymo_off_cpu_emit(const struct kymo_off_cpu *wait);

#ifdef __cplusplus
}
#endif

#endif
