/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* emit.h - the inline gates and the inline record path: what runs inside every poll.
 *
 * Every function here returns nothing and cannot fail the host. Off costs one load and one
 * predicted branch. On: no lock, no locked instruction, no allocation, no libc call; errno is
 * untouched. What does not fit the fast path (first event of a thread, full sub-buffer, nested
 * poll, event from a signal handler inside one of ours, forked child) leaves through
 * kymo_emit_slow().
 *
 * A task is a 40-bit number chosen by the runtime, unique in the process and never reused.
 * A name is a 24-bit id from kymo_name_intern() (recorder.h); 0 means unknown.
 *
 * Threads  any.      Signals  safe (counted as dropped when it interrupts another event of ours).
 * Since    0.1, everything here and in emit_inline.h.
 */
#ifndef KYMO_EMIT_H
#define KYMO_EMIT_H

#include <kymo/arch.h>
#include <kymo/base.h>
#include <kymo/usdt.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of event with a gate of their own. Bits of kymo_control.gates. */
enum kymo_gate {
	KYMO_GATE_POLL = 1u << 0,        /* poll begin and end, first sight, end of task */
	KYMO_GATE_WAKE = 1u << 1,        /* wakes */
	KYMO_GATE_PARK = 1u << 2,        /* worker park and unpark */
	KYMO_GATE_SPAWN = 1u << 3,       /* spawns, or the ids that were given out meanwhile */
	KYMO_GATE_DRIVER = 1u << 4,      /* driver turns and worker notifications */
	KYMO_GATE_BLOCKING = 1u << 5,    /* runs on the blocking pool, block_in_place */
	KYMO_GATE_WAKER_CLONE = 1u << 6, /* clones of wakers; off by default */
	KYMO_GATE_MARK = 1u << 7,        /* annotations */
	KYMO_GATE_CUSTOM = 1u << 8,      /* events of the application's own */
	KYMO_GATE_SPAN = 1u << 9,        /* spans (span.h) */
	KYMO_GATE_PLACE = 1u << 10,      /* where tasks wait (place.h) */
	KYMO_GATE_OFF_CPU = 1u << 11,    /* off CPU inside a poll: off_cpu.h, switches */
	KYMO_GATE_ALLOC = 1u << 12,      /* allocations (alloc.h); off by default */
	/* Stacks of the events of the two; closed, these have none. */
	KYMO_GATE_OFF_CPU_STACK = 1u << 13,
	KYMO_GATE_ALLOC_STACK = 1u << 14,
	KYMO_GATE_CONN = 1u << 15 /* requests on connections (conn.h); off by default */
};
#define KYMO_GATES_DEFAULT                                                                         \
	(KYMO_GATE_POLL | KYMO_GATE_WAKE | KYMO_GATE_PARK | KYMO_GATE_SPAWN | KYMO_GATE_DRIVER |   \
	 KYMO_GATE_BLOCKING | KYMO_GATE_MARK | KYMO_GATE_CUSTOM | KYMO_GATE_SPAN |                 \
	 KYMO_GATE_PLACE | KYMO_GATE_OFF_CPU | KYMO_GATE_OFF_CPU_STACK | KYMO_GATE_ALLOC_STACK)

/* Record types, bits 16..23 of a record's header word (its other bits: emit_inline.h). Each says
 * what its 16-bit argument means and which payload words follow; without a word on them there is
 * none. */
