/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_image.h - how the ring file describes itself: the contract between a recording process and
 * all readers of its ring, alive or dead. Plain layouts; no code that runs in the host.
 *
 * File:   page 0      struct ky_ring_header, written once before `magic` is (release) published;
 *                     a `session` and no magic yet: made in advance, no process has recorded
 *         page 1      struct ky_ring_control: words that other processes may change
 *         side area   struct ky_ring_side at side_offset: marks, counters, the end of the process
 *         directory   directory_bytes: append-only entries (strings, threads, names, modules,
 *                     metadata)
 *         slots       slot_count sub-buffers of KY_SLOT_BYTES; struct ky_sub_buffer at the start of
 *                     each
 *         sample area sample_bytes: stacks (sample_area.h); sparse until a sampler starts
 *         place table place_bytes: where tasks wait (place_table.h); sparse
 *         resources   resource_bytes: what the process used, lately (resource_area.h); sparse
 *         unwind area unwind_bytes: who called whom (unwind_image.h); sparse
 *
 * Invariants:  a reader trusts nothing: every offset, count and id is checked against the file's
 *              size. Slots are claimed in the order of ky_ring_header.claim_index: claim n takes
 *              slot n % usable_count unless that one is open (then n is spent and n + 1 tried), so
 *              a drain reads only the claims since its last step and at the slots it knows to be
 *              open. usable_count shrinks at most once, when memory ran out, to a number no claim
 *              has reached: for all earlier n, n % usable_count = n.
 *              record_count counts every record of a thread, whatever its type; a THREAD_CHANGE is
 *              the first record of the thread it names. ordinal counts a continued sub-buffer, too.
 *              Records that were dropped (never written) are not in record_count: see
 *              dropped_count. Bytes below `published` of a slot never change while its `claim` word
 *              is the same. A record never crosses the end of a slot. Little-endian, 64-bit.
 *              Slots at or above `populated_count` have never been touched (sparse).
 */
#ifndef KY_WIRE_RING_IMAGE_H
#define KY_WIRE_RING_IMAGE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#define KY_RING_MAGIC UINT64_C(0x474e49524f4d594b) /* "KYMORING" */
#define KY_RING_VERSION 1u
#define KY_SLOT_BYTES 8192u
#define KY_SLOT_HEADER_BYTES 256u
#define KY_OPEN_DEPTH 4u
#define KY_DIRECTORY_BYTES_DEFAULT (1u << 20)
#define KY_STRING_BYTES_MAX 1024u
/* Rings of dead processes that are kept for the process that recovers them. */
#define KY_DEAD_RINGS_MAX 8u
#define KY_DEAD_RING_BYTES_MAX (UINT64_C(256) << 20) /* of memory they take, not of length */

enum ky_ring_flags {
	KY_RING_CLOCK_MONOTONIC = 1u << 0, /* ticks are CLOCK_MONOTONIC ns, not counter ticks */
	KY_RING_ANONYMOUS = 1u << 1,       /* memfd: dies with the process */
	KY_RING_FLIGHT = 1u << 2
};

enum ky_ring_state {
	KY_RING_LIVE = 1,
	KY_RING_CLOSED = 2 /* kymo_recorder_close ran: everything published is here */
};

/* A reading of the clocks between two readings of the counter. */
struct ky_clock_anchor {
	uint64_t ticks_before;
	uint64_t monotonic_ns;
	uint64_t ticks_after;
	uint64_t realtime_ns;
};

