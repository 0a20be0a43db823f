/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "roots.h"

#include <kymo/emit.h>
#include <kymo/poll_cost.h>
#include <kymo/recorder.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "hooks.h"
#include "host_words.h"
#include "next_ids.h"

/* The first word of what a thread's waker points to; two words before it are the Arc's counts. */
enum {
	STATE_PARKED = 1,
	STATE_NOTIFIED = 2
};
#define ARC_STRONG (-2)
/* The thread itself has one, and block_on. */
#define STRONG_OWN 2u
#define PARKER_BYTES 64u

#define KNOWN_ROOTS 256u
#define PROBES_MAX 8u

/* By a hash of what the waker points to. An entry stays; what comes to lie at the same address
 * takes it over. */
static struct known_root {
	_Atomic uintptr_t data;
	_Atomic uint64_t task;
	_Atomic uint32_t is_woken;
} known_roots[KNOWN_ROOTS];

char ky_tokio_root_polls[1];
static _Atomic uint32_t runtime_count, thread_count;
static __thread uint32_t own_number __attribute__((tls_model("initial-exec")));
static uint32_t names[2];

void ky_tokio_roots_name(void)
{
	static const char of_thread[] = "block_on", of_runtime[] = "block_on (current-thread)";

	names[KY_TOKIO_ROOT_THREAD] = kymo_name_intern(of_thread, sizeof(of_thread) - 1, 0, 0, 0);
	names[KY_TOKIO_ROOT_RUNTIME] = kymo_name_intern(of_runtime, sizeof(of_runtime) - 1, 0, 0,
							0);
}

static struct known_root *find(const void *data, bool is_wanted)
{
	uint32_t at = (uint32_t)((uintptr_t)data * UINT64_C(0x9e3779b97f4a7c15) >> 56);

	for (uint32_t i = 0; i < PROBES_MAX; i++) {
		struct known_root *known = &known_roots[(at + i) % KNOWN_ROOTS];
		uintptr_t was = atomic_load_explicit(&known->data, memory_order_acquire);

		if (was == 0 && is_wanted &&
		    atomic_compare_exchange_strong_explicit(&known->data, &was, (uintptr_t)data,
							    memory_order_acq_rel,
							    memory_order_acquire))
			return known;
		if (was == (uintptr_t)data)
			return known;
		if (was == 0)
			return NULL;
	}
	return NULL;
}

/* ---- polls ---- */

/* Frames above the thread's first function are not the program's. A thread's stack ends at its own
 * descriptor; the main thread's stack lies above everything. No system call tells: a filter of the
 * program may kill for it. */
static uintptr_t stack_end(void)
{
	uintptr_t self = (uintptr_t)pthread_self();

	return (uintptr_t)__builtin_frame_address(0) < self ? self : getauxval(AT_RANDOM);
}

static uint32_t thread_number(void)
{
	if (!own_number)
		own_number = atomic_fetch_add_explicit(&thread_count, 1, memory_order_relaxed) + 1;
	return own_number;
}

static bool take_root(struct ky_tokio_root *root, const void *data, enum ky_tokio_root_kind kind)
{
	struct known_root *known = find(data, true);
	uint64_t task;

	if (!known)
		return false;
	task = atomic_load_explicit(&known->task, memory_order_relaxed);
	if (kind == KY_TOKIO_ROOT_THREAD)
		task = KYMO_ROOT_BIT | thread_number();
	else if (task == 0)
		task = KYMO_ROOT_BIT | KYMO_ROOT_OF_RUNTIME |
		       atomic_fetch_add_explicit(&runtime_count, 1, memory_order_relaxed);
	atomic_store_explicit(&known->task, task, memory_order_relaxed);
	*root = (struct ky_tokio_root){
		.data = data, .woken = &known->is_woken, .task = task, .kind = kind};
	root->poll.until_sp = stack_end();
	return true;
}

static void open_poll(struct ky_tokio_thread *self, enum kymo_root_begin how)
{
	struct ky_tokio_root *root = &self->root;
	uint64_t word = kymo_task_word(root->task, names[root->kind]);

	root->poll = (struct kymo_place_poll){.task_word = word, .until_sp = root->poll.until_sp};
	root->is_open = true;
	root->is_asleep = false;
	self->current = ky_tokio_root_polls;
	kymo_emit(KYMO_GATE_POLL, KYMO_RECORD_ROOT_BEGIN, how, 1, word, 0, 0);
	/* Where it clones, all that the thread did since its last sleep may be of its poll. */
	if (how == KYMO_ROOT_WOKEN)
		self->root_id = ky_tokio_ids_root_next();
}

/* Wakers of it that live, at most: many hold the handle of a runtime. */
static uint32_t living_of(const struct ky_tokio_root *root)
{
	uint64_t strong;

	if (root->kind != KY_TOKIO_ROOT_THREAD)
		return KYMO_PLACE_LIVING_UNKNOWN;
	strong = __atomic_load_n((const uint64_t *)root->data + ARC_STRONG, __ATOMIC_RELAXED);
	if (strong < STRONG_OWN)
		return 0;
	return strong - STRONG_OWN < UINT32_MAX ? (uint32_t)(strong - STRONG_OWN) :
						  KYMO_PLACE_LIVING_UNKNOWN;
}