enum kymo_record {
	KYMO_RECORD_TIME = 1, /* word: full ticks */
	/* words: thread index << 32 | tid, full ticks, records so far */
	KYMO_RECORD_THREAD_CHANGE = 2,
	KYMO_RECORD_POLL_BEGIN = 3, /* arg: queue depth, 0xffff unknown; word: task word */
	KYMO_RECORD_POLL_END = 4,   /* arg: enum kymo_poll_end_flags, points */
	KYMO_RECORD_WAKE = 5,       /* arg: enum kymo_wake_flags, stack; word: task word */
	KYMO_RECORD_SPAWN = 6,      /* arg: 0; word: task word */
	KYMO_RECORD_TASK_END = 7,   /* an end outside a poll; word: task word */
	KYMO_RECORD_PARK = 8,       /* arg: enum kymo_wait, time-out (kymo_park_timeout()) */
	KYMO_RECORD_UNPARK = 9,     /* arg: what was ready (KYMO_READY_*) */
	/* zero-time-out wait; arg: what was ready; word: duration in ticks */
	KYMO_RECORD_DRIVER_TURN = 10,
	KYMO_RECORD_WORKER_BEGIN = 11, /* words: task word, runtime key, worker identity */
	KYMO_RECORD_WORKER_END = 12,
	KYMO_RECORD_RUNTIME = 13,        /* this thread's polls now belong to: word: runtime key */
	KYMO_RECORD_BLOCKING_BEGIN = 14, /* word: task word */
	KYMO_RECORD_BLOCKING_END = 15,   /* arg: enum kymo_poll_end_flags */
	/* futex wake or eventfd write; arg: enum kymo_wait; word: address or fd */
	KYMO_RECORD_NOTIFY = 16,
	KYMO_RECORD_WAKER_CLONE = 17, /* word: task word */
	KYMO_RECORD_MARK = 18,        /* word: string id */
	/* arg: enum kymo_drop_cause; word: events dropped since the last such */
	KYMO_RECORD_DROPPED = 19,
	KYMO_RECORD_GATES = 20,  /* word: gates from now on */
	KYMO_RECORD_CUSTOM = 21, /* arg: payload words; first word: schema id */
	/* a blocking wait inside a poll, written on return; arg: enum kymo_wait; word: duration in
	 * ticks */
	KYMO_RECORD_WAIT = 22,
	KYMO_RECORD_SPAN_BEGIN = 23, /* words: span id << 24 | name, id of its parent or 0 */
	KYMO_RECORD_SPAN_END = 24,   /* words: the same, full ticks of its begin */
	/* of a long poll, right after its end, both in this order (poll_cost.h). arg: nested polls,
	 * saturating; words, each value 32 bits, saturating: major faults << 32 | minor,
	 * involuntary switches << 32 | voluntary, us since the reading before << 32 | wakes */
	KYMO_RECORD_POLL_COUNTS = 25,
	/* arg: enum kymo_poll_cost_flags; words: CPU time in ns, run delay in ns, gap in ns */
	KYMO_RECORD_POLL_COST = 26,
	/* of the future of a block_on (a root), which no table of tasks shows; word: task word.
	 * BEGIN, arg: enum kymo_root_begin. END: its poll was over by now; arg: enum kymo_root_end,
	 * points */
	KYMO_RECORD_ROOT_BEGIN = 27,
	KYMO_RECORD_ROOT_END = 28,
	/* calls inside polls that fail again and again; arg: errno; word: number of the system call
	 * << 52 | descriptor + 1, 0 none << 32 | how many so far */
	KYMO_RECORD_FAILED_CALLS = 29,
	/* ids of tasks and closures that were given out since this poll, run or root's poll began,
	 * right before its end; arg: enum kymo_spawn_by, copy << KYMO_SPAWN_COPY_SHIFT; word: first
	 * id << 24 | how many, saturating */
	KYMO_RECORD_SPAWN_WINDOW = 30,
	/* a request on a connection (conn.h), which is a span; arg of the first two: port at the
	 * other end, 0 none. BEGIN, words: span id << 24 | name, number of the connection << 32 |
	 * descriptor, full ticks since when it was idle. END, words: the same, full ticks of its
	 * begin, bytes in << 40 | bytes out << 16 | descriptor (conn.h). WAIT: bytes came after it
	 * had none left, words: the same, full ticks since when. UNSEEN, word: connections or
	 * requests that are not seen, since the last such */
	KYMO_RECORD_CONN_BEGIN = 31,
	KYMO_RECORD_CONN_END = 32,
	KYMO_RECORD_CONN_WAIT = 33,
	KYMO_RECORD_CONN_UNSEEN = 34,
	/* what wakes the worker on this thread from its parks, from here on; word: address of its
	 * futex | (descriptor that wakes its driver + 1) << KYMO_PARKED_ON_FD_SHIFT; 0: not
	 * known */
	KYMO_RECORD_PARKED_ON = 35,
	/* this thread enters a span, or leaves it (kymo_span_enter()); word: span id << 24 */
	KYMO_RECORD_SPAN_IN = 36,
	KYMO_RECORD_SPAN_OUT = 37,
	/* words: span id << 24, id of the span that it follows from */
	KYMO_RECORD_SPAN_FOLLOWS = 38,
	/* how long the task was ready before the poll that began right before this, as its runtime
	 * says; word: ns */
	KYMO_RECORD_POLL_DELAY = 39,
	KYMO_RECORD_COUNT
};

