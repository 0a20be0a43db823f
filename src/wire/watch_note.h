/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* watch_note.h - what a watchdog has seen and what a drain has summed up: the plain structures that
 * go between them, and into a trace. No code.
 */
#ifndef KY_WIRE_WATCH_NOTE_H
#define KY_WIRE_WATCH_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#define KY_STUCK_FRAMES_MAX 128u

/* What a thread with a poll open too long was doing at a check. */
struct ky_stuck_note {
	uint64_t monotonic_ns;
	uint64_t task, begin_ns;
	uint32_t tid;
	char state;      /* R, S, D, T ... of /proc/PID/task/TID/stat; '?' unreadable */
	int32_t syscall; /* number; -1 running, -2 unreadable */
	uint64_t pc, sp; /* 0: unreadable or running */
	char wchan[32];  /* "0" or empty: not waiting, or hidden */
	/* What the kernel has counted for it since it began; not where that cannot be read. */
	bool has_counts;
	uint64_t cpu_ns, run_delay_ns;
	/* Its stack, where it stood still while that was read; else none. */
	uint16_t frame_count;
	uint16_t guessed_count; /* frames found by a frame pointer, or by a search for one */
	bool is_truncated;      /* the thread's first frame was not reached */
	uint64_t frames[KY_STUCK_FRAMES_MAX]; /* the leaf first; callers: return address - 1 */
};

/* What the kernel has counted for a thread since it began. */
struct ky_thread_cpu {
	uint64_t monotonic_ns;
	uint32_t tid;
	bool has_switches;
	uint64_t cpu_ns, run_delay_ns;
	uint64_t voluntary, involuntary; /* switches */
};

#define KY_TRIGGER_TEXT_BYTES 96u

/* A rule that fired, as the trace reports it. */
struct ky_trigger_note {
	uint64_t monotonic_ns;
	uint64_t value, threshold; /* in `unit` */
	uint64_t task;             /* 0: of no task */
	uint32_t tid;              /* 0: of no thread */
	char unit[16];             /* "ns", "bytes", "percent", "tasks", "" ... */
	char rule[KY_TRIGGER_TEXT_BYTES];
	uint64_t suppressed_count; /* firings held back since the last one */
	uint64_t late_count;       /* checks that came too late since then */
};

/* What the events say since the last reading, from a drain (drain.h: ky_drain_watch). */
struct ky_event_sums {
	bool is_known;
	uint64_t wake_delay_max_ns, wake_delay_task; /* of the polls begun */
	uint64_t ready_count, alive_count;           /* now */
	uint64_t span_max_ns, span_max_word;         /* of the spans ended; id << 24 | name */
};

#endif