struct ky_ring_header {
	_Atomic uint64_t magic;
	uint32_t version;
	uint32_t page_bytes; /* of page 0 and page 1 */
	uint64_t file_bytes;
	uint64_t directory_offset;
	uint64_t directory_bytes;
	uint64_t slots_offset; /* multiple of KY_SLOT_BYTES */
	uint32_t slot_count;
	uint32_t slot_bytes; /* KY_SLOT_BYTES */
	uint32_t flags;      /* enum ky_ring_flags */
	uint32_t pid;
	uint64_t start_time_ticks; /* field 22 of /proc/PID/stat: distinguishes a reused pid */
	uint64_t session;          /* KYMO_SESSION of `kymo run`, 0 without */
	uint64_t ticks_per_second; /* nominal; readers interpolate between anchors */
	struct ky_clock_anchor open_anchor;
	char boot_id[40]; /* text of the kernel's boot_id, NUL-terminated */
	char service[64];
	char arch[16];
	char recorder_version[16];
	uint32_t uid;
	uint32_t reserved;
	uint64_t pid_namespace; /* inode of /proc/self/ns/pid, in which `pid` counts; 0 unknown */
	uint64_t side_offset;   /* multiple of 64; 0: there is none */
	uint64_t side_bytes;
	uint64_t sample_offset; /* multiple of the page; 0: there is none */
	uint64_t sample_bytes;
	uint64_t unwind_offset; /* multiple of the page; 0: there is none */
	uint64_t unwind_bytes;
	uint64_t place_offset; /* multiple of the page; 0: there is none */
	uint64_t place_bytes;
	uint64_t alloc_offset; /* multiple of the page; 0: there is none */
	uint64_t alloc_bytes;
	uint64_t resource_offset; /* multiple of the page; 0: there is none */
	uint64_t resource_bytes;

	/* Changing words, each on a line of its own. */
	_Alignas(64) _Atomic uint64_t claim_index;    /* next claim number */
	_Alignas(64) _Atomic uint64_t directory_used; /* release-published bytes of the directory */
	_Atomic uint64_t directory_overflow_count;    /* entries refused because it was full */
	_Alignas(64) _Atomic uint64_t dropped_count;  /* events dropped, all threads and causes */
	_Atomic uint64_t dropped_signal_count;
	_Atomic uint64_t dropped_no_slot_count;
	_Atomic uint64_t dropped_no_state_count;
	_Atomic uint64_t dropped_exited_count;
	_Atomic uint64_t fork_disarmed_count; /* children that started disarmed */
	_Alignas(64) _Atomic uint32_t state;  /* enum ky_ring_state */
	_Atomic uint32_t populated_count;     /* slots whose pages exist */
	/* slots the claim index goes round; < slot_count when memory ran out */
	_Atomic uint32_t usable_count;
	_Atomic uint32_t thread_count;
	/* 1 << enum ky_sample_class: the pages of its samples and of the head exist (release) */
	_Atomic uint32_t sample_classes;
	/* 1 (release): the head of the unwind area exists; before, no page of it may be touched */
	_Atomic uint32_t unwind_ready;
	_Atomic uint32_t place_ready; /* 1 (release): the place table is there (place_table.h) */
	_Atomic uint32_t alloc_ready; /* the same of the table of allocations (alloc_table.h) */
	/* 1 (release): the head of the resource area is there (resource_area.h) */
	_Atomic uint32_t resource_ready;
	/* Where the file is mapped in its process: its pages there are none of the program's own.
	 * 0: not known. */
	_Atomic uint64_t mapped_address;
};

#define KY_SETTING_OFF UINT32_MAX /* where 0 is "as it was started" */

/* What the process that drains or watches this ring shall do; 0 everywhere: as it was started.
 * Written by `kymo set` or the owner, read once a step. A writer makes `generation` odd, writes,
 * makes it even again; a reader that sees it odd or changed keeps what it had. What was left odd is
 * taken over by the next writer, which adds two: a writer that finds it changed by others begins
 * anew. Who writes a single word adds two after it. */
