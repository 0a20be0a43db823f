/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* samples.h - what a trace has of stacks: CPU samples, intervals off it, await points,
 * allocations; each with whose poll was open on its thread.
 *
 * Invariants:  after ky_trace_open() rows ascend by time, then by their order in the files; every
 *              index in a row is valid or KY_NONE. A stack is kept once, however often it was
 *              seen, and is resolved to names by the time of its first row; one that goes
 *              through code that was unmapped in between, once for each time before and after
 *              that (of KY_GONE_CODE_MAX). Frames: leaf first.
 * Whose:       what the event says; where it does not (dial9: worker 255, no task), the worker that
 *              the thread served at that moment, by its parks, and the poll or the run on the
 *              blocking pool that contains the moment.
 * Twice reported:  a time off CPU that the kernel's switch records report inside a call that
 *              was reported by itself is the call's, and has no row; nor has one that the weights
 *              of calls stand for, where those were more than their budget. What it was known to
 *              be, blocked or ready to run, becomes the call's.
 * Memory:      the pages of the trace and their limit; of a stack KY_STACK_FRAMES_MAX frames from
 *              the leaf on are kept.
 * Threads:     owner while loading; any number of readers afterwards.
 */
#ifndef KY_READ_SAMPLES_H
#define KY_READ_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#define KY_STACK_FRAMES_MAX 2048u
#define KY_NO_SYSCALL UINT32_MAX
#define KY_GONE_CODE_MAX 256u

enum ky_stack_kind {
	KY_STACK_CPU = 0, /* value: CPU time it stands for, 0 unknown */
	KY_STACK_OFF_CPU, /* value: duration; time: its beginning */
	KY_STACK_PLACE,   /* value: length of the wait; 0 with KY_ROW_END_UNSAFE */
	KY_STACK_ALLOC,   /* value: bytes asked for */
	KY_STACK_SWITCH,  /* dial9: taken off CPU; it is not known for how long */
	KY_STACK_FREE,    /* while loading only */
	KY_STACK_KINDS
};

enum ky_stack_row_flags {
	KY_ROW_TRUNCATED = 1u << 0, /* the stack does not reach the thread's first frame */
	KY_ROW_FREED = 1u << 1,     /* ALLOC: at end_ns */
	KY_ROW_ALSO = 1u << 1,      /* PLACE: the wait is counted at another point of it */
	KY_ROW_REPORTED = 1u << 2, /* the event itself says which poll was open, or that none was */
	KY_ROW_BLOCKING = 1u << 3, /* in a run on the blocking pool, not in a poll */
	KY_ROW_WAITS = 1u << 4,    /* PLACE: the task has not been polled since */
	KY_ROW_END_UNSAFE = 1u << 5, /* PLACE: polls may be missing after it */
	/* The event does not say what it stands for; PLACE that waits: samples say how long. */
	KY_ROW_UNWEIGHTED = 1u << 6,
	KY_ROW_POLL_UNSAFE =
		1u << 7 /* records are missing inside its poll, or its end is unproven */
};

/* How a place is known. */
enum ky_place_source {
	KY_PLACE_CAPTURED = 0,     /* a sample: of when its leaf registered the waker */
	KY_PLACE_REPORTED_WAITS,   /* of a live task: it waits there */
	KY_PLACE_REPORTED_PERHAPS, /* it may wait elsewhere by now */
	KY_PLACE_REPORTED_POLLED,  /* it was being polled */
	KY_PLACE_WAITED            /* a wait that ended */
};

#define KY_OFF_CPU_BY_CALL 3u /* OffCpuEvent.source */
#define KY_OFF_CPU_BY_SWITCHES 5u
/* ALLOC: reported at the end of a trace because it lived; of those whose beginning is in the trace,
 * the beginning alone is kept. */
#define KY_ALLOC_REPORTED_LIVE 1u
#define KY_ALLOC_LISTED 1u /* the end of the trace reports that it lives */

/* OffCpuEvent.reason. */
enum {
	KY_WAIT_OTHER = 0,
	KY_WAIT_CALL,
	KY_WAIT_FUTEX, /* up to it the thread waited for something */
	KY_WAIT_FAULT,
	KY_WAIT_PREEMPTED
};

/* OffCpuEvent.fd_kind; 0: not known. */
enum {
	KY_FD_KIND_TCP = 6,
	KY_FD_KINDS_KNOWN = 11
};

/* OffCpuEvent.woken_by. */
enum {
	KY_ROW_WOKEN_BY_THREAD = 1,
	KY_ROW_WOKEN_BY_INTERRUPT = 2
};