#define KYMO_FAILED_FD_MAX 0xfffffu
#define KYMO_PARKED_ON_FD_SHIFT 48 /* no address of a program is longer on x86_64 and aarch64 */
#define KYMO_PARKED_ON_FD_MAX 0xfffeu

enum kymo_spawn_by {
	KYMO_SPAWN_BY_POLL = 0, /* the innermost open poll of the thread */
	KYMO_SPAWN_BY_RUN = 1,  /* its run on the blocking pool */
	KYMO_SPAWN_BY_ROOT = 2  /* the root that it polls */
};
#define KYMO_SPAWN_COPY_SHIFT 4
#define KYMO_SPAWN_COUNT_MAX 0xffffffu

enum kymo_root_begin {
	KYMO_ROOT_CLONED = 0, /* it clones its waker: its poll began before, and ends after */
	KYMO_ROOT_WOKEN = 1   /* it was woken and its thread's wait is over: its poll begins now */
};

enum kymo_root_end {
	KYMO_ROOT_WAITS = 1u << 0 /* the thread goes to sleep until it is woken */
};

/* Numbers of roots, which no task has: in the lower 32 bits the number of the thread among
 * those with a root, or with the second bit that of a runtime of the current thread. */
#define KYMO_ROOT_BIT (UINT64_C(1) << 39)
#define KYMO_ROOT_OF_RUNTIME (UINT64_C(1) << 32)

enum kymo_poll_end_flags {
	KYMO_POLL_READY = 1u << 0, /* the task completed: this is its end */
	/* woken inside its own poll by a wake that was not recorded (derived) */
	KYMO_POLL_SELF_WAKE = 1u << 1,
	KYMO_POLL_CANCELLED = 1u << 2 /* ended by abort or shutdown */
};
/* Above the flags: where the task waits, by its number in the table of points (place.h); 0: not
 * known. */
#define KYMO_POLL_POINTS_SHIFT 4

enum kymo_poll_cost_flags {
	/* on CPU from begin to end; the first word is the poll's duration, in ticks */
	KYMO_POLL_COST_ON_CPU = 1u << 0,
	KYMO_POLL_COST_HAS_DELAY = 1u << 1
};

enum kymo_wake_flags {
	KYMO_WAKE_BY_VALUE = 1u << 0,  /* wake(); else wake_by_ref() */
	KYMO_WAKE_ON_DRIVER = 1u << 1, /* issued by the driver on a worker outside any poll */
	/* issued because the task or closure that it is issued in is complete: who it wakes
	 * awaits its end */
	KYMO_WAKE_AT_END = 1u << 2
};
/* Above the flags: who issued it, as kymo_place_wake() (place.h) says; 0: not known. */
#define KYMO_WAKE_STACK_SHIFT 4

enum kymo_wait {
	KYMO_WAIT_UNKNOWN = 0,
	KYMO_WAIT_EPOLL = 1,
	KYMO_WAIT_FUTEX = 2,
	KYMO_WAIT_EVENTFD = 3
};

/* Above them in a PARK: 0: its time-out is not known. */
#define KYMO_PARK_WAIT_MASK 3u
#define KYMO_PARK_TIMEOUT_SHIFT 2
#define KYMO_PARK_TIMEOUT_NONE 1u       /* the wait has none */
#define KYMO_PARK_TIMEOUT_ZERO 2u       /* and ms, rounded up */
#define KYMO_PARK_TIMEOUT_MS_MAX 16381u /* so long, or longer */

/* What was ready at an UNPARK or DRIVER_TURN. */
#define KYMO_READY_MAX 0x7fffu    /* events that the wait brought: so many, or more */
#define KYMO_READY_ONE 0x8000u    /* one event, of the descriptor in the bits below */
#define KYMO_READY_FD_MAX 0x7ffeu /* a larger one is not said */
#define KYMO_READY_FAILED 0xffffu

