/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* recorder.h - opening and closing the one recorder of a process, and naming things.
 *
 * Invariants:  at most one recorder is open in a process; the ring file exists from the first event
 *              on (or from open, with KYMO_RECORDER_EAGER) and is removed by close, or with
 *              KYMO_RECORDER_NO_DRAIN by the process that drains it; a process that ends without
 *              close leaves it in memory. A forked child starts disarmed until it calls
 *              kymo_recorder_reopen().
 * Environment: read once. Where the options say nothing: KYMO_SERVICE, KYMO_RING_DIR, KYMO_SAMPLE,
 *              KYMO_SWITCHES, KYMO_RESOURCES, KYMO_ALLOC, KYMO_SAMPLE_BYTES. Always:
 *              with KYMO_RECORDER_NO_DRAIN KYMO_SESSION (hex, kept in the ring's header: `kymo run`
 *              then drains it); KYMO_CLOCK=monotonic to do without
 *              the CPU's counter; KYMO_TRIGGERS: rules beside those of the options; KYMO_GATES
 *              (hex, enum kymo_gate): what is recorded after the first event.
 * Memory:      the ring (ring_bytes) plus at most 2 MiB in flight mode or without a thread of our
 *              own, 8 MiB while streaming; 4 MiB where switches are recorded; a copy of the ring
 *              while a dump is made.
 * Thread:      without KYMO_RECORDER_NO_DRAIN one, "kymo-drain", nice +10, all signals blocked. In
 *              flight mode it sleeps until there is a request or a rule to check; where switches
 *              are recorded, some 150 ms while the program works.
 * Threads:     setup-only unless stated.      Signals: unsafe unless stated.
 */
#ifndef KYMO_RECORDER_H
#define KYMO_RECORDER_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kymo_recorder;

enum kymo_recorder_flags {
	KYMO_RECORDER_NO_DRAIN = 1u << 0, /* another process drains the ring: start no thread */
	KYMO_RECORDER_EAGER = 1u << 1,    /* create the ring file in open, not at the first event */
	/* Stream mode: write all events. Without it: flight mode, events stay in the ring until a
	 * dump (dump.h). kymo_recorder_mode() and `kymo set` change it. */
	KYMO_RECORDER_STREAM = 1u << 2,
	/* Make the ring file in open and leave it aside until the first event, which then needs no
	 * path, no rights and no unusual system call. Of a process and its children that have not
	 * recorded yet, the first one to record gets it; the others make their own. */
	KYMO_RECORDER_PREPARED = 1u << 3,
	/* Leave a record in the ring when a fatal signal ends the process (fatal.h). */
	KYMO_RECORDER_FATAL_SIGNALS = 1u << 4
};

enum kymo_recorder_mode {
	KYMO_MODE_STREAM = 1, /* the recorder process writes all events */
	KYMO_MODE_FLIGHT = 2  /* events stay in the ring until a dump */
};

#define KYMO_SAMPLE_OFF UINT32_MAX

enum kymo_switches {
	KYMO_SWITCHES_ON = 1,
	KYMO_SWITCHES_OFF = 2
};

enum kymo_compression {
	KYMO_COMPRESSION_DEFAULT = 0, /* zstd where the build has it, else none */
	KYMO_COMPRESSION_NONE = 1,
	KYMO_COMPRESSION_ZSTD = 2,
	KYMO_COMPRESSION_GZIP = 3
};

struct kymo_key_value {
	const char *key; /* UTF-8, at most 255 bytes; "service", "host", "pid" and names with a dot
			    * that kymo itself writes are refused */
	const char *value; /* UTF-8, at most 1,024 bytes */
};

/* Takes count bytes of a trace, in order. Returns 0, or a negative error that ends the trace. */
typedef int (*kymo_write_fn)(void *ctx, const uint8_t *bytes, size_t count);

