/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* tables.h - the static tables Tokio dispatches through, as found in the loaded objects.
 *
 * A task table (one per future type and scheduler): poll, schedule, dealloc, try_read_output,
 * drop_join_handle_slow, drop_abort_handle, shutdown, then the offsets of trailer, scheduler, id.
 * A waker table (one per copy of Tokio): clone, wake, wake_by_ref, drop. Two tables like it are of
 * wakers of block_on (roots.h).
 *
 * Invariants:  indexes are the thunks' indexes and never change; `state`, and a `kind` that was
 *              unknown, are the only fields that change after the constructor.
 */
#ifndef KY_TOKIO_TABLES_H
#define KY_TOKIO_TABLES_H

#include <stdatomic.h>
#include <stdint.h>

#include "calls.h"
#include "tokio_arch.h"
#include "tokio_elf.h"

#define KY_TOKIO_GOT_MAX 144
#define KY_TOKIO_RANGES_MAX 64

enum ky_tokio_slot {
	KY_TOKIO_SLOT_POLL = 0,
	KY_TOKIO_SLOT_SCHEDULE = 1,
	KY_TOKIO_SLOT_DEALLOC = 2,
	KY_TOKIO_SLOT_SHUTDOWN = 6,
	KY_TOKIO_SLOT_TRAILER = 7,
	KY_TOKIO_SLOT_SCHEDULER = 8,
	KY_TOKIO_SLOT_ID = 9,
	KY_TOKIO_SLOT_SPAWNED_AT = 10 /* with tokio_unstable only */
};
#define KY_TOKIO_FUNCTIONS 7
#define KY_TOKIO_OFFSET_MAX (1u << 20)

enum ky_tokio_kind {
	KY_TOKIO_KIND_UNKNOWN = 0, /* not known by symbols; worker.h decides at the first poll */
	KY_TOKIO_KIND_MULTI_THREAD,
	KY_TOKIO_KIND_CURRENT_THREAD,
	KY_TOKIO_KIND_LOCAL_SET,
	KY_TOKIO_KIND_BLOCKING,
	KY_TOKIO_KIND_LAUNCH /* a worker's whole life: encloses its polls */
};

enum ky_tokio_state {
	KY_TOKIO_STATE_NEW = 0,
	KY_TOKIO_STATE_TASK,
	KY_TOKIO_STATE_BLOCKING,
	KY_TOKIO_STATE_LAUNCH,
	KY_TOKIO_STATE_REFUSED /* calls pass through */
};

struct ky_tokio_table {
	void (*poll)(void *header);
	void (*shutdown)(void *header);
	uintptr_t *words; /* the table itself, in the host's memory */
	_Atomic uint32_t state;
	uint32_t name;
	uint32_t id_offset, scheduler_offset, trailer_offset;
	_Atomic uint8_t kind; /* enum ky_tokio_kind */
	uint8_t copy;
	bool is_by_shape; /* it may not be a table at all before its first poll has shown it */
	bool has_place;   /* after the id stands the address of where the task was spawned */
};

/* What clone returns in two registers; passed on as it is. */
struct ky_tokio_raw_waker {
	uintptr_t words[2];
};

struct ky_tokio_waker {
	uintptr_t *words;
	struct ky_tokio_raw_waker (*clone)(void *header);
	void (*wake)(void *header);
	void (*wake_by_ref)(void *header);
	_Atomic uint32_t
		is_trusted; /* a poll of this copy has shown that the layout is as expected */
};

enum ky_tokio_root_kind {
	KY_TOKIO_ROOT_THREAD = 0, /* of a thread that polls one future and sleeps: runtime::park */
	KY_TOKIO_ROOT_RUNTIME     /* of what drives a current-thread runtime: util::wake */
};

struct ky_tokio_root_table {
	uintptr_t *words;
	struct ky_tokio_raw_waker (*clone)(void *data);
	void (*wake)(void *data);
	void (*wake_by_ref)(void *data);
	enum ky_tokio_root_kind kind;
};

enum ky_tokio_got_kind {
	KY_TOKIO_GOT_EPOLL_WAIT,
	KY_TOKIO_GOT_EPOLL_PWAIT,
	KY_TOKIO_GOT_EPOLL_PWAIT2,
	KY_TOKIO_GOT_SYSCALL,
	KY_TOKIO_GOT_EVENTFD,
	KY_TOKIO_GOT_WRITE,
	KY_TOKIO_GOT_EVENTFD_WRITE,
	KY_TOKIO_GOT_EPOLL_CTL,
	KY_TOKIO_GOT_PRCTL,
	KY_TOKIO_GOT_SETNAME,
	KY_TOKIO_GOT_CREATE,
	KY_TOKIO_GOT_SIGACTION,
	KY_TOKIO_GOT_SIGNAL,
	KY_TOKIO_GOT_CLOSE,
	KY_TOKIO_GOT_IOCTL,
	KY_TOKIO_GOT_FCNTL,
	KY_TOKIO_GOT_FCNTL64,
	KY_TOKIO_GOT_DUP2,
	KY_TOKIO_GOT_DUP3,
	KY_TOKIO_GOT_CALLS,
#define KY_TOKIO_GOT_CALL(name, number, reason, type, parameters, arguments)                       \
	KY_TOKIO_GOT_CALL_##name,
	KY_TOKIO_GOT_BEFORE_CALLS = KY_TOKIO_GOT_CALLS - 1, /* counting continues there */
	KY_TOKIO_CALLS(KY_TOKIO_GOT_CALL)
#undef KY_TOKIO_GOT_CALL
	KY_TOKIO_GOT_KINDS
};

struct ky_tokio_got {
	uintptr_t *slot;
	uint32_t kind;
};

/* Memory that has to be writable for a moment. Page-aligned. */
struct ky_tokio_range {
	uintptr_t start, end;
};

struct ky_tokio_found {
	uint32_t table_count, copy_count, got_count, range_count;
	uint32_t root_count;     /* of ky_tokio_root_tables */
	uint32_t refused_count;  /* looked like a table and was not, or beyond a limit */
	uint32_t shape_count;    /* tables that were found by their shape */
	uint32_t unstable_count; /* tables that also know where a task was spawned */
	uint32_t object_count;   /* that contain Tokio */
	uint32_t early_count;    /* tables of earlier readings: a new object there replaces them */
	struct ky_tokio_got got[KY_TOKIO_GOT_MAX];
	struct ky_tokio_range ranges[KY_TOKIO_RANGES_MAX];
};

extern struct ky_tokio_table ky_tokio_tables[KY_TOKIO_TABLES_MAX];
extern struct ky_tokio_waker ky_tokio_wakers[KY_TOKIO_COPIES_MAX];
extern struct ky_tokio_root_table ky_tokio_root_tables[KY_TOKIO_ROOT_TABLES_MAX];

/* Adds what one object contains to `found`, ky_tokio_tables and ky_tokio_wakers. Changes
 * nothing else. What stands where an object that is gone had something takes that one's index. */
void ky_tokio_tables_find(struct ky_tokio_found *found, const struct ky_tokio_elf *elf);

#endif
