/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sample_area.h - the part of the ring file that keeps stacks: CPU samples, of time
 * off it, of memory, of await points. Plain layouts and the inline functions every writer needs.
 *
 * Area:   page 0      struct ky_sample_head
 *         then for each class its ring of cells, on pages of its own, where ky_sample_range() says:
 *         a function of the area's size alone, so no reader trusts an offset that it reads.
 *         A sample takes 1 to KY_SAMPLE_PARTS_MAX cells of consecutive claim numbers; claim n lies
 *         in cell n % cell_count of its class.
 *
 * Writers:     any thread, any signal handler, another process that maps the file. One atomic add
 *              claims cells and counts the sample. A cell is taken by making its serial odd: a
 *              writer that finds it taken by another one gives its own sample up. So no cell
 *              ever holds words of two writers, however long one of them was held up.
 * Readers:     trust nothing: copy a cell, read its serial again. Samples are numbered, so what
 *              is missing is counted exactly, whatever lost it.
 * Frames:      48 bits each, little-endian, sign-extended by the reader (kernel addresses). The
 *              leaf first, as it was interrupted; callers: the return address minus 1, so that
 *              every address lies inside the instruction that it names.
 * Memory:      sparse. The process that starts the first sampler of a class makes the pages of the
 *              head and of the class exist, and then sets the class's bit in
 *              ky_ring_header.sample_classes (release): no bit, no reading. No store here is ever
 *              the first touch of a page.
 */
#ifndef KY_WIRE_SAMPLE_AREA_H
#define KY_WIRE_SAMPLE_AREA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KY_SAMPLE_CELL_BYTES 256u
#define KY_SAMPLE_PARTS_MAX 6u
#define KY_SAMPLE_FRAME_BYTES 6u
#define KY_SAMPLE_PAGE_BYTES 4096u
#define KY_SAMPLE_BYTES_MIN (UINT64_C(64) << 10)
#define KY_SAMPLE_BYTES_DEFAULT (UINT64_C(2) << 20)
#define KY_SAMPLE_BYTES_MAX (UINT64_C(256) << 20)

enum ky_sample_class {
	KY_SAMPLES_CPU = 0,
	KY_SAMPLES_OFF_CPU = 1,
	KY_SAMPLES_MEMORY = 2,
	KY_SAMPLES_PLACE = 3, /* await points as they were captured */
	KY_SAMPLE_CLASSES = 4
};

/* In ky_ring_header.sample_classes, beside a bit a class: the page of heads is there. */
#define KY_SAMPLE_HEADS (1u << 31)

enum ky_sample_kind {
	KY_SAMPLE_VOID = 0,    /* given up; its number is missing */
	KY_SAMPLE_CPU = 1,     /* value: CPU ns it stands for; other: enum ky_sample_source */
	KY_SAMPLE_OFF_CPU = 2, /* value: duration ns; stamp: its end; more, other: call_facts.h */
	KY_SAMPLE_ALLOC = 3,   /* value: bytes asked for; more: address */
	KY_SAMPLE_FREE = 4,    /* value: bytes; more: address; other: stamp of its allocation */
	KY_SAMPLE_PLACE = 5,   /* value: task; more: inclusion probability, parts of 2^32 */
	/* 6 was a switch-out without a known end */
	KY_SAMPLE_SWITCHES = 7, /* times off CPU that the kernel reported: switch_sample.h */
	KY_SAMPLE_WAKER = 8     /* what a thread is called that ended some of them; there, too */
};

enum ky_sample_flags {
	KY_SAMPLE_STAMP_IS_NS = 1u << 0, /* CLOCK_MONOTONIC ns, else ticks of the ring's clock */
	KY_SAMPLE_TRUNCATED = 1u << 1,   /* the walk did not reach the thread's first frame */
	KY_SAMPLE_HAS_CPU = 1u << 2,     /* `cpu` is known */
	KY_SAMPLE_HAS_WAKER = 1u << 3,   /* SWITCHES: a frame more each, who ended it */
	KY_SAMPLE_HAS_STACK = 1u << 4    /* ... of one alone: after it the program's stack */
};

/* Why a thread did not run: OffCpuEvent.reason. */
enum ky_off_cpu {
	KY_OFF_CPU_UNKNOWN = 0,
	KY_OFF_CPU_SYSCALL = 1,
	KY_OFF_CPU_FUTEX = 2,
	KY_OFF_CPU_FAULT = 3,
	KY_OFF_CPU_PREEMPTED = 4
};

