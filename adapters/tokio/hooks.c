/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "hooks.h"

#include <kymo/emit.h>
#include <kymo/poll_cost.h>
#include <kymo/recorder.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "host_words.h"
#include "runtimes.h"
#include "schedulers.h"
#include "next_ids.h"
#include "worker.h"

/* Tokio's header: state, queue link, table, owner id. */
enum {
	HEADER_STATE = 0,
	HEADER_TABLE = 2,
	HEADER_OWNER = 3
};

enum {
	STATE_RUNNING = 1u,
	STATE_COMPLETE = 2u,
	STATE_NOTIFIED = 4u,
	STATE_JOIN_INTEREST = 8u,
	STATE_JOIN_WAKER = 16u,
	STATE_CANCELLED = 32u
};
#define STATE_REFERENCE_SHIFT 6
/* What hardly any poll needs: in line it would cost every poll its registers. */
#define OUT_OF_LINE __attribute__((noinline))

/* Our part of the state word, far above any count of references: how many hooks hold the header,
 * and whether one of them has reported the end of the task. To Tokio each is a great many
 * references, so it frees nothing; both are gone when the last of the hooks is. */
#define STATE_HOLD (UINT64_C(1) << 48)
#define STATE_HOLDS (UINT64_C(0x3fff) << 48)
#define STATE_END_REPORTED (UINT64_C(1) << 62)
#define TASK_MAX (UINT64_C(1) << KYMO_TASK_BITS)

/* Headers that were woken from elsewhere while they ran, by a hash of their address: a derived
 * wake is only one that was not recorded. */
#define WOKEN_SLOTS 1024u

/* `owner` of a thread carries the generation above the number, so that one comparison sees both. */
#define OWNER_GENERATION_SHIFT KYMO_TASK_BITS

__thread struct ky_tokio_thread ky_tokio_self __attribute__((tls_model("initial-exec")));
_Atomic uint32_t ky_tokio_generation;
static void *_Atomic woken_elsewhere[WOKEN_SLOTS];
static _Atomic uint32_t refused_count;

uint32_t ky_tokio_refused_count(void)
{
	return atomic_load_explicit(&refused_count, memory_order_relaxed);
}

