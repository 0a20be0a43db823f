/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* wake_cause.h - why tasks were woken: the functions that issued a wake say whether the I/O driver,
 * a timer, a yield or the program's own code did.
 *
 * By names of functions, the innermost that decides; where a program has no symbols the cause is
 * not known. The wakes that the runtime issued are exact as far as inlined functions have names:
 * "driver" is what may be I/O or a timer.
 *
 * Threads:     any; of a namer its owner.
 */
#ifndef KY_ANALYZE_WAKE_CAUSE_H
#define KY_ANALYZE_WAKE_CAUSE_H

#include <analyze/code_stacks.h>

enum ky_wake_kind {
	KY_WAKE_UNKNOWN = 0,
	KY_WAKE_IO,       /* a descriptor became ready */
	KY_WAKE_TIMER,    /* its time had come */
	KY_WAKE_DEFERRED, /* the task itself, by yield_now() or an exhausted budget */
	KY_WAKE_DRIVER,   /* I/O, a timer or a yield: their functions are inlined */
	KY_WAKE_SIGNAL,   /* of the process */
	KY_WAKE_JOIN,     /* a task or a blocking closure that it waited for ended */
	KY_WAKE_CODE,     /* code of the program, or of a library that it calls */
	KY_WAKE_SELF,     /* inside its own poll, seen by the task's state alone */
	KY_WAKE_KINDS
};

struct ky_wake_cause {
	uint32_t kind;                   /* enum ky_wake_kind */
	const struct ky_code_line *line; /* CODE: the line to show; NULL: none */
};

/* Names each stack once, when it is asked for: 24 bytes a stack. */
struct ky_wake_name {
	struct ky_wake_cause cause;
	bool is_made;
};

struct ky_wake_namer {
	const struct ky_trace *trace;
	const struct ky_code_stacks *code; /* NULL: nothing has a name */
	struct ky_wake_name *by_stack;
	uint32_t loop_kind; /* of what a worker's loop wakes; 0: not asked for yet */
	/* By task, the one descriptor that its exact I/O wakes are of; see ky_wake_descriptor().
	 * NULL: not asked for yet. */
	uint32_t *by_task;
};

/* Returns 0, -ENOMEM. */
int ky_wake_namer_make(struct ky_wake_namer *out, const struct ky_trace *trace,
		       const struct ky_code_stacks *code);
void ky_wake_namer_release(struct ky_wake_namer *namer);

struct ky_wake_cause ky_wake_namer_cause(struct ky_wake_namer *namer, const struct ky_wake *wake);
/* Of one wake. code NULL: nothing has a name. */
struct ky_wake_cause ky_wake_cause_of(const struct ky_code_stacks *code,
				      const struct ky_wake *wake);

/* Of one wake of that cause: the descriptor that became ready, where the driver's check brought its
 * event alone; KY_NONE. By a search in the worker's checks. */
uint32_t ky_wake_descriptor(const struct ky_trace *trace, const struct ky_wake *wake,
			    struct ky_wake_cause cause);
/* Where a check brought several events: the descriptor of all I/O wakes of its task that are exact,
 * if it is the same one. This is inferred: a task may have another that was never ready alone. The
 * first call walks over all wakes, and holds 4 bytes a task. KY_NONE: not known, or no memory. */
uint32_t ky_wake_inferred_descriptor(struct ky_wake_namer *namer, const struct ky_wake *wake);

/* Members "cause", "function" and "descriptor" of an object; of the last two what is known.
 * descriptor: KY_NONE. */
void ky_wake_cause_json(struct ky_buf *out, const struct ky_wake_cause *cause, uint32_t descriptor);

/* From where it was issued, which is known without names; NULL: not known. */
const char *ky_wake_origin_text(const struct ky_wake *wake);

/* "io", "timer", ...: keys of JSON and of tables. */
const char *ky_wake_kind_key(uint32_t kind);
/* "I/O", "a timer", ... : in a sentence after "woken by". */
const char *ky_wake_kind_text(uint32_t kind);

/* All wakes of a range, by cause, the line of it and the thread; the most first. */
struct ky_wake_group {
	struct ky_wake_cause cause;
	uint32_t tid; /* of a thread that is no worker; 0: of workers */
	uint64_t count;
};

struct ky_wake_causes {
	struct ky_wake_group *groups;
	uint32_t group_count;
	uint64_t counts[KY_WAKE_KINDS], all;
};

/* code NULL: by what is known without names. Returns 0, -ENOMEM. */
int ky_wake_causes_make(struct ky_wake_causes *out, const struct ky_trace *trace,
			const struct ky_code_stacks *code, uint64_t from_ns, uint64_t to_ns);
void ky_wake_causes_release(struct ky_wake_causes *causes);

#endif