struct ky_stack_row {
	uint64_t time_ns;
	uint64_t value;    /* see enum ky_stack_kind */
	uint64_t end_ns;   /* ALLOC with KY_ROW_FREED; PLACE: end of the wait, or of the trace */
	uint64_t address;  /* ALLOC */
	uint64_t since_ns; /* PLACE: since when the point is known; 0: as time_ns */
	uint64_t poll_start_ns; /* of the open poll or run; 0 none */
	uint64_t poll_ns;       /* how long that lasted; 0 not known */
	/* OFF_CPU: ready to run, at least and at most. 0 and value: blocked incl. run queue. */
	uint64_t runnable_min_ns, runnable_max_ns;
	uint64_t woken_ns; /* OFF_CPU: when it was; 0: not reported */
	double weight;     /* 1 / inclusion probability; at least 1 */
	uint32_t stack;    /* index in stacks; KY_NONE: without */
	uint32_t tid;
	uint32_t worker;  /* index in workers; KY_NONE */
	uint32_t task;    /* index in tasks; KY_NONE */
	uint32_t name;    /* of that task, as its poll said; KY_NONE */
	uint32_t syscall; /* KY_NO_SYSCALL: none or unknown */
	/* OFF_CPU: the thread that ended it; 0: none, or not reported. */
	uint32_t waker_tid, waker_pid;
	uint32_t waker_name; /* of the thread; KY_NONE */
	uint32_t waker_task; /* that it polled then, where it is a thread of ours; KY_NONE */
	uint32_t waker_kind; /* name of that task */
	uint32_t order;      /* of loading */
	/* OFF_CPU of a call, as OffCpuEvent has them. */
	int32_t fd;                     /* -1: none */
	uint64_t lock;                  /* address of the futex; 0 */
	uint64_t moved_bytes;           /* UINT64_MAX: none, or not known */
	uint16_t peer_port, local_port; /* 0: none */
	uint16_t error;                 /* 0: it did not fail */
	uint8_t fd_kind, tcp_state;
	uint8_t kind;     /* enum ky_stack_kind */
	uint8_t reason;   /* OFF_CPU: OffCpuEvent.reason; PLACE: enum ky_place_source; ALLOC:
			   * KY_ALLOC_REPORTED_LIVE */
	uint8_t sampler;  /* CPU: CpuSampleEvent.sampler; OFF_CPU: OffCpuEvent.source; ALLOC:
			   * KY_ALLOC_LISTED */
	uint8_t clipped;  /* OFF_CPU: OffCpuEvent.clipped */
	uint8_t woken_by; /* OFF_CPU: OffCpuEvent.woken_by */
	uint8_t flags;    /* enum ky_stack_row_flags */
};

/* So long a wait is, of which the drain writes the points. */
#define KY_LONG_WAIT_NS UINT64_C(10000000)

/* PLACE: its wait is counted under this point, one of those at which the task waited. */
static inline bool ky_place_has_time(const struct ky_stack_row *row)
{
	if (row->reason == KY_PLACE_CAPTURED || row->flags & KY_ROW_END_UNSAFE)
		return !(row->flags & KY_ROW_END_UNSAFE);
	return !(row->flags & (KY_ROW_ALSO | KY_ROW_UNWEIGHTED)) &&
	       row->reason != KY_PLACE_REPORTED_POLLED && row->value >= KY_LONG_WAIT_NS;
}

struct ky_stack {
	uint32_t first; /* in frames */
	uint32_t count;
	uint64_t first_ns; /* of the first row that has it */
	uint32_t turn;     /* of what was mapped there; 0: nothing of it ever went */
};

struct ky_gone_code {
	uint64_t start, end, to_ns;
};

struct ky_samples {
	struct ky_stack_row *rows;
	uint32_t row_count, row_capacity;
	struct ky_stack *stacks;
	uint32_t stack_count, stack_capacity;
	uint64_t *frames;
	uint32_t frame_count, frame_capacity;
	uint32_t *slots; /* of the hash table while loading: stack + 1 */
	uint32_t slot_count;
	/* While loading: code that was unmapped, and addresses outside of which none was. */
	struct ky_gone_code *gone;
	uint64_t gone_low, gone_high;
	uint32_t gone_count, gone_capacity;
	uint64_t counts[KY_STACK_KINDS]; /* rows */
	uint64_t lost[KY_STACK_KINDS];   /* by LossEvent and MemoryProfileOverflowEvent */
	uint64_t frees_unmatched;        /* FreeEvents of allocations that are not here */
};

/* The first row at that moment or after it; row_count: none. */
uint32_t ky_samples_from(const struct ky_samples *samples, uint64_t time_ns);
/* The same for who wants rows of one kind alone: row_count where there is none of it at all. */
static inline uint32_t ky_samples_of_from(const struct ky_samples *samples, enum ky_stack_kind kind,
					  uint64_t time_ns)
{
	return samples->counts[kind] ? ky_samples_from(samples, time_ns) : samples->row_count;
}

#endif