enum kymo_drop_cause {
	KYMO_DROP_SIGNAL = 1,   /* raised in a signal handler that interrupted an event of ours */
	KYMO_DROP_NO_SLOT = 2,  /* every sub-buffer of the ring was open */
	KYMO_DROP_NO_STATE = 3, /* more threads than the recorder keeps state for */
	KYMO_DROP_EXITED = 4    /* after this thread's clean-up had run */
};

#define KYMO_TASK_BITS 40
#define KYMO_NAME_BITS 24
#define KYMO_QUEUE_UNKNOWN 0xffffu

/* The task word: task in the upper 40 bits, name (or, for wakes, the runtime copy) in the
 * lower 24. */
static inline uint64_t kymo_task_word(uint64_t task, uint32_t name)
{
	return (task << KYMO_NAME_BITS) | (name & 0xffffffu);
}

/* The hot part of a sub-buffer, at offset 0 of its 8 KiB in the ring file. Shared memory: the
 * host writes it and never uses anything read back from it. ring_image.h describes the same bytes
 * to readers; a static assertion in src/record/emit ties the two. */
struct kymo_sub_buffer_hot {
	/* low 32 bits of the address after the last record: & 8191 = offset */
	uint32_t published;
	uint32_t state; /* bit 0: a record is being written; bits 8..15: open polls */
	uint64_t reserved;
	struct {
		uint64_t task_word;
		uint64_t begin_ticks;
	} open[4]; /* the oldest four open polls of the thread */
};

struct kymo_place_set;

/* What a thread needs to emit: one private cache line that a forked child reads as zeros. */
struct kymo_thread {
	uint32_t flags; /* bit 0: inside an event; bits 8..15: open polls */
	/* bits 32..63 of the tick counter, common to the sub-buffer's stamps */
	uint32_t epoch;
	uint64_t *cursor; /* next free word */
	/* first word at which the largest fast record no longer fits; 0 sends every event to the
	 * slow path (no thread state yet, forked child, clock from the OS) */
	uint64_t *limit;
	struct kymo_sub_buffer_hot *sub;
	uint64_t record_count;
	/* the slow path's own limit (fast limit is 0 where the counter is unusable) */
	uint64_t *end;
	uint32_t slot;
	uint32_t index;                /* of this thread in the ring's directory */
	struct kymo_place_set *places; /* place.h; NULL: none, or not yet */
};

/* Control words that the recorder shares with `kymo` processes: mapped from the ring file's second
 * page over this object while a recorder is open, so that reading a gate is one load. */
struct kymo_control {
	uint32_t gates;
	uint32_t bell;
	uint32_t may_call; /* see ky_ring_control */
	uint32_t words[KYMO_ARCH_PAGE_BYTES / 4 - 3];
};

/* Define KYMO_SHARED where this is compiled into a library that programs load with dlopen():
 * such a library must not take from the loader's small reserve of static thread-local storage. */
#if defined(KYMO_SHARED)
#define KYMO_TLS_MODEL
#else
#define KYMO_TLS_MODEL __attribute__((tls_model("initial-exec")))
#endif

KYMO_API extern struct kymo_control kymo_control;
KYMO_API extern __thread struct kymo_thread *kymo_thread_self KYMO_TLS_MODEL;

/* Everything the fast path declines. record: enum kymo_record; arg: 16 bits; words: 0..3 payload
 * words. */
KYMO_API __attribute__((cold)) void kymo_emit_slow(uint32_t record, uint32_t arg, uint32_t words,
						   uint64_t a, uint64_t b, uint64_t c);

#define KYMO_LIKELY(x) __builtin_expect(!!(x), 1)
#define KYMO_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* True while events of this kind are recorded. Cost: one load, one predicted branch. */
static inline bool kymo_gate_is_open(uint32_t gate)
{
	return KYMO_UNLIKELY((__atomic_load_n(&kymo_control.gates, __ATOMIC_RELAXED) & gate) != 0);
}

#include <kymo/emit_inline.h>

#ifdef __cplusplus
}
#endif

#endif