struct kymo_recorder_options {
	size_t size;                 /* sizeof(struct kymo_recorder_options) */
	const char *service;         /* NULL: name of the executable */
	const char *ring_directory;  /* NULL: /dev/shm/kymo-UID */
	const char *trace_directory; /* NULL: ./kymo-traces; used by the drain thread */
	uint64_t ring_bytes;         /* 0: 32 MiB; 128 KiB .. 4 GiB, rounded up to 64 KiB */
	uint32_t flags;              /* enum kymo_recorder_flags */
	uint32_t gates;              /* 0: KYMO_GATES_DEFAULT; enum kymo_gate */
	uint64_t segment_bytes_max;  /* 0: 64 MiB, before compression */
	uint64_t rotate_interval_ns; /* 0: 60 s */
	uint64_t total_bytes_max;    /* 0: 1 GiB, bytes on disk of all segments of this service */
	uint32_t compression;        /* enum kymo_compression */
	int32_t compression_level;   /* 0: the compression's default here: zstd 1, gzip 1 */
	const struct kymo_key_value *metadata; /* metadata_count pairs copied into every segment */
	size_t metadata_count;                 /* at most 64 */
	char *errbuf; /* NULL, or errbuf_bytes for one sentence when open fails */
	size_t errbuf_bytes;
	/* NULL: segments below trace_directory. Else one file without rotation, whose name ends in
	 * .trc, .trc.zst or .trc.gz and says the compression. What stood there becomes NAME.old;
	 * total_bytes_max, at least 1 MiB, ends the file (0: no bound), which then records what is
	 * missing; segment_bytes_max and rotate_interval_ns must be 0. A child that calls
	 * kymo_recorder_reopen() writes NAME with its pid before the ending. */
	const char *trace_file;
	/* Not NULL: what is streamed goes to this function instead of to disk, on the library's
	 * thread; an error ends the stream. trace_file must be NULL then. */
	kymo_write_fn write;
	void *write_ctx;
	const char *dump_directory; /* NULL: trace_directory; where dumps go that name no place */
	/* How far back the ring should reach. ring_bytes bounds it; where that is too little, each
	 * dump says what was reached and which size would do. */
	uint64_t age_min_ns;
	const char *triggers; /* rules that make dumps (dump.h: kymo_trigger_add), or NULL */
	uint64_t session;     /* not 0: in the ring's header, in place of KYMO_SESSION */
	/* 0: 2 MiB; 64 KiB .. 256 MiB, for stacks beside ring_bytes. Takes no memory before
	 * something is sampled. */
	uint64_t sample_bytes;
	/* Stack samples per second of a thread's CPU time, 1 .. 1000; 0: KYMO_SAMPLE of the
	 * environment, else none. By perf_event, from the recorder's own thread; where that is
	 * refused, under a filter of system calls, as in most containers, or where
	 * KYMO_RECORDER_NO_DRAIN leaves no such thread, by CPU-time timers and SIGPROF, in every
	 * thread that records or is found in /proc, but not in a program with a handler of its own
	 * for SIGPROF.
	 * KYMO_SAMPLE_OFF: none, with any environment. */
	uint32_t sample_hz;
	/* Between readings of resources (CPU, memory, cgroup, accept queues, descriptors),
	 * in milliseconds, at least 1,000; 0: KYMO_RESOURCES of the environment, a number or "off",
	 * else 1,000 while it streams and 10,000 in flight mode; UINT32_MAX: none. */
	uint32_t resource_interval_ms;
	/* With KYMO_GATE_ALLOC in gates: one of so many allocated bytes is sampled (alloc.h),
	 * 1 KiB .. 1 GiB; 0: KYMO_ALLOC of the environment, else 512 KiB. */
	uint64_t alloc_bytes;
	/* enum kymo_switches: when threads were off CPU inside a poll, by perf_event's
	 * records of context switches, read by the recorder's own thread in windows that take 0.3 %
	 * of a CPU at most, while KYMO_GATE_OFF_CPU is open; nothing runs in the program's
	 * threads. Beside sample_hz 512 descriptors in all, and a quarter of what the process may
	 * have, at most: one for each CPU and thread that exists when it begins, and 64 files of
	 * /proc. None with KYMO_RECORDER_NO_DRAIN: the recorder process may read them. 0:
	 * KYMO_SWITCHES of the environment, "on" or "off", else none. */
	uint32_t switches;
};

