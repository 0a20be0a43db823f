/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* emit_engine.h - the one recorder of this process: its life, its threads, its sub-buffers.
 *
 * Life:        CLOSED -> LAZY (open) -> LIVE (first event, or EAGER) -> CLOSED (close).
 *              A PREPARED ring is made in open; a fork shares it until another process's first
 *              event takes it, by one compare-and-swap of its header's state.
 *              DISARMED from anywhere: no ring to be had, or a forked child of a LIVE parent.
 * Invariants:  the ring's addresses stay mapped for ever (close puts private memory there), so a
 *              thread that is late inside an event can never fault and never reach the next ring.
 *              Whatever a fork must not carry over lies in `pool`, which a child reads as zeros.
 * Memory:      pool 512 KiB, directory 1.5 MiB, both touched as used.
 * Atomics:     README.md in this folder.
 */
#ifndef KY_RECORD_EMIT_EMIT_ENGINE_H
#define KY_RECORD_EMIT_EMIT_ENGINE_H

#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <pthread.h>
#include <record/emit/clock.h>
#include <record/emit/directory.h>
#include <record/emit/module_map.h>
#include <record/emit/ring_file.h>
#include <record/emit/sampler_hooks.h>
#include <stdbool.h>

#define KY_THREADS_MAX 4096u
#define KY_PARKED_MAX 1024u
#define KY_SERVICE_BYTES 64u
#define KY_FAST_WORDS_MAX 4u   /* header + 3 */
#define KY_PARK_BYTES_MIN 512u /* less room than this is not worth a thread-change record */

enum ky_phase {
	KY_CLOSED,
	KY_LAZY,
	KY_STARTING,
	KY_LIVE,
	KY_DISARMED
};

/* Private state of one thread; the first line is what the inline path uses. */
struct ky_thread {
	struct kymo_thread hot;
	uint64_t claim;      /* our slot's claim word while it is open */
	uint64_t ordinal;    /* of the next sub-buffer */
	uint32_t generation; /* of the ring that `hot` points into */
	uint32_t tid;
	uint32_t gates_seen;
	uint32_t unrecorded;   /* innermost open polls whose begin was dropped */
	uint32_t backoff_left; /* events to drop before searching for a slot again */
	uint32_t backoff;
	uint32_t pending[4]; /* drops not yet reported, by enum kymo_drop_cause - 1 */
	struct ky_ring *ring;
	uint64_t worker[3]; /* words of its last WORKER_BEGIN; zeros: it is no worker */
	uint64_t parked_on; /* word of its last PARKED_ON as that worker */
	uint64_t traced;    /* bit i: the start of open poll i was fired (usdt.h) */
	uint64_t reserved[3];
};

/* In a MADV_WIPEONFORK mapping. */
struct ky_thread_pool {
	uint64_t is_alive;
	uint64_t reserved[15];
	struct ky_thread threads[KY_THREADS_MAX];
};

struct ky_parked {
	uint64_t claim;
	uint32_t slot;
	uint32_t offset;
	uint32_t gates_seen; /* by its last owner: what a reader of this slot has been reported */
};

struct ky_engine {
	uint32_t phase;       /* atomic */
	uint32_t generation;  /* atomic; of the ring */
	uint32_t open_serial; /* atomic; of the directory: ids of one are unknown to the next */
	uint32_t gates;       /* atomic; as wanted, also while there is no ring */
	int32_t last_error;
	struct ky_ring *ring; /* atomic; the latest, NULL before the first; valid for ever */
	struct ky_clock clock;
	struct ky_thread_pool *pool;

	pthread_mutex_t lock; /* of all that follows; never taken by a handler or after fork */
	struct ky_directory directory;
	struct ky_module_map modules;
	struct ky_parked parked[KY_PARKED_MAX];
	uint32_t parked_count;
	uint32_t thread_number; /* last index given out */
	uint32_t state_count;   /* pool entries ever used */
	uint32_t free_count;
	uint16_t free_states[KY_THREADS_MAX];
	pthread_key_t key;
	int confinement;          /* filters of system calls at open: "Seccomp" of proc(5) */
	uint32_t is_confined;     /* atomic; kymo_recorder_confine() was called */
	struct ky_ring *prepared; /* made in open, not owned yet; NULL once a taking was tried */
	bool is_lock_naming;      /* the C library leaves its owner's tid in `lock` */
	bool has_process_hooks;
	uint32_t has_listener;                  /* atomic; a thread waits for ky_bell_ring() */
	const struct ky_sampler_hooks *sampler; /* atomic; NULL: no thread samples from inside */
	uint64_t settings_seen;                 /* atomic: what the sampler has read of them */
	void (*on_thread)(
		void); /* atomic, or NULL: a thread is about to record for the first time */
	bool has_options;
	struct kymo_recorder_options options; /* pointers below, in `texts` */
	char service[KY_SERVICE_BYTES];
	char ring_directory[KY_RING_PATH_BYTES];
	char trace_directory[KY_RING_PATH_BYTES];
};

extern struct ky_engine ky_engine;