struct ky_ring_settings {
	_Atomic uint32_t generation;
	_Atomic uint32_t mode; /* enum ky_ring_mode */
	/* Polls at least so long are written, others counted; 1: all, whatever the start said. */
	_Atomic uint64_t poll_threshold_ns;
	_Atomic uint64_t wake_threshold_ns; /* wakes whose poll came at least so much later */
	/* Events a second per enum ky_retain_kind; 0: as it was started, UINT32_MAX: all. */
	_Atomic uint32_t throttle[8];
	_Atomic uint64_t blocking_threshold_ns; /* blocking runs at least so long */
	/* Samples per second of a thread's CPU time; UINT32_MAX: none. */
	_Atomic uint32_t sample_hz;
	/* Between readings of the process's resources; UINT32_MAX: none. */
	_Atomic uint32_t resource_ms;
	_Atomic uint64_t span_threshold_ns; /* spans at least so long */
	/* Bytes per sample of an allocation, on average; 0: as it was started. */
	_Atomic uint64_t alloc_bytes;
	/* Open again when a recording that was stopped continues. */
	_Atomic uint32_t stopped_gates;
	/* CLOCK_MONOTONIC since when nothing is recorded, sampled or read, so that the ring
	 * keeps what it holds; 0: it records. */
	_Atomic uint64_t stopped_ns;
};

static inline uint64_t ky_settings_stopped_ns(const struct ky_ring_settings *settings)
{
	return atomic_load_explicit(&settings->stopped_ns, memory_order_relaxed);
}

/* Nothing forgets which gates were open, wherever the process that stops it is killed: they are
 * there before it counts as stopped, and the caller shuts them afterwards. False: it has stopped
 * already. */
static inline bool ky_settings_note_stop(struct ky_ring_settings *settings, uint32_t gates,
					 uint64_t now_ns)
{
	if (ky_settings_stopped_ns(settings))
		return false;
	atomic_store_explicit(&settings->stopped_gates, gates, memory_order_relaxed);
	atomic_store_explicit(&settings->stopped_ns, now_ns, memory_order_release);
	return true;
}

static inline uint32_t ky_settings_sample_hz(const struct ky_ring_settings *settings)
{
	return ky_settings_stopped_ns(settings) ?
		       KY_SETTING_OFF :
		       atomic_load_explicit(&settings->sample_hz, memory_order_relaxed);
}

static inline uint32_t ky_settings_resource_ms(const struct ky_ring_settings *settings)
{
	return ky_settings_stopped_ns(settings) ?
		       KY_SETTING_OFF :
		       atomic_load_explicit(&settings->resource_ms, memory_order_relaxed);
}

enum ky_ring_mode {
	KY_RING_MODE_AS_OPENED = 0,
	KY_RING_MODE_STREAM = 1,
	KY_RING_MODE_FLIGHT = 2
};

enum ky_retain_kind {
	KY_RETAIN_POLL = 0,
	KY_RETAIN_WAKE = 1,
	KY_RETAIN_PARK = 2,
	KY_RETAIN_DRIVER = 3,
	KY_RETAIN_BLOCKING = 4,
	KY_RETAIN_MARK = 5,
	KY_RETAIN_CUSTOM = 6,
	KY_RETAIN_SPAN = 7,
	KY_RETAIN_COUNT = 8
};

/* Page 1, mapped over kymo_control in the host. The first word is kymo_control.gates. */
struct ky_ring_control {
	_Atomic uint32_t gates;
	/* Rung by the process that changed the settings: incremented, then FUTEX_WAKE (not
	 * private). The thread of a process that drains itself sleeps on it and has no other
	 * wake-up. */
	_Atomic uint32_t bell;
	/* 1: threads of the program may make the system calls that readings take */
	_Atomic uint32_t may_call;
	/* The recorder process leaves CPU samples to the process, which takes so many a second of
	 * each thread's CPU time; 0: it takes them itself, or as the process was started. */
	_Atomic uint32_t own_sample_hz;
	uint32_t reserved[12];
	_Alignas(64) struct ky_ring_settings settings;
};

#define KY_MARKS 64u
#define KY_MARK_TEXT_BYTES 104u
#define KY_COUNTERS 64u
#define KY_COUNTER_NAME_BYTES 48u
#define KY_COUNTER_INDEX_BITS 6 /* KY_COUNTERS */
#define KY_COUNTER_SAMPLES 1024u
#define KY_SPANS 1024u /* entry 0 stays empty */
#define KY_CRASH_STACK_BYTES 16384u
#define KY_CRASH_REGISTERS 32u