static void *_Atomic *woken_slot(const void *header)
{
	return &woken_elsewhere[((uintptr_t)header * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
}

static uint64_t word_at(const void *header, uint32_t offset)
{
	return *(const uint64_t *)(const void *)((const char *)header + offset);
}

static uint32_t kind_of(const struct ky_tokio_table *table)
{
	return atomic_load_explicit(&table->kind, memory_order_relaxed);
}

static uint64_t state_of(void *header)
{
	return __atomic_load_n((uint64_t *)header + HEADER_STATE, __ATOMIC_ACQUIRE);
}

/* Whichever thread ends the task meanwhile, its header stays. Returns the state before. */
static uint64_t hold(void *header)
{
	return __atomic_fetch_add((uint64_t *)header + HEADER_STATE, STATE_HOLD, __ATOMIC_RELAXED);
}

static void let_go(const struct ky_tokio_table *table, void *header)
{
	uint64_t *word = (uint64_t *)header + HEADER_STATE, after;
	uint64_t before = __atomic_load_n(word, __ATOMIC_RELAXED);
	void (*dealloc)(void *);

	do {
		after = before - STATE_HOLD;
		if (!(after & STATE_HOLDS))
			after &= ~STATE_END_REPORTED;
	} while (!__atomic_compare_exchange_n(word, &before, after, true, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
	if (after >> STATE_REFERENCE_SHIFT)
		return;
	memcpy(&dealloc, &table->words[KY_TOKIO_SLOT_DEALLOC], sizeof(dealloc));
	dealloc(header);
}

/* A poll and a shutdown of the same task may overlap, and both then see it complete. Under hold():
 * true for the first of those that saw it incomplete before. The thread that comes after the last
 * of them sees that it was complete. after: the state, complete, as it was read since.
 * One that holds it alone needs no locked instruction: who takes a hold from then on sees it
 * complete, and who has let go since has left its mark. */
static bool is_end_ours(void *header, uint64_t before, uint64_t after)
{
	if (before & STATE_COMPLETE)
		return false;
	if (KYMO_LIKELY((after & (STATE_HOLDS | STATE_END_REPORTED)) == STATE_HOLD))
		return true;
	return !(__atomic_fetch_or((uint64_t *)header + HEADER_STATE, STATE_END_REPORTED,
				   __ATOMIC_RELAXED) &
		 STATE_END_REPORTED);
}

static void refuse(struct ky_tokio_table *table)
{
	char text[16];
	uint32_t count;

	atomic_store_explicit(&table->state, KY_TOKIO_STATE_REFUSED, memory_order_relaxed);
	count = atomic_fetch_add_explicit(&refused_count, 1, memory_order_relaxed) + 1;
	snprintf(text, sizeof(text), "%u", count);
	(void)kymo_metadata_set("tokio.tables_refused", text);
}

/* A table's first poll: is the header what we take it for? Tokio polls only what is notified,
 * idle and not complete; what runs on the blocking pool was never in any runtime's list. */
static bool is_as_expected(const struct ky_tokio_table *table, void *header)
{
	const uint64_t *words = header;
	uint64_t state = state_of(header), id, scheduler;
	uint32_t kind = kind_of(table);

	if (words[HEADER_TABLE] != (uintptr_t)table->words)
		return false;
	if ((state & (STATE_RUNNING | STATE_COMPLETE | STATE_NOTIFIED)) != STATE_NOTIFIED ||
	    state >> STATE_REFERENCE_SHIFT == 0 || state % STATE_HOLD >> 40 != 0)
		return false;
	id = word_at(header, table->id_offset);
	if (id == 0 || id >= TASK_MAX)
		return false;
	if (words[HEADER_OWNER] == 0)
		return kind == KY_TOKIO_KIND_UNKNOWN || kind >= KY_TOKIO_KIND_BLOCKING;
	scheduler = word_at(header, table->scheduler_offset);
	return kind < KY_TOKIO_KIND_BLOCKING && words[HEADER_OWNER] < TASK_MAX &&
	       scheduler >= 65536 && scheduler % 8 == 0;
}

/* That no function of a launch's has its name says nothing: all of them may be inlined. */
static bool is_kind_sure(const struct ky_tokio_table *table, uint32_t kind)
{
	return kind == KY_TOKIO_KIND_BLOCKING ?
		       atomic_load_explicit(&table->state, memory_order_relaxed) !=
			       KY_TOKIO_STATE_NEW :
		       kind != KY_TOKIO_KIND_UNKNOWN;
}

static uint32_t read_kind(const struct ky_tokio_table *table, const void *header)
{
	uint32_t kind = kind_of(table);

	if (is_kind_sure(table, kind))
		return kind;
	return ((const uint64_t *)header)[HEADER_OWNER] ?
		       ky_tokio_scheduler_kind(word_at(header, table->scheduler_offset)) :
		       ky_tokio_run_kind(table, header);
}

static uint32_t first_poll(struct ky_tokio_table *table, void *header)
{
	uint32_t state, kind;

	if (!is_as_expected(table, header)) {
		refuse(table);
		return KY_TOKIO_STATE_REFUSED;
	}
	kind = read_kind(table, header);
	if (((const uint64_t *)header)[HEADER_OWNER] != 0)
		state = KY_TOKIO_STATE_TASK;
	else
		state = kind == KY_TOKIO_KIND_LAUNCH ? KY_TOKIO_STATE_LAUNCH :
						       KY_TOKIO_STATE_BLOCKING;
	atomic_store_explicit(&ky_tokio_wakers[table->copy].is_trusted, 1, memory_order_relaxed);
	if (kind == KY_TOKIO_KIND_UNKNOWN) /* this run does not tell; the next one may */
		return state;
	atomic_store_explicit(&table->kind, (uint8_t)kind, memory_order_relaxed);
	atomic_store_explicit(&table->state, state, memory_order_release);
	return state;
}

/* A header of this table, if there is anything at all at that address. */
static bool is_header(const struct ky_tokio_table *table, const void *header)
{
	uint64_t words[HEADER_OWNER + 1];

	return ky_tokio_is_address((uintptr_t)header) &&
	       ky_tokio_read_words((uintptr_t)header, words, HEADER_OWNER + 1) ==
		       HEADER_OWNER + 1 &&
	       words[HEADER_TABLE] == (uintptr_t)table->words;
}

uint32_t ky_tokio_check_poll(void *header, uint32_t index)
{
	struct ky_tokio_table *table = &ky_tokio_tables[index];

	if (is_header(table, header))
		return first_poll(table, header) != KY_TOKIO_STATE_REFUSED;
	refuse(table);
	return 0;
}

uint32_t ky_tokio_check_shutdown(void *header, uint32_t index)
{
	struct ky_tokio_table *table = &ky_tokio_tables[index];

	if (is_header(table, header))
		return 1;
	refuse(table);
	return 0;
}

uintptr_t ky_tokio_poll_thunk(uint32_t index)
{
	size_t at = index + (ky_tokio_tables[index].is_by_shape ? KY_TOKIO_TABLES_MAX : 0u);

	return (uintptr_t)ky_tokio_poll_thunks + at * KY_TOKIO_THUNK_BYTES;
}

uintptr_t ky_tokio_shutdown_thunk(uint32_t index)
{
	size_t at = index + (ky_tokio_tables[index].is_by_shape ? KY_TOKIO_TABLES_MAX : 0u);

	return (uintptr_t)ky_tokio_shutdown_thunks + at * KY_TOKIO_THUNK_BYTES;
}

/* As `owner` of a thread that polls this header now. */
static uint64_t owner_of(const void *header)
{
	uint64_t generation = atomic_load_explicit(&ky_tokio_generation, memory_order_relaxed);

	return ((const uint64_t *)header)[HEADER_OWNER] | generation << OWNER_GENERATION_SHIFT;
}

/* Tasks of a multi-thread runtime are polled by its workers alone. The launch of this one went by
 * before we were here, or was reported to a recording that is over. */
static void become_worker(struct ky_tokio_thread *self, uint64_t key)
{
	self->is_late_worker = true;
	kymo_worker_begin(0, 0, key, (uintptr_t)self);
}

/* What this thread was in an earlier recording does not count in this one. */
static void start_over(struct ky_tokio_thread *self)
{
	self->generation = atomic_load_explicit(&ky_tokio_generation, memory_order_relaxed);
	self->workers = 0;
	self->is_late_worker = false;
	self->is_driver = false;
	self->parker = NULL;
	self->parked_on = 0;
}

static OUT_OF_LINE void enter_runtime(struct ky_tokio_thread *self,
				      const struct ky_tokio_table *table, const void *header)
{
	uint32_t kind = kind_of(table);
	uint64_t key = ky_tokio_runtime_of(word_at(header, table->scheduler_offset),
					   ((const uint64_t *)header)[HEADER_OWNER], kind,
					   table->copy);

	self->owner = owner_of(header);
	if (!ky_tokio_is_known(self))
		start_over(self);
	if (self->generation && kind == KY_TOKIO_KIND_MULTI_THREAD && !ky_tokio_is_worker(self))
		become_worker(self, key);
	if (kind != KY_TOKIO_KIND_LOCAL_SET) /* it is driven by what drives this thread */
		self->is_driver = kind == KY_TOKIO_KIND_CURRENT_THREAD;
	/* Local sets take turns with what drives them, poll by poll. */
	if (kind == KY_TOKIO_KIND_LOCAL_SET)
		kymo_emit(KYMO_GATE_POLL, KYMO_RECORD_RUNTIME, 0, 1, key, 0, 0);
	else
		kymo_runtime_enter(key);
}

static uint32_t end_flags(const struct ky_tokio_thread *self, void *header, uint64_t before,
			  uint64_t after)
{
	void *_Atomic *slot;

	if (after & STATE_COMPLETE) { /* or it ended earlier, or elsewhere */
		if (!is_end_ours(header, before, after))
			return 0;
		return KYMO_POLL_READY | (before & STATE_CANCELLED ? KYMO_POLL_CANCELLED : 0u);
	}
	if (!(after & STATE_NOTIFIED) || self->is_woken)
		return 0;
	slot = woken_slot(header);
	if (atomic_load_explicit(slot, memory_order_relaxed) != header)
		return KYMO_POLL_SELF_WAKE;
	atomic_store_explicit(slot, NULL, memory_order_relaxed);
	return 0;
}

/* ---- where a task waits ---- */

/* How many wakers of the task live, at most: its references without those of its runtime's list, of
 * its join handle, and of the thread that polls it or is to. What else refers to it (abort handles,
 * leaves that keep a waker from an earlier poll) counts as one. */
static uint32_t wakers_of(uint64_t state)
{
	uint64_t count = state % STATE_HOLD >> STATE_REFERENCE_SHIFT, others = 1;

	others += (state & STATE_JOIN_INTEREST) != 0;
	others += (state & (STATE_RUNNING | STATE_NOTIFIED)) != 0;
	return count > others ? (uint32_t)(count - others) : 0;
}

/* The same for kymo_place_*(). A waker that wakes is gone without having been given back, and a
 * thread that polls the task by now clones its own. */
static uint32_t living_of(uint64_t state)
{
	return state & (STATE_NOTIFIED | STATE_CANCELLED) ? KYMO_PLACE_LIVING_UNKNOWN :
							    wakers_of(state);
}

/* The part of a poll that is recorded. gates: as they are open. */
static inline void poll_recorded(struct ky_tokio_thread *self, struct ky_tokio_table *table,
				 void *header, uint32_t gates)
{
	uint64_t task = word_at(header, table->id_offset), before, after, begin, end;
	uint64_t counts = kymo_poll_cost_self.counts;
	uint32_t flags;

	if (KYMO_UNLIKELY(self->owner != owner_of(header)) && self->depth == 1)
		enter_runtime(self, table, header);
	if (KYMO_LIKELY(gates & KYMO_GATE_PLACE)) {
		self->place.header = header;
		self->place.poll = (struct kymo_place_poll){
			.task_word = kymo_task_word(task, table->name),
			.until_sp = ky_tokio_arch_sp()};
	}
	begin = kymo_poll_begin_ungated(
		task, table->name, (self->queue_next - 1) & KYMO_QUEUE_UNKNOWN); /* 0: unknown */
	self->queue_next = 0;
	self->poll_ticks = begin;
	kymo_poll_cost_begin(begin, self->depth);
	self->poll_id = ky_tokio_next_id(table->copy);
	before = hold(header);
	table->poll(header);
	after = state_of(header);
	flags = end_flags(self, header, before, after);
	if (self->place.header && !(after & STATE_COMPLETE)) {
		self->place.poll.wakers = wakers_of(before);
		flags |= kymo_place_close(&self->place.poll, after & STATE_RUNNING ?
								     KYMO_PLACE_LIVING_UNKNOWN :
								     living_of(after));
	}
	ky_tokio_ids_end(table->copy, self->poll_id, KYMO_SPAWN_BY_POLL);
	end = kymo_poll_end(flags);
	if (KYMO_UNLIKELY(flags & KYMO_POLL_READY))
		kymo_place_end(task);
	else if (self->place.header)
		kymo_place_polled(&self->place.poll);
	kymo_poll_cost_end(begin, end, counts, self->depth);
	let_go(table, header);
}

/* Of a thread that has no poll open; its place has no header. */
static void poll_task(struct ky_tokio_table *table, void *header)
{
	struct ky_tokio_thread *self = &ky_tokio_self;
	uint32_t gates;

	self->current = header;
	self->is_woken = false;
	self->depth++;
	/* What is recorded by default is the straight way. */
	gates = __atomic_load_n(&kymo_control.gates, __ATOMIC_RELAXED);
	if (KYMO_LIKELY(gates & KYMO_GATE_POLL)) {
		poll_recorded(self, table, header, gates);
	} else {
		self->poll_ticks = 0;
		table->poll(header);
	}
	self->depth--;
	self->place.header = NULL;
	self->current = NULL;
}

/* Inside another one. */
static void poll_inner_task(struct ky_tokio_table *table, void *header)
{
	struct ky_tokio_thread *self = &ky_tokio_self;
	struct ky_tokio_place outer_place = self->place;
	uint64_t outer_id = self->poll_id;
	bool is_outer_woken = self->is_woken;
	void *outer = self->current;

	self->place.header = NULL;
	kymo_poll_cost_self.counts += KYMO_POLL_COST_NESTED;
	poll_task(table, header);
	self->place = outer_place;
	self->poll_id = outer_id;
	self->is_woken = is_outer_woken;
	self->current = outer;
}

/* The first after a root's on this thread. One of another runtime's says nothing about it. */
static void poll_after_root(struct ky_tokio_table *table, void *header)
{
	struct ky_tokio_thread *self = &ky_tokio_self;

	ky_tokio_root_close(self, self->root.kind == KY_TOKIO_ROOT_RUNTIME &&
					  kind_of(table) == KY_TOKIO_KIND_CURRENT_THREAD);
	poll_task(table, header);
}

static void run_blocking(struct ky_tokio_table *table, void *header)
{
	struct ky_tokio_thread *self = &ky_tokio_self;
	uint64_t after;

	if (!kymo_gate_is_open(KYMO_GATE_BLOCKING)) {
		table->poll(header);
		return;
	}
	kymo_blocking_begin(word_at(header, table->id_offset), table->name);
	self->run = header;
	self->run_id = self->root_id = ky_tokio_next_id(table->copy);
	hold(header);
	table->poll(header);
	after = state_of(header);
	ky_tokio_ids_end(table->copy, self->run_id, KYMO_SPAWN_BY_RUN);
	self->run = NULL;
	kymo_blocking_end((after & STATE_COMPLETE ? KYMO_POLL_READY : 0u) |
			  (after & STATE_CANCELLED ? KYMO_POLL_CANCELLED : 0u));
	let_go(table, header);
}

/* A worker's whole life. The header is not touched again: the worker may outlive everything
 * else. */
static void run_worker(struct ky_tokio_table *table, void *header)
{
	struct ky_tokio_thread *self = &ky_tokio_self;
	uintptr_t worker = ky_tokio_worker_of(table, header);
	uint64_t key = ky_tokio_runtime_enter(ky_tokio_worker_runtime(worker), table->copy);

	ky_tokio_worker_note(worker);
	kymo_worker_begin(word_at(header, table->id_offset), table->name, key, worker);
	if (!ky_tokio_is_known(self))
		start_over(self);
	self->workers++;
	table->poll(header);
	if (self->workers) /* unless a later recording began meanwhile */
		self->workers--;
	self->owner = 0;
	kymo_worker_end();
	if (key)
		ky_tokio_runtime_leave(key);
}

static OUT_OF_LINE void poll_other(struct ky_tokio_table *table, void *header, uint32_t state)
{
	if (state == KY_TOKIO_STATE_NEW)
		state = first_poll(table, header);
	if (state == KY_TOKIO_STATE_BLOCKING)
		run_blocking(table, header);
	else if (state == KY_TOKIO_STATE_LAUNCH)
		run_worker(table, header);
	else if (state != KY_TOKIO_STATE_TASK)
		table->poll(header);
	else if (ky_tokio_self.current == ky_tokio_root_polls)
		poll_after_root(table, header);
	else if (ky_tokio_self.current)
		poll_inner_task(table, header);
	else
		poll_task(table, header);
}

void ky_tokio_on_poll(void *header, uint32_t index)
{
	struct ky_tokio_table *table = &ky_tokio_tables[index];
	uint32_t state = atomic_load_explicit(&table->state, memory_order_acquire);

	if (KYMO_LIKELY(state == KY_TOKIO_STATE_TASK && !ky_tokio_self.current))
		poll_task(table, header);
	else
		poll_other(table, header, state);
}

/* The runtime goes away, or the task was bound to one that is gone. Ends by abort pass through
 * poll. A launch that never ran is no task that ended. */
void ky_tokio_on_shutdown(void *header, uint32_t index)
{
	struct ky_tokio_table *table = &ky_tokio_tables[index];
	uint64_t before, after;

	if (!kymo_gate_is_open(KYMO_GATE_POLL) ||
	    ((const uint64_t *)header)[HEADER_TABLE] != (uintptr_t)table->words ||
	    read_kind(table, header) == KY_TOKIO_KIND_LAUNCH ||
	    atomic_load_explicit(&table->state, memory_order_acquire) == KY_TOKIO_STATE_REFUSED) {
		table->shutdown(header);
		return;
	}
	before = hold(header);
	table->shutdown(header);
	after = state_of(header);
	if ((after & STATE_COMPLETE) && is_end_ours(header, before, after)) {
		ky_tokio_self.ending = header;
		kymo_task_end(word_at(header, table->id_offset), table->name);
		ky_tokio_self.ending = NULL;
		kymo_place_end(word_at(header, table->id_offset));
	}
	let_go(table, header);
}

const struct ky_tokio_table *ky_tokio_patched_table(const void *header)
{
	const uintptr_t *words;
	uintptr_t thunk;

	words = (const uintptr_t *)((const uintptr_t *)header)[HEADER_TABLE];
	thunk = words[KY_TOKIO_SLOT_POLL] - (uintptr_t)ky_tokio_poll_thunks;
	if (thunk >= (uintptr_t)2 * KY_TOKIO_TABLES_MAX * KY_TOKIO_THUNK_BYTES)
		return NULL;
	return &ky_tokio_tables[thunk / KY_TOKIO_THUNK_BYTES % KY_TOKIO_TABLES_MAX];
}

/* The same of what a waker points to, once its copy is trusted. */
static const struct ky_tokio_table *table_of(const void *header, uint32_t copy)
{
	if (!atomic_load_explicit(&ky_tokio_wakers[copy].is_trusted, memory_order_relaxed))
		return NULL;
	return ky_tokio_patched_table(header);
}

uint64_t ky_tokio_current_task(void)
{
	struct ky_tokio_thread *self = &ky_tokio_self;
	const struct ky_tokio_table *table;

	table = self->depth ? ky_tokio_patched_table(self->current) : NULL;
	return table ? word_at(self->current, table->id_offset) : 0;
}

uint64_t ky_tokio_current_owner(void)
{
	const struct ky_tokio_thread *self = &ky_tokio_self;

	if (!self->depth || !ky_tokio_patched_table(self->current))
		return 0;
	return ((const uint64_t *)self->current)[HEADER_OWNER];
}

/* A task that is complete, and wakes who awaits it, spawns nothing any more: what that one spawns
 * at once on another thread is none of its. Without a waker of who awaits it there is nothing left
 * to wake but what its output wakes when it is dropped. */
OUT_OF_LINE uint32_t ky_tokio_complete(struct ky_tokio_thread *self, uint32_t copy)
{
	void *header = self->depth ? self->current : self->run;
	uint64_t *first = self->depth ? &self->poll_id : &self->run_id, state;
	const struct ky_tokio_table *table;

	if (!header)
		return 0;
	state = state_of(header);
	if (!(state & STATE_COMPLETE))
		return 0;
	table = *first ? table_of(header, copy) : NULL;
	if (table) {
		ky_tokio_ids_end(table->copy, *first,
				 self->depth ? KYMO_SPAWN_BY_POLL : KYMO_SPAWN_BY_RUN);
		*first = 0;
	}
	return state & STATE_JOIN_WAKER ? KYMO_WAKE_AT_END : 0;
}

static inline void record_wake(void *header, uint32_t copy, uint32_t flags,
			       const struct kymo_stack_start *start)
{
	struct ky_tokio_thread *self = &ky_tokio_self;
	const struct ky_tokio_table *table = table_of(header, copy);
	void *running = self->depth ? self->current : self->run;
	uint32_t frames_max = KYMO_WAKE_FRAMES_MAX;

	if (!table)
		return;
	if (KYMO_UNLIKELY(running && state_of(running) & STATE_COMPLETE))
		flags |= ky_tokio_complete(self, copy);
	if (self->current == header)
		self->is_woken = true;
	else if (state_of(header) & STATE_RUNNING)
		atomic_store_explicit(woken_slot(header), header, memory_order_relaxed);
	if (ky_tokio_is_worker(self) && self->depth == 0) {
		flags |= KYMO_WAKE_ON_DRIVER;
		frames_max = KYMO_WAKE_DRIVER_FRAMES_MAX;
	}
	if (kymo_gate_is_open(KYMO_GATE_PLACE))
		flags |= kymo_place_wake(start, self->place.header ? self->place.poll.until_sp : 0,
					 frames_max);
	kymo_poll_cost_self.counts += KYMO_POLL_COST_WAKE;
	/* Its gate has been asked. */
	kymo_emit_ungated(KYMO_RECORD_WAKE, flags, 1,
			  kymo_task_word(word_at(header, table->id_offset), copy), 0, 0);
}

void ky_tokio_on_wake(void *header, uint32_t copy, const struct kymo_stack_start *start)
{
	record_wake(header, copy, KYMO_WAKE_BY_VALUE, start);
}

void ky_tokio_on_wake_by_ref(void *header, uint32_t copy, const struct kymo_stack_start *start)
{
	record_wake(header, copy, 0, start);
}

_Static_assert(offsetof(struct ky_tokio_thread, place.header) == 8 &&
		       offsetof(struct ky_tokio_waker, clone) == 8 &&
		       offsetof(struct ky_tokio_waker, wake) == 16 &&
		       offsetof(struct ky_tokio_waker, wake_by_ref) == 24 && KYMO_GATE_WAKE == 2 &&
		       sizeof(struct ky_tokio_waker) == 40 && KYMO_GATE_WAKER_CLONE == 0x40,
	       "as thunks_<arch>.S has them");

_Static_assert(sizeof(struct ky_tokio_table) == 48 && offsetof(struct ky_tokio_table, poll) == 0 &&
		       offsetof(struct ky_tokio_table, shutdown) == 8 &&
		       offsetof(struct ky_tokio_table, state) == 24 && KY_TOKIO_STATE_NEW == 0 &&
		       KY_TOKIO_STATE_REFUSED == 4 && KY_TOKIO_TABLES_MAX == 4096,
	       "as thunks_<arch>.S has them");

struct ky_tokio_raw_waker ky_tokio_on_clone(void *header, uint32_t copy)
{
	const struct ky_tokio_table *table;

	if (kymo_gate_is_open(KYMO_GATE_WAKER_CLONE)) {
		table = table_of(header, copy);
		if (table)
			kymo_emit(KYMO_GATE_WAKER_CLONE, KYMO_RECORD_WAKER_CLONE, 0, 1,
				  kymo_task_word(word_at(header, table->id_offset), copy), 0, 0);
	}
	return ky_tokio_wakers[copy].clone(header);
}

/* The leaf that clones is about to return Pending, unless it keeps the waker before it looks: all
 * that awaits it is on the stack. */
void ky_tokio_take_place(const struct kymo_stack_start *start)
{
	struct ky_tokio_place *place = &ky_tokio_self.place;

	kymo_place_clone(&place->poll, start, living_of(state_of(place->header)));
}