/* Under a filter of system calls, its own or one that it was started with: the program may not
 * expect us to open files, and the filter may kill for what we would like to
 * call.
 */
static inline bool ky_engine_is_under_filter(void)
{
	return ky_engine.confinement || __atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED);
}

/* NULL: no thread samples from inside. A recorder may be opened beside a thread that is late in an
 * event of the last one. */
static inline const struct ky_sampler_hooks *ky_engine_sampler(void)
{
	return __atomic_load_n(&ky_engine.sampler, __ATOMIC_ACQUIRE);
}

/* The sampler reads the settings when they have changed. Inside an event. */
static inline void ky_engine_follow_settings(void)
{
	const struct ky_ring *ring = __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);
	const struct ky_sampler_hooks *sampler = ky_engine_sampler();
	uint64_t now;

	if (!ring || !sampler)
		return;
	now = atomic_load_explicit(&ring->control->settings.generation, memory_order_relaxed);
	now |= (uint64_t)atomic_load_explicit(&ring->control->own_sample_hz, memory_order_relaxed)
	       << 32;
	if (now == __atomic_load_n(&ky_engine.settings_seen, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&ky_engine.settings_seen, now, __ATOMIC_RELAXED);
	sampler->apply(ky_engine.options.sample_hz);
}

extern struct kymo_thread ky_thread_none; /* before the first event */
extern struct kymo_thread ky_thread_busy; /* registering: whatever a handler emits now is dropped */
extern struct kymo_thread ky_thread_exited; /* after our clean-up */

/* What ky_engine_lock() found, for ky_engine_unlock(). */
struct ky_lock_mark {
	struct kymo_thread *self;
	uint32_t flags;
	int cancel;
};

/* Takes the lock with this thread marked as inside an event, so that a signal handler which emits
 * meanwhile is dropped instead of waiting for us. */
struct ky_lock_mark ky_engine_lock(void);
/* The same when names may be added: something is open and this is no orphan of a fork. */
bool ky_engine_lock_open(struct ky_lock_mark *mark);
/* Of the calling thread, which holds the lock: without a system call where that is possible. */
uint32_t ky_engine_tid_locked(void);
void ky_engine_unlock(struct ky_lock_mark mark);

/* A record of any number of payload words that fits a sub-buffer, by the slow path. */
void ky_emit_words(uint32_t record, uint32_t arg, uint32_t words, const uint64_t *payload);

/* The engine's half of kymo_recorder_open(): everything but the drain thread. sampler: of threads
 * from inside, from here on. */
int ky_engine_open(const struct kymo_recorder_options *options,
		   const struct ky_sampler_hooks *sampler);
int ky_engine_start(void); /* LAZY -> LIVE; takes the lock */
int ky_engine_start_locked(void);

/* Shuts the gates; the header says CLOSED, the ring stays readable. True: there is a ring. */
bool ky_engine_stop(void);

/* Gives the ring up. is_live: what ky_engine_stop() answered. */
void ky_engine_leave(bool is_live, bool is_unlinking);

/* In a forked child: LAZY again, with the parent's options and names. */
int ky_engine_reopen(void);

/* enum kymo_recorder_mode, as opened or as changed since. */
uint32_t ky_engine_mode(void);

void ky_engine_scan_modules(void);
bool ky_engine_knows(uint64_t address); /* of a loaded module */
int ky_engine_status(struct kymo_recorder_status *out);

/* True in a forked child whose parent's ring is still in our tables. */
bool ky_engine_is_orphan(void);

/* The latest ring, which may be closed by now; NULL: none of this process. */
static inline struct ky_ring *ky_engine_ring(void)
{
	struct ky_ring *ring = __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);

	return ring && !ky_engine_is_orphan() ? ring : NULL;
}

/* Of this process, and recording; NULL: none. Pairs with the starter's store of LIVE, which comes
 * before its second copy of counters and spans: either we see it, or it sees our value. */
static inline struct ky_ring *ky_engine_live_ring(void)
{
	if (__atomic_load_n(&ky_engine.phase, __ATOMIC_SEQ_CST) != KY_LIVE)
		return NULL;
	return ky_engine_ring();
}

void ky_engine_disarm_child(void);

/* thread.c. attach: this thread's state, registered with a slot where one is to be had; NULL:
 * none. */
struct ky_thread *ky_thread_attach(void);
void ky_thread_reattach(struct ky_thread *thread);
void ky_thread_exit(void *thread);
static inline bool ky_thread_is_state(const struct kymo_thread *self)
{
	return self != &ky_thread_none && self != &ky_thread_busy && self != &ky_thread_exited;
}

/* slot.c. Both run with the thread marked as inside an event. */
bool ky_slot_next(struct ky_thread *thread); /* a fresh sub-buffer; closes the old one */
bool ky_slot_continue(struct ky_thread *thread, const struct ky_parked *parked);
/* Closes the open sub-buffer, or parks it: then *parked says which, and true comes back. NULL:
 * there is no room to park one. Under the lock. */
bool ky_slot_leave(struct ky_thread *thread, struct ky_parked *parked);

#endif