/* A label put here from outside. Mark n lies at n % KY_MARKS; serial is n + 1 once the rest is
 * written (release), 0 while it is being written. */
struct ky_ring_mark {
	_Atomic uint64_t serial;
	uint64_t monotonic_ns;
	uint32_t text_bytes;
	uint32_t pid; /* who put it */
	char text[KY_MARK_TEXT_BYTES];
};

/* A number that the application keeps up to date; the name is written before `counter_count` covers
 * it (release) and never changes. */
struct ky_ring_counter {
	_Atomic uint64_t value;       /* two's complement */
	_Atomic uint64_t errors_flag; /* 1: counts errors (rule `errors`) */
	char name[KY_COUNTER_NAME_BYTES];
};

/* What a counter was at the end of one of its half or whole seconds (the largest power of two of
 * ticks in a second): written at each change, so the last one of them stays, with its moment. */
struct ky_ring_counter_sample {
	/* number + 1 << KY_COUNTER_INDEX_BITS | index of the counter (release); 0: being taken */
	_Atomic uint64_t serial;
	_Atomic uint64_t ticks;
	_Atomic uint64_t value;
};

/* An open span; ring_span.h reads it. */
struct ky_ring_span {
	_Atomic uint64_t word; /* id << 24 | name; an id of 0: none. Written after begin_ticks */
	_Atomic uint64_t begin_ticks;
};

enum ky_end_kind {
	KY_END_UNKNOWN = 0, /* no process waited for it */
	KY_END_EXIT = 1,    /* code: exit status */
	KY_END_SIGNAL = 2   /* code: signal number */
};

/* How is it known that the kernel killed it for lack of memory? */
enum ky_end_oom {
	KY_OOM_NONE = 0,
	KY_OOM_NAMED = 1,  /* the kernel's log names it */
	KY_OOM_COUNTED = 2 /* its cgroup counted such a kill when it ended by SIGKILL */
};

/* How the process ended, by the one who waited for it. kind is written last (release). */
struct ky_ring_end {
	_Atomic uint32_t kind; /* enum ky_end_kind */
	uint32_t code;
	uint32_t has_core; /* 1: a core was dumped */
	uint32_t oom;      /* enum ky_end_oom */
	uint64_t monotonic_ns;
};

/* What rules have done so far, from the process that watches: so that each trace reports it.
 * Numbers, each whole by itself. */
struct ky_ring_watched {
	_Atomic uint64_t fired, held_back; /* let through; kept from that by cooldown or budget */
	/* Of held_back: reported by no firing's dump, and those of them that the budget kept. */
	_Atomic uint64_t unreported, untold_over_budget;
	_Atomic uint64_t undumped; /* fired, and there is no dump */
};

/* Intervals between two checks of the rules, by the same process, that a poll over a threshold may
 * have begun and ended in unseen. */
struct ky_ring_unwatched {
	_Atomic uint64_t late_count; /* checks that came too late */
	_Atomic uint64_t ns;         /* since the ones before them, in all */
};

/* What the process that streams this ring has counted as lost so far, beside what was dropped. */
struct ky_ring_lost {
	_Atomic uint64_t records; /* overwritten before they were read, or refused by the store */
	_Atomic uint64_t samples; /* of all kinds, by their sources, too */
};

/* Recorded by the handler of a fatal signal; state is written last (release). */
struct ky_ring_crash {
	_Atomic uint32_t state; /* 0 none, 1 being written, 2 whole */
	uint32_t signal;
	int32_t code; /* si_code */
	uint32_t tid;
	uint64_t address; /* si_addr */
	uint64_t monotonic_ns;
	uint64_t ticks;
	uint64_t pc, sp, fp;
	uint32_t register_count; /* in the order of the architecture's ucontext */
	uint32_t stack_bytes;    /* copied from sp upwards; 0 where sp was not mapped yet */
	uint64_t registers[KY_CRASH_REGISTERS];
	uint8_t stack[KY_CRASH_STACK_BYTES];
};

#define KY_DRAINED_CHUNKS 64u
#define KY_DRAINED_PATH_BYTES 512u