/* is_pending: what the waker points to is there. */
void ky_tokio_root_close(struct ky_tokio_thread *self, bool is_pending)
{
	struct ky_tokio_root *root = &self->root;
	uint32_t arg = 0;

	self->root_id = ky_tokio_ids_root_end(self->root_id);
	root->is_open = false;
	if (self->current == ky_tokio_root_polls)
		self->current = NULL;
	if (is_pending) {
		arg = KYMO_ROOT_WAITS;
		if (kymo_gate_is_open(KYMO_GATE_PLACE))
			arg |= kymo_place_close(&root->poll, living_of(root));
	}
	kymo_emit(KYMO_GATE_POLL, KYMO_RECORD_ROOT_END, arg, 1, root->poll.task_word, 0, 0);
	if (is_pending)
		kymo_place_polled(&root->poll);
}

/* A leaf of the root keeps its waker. Inside a task's poll (block_in_place) the task's own shows
 * what the thread does. */
void ky_tokio_on_root_clone(const void *data, uint32_t index, const struct kymo_stack_start *start)
{
	struct ky_tokio_thread *self = &ky_tokio_self;
	struct ky_tokio_root *root = &self->root;

	if (self->depth || !kymo_gate_is_open(KYMO_GATE_POLL))
		return;
	if (root->data != data) {
		if (root->is_open)
			ky_tokio_root_close(self, false);
		if (!take_root(root, data, ky_tokio_root_tables[index].kind))
			return;
	}
	if (!root->is_open)
		open_poll(self, KYMO_ROOT_CLONED);
	else
		kymo_emit(KYMO_GATE_POLL, KYMO_RECORD_ROOT_BEGIN, KYMO_ROOT_CLONED, 1,
			  root->poll.task_word, 0, 0);
	if (kymo_gate_is_open(KYMO_GATE_PLACE))
		kymo_place_clone(&root->poll, start, living_of(root));
}

/* ---- waits ---- */

/* A word of the parker's own, or, where its lock keeps that in the thread (parking_lot), any: the
 * parker says that its thread is about to sleep. */
static bool is_parker(const struct ky_tokio_root *root, const uint32_t *futex)
{
	uintptr_t distance = (uintptr_t)futex - (uintptr_t)root->data;
	uint64_t state;

	if (distance < PARKER_BYTES)
		state = __atomic_load_n((const uint64_t *)root->data, __ATOMIC_RELAXED);
	else if (ky_tokio_read_words((uintptr_t)root->data, &state, 1) != 1)
		return false;
	return state == STATE_PARKED;
}

bool ky_tokio_root_sleeps(struct ky_tokio_thread *self, const uint32_t *futex)
{
	struct ky_tokio_root *root = &self->root;

	if (root->kind == KY_TOKIO_ROOT_THREAD ? !futex || !is_parker(root, futex) : futex != NULL)
		return false;
	if (root->is_asleep && !root->is_open)
		return true; /* for nothing: it sleeps on */
	ky_tokio_root_close(self, true);
	root->is_asleep = true;
	return true;
}

void ky_tokio_root_awake(struct ky_tokio_thread *self)
{
	struct ky_tokio_root *root = &self->root;

	if (root->kind == KY_TOKIO_ROOT_THREAD) {
		if (root->is_asleep && !root->is_open &&
		    __atomic_load_n((const uint64_t *)root->data, __ATOMIC_RELAXED) ==
			    STATE_NOTIFIED)
			open_poll(self, KYMO_ROOT_WOKEN);
	} else if (!root->is_open &&
		   atomic_exchange_explicit(root->woken, 0, memory_order_relaxed)) {
		open_poll(self, KYMO_ROOT_WOKEN);
	}
}

/* ---- wakes ---- */

static void record_wake(const void *data, uint32_t flags)
{
	struct ky_tokio_thread *self = &ky_tokio_self;
	struct known_root *known;
	uint64_t task;

	if (!kymo_gate_is_open(KYMO_GATE_WAKE))
		return;
	known = find(data, false);
	task = known ? atomic_load_explicit(&known->task, memory_order_relaxed) : 0;
	if (!task)
		return;
	flags |= ky_tokio_complete(self, 0);
	atomic_store_explicit(&known->is_woken, 1, memory_order_relaxed);
	if ((ky_tokio_is_worker(self) || self->is_driver) && self->depth == 0)
		flags |= KYMO_WAKE_ON_DRIVER;
	kymo_poll_cost_self.counts += KYMO_POLL_COST_WAKE;
	kymo_emit_ungated(KYMO_RECORD_WAKE, flags, 1, kymo_task_word(task, 0), 0, 0);
}

void ky_tokio_on_root_wake(void *data, uint32_t index)
{
	record_wake(data, KYMO_WAKE_BY_VALUE);
	ky_tokio_root_tables[index].wake(data);
}

void ky_tokio_on_root_wake_by_ref(void *data, uint32_t index)
{
	record_wake(data, 0);
	ky_tokio_root_tables[index].wake_by_ref(data);
}

_Static_assert(offsetof(struct ky_tokio_root_table, clone) == 8 &&
		       sizeof(struct ky_tokio_root_table) == 40 && KY_TOKIO_ROOT_TABLES_MAX == 32,
	       "as thunks_<arch>.S has them");
