/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stack_profile.h - what the samples of a trace say: what ran, what held threads back, where tasks
 * wait, who allocates.
 *
 * Invariants:  deterministic as report.h. A function that is several times in one stack counts once
 *              in total. Time is the sum of the samples' weights; where one sample says nothing of
 *              its weight (dial9), samples are counted instead. Every share stands with its number
 *              of samples and its interval (share.h). More samples lost than kept: is_withheld, and
 *              nothing should be concluded; rows stay for inspection.
 *              Polls with a gap inside, or an unproven end, are not in "inside long polls".
 * Memory:      KY_STACK_PROFILE_ROWS_MAX rows a list, KY_STACK_PROFILE_FUNCTIONS_MAX functions.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_STACK_PROFILE_H
#define KY_ANALYZE_STACK_PROFILE_H

#include <analyze/code_stacks.h>
#include <analyze/cpu_cover.h>
#include <analyze/report.h>
#include <analyze/share.h>
#include <analyze/unseen.h>

#define KY_STACK_PROFILE_ROWS_MAX 200u
#define KY_STACK_PROFILE_FUNCTIONS_MAX 400u /* half by self time, half by total */
#define KY_STACK_PROFILE_WORST 10u
#define KY_STACK_PROFILE_WORST_ROWS 5u /* of one poll */
#define KY_STACK_PROFILE_WAKERS 3u     /* of one wait */
#define KY_STACK_PROFILE_CALLS 3u      /* of one list of what its calls were */
#define KY_HEAP_PARTS 10u
#define KY_STACK_PROFILE_LONG_NS UINT64_C(1000000)

struct ky_stack_profile_options {
	uint64_t from_ns, to_ns; /* samples in [from, to); to 0: no end */
	uint64_t long_poll_ns;   /* 0: KY_STACK_PROFILE_LONG_NS */
};

struct ky_stack_profile_function {
	uint32_t function; /* of the code stacks */
	uint64_t self_count, total_count;
	double self, total; /* weights: ns, or samples */
	struct ky_share self_share, total_share;
};

/* CPU samples of one kind. */
struct ky_stack_profile_cpu {
	uint32_t name; /* of a kind of task; KY_NONE: all, or what has no name */
	struct ky_weights all;
	uint64_t truncated_count, stackless_count;
	struct ky_stack_profile_function *functions; /* most self time first; total; name */
	uint32_t function_count;                     /* kept: of most self time, and most total */
	uint32_t function_total;                     /* there were */
	struct ky_share share;                       /* of all samples */
};

/* Time off CPU, estimated: what is neither may be both, for it is not known. */
struct ky_off_cpu_parts {
	double blocked, runnable;
};

/* Those that ended waits and read the same: tasks of a kind, on whatever threads; else threads
 * of one name and process. */
struct ky_stack_profile_waker {
	uint8_t by;      /* KY_ROW_WOKEN_BY_THREAD, _INTERRUPT */
	bool is_own;     /* a thread of the recorded process */
	bool is_task;    /* that polled a task then */
	uint32_t kind;   /* name of such a task; KY_NONE */
	uint32_t task;   /* where all were one; KY_NONE */
	uint32_t thread; /* name of the thread, where all have one; KY_NONE */
	uint32_t tid;    /* where all were one; 0 */
	uint32_t pid;    /* 0: not known */
	uint64_t count;  /* of intervals seen */
	double ns;       /* estimated: of the intervals as a whole, as in the wait */
};

/* What is known of the calls of several intervals: of each list the first ones in the order of the
 * rows. */
struct ky_stack_profile_calls {
	uint8_t fd_kind; /* of all of them; 0 not known */
	uint8_t peer_port_count, error_count;
	bool has_more_peer_ports, has_more_errors;
	bool has_local_ports; /* several */
	uint16_t local_port;  /* 0: not known, or several */
	uint16_t peer_ports[KY_STACK_PROFILE_CALLS];
	uint16_t errors[KY_STACK_PROFILE_CALLS]; /* errno */
	uint64_t failed_count;
	uint64_t moved_bytes, moved_count; /* by so many of the calls */
};

/* Time off CPU with one stack, reason, system call and kind of descriptor. */
struct ky_stack_profile_wait {
	uint32_t stack; /* that reads like all of them; KY_NONE */
	uint8_t reason;
	uint32_t syscall;
	struct ky_stack_profile_calls calls;
	struct ky_total ns; /* estimated; ns.count intervals seen */
	struct ky_off_cpu_parts parts;
	uint64_t seen_ns, max_ns;
	uint64_t max_at_ns; /* beginning of the longest */
	uint32_t max_task;
	struct ky_stack_profile_waker wakers[KY_STACK_PROFILE_WAKERS]; /* most time first */
	uint32_t waker_count, waker_total;
	uint64_t woken_count; /* intervals seen of which it is known who ended them */
	double woken_ns;      /* ... estimated */
};

struct ky_stack_profile_place {
	uint32_t stack;
	/* That wait there at the end of the range: each task is counted at one of its places, the
	 * one with most tasks, and is one of also_count at the others. */
	uint64_t task_count, also_count;
	uint64_t since_ns; /* earliest moment since which one does */
	uint32_t since_task;
	/* The oldest of those points that are older than the last poll of their task; 0: none. */
	uint64_t known_ns;
	struct ky_total ns;    /* waited there, of those whose end is known */
	uint64_t also_ns;      /* of tasks that waited there, too, and are counted elsewhere */
	uint64_t unsafe_count; /* captures whose wait is not known */
};