/* How far the process that streams this ring has got: should it be killed, the rest of the ring
 * continues what it left on disk. Chunk n of the stream lies at n % KY_DRAINED_CHUNKS, written
 * before the chunk is: the last one that is found on disk says where to continue. */
struct ky_ring_drained {
	_Atomic uint64_t chunk_claim_index; /* chunks reported so far (release) */
	struct {
		_Atomic uint64_t last_ns;    /* of its events */
		_Atomic uint64_t last_ticks; /* of its records */
		_Atomic uint64_t last_ties;  /* records of that stamp reported so far */
	} chunks[KY_DRAINED_CHUNKS];
	_Atomic uint32_t path_bytes; /* written last (release); 0: no process streams */
	/* The segment of that run in which a recovery writes the rest, + 1: noted before it has its
	 * name, so that the next recovery knows it. 0: none. */
	_Atomic uint32_t rest_plus_1;
	char path[KY_DRAINED_PATH_BYTES]; /* absolute: run directory, or the file */
};

struct ky_ring_side {
	_Alignas(64) _Atomic uint64_t mark_claim_index; /* next mark number */
	_Atomic uint32_t counter_count;
	_Atomic uint32_t counters_refused; /* registrations that found no room */
	_Alignas(64) struct ky_ring_end end;
	struct ky_ring_watched watched; /* on the same line */
	_Alignas(64) struct ky_ring_counter counters[KY_COUNTERS];
	_Alignas(64) struct ky_ring_mark marks[KY_MARKS];
	_Alignas(64) struct ky_ring_crash crash;
	_Alignas(64) struct ky_ring_drained drained;
	_Alignas(64) struct ky_ring_span spans[KY_SPANS];
	_Alignas(64) _Atomic uint64_t
		counter_sample_index; /* samples begun; n lies at n % their count */
	struct ky_ring_counter_sample counter_samples[KY_COUNTER_SAMPLES];
	_Alignas(64) struct ky_ring_unwatched unwatched; /* zeros in rings of earlier recorders */
	struct ky_ring_lost lost;                        /* on the same line; the same */
};

/* State of a slot: bits 0..2 of its claim word; the rest is claim number + 1 (0: never claimed). */
enum ky_slot_state {
	KY_SLOT_FREE = 0,
	KY_SLOT_FILLING = 1, /* claimed, header not yet written */
	KY_SLOT_OPEN = 2,    /* a thread writes here */
	KY_SLOT_CLOSED = 3,
	/* its thread exited with room left; the next new thread continues it */
	KY_SLOT_PARKED = 4
};
#define KY_CLAIM_STATE_BITS 3
#define KY_CLAIM_STATE(claim) ((uint32_t)((claim)&7u))
#define KY_CLAIM_NUMBER(claim) ((claim) >> KY_CLAIM_STATE_BITS)

struct ky_open_poll {
	_Atomic uint64_t task_word;
	_Atomic uint64_t begin_ticks;
};

struct ky_sub_buffer {
	/* hot: same bytes as struct kymo_sub_buffer_hot in include/kymo/emit.h */
	_Atomic uint32_t published; /* & (KY_SLOT_BYTES - 1) = offset after the last record */
	/* bit 0 busy; bits 8..15 open polls (may exceed KY_OPEN_DEPTH) */
	_Atomic uint32_t state;
	uint64_t reserved; /* scratch, as is the slot's last word: makes the page exist */
	struct ky_open_poll open[KY_OPEN_DEPTH];
	/* identity: written while KY_SLOT_FILLING; a thread change rewrites nothing here, it is a
	 * record */
	_Atomic uint64_t claim; /* claim number + 1 << 3 | enum ky_slot_state */
	uint32_t tid;           /* of the claiming thread */
	uint32_t thread;        /* its index in the directory */
	uint64_t ordinal;       /* this is the thread's n-th sub-buffer, from 0 */
	uint64_t record_count;  /* records the thread had written before this sub-buffer */
	uint64_t start_ticks;   /* full stamp that the 40-bit stamps of the records stand on */
	struct ky_clock_anchor anchor;
	uint32_t gates;         /* gates when it was claimed */
	uint32_t carried_depth; /* open polls carried over, valid entries: min(depth, 4) */
	/* as they stood at the claim; open[] moves on */
	struct ky_open_poll carried[KY_OPEN_DEPTH];
	/* The words of the thread's last WORKER_BEGIN before the claim, so that a cut knows whose
	 * worker it is although that record is long gone; zeros: it is none. With worker_runtime
	 * alone: those of its last RUNTIME. */
	uint64_t worker_task;
	uint64_t worker_runtime;
	uint64_t worker_identity;
	uint64_t parked_on; /* the word of its last PARKED_ON since then; 0: none */
};