/* The first cell of a sample. */
struct ky_sample_cell {
	_Atomic uint64_t serial; /* (claim number + 1) * 2, odd: being written */
	uint8_t part;            /* 0 */
	uint8_t parts;           /* cells of this sample, 1..KY_SAMPLE_PARTS_MAX */
	uint8_t kind;            /* enum ky_sample_kind */
	uint8_t flags;           /* enum ky_sample_flags */
	uint32_t tid;            /* kernel thread id in the process's pid namespace */
	uint64_t stamp;
	uint64_t value;
	uint64_t more;
	uint64_t other;
	uint64_t task;   /* of the open poll, where the writer knows it; 0: the drain finds it */
	uint64_t weight; /* 1 / inclusion probability, parts of 2^32; 0: 1 */
	uint32_t number; /* of the sample in its class, modulo 2^24 */
	uint16_t cpu;    /* with KY_SAMPLE_HAS_CPU */
	int16_t syscall; /* number; -1 none or unknown */
	uint8_t frame_count; /* of all parts */
	uint8_t frames[KY_SAMPLE_CELL_BYTES - 73];
};

/* The second to last cells. */
struct ky_sample_more {
	_Atomic uint64_t serial;
	uint8_t part; /* 1.. */
	uint8_t parts;
	uint8_t kind;
	uint8_t reserved[5];
	uint8_t frames[KY_SAMPLE_CELL_BYTES - 16];
};

/* The last word of every cell is scratch of the process that makes its page exist. */
#define KY_SAMPLE_FRAMES_FIRST ((KY_SAMPLE_CELL_BYTES - 73u - 8u) / KY_SAMPLE_FRAME_BYTES)
#define KY_SAMPLE_FRAMES_MORE ((KY_SAMPLE_CELL_BYTES - 16u - 8u) / KY_SAMPLE_FRAME_BYTES)
#define KY_SAMPLE_FRAMES_MAX                                                                       \
	(KY_SAMPLE_FRAMES_FIRST + (KY_SAMPLE_PARTS_MAX - 1u) * KY_SAMPLE_FRAMES_MORE)

/* Where the samples of a class come from: metadata of the trace. */
enum ky_sample_source {
	KY_SOURCE_NONE = 0,
	KY_SOURCE_PERF = 1,     /* perf_event, drained from a ring */
	KY_SOURCE_TIMER = 2,    /* per-thread CPU-time timers */
	KY_SOURCE_CALLS = 3,    /* interposed calls */
	KY_SOURCE_WATCH = 4,    /* a watchdog's checks */
	KY_SOURCE_SWITCHES = 5, /* context-switch records of perf_event */
	KY_SOURCE_WAKES = 6,    /* ... and its records of wake-ups */
	KY_SOURCE_DELAY = 7,    /* ... and the kernel's count of time in the run queue */
	KY_SOURCE_COUNT
};

/* What a source cannot see. */
enum ky_sample_limits {
	KY_SAMPLE_NO_KERNEL = 1u << 0,      /* time in the kernel is not sampled at all */
	KY_SAMPLE_NO_KERNEL_CHAIN = 1u << 1 /* it is, without the kernel's frames */
};

#define KY_SAMPLE_CLAIM_BITS 40u
#define KY_SAMPLE_CLAIM(claim_index) ((claim_index) & ((UINT64_C(1) << KY_SAMPLE_CLAIM_BITS) - 1))
#define KY_SAMPLE_NUMBER_MASK 0xffffffu

/* How many samples the claims of a claim index are: at least so many, and exactly up to 2^24. */
static inline uint64_t ky_sample_count_min(uint64_t claim_index)
{
	uint64_t least = (KY_SAMPLE_CLAIM(claim_index) + KY_SAMPLE_PARTS_MAX - 1) /
			 KY_SAMPLE_PARTS_MAX;

	return least + (((claim_index >> KY_SAMPLE_CLAIM_BITS) - least) & KY_SAMPLE_NUMBER_MASK);
}