/* Waits of 10 ms and more of all tasks of one name. */
struct ky_waiting_kind {
	uint32_t name; /* KY_NONE: none */
	uint64_t task_count;
	uint64_t ns;       /* by their polls */
	uint64_t known_ns; /* of it: with an await point */
};

/* All estimated. */
struct ky_stack_profile_heap {
	uint32_t stack;
	uint64_t count;              /* samples that this is made of */
	struct ky_total bytes;       /* allocated in the range */
	struct ky_total live_bytes;  /* at its end, also what was allocated before it */
	struct ky_total allocations; /* how many these bytes are */
	struct ky_total live_allocations;
	struct ky_total growth;            /* live at its end without what was live at half of it */
	double live_at[KY_HEAP_PARTS + 1]; /* at each of heap_points */
};

/* A poll and the samples that fell in it. */
struct ky_stack_profile_poll {
	struct ky_poll poll;
	uint64_t cpu_count, off_count;
	double cpu;                      /* ns, or samples */
	uint64_t off_ns;                 /* of the intervals seen */
	uint64_t preempted_ns, fault_ns; /* of those */
	struct {
		uint32_t stack;
		uint64_t count;
		double weight;
	} cpu_rows[KY_STACK_PROFILE_WORST_ROWS]; /* most first */
	struct {
		uint32_t stack, syscall;
		uint8_t reason;
		uint64_t count, ns;
		struct ky_off_cpu_parts parts; /* of what was seen */
		struct ky_stack_profile_calls calls;
	} off_rows[KY_STACK_PROFILE_WORST_ROWS];
	uint32_t cpu_row_count, off_row_count;
};

struct ky_stack_profile {
	uint64_t from_ns, to_ns, long_poll_ns;
	uint64_t shutdown_ns; /* where tasks wait is judged just before; 0: at the end */
	bool is_by_time;      /* weights are ns; else every sample counts 1 */
	struct ky_code_stacks code;
	struct ky_symbol_table *no_names;            /* where nothing gave a table */
	struct ky_stack_profile_cpu cpu, long_polls; /* all; inside polls over long_poll_ns */
	uint64_t long_unsafe_count;                  /* samples in polls left out */
	struct ky_stack_profile_cpu *kinds;          /* by kind of task, most first */
	uint32_t kind_count;
	struct ky_stack_profile_wait *waits; /* most time first */
	uint32_t wait_count, wait_total;
	struct ky_total off_cpu;
	double off_cpu_seen_ns; /* of it, which is certain */
	struct ky_off_cpu_parts off_cpu_parts;
	/* Of the kernel's switch records: watched so long of so long; 0: not at all. */
	uint64_t switches_observed_ns, switches_stretch_ns, switches_lost_count;
	/* Where the kernel was asked for wake-ups: waits seen whole, and those without theirs. */
	uint64_t wake_wait_count, wake_unknown_count;
	struct ky_stack_profile_place *places; /* most waiting tasks, then most time first */
	uint32_t place_count, place_total;
	uint64_t waiting_count; /* tasks that wait and have a place: task_count of all */
	/* Of the whole trace, else none: most time first, and the sums of all. */
	struct ky_waiting_kind *waiting_kinds;
	uint32_t waiting_kind_count;
	uint64_t waited_ns, waited_known_ns;
	struct ky_stack_profile_heap *heap; /* most live bytes, then most bytes first */
	uint32_t heap_count, heap_total;
	struct ky_stack_profile_heap heap_all;
	uint64_t heap_points[KY_HEAP_PARTS + 1]; /* of equal parts of the range, in the trace */
	bool is_heap_weighted;                   /* every allocation says what it stands for */
	struct ky_stack_profile_poll worst[KY_STACK_PROFILE_WORST];
	uint32_t worst_count;
	uint64_t counts[KY_STACK_KINDS];        /* in the range */
	uint64_t lost[KY_STACK_KINDS];          /* of the whole trace */
	struct ky_cpu_cover cover;              /* of the range */
	struct ky_unseen unseen[KY_UNSEEN_MAX]; /* of the whole trace, too */
	uint32_t unseen_count;
};

/* May anything be concluded from the samples of this kind? */
bool ky_stack_profile_is_withheld(const struct ky_stack_profile *profile, enum ky_stack_kind kind);

/* report: its worst polls are examined. symbols: asked for every address; NULL: names are
 * numbers. Returns 0, -ENOMEM. Both have to live as long. */
int ky_stack_profile_make(struct ky_stack_profile **out, const struct ky_trace *trace,
			  const struct ky_report *report, struct ky_symbol_table *symbols,
			  const struct ky_stack_profile_options *options);
void ky_stack_profile_free(struct ky_stack_profile *profile);

/* The 95 % interval of off_cpu, which is no less than what was seen. */
void ky_stack_profile_off_cpu_interval(const struct ky_stack_profile *profile, double *low,
				       double *high);

/* "futex", "blocked in a system call", ... : OffCpuEvent.reason. */
const char *ky_off_cpu_reason(uint8_t reason);
/* The same in a word or two, "read" or "system call 35" of a call. call: its name; NULL: it has
 * none. Returns cell. */
#define KY_OFF_CPU_WHY_BYTES 48u
const char *ky_off_cpu_why(char *cell, uint8_t reason, uint32_t syscall, const char *call);

/* "file", "tcp", ..: OffCpuEvent.fd_kind; "" for one that is not known. */
const char *ky_fd_kind_name(uint8_t kind);

/* Canonical JSON, one object. Errors: buf->failed. */
void ky_stack_profile_json(struct ky_buf *out, const struct ky_trace *trace,
			   const struct ky_stack_profile *profile);

#endif