#define KYMO_RECORDER_OPTIONS_INIT                                                                 \
	{                                                                                          \
		sizeof(struct kymo_recorder_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
			0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                         \
	}

/* Opens the recorder of this process.
 *
 * out      set to NULL first
 * options  NULL: all defaults
 * Returns  0; -E2BIG unknown trailing option bytes; -EINVAL; KYMO_E_ACTIVE; -errno of the ring file
 *          or the drain thread. On failure nothing is left and events stay free of cost.
 * Owner    the caller closes it with kymo_recorder_close().
 * Since    0.1
 */
KYMO_API int kymo_recorder_open(struct kymo_recorder **out,
				const struct kymo_recorder_options *options);

/* Streaming: drains what is published and seals the segment. Makes the dumps that are waiting,
 * stops the thread, removes the ring file: in flight mode its contents are lost, unless they
 * were dumped before. With KYMO_RECORDER_NO_DRAIN the file stays, marked closed: the process that
 * drains it removes it.
 * Threads may still emit: their events are counted as dropped. close(NULL) is fine.
 *
 * Returns  0, or the first error the drain met while writing (the trace then says what is missing);
 *          -EDEADLK and nothing is closed where a callback of the recorder's own thread calls it.
 * Since    0.1
 */
KYMO_API int kymo_recorder_close(struct kymo_recorder *recorder);

/* Arms the recorder again in a forked child, with a ring of its own and the parent's options.
 * Returns  0; KYMO_E_CLOSED when this process never had one; -errno.
 * Since    0.1
 */
KYMO_API int kymo_recorder_reopen(void);

/* Changes between stream and flight mode while running; overrides `kymo set`.
 * A change to flight mode seals the segment. A stream begins with what the ring holds, or, where
 * there was a stream before, after its last record: no event is written twice, and what the ring
 * overwrote in flight mode is a LossEvent `flight`.
 *
 * mode     enum kymo_recorder_mode
 * Returns  0; -EINVAL; KYMO_E_CLOSED: nothing is open in this process.
 * Threads  any; takes a lock.      Since 0.1
 */
KYMO_API int kymo_recorder_mode(uint32_t mode);

/* Opens and closes gates while running. set, clear: enum kymo_gate; clear wins.
 * Threads any.      Signals safe.      Since 0.1
 */
KYMO_API void kymo_recorder_gates(uint32_t set, uint32_t clear);

/* The program is about to put itself under a filter of system calls: from now on the recorder makes
 * only calls that no thread can do without. A ring that does not exist yet is not made any more.
 * Threads any.      Signals safe.      Since 0.1
 */
KYMO_API void kymo_recorder_confine(void);

/* The calling thread's name from now on, cut at 15 bytes; spares the recorder the question when the
 * thread records first. Signals safe. Since 0.1 */
KYMO_API void kymo_thread_name(const char *name);

/* What the recorder has done so far. */
struct kymo_recorder_status {
	size_t size;
	uint32_t is_armed;
	uint32_t threads; /* that have recorded */
	uint64_t sub_buffers_claimed;
	uint64_t dropped_count;   /* events not recorded, all causes */
	uint64_t directory_bytes; /* of the string and name area, used */
	uint64_t directory_bytes_max;
	uint64_t segments_sealed;
	uint64_t bytes_written;
	int32_t last_error;        /* of the drain; 0 when none */
	char ring_path[256];       /* empty for an anonymous ring */
	uint64_t counters_refused; /* registrations beyond the table, since the process began */
	uint32_t mode;             /* enum kymo_recorder_mode, as it is now */
	uint32_t dumps_waiting;
	uint64_t dumps_made, dumps_failed;
	uint64_t dumps_refused; /* too many were waiting */
	uint64_t triggers_fired, triggers_suppressed;
	uint64_t wakeups; /* of the library's thread */
};

/* Fills what out->size has room for; the caller sets it first.
 *
 * Returns  0, also when nothing is open (is_armed is 0 then); -EINVAL: no out, or no size.
 * Threads  any; takes a lock.      Since 0.1
 */
KYMO_API int kymo_recorder_status(struct kymo_recorder_status *out);

/* A string's id, for kymo_mark() and custom events. text: UTF-8, cut at 1,024 bytes (the entry then
 * carries a hash of the whole). Equal texts give equal ids.
 *
 * Returns  the id; 0 when the directory is full (counted, said in the trace) or nothing is open.
 * Threads  any; takes a lock: not on the hot path.      Since 0.1
 */
KYMO_API uint32_t kymo_string_intern(const char *text, size_t text_bytes);

/* A name's id for kymo_poll_begin() and related functions.
 *
 * text          UTF-8 spawn place or future type; NULL when only code is known
 * code_address  address of a function in this process that offline tools can turn into the type, or
 *               0; table_address likewise of the dispatch table it stands in
 * copy          number of the runtime copy this belongs to; 0 .. 31
 * Returns  an id below 2^24; 0 when the directory is full or nothing is open.
 * Threads  any; takes a lock.      Since 0.1
 */
KYMO_API uint32_t kymo_name_intern(const char *text, size_t text_bytes, uint64_t code_address,
				   uint64_t table_address, uint32_t copy);

/* Says what a runtime key of kymo_worker_begin() is. name "" when unnamed.
 * Threads any; takes a lock. Since 0.1 */
enum kymo_runtime_kind {
	KYMO_RUNTIME_UNKNOWN = 0,
	KYMO_RUNTIME_MULTI_THREAD = 1,
	KYMO_RUNTIME_CURRENT_THREAD = 2,
	/* no runtime: its tasks are polled inside another's block_on and make no worker */
	KYMO_RUNTIME_LOCAL_SET = 3
};
KYMO_API void kymo_runtime_describe(uint64_t runtime, const char *name, uint32_t kind,
				    uint32_t copy);

/* Reads the loader's list again: call it after dlopen() and dlclose(), so that addresses of the
 * new code get names. Cheap when nothing changed. Threads any; takes locks, the loader's too. Since
 * 0.1 */
KYMO_API void kymo_modules_refresh(void);

/* Adds one metadata pair to the trace, now or later ("tokio.local_queue", "false"); the last value
 * of a key counts.
 *
 * key, value  as in struct kymo_key_value
 * Returns     0; -EINVAL: missing, empty, too long, or a key that only kymo writes;
 *             KYMO_E_LIMIT: the directory is full; KYMO_E_CLOSED: nothing is open.
 * Threads     any; takes a lock.      Since 0.1
 */
KYMO_API int kymo_metadata_set(const char *key, const char *value);

#ifdef __cplusplus
}
#endif

#endif