/* Directory entries: 8-byte aligned, each a struct ky_entry and payload_bytes of payload,
 * zero-padded. */
enum ky_entry_kind {
	KY_ENTRY_STRING = 1, /* id; payload: text. hash: FNV-1a 64 of the uncut text */
	KY_ENTRY_THREAD = 2, /* id = thread index; payload: struct ky_entry_thread + comm text */
	KY_ENTRY_NAME = 3,   /* id = name id; payload: struct ky_entry_name + text */
	/* id = module number; payload: struct ky_entry_module + build id + path */
	KY_ENTRY_MODULE = 4,
	KY_ENTRY_MODULE_GONE = 5, /* id = module number; payload: u64 ticks */
	KY_ENTRY_RUNTIME = 6,     /* payload: struct ky_entry_runtime + name text */
	KY_ENTRY_METADATA = 7, /* payload: u32 key_bytes, key, value; the last one of a key wins */
	KY_ENTRY_THREAD_EXIT = 8, /* id = thread index; payload: u64 ticks */
	KY_ENTRY_SCHEMA = 9       /* id = schema id; payload: event_schema.h */
};

struct ky_entry {
	uint16_t kind;          /* enum ky_entry_kind; readers skip kinds they do not know */
	uint16_t flags;         /* bit 0: text was cut */
	uint32_t payload_bytes; /* without padding */
	uint32_t id;
	uint32_t reserved;
	uint64_t hash;
};

struct ky_entry_thread {
	uint32_t tid;
	uint32_t reserved;
	uint64_t start_ticks;
};

struct ky_entry_name {
	uint64_t code_address; /* absolute in the process; 0 when the text is the name */
	uint64_t table_address;
	uint32_t copy;
	uint32_t text_bytes;
};

struct ky_entry_module {
	uint64_t start; /* mapped range, end exclusive */
	uint64_t end;
	uint64_t load_bias;   /* address = bias + virtual address in the file */
	uint64_t file_offset; /* of the first mapped byte */
	uint64_t from_ticks;
	uint32_t build_id_bytes; /* <= 32 */
	uint32_t path_bytes;
};

struct ky_entry_runtime {
	uint64_t runtime; /* the adapter's key */
	uint32_t kind;    /* enum kymo_runtime_kind */
	uint32_t copy;
};

_Static_assert(sizeof(struct ky_sub_buffer) <= KY_SLOT_HEADER_BYTES,
	       "records start at a fixed offset");
_Static_assert(offsetof(struct ky_sub_buffer, claim) == 80, "the hot part is 80 bytes");
_Static_assert(sizeof(struct ky_ring_header) <= 4096, "page 0 is one page");
_Static_assert(sizeof(struct ky_ring_control) <= 4096, "page 1 is one page");
_Static_assert(sizeof(struct ky_ring_side) <= 98304, "the side area is small");
_Static_assert(sizeof(struct ky_entry) == 24, "directory entries are 8-byte aligned");

/* Turns a name of the directory into text. entry->text_bytes of 0 means: only code is known.
 * Returns bytes written (<= capacity), 0 when unknown (the drain writes module+offset itself). */
typedef size_t (*ky_name_fn)(void *ctx, const struct ky_entry_name *entry, char *out,
			     size_t capacity);

#endif