struct ky_sample_class_head {
	/* next claim number | samples claimed << KY_SAMPLE_CLAIM_BITS (modulo 2^24) */
	_Alignas(64) _Atomic uint64_t claim_index;
	/* samples that their source lost before they were claimed */
	_Alignas(64) _Atomic uint64_t lost_count;
	_Atomic uint32_t source;          /* 1 << enum ky_sample_source, of all that ran */
	_Atomic uint32_t rate_hz;         /* now; 0: paused, or not by rate */
	_Atomic uint32_t limits;          /* enum ky_sample_limits */
	_Atomic uint32_t threads_refused; /* threads that could not be sampled */
	_Atomic uint32_t refusals[KY_SOURCE_COUNT]; /* errno of a source that was tried in vain */
	/* Of the time, in millionths, that perf_event samples in windows; 0: always. */
	_Atomic uint32_t share_ppm;
	_Atomic uint32_t now; /* enum ky_sample_source that samples the CPU; NONE: not known */
	/* What made it so: switches a second, and what one more costs sampled by perf_event. */
	_Atomic uint32_t switches_per_s, switch_ns;
};

struct ky_sample_head {
	struct ky_sample_class_head classes[KY_SAMPLE_CLASSES];
};

_Static_assert(sizeof(struct ky_sample_cell) == KY_SAMPLE_CELL_BYTES, "a cell is a cell");
_Static_assert(sizeof(struct ky_sample_more) == KY_SAMPLE_CELL_BYTES, "a cell is a cell");
_Static_assert(sizeof(struct ky_sample_head) <= KY_SAMPLE_PAGE_BYTES - 8, "the head is a page");
_Static_assert(KY_SAMPLE_FRAMES_MAX < 256, "frame_count is a byte");

/* Which bytes of an area of `area_bytes` are the class's cells; whole pages. Half of it is the
 * CPU's, a quarter time off it. Returns the number of cells, 0: the area is too small. */
static inline uint32_t ky_sample_range(uint64_t area_bytes, uint32_t which, uint64_t *offset)
{
	static const uint8_t from[KY_SAMPLE_CLASSES + 1] = {0, 4, 6, 7, 8};
	uint64_t eighth;

	*offset = 0;
	if (area_bytes < KY_SAMPLE_BYTES_MIN || area_bytes > KY_SAMPLE_BYTES_MAX ||
	    which >= KY_SAMPLE_CLASSES)
		return 0;
	eighth = (area_bytes - KY_SAMPLE_PAGE_BYTES) / 8 / KY_SAMPLE_PAGE_BYTES *
		 KY_SAMPLE_PAGE_BYTES;
	*offset = KY_SAMPLE_PAGE_BYTES + from[which] * eighth;
	return (uint32_t)((from[which + 1] - from[which]) * eighth / KY_SAMPLE_CELL_BYTES);
}

static inline uint32_t ky_sample_parts(uint32_t frame_count)
{
	if (frame_count <= KY_SAMPLE_FRAMES_FIRST)
		return 1;
	return 1 + (frame_count - KY_SAMPLE_FRAMES_FIRST + KY_SAMPLE_FRAMES_MORE - 1) /
			   KY_SAMPLE_FRAMES_MORE;
}

/* ---- writing ---- */

struct ky_sample {
	uint8_t kind;
	uint8_t flags;
	uint16_t cpu;
	int16_t syscall;
	uint32_t tid;
	uint64_t stamp, value, more, other, task, weight;
	const uint64_t *frames;
	uint32_t frame_count; /* the leaf's end is kept when there are too many */
};

/* The cells of one class, where they are mapped. */
struct ky_sample_ring {
	struct ky_sample_class_head *head;
	uint8_t *cells;
	uint32_t cell_count; /* 0: there is none */
};

static inline _Atomic uint64_t *ky_sample_serial(const struct ky_sample_ring *ring, uint64_t claim)
{
	return (_Atomic uint64_t *)(void *)(ring->cells +
					    (claim % ring->cell_count) * KY_SAMPLE_CELL_BYTES);
}

/* Takes the cell for this claim. False: another writer is at it, or died at it: then no writer gets
 * it any more, for a writer that is held up, however many rounds, still writes when it
 * continues. */
static inline bool ky_sample_take(const struct ky_sample_ring *ring, uint64_t claim)
{
	_Atomic uint64_t *serial = ky_sample_serial(ring, claim);
	uint64_t was = atomic_load_explicit(serial, memory_order_relaxed);
	uint64_t ours = (claim + 1) * 2;

	do {
		if (was >= ours || (was & 1))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		serial, &was, ours | 1, memory_order_acquire, memory_order_relaxed));
	/* The words that follow must not be seen before the odd serial. */
	atomic_thread_fence(memory_order_release);
	return true;
}

/* words: the cell without its serial, as far as it is used. */
static inline void ky_sample_fill(const struct ky_sample_ring *ring, uint64_t claim,
				  const uint64_t *words, uint32_t word_count)
{
	_Atomic uint64_t *cell = ky_sample_serial(ring, claim);

	for (uint32_t i = 1; i < word_count; i++)
		atomic_store_explicit(&cell[i], words[i], memory_order_relaxed);
	atomic_store_explicit(cell, (claim + 1) * 2, memory_order_release);
}

/* Packs frames [from, from + count) into out. Returns the words used of a cell whose frames begin
 * at byte `at`. */
static inline uint32_t ky_sample_pack(uint8_t *out, uint32_t at, const uint64_t *frames,
				      uint32_t count)
{
	for (uint32_t i = 0; i < count; i++, at += KY_SAMPLE_FRAME_BYTES)
		memcpy(out + at, &frames[i], KY_SAMPLE_FRAME_BYTES);
	return (at + 7) / 8;
}

/* Puts a sample. Returns false when it was given up, which readers see by its number.
 * Threads any, any process.   Signals safe: no lock, no call, no wait. */
static inline bool ky_sample_put(const struct ky_sample_ring *ring, const struct ky_sample *sample)
{
	union {
		struct ky_sample_cell first;
		struct ky_sample_more more;
		uint64_t words[KY_SAMPLE_CELL_BYTES / 8];
		uint8_t bytes[KY_SAMPLE_CELL_BYTES];
	} cell;
	uint32_t count = sample->frame_count < KY_SAMPLE_FRAMES_MAX ? sample->frame_count :
								      KY_SAMPLE_FRAMES_MAX;
	uint32_t parts = ky_sample_parts(count), taken = 0, at, words;
	uint64_t claim_index, claim;

	if (!ring->cell_count)
		return false;
	claim_index = atomic_fetch_add_explicit(&ring->head->claim_index,
						parts | UINT64_C(1) << KY_SAMPLE_CLAIM_BITS,
						memory_order_acq_rel);
	claim = KY_SAMPLE_CLAIM(claim_index);
	while (taken < parts && ky_sample_take(ring, claim + taken))
		taken++;
	memset(&cell, 0, sizeof(cell));
	if (taken < parts) {
		for (uint32_t i = 0; i < taken; i++)
			ky_sample_fill(ring, claim + i, cell.words, 2);
		return false;
	}
	cell.first.parts = (uint8_t)parts;
	cell.first.kind = sample->kind;
	cell.first.flags = (uint8_t)(sample->flags |
				     (count < sample->frame_count ? KY_SAMPLE_TRUNCATED : 0));
	cell.first.tid = sample->tid;
	cell.first.stamp = sample->stamp;
	cell.first.value = sample->value;
	cell.first.more = sample->more;
	cell.first.other = sample->other;
	cell.first.task = sample->task;
	cell.first.weight = sample->weight;
	cell.first.number = (uint32_t)(claim_index >> KY_SAMPLE_CLAIM_BITS);
	cell.first.cpu = sample->cpu;
	cell.first.syscall = sample->syscall;
	cell.first.frame_count = (uint8_t)count;
	at = count < KY_SAMPLE_FRAMES_FIRST ? count : KY_SAMPLE_FRAMES_FIRST;
	words = ky_sample_pack(cell.bytes, offsetof(struct ky_sample_cell, frames), sample->frames,
			       at);
	/* The first part last: who sees it whole finds the others. */
	for (uint32_t part = 1; part < parts; part++) {
		union {
			struct ky_sample_more more;
			uint64_t words[KY_SAMPLE_CELL_BYTES / 8];
			uint8_t bytes[KY_SAMPLE_CELL_BYTES];
		} next;
		uint32_t here = count - at < KY_SAMPLE_FRAMES_MORE ? count - at :
								     KY_SAMPLE_FRAMES_MORE;

		memset(&next, 0, sizeof(next));
		next.more.part = (uint8_t)part;
		next.more.parts = (uint8_t)parts;
		next.more.kind = sample->kind;
		ky_sample_fill(ring, claim + part, next.words,
			       ky_sample_pack(next.bytes, 16, sample->frames + at, here));
		at += here;
	}
	ky_sample_fill(ring, claim, cell.words, words);
	return true;
}

#endif
