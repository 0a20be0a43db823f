/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/emit/usdt.h>

#include <record/emit/usdt_names.h>
#include <record/emit/usdt_note.h>

#define DEPTH_SHIFT 8
#define FLAGS_OF_WAKE ((1u << KYMO_WAKE_STACK_SHIFT) - 1)
#define FLAGS_OF_END ((1u << KYMO_POLL_POINTS_SHIFT) - 1)
#define NAME_MASK ((1u << KYMO_NAME_BITS) - 1)
#define SPAWNS_MAX 16384u
#define ONE_PLACE __attribute__((noinline, noclone))
#if defined(__clang__)
#undef ONE_PLACE
#define ONE_PLACE __attribute__((noinline))
#endif

/* Numbers of the semaphores: text of the notes. */
#define SPAWN 0
#define POLL_START 1
#define POLL_END 2
#define TERMINATE 3
#define WAKE 4
#define WORKER_START 8
#define WORKER_STOP 9
#define WORKER_PARK 10
#define WORKER_UNPARK 11
_Static_assert(SPAWN / 4 == KYMO_USDT_TASKS && TERMINATE / 4 == KYMO_USDT_TASKS &&
		       WAKE / 4 == KYMO_USDT_WAKES && WORKER_START / 4 == KYMO_USDT_WORKERS &&
		       WORKER_UNPARK / 4 == KYMO_USDT_WORKERS,
	       "each in the word of its kind");

/* In the file, not only in memory: a tracer counts in what the process has mapped of it. Tools look
 * for the section by name. */
__attribute__((used, section(".probes"), aligned(64)))
uint64_t kymo_usdt_semaphores[KYMO_USDT_WORDS] = {0};

static const struct kymo_usdt_place *(*place_by)(uint64_t task); /* atomic */

/* The polls of a thread whose start was fired. */
static struct {
	struct ky_usdt_task open[KY_OPEN_DEPTH];
} states[KY_THREADS_MAX];

void kymo_usdt_places_by(const struct kymo_usdt_place *(*place_of)(uint64_t task))
{
	__atomic_store_n(&place_by, place_of, __ATOMIC_RELEASE);
}

/* ---- what a record means ---- */

static struct ky_usdt_task task_of(uint64_t word)
{
	const struct kymo_usdt_place *(*by)(uint64_t) = __atomic_load_n(&place_by,
									__ATOMIC_ACQUIRE);
	struct ky_usdt_name name = ky_usdt_name_find((uint32_t)word & NAME_MASK);
	struct ky_usdt_task task = {word >> KYMO_NAME_BITS, name.place, name.text, name.code};
	const struct kymo_usdt_place *place = by ? by(task.id) : NULL;

	if (place)
		task.place = place;
	return task;
}

/* Id of the task whose poll is the innermost one open; 0: none, or it lies too deep. */
static uint64_t running_task(const struct ky_thread *thread, uint32_t flags)
{
	uint32_t depth = flags >> DEPTH_SHIFT;

	if (!depth || depth > KY_OPEN_DEPTH || !thread->hot.sub)
		return 0;
	return __atomic_load_n(&thread->hot.sub->open[depth - 1].task_word, __ATOMIC_RELAXED) >>
	       KYMO_NAME_BITS;
}

static void begin_poll(struct ky_thread *thread, const struct ky_usdt_record *record,
		       struct ky_usdt_event *out)
{
	uint32_t depth = record->before >> DEPTH_SHIFT;

	if (record->after <= record->before || depth >= KY_OPEN_DEPTH)
		return;
	out->record = KYMO_RECORD_POLL_BEGIN;
	out->task = task_of(record->payload[0]);
	states[thread - ky_engine.pool->threads].open[depth] = out->task;
	thread->traced |= UINT64_C(1) << depth;
}

static void end_poll(struct ky_thread *thread, const struct ky_usdt_record *record,
		     struct ky_usdt_event *out)
{
	uint32_t depth = record->after >> DEPTH_SHIFT;
	uint64_t bit = UINT64_C(1) << (depth % 64);

	if (record->after >= record->before || depth >= KY_OPEN_DEPTH || !(thread->traced & bit))
		return;
	thread->traced &= ~bit;
	out->record = KYMO_RECORD_POLL_END;
	out->flags = record->arg & FLAGS_OF_END;
	out->task = states[thread - ky_engine.pool->threads].open[depth];
}

static void spawn(const struct ky_thread *thread, const struct ky_usdt_record *record,
		  struct ky_usdt_event *out)
{
	uint64_t word = record->payload[0];
	uint32_t by = record->arg & ((1u << KYMO_SPAWN_COPY_SHIFT) - 1);

	out->record = KYMO_RECORD_SPAWN;
	out->other = by == KYMO_SPAWN_BY_POLL ? running_task(thread, record->before) : 0;
	if (record->record == KYMO_RECORD_SPAWN) {
		out->task = task_of(word);
		out->count = 1;
	} else {
		out->task = (struct ky_usdt_task){word >> KYMO_NAME_BITS, &ky_usdt_nowhere, "", 0};
		out->count = word & KYMO_SPAWN_COUNT_MAX;
	}
}

void ky_usdt_prepare(const struct ky_thread *thread, struct ky_usdt_event *out)
{
	out->record = 0;
	out->runtime = thread->worker[1];
	out->worker = thread->worker[2];
}

void ky_usdt_take(struct ky_thread *thread, const struct ky_usdt_record *record,
		  struct ky_usdt_event *out)
{
	const uint64_t *payload = record->payload;

	switch (record->record) {
	case KYMO_RECORD_POLL_BEGIN:
		if (kymo_usdt_is_on(KYMO_USDT_TASKS))
			begin_poll(thread, record, out);
		return;
	case KYMO_RECORD_POLL_END:
		end_poll(thread, record, out);
		return;
	default:
		if (!record->is_written)
			return;
	}
	out->flags = record->arg;
	switch (record->record) {
	case KYMO_RECORD_TASK_END:
		out->record = record->record;
		out->task = task_of(payload[0]);
		break;
	case KYMO_RECORD_SPAWN:
	case KYMO_RECORD_SPAWN_WINDOW:
		spawn(thread, record, out);
		break;
	case KYMO_RECORD_WAKE:
		out->record = record->record;
		out->flags &= FLAGS_OF_WAKE;
		out->task.id = payload[0] >> KYMO_NAME_BITS;
		out->copy = (uint32_t)payload[0] & NAME_MASK;
		out->other = running_task(thread, record->before);
		break;
	case KYMO_RECORD_WORKER_BEGIN:
		out->record = record->record;
		out->task.id = payload[0] >> KYMO_NAME_BITS;
		out->runtime = payload[1];
		out->worker = payload[2];
		break;
	case KYMO_RECORD_WORKER_END:
	case KYMO_RECORD_PARK:
	case KYMO_RECORD_UNPARK:
		out->record = record->record;
		break;
	default:
		break;
	}
}

/* ---- the probes: each once in the file, so that a tracer that stops at one stops at all ---- */

/* A kernel that makes a call of the five bytes pushes below the stack pointer, where a function
 * that calls nothing may keep its locals: so each of these calls something. */
static ONE_PLACE void leave_red_zone(void)
{
	__asm__ volatile("");
}

static ONE_PLACE void fire_spawn(const struct ky_usdt_task *task, uint64_t id, uint64_t by)
{
	leave_red_zone();
	KY_USDT_7(tokio, task__spawn, SPAWN, id, task->place->file, task->place->line,
		  task->place->column, by, task->code, task->name);
}

static ONE_PLACE void fire_start(const struct ky_usdt_task *task, uint64_t runtime)
{
	leave_red_zone();
	KY_USDT_7(tokio, task__poll__start, POLL_START, task->id, task->place->file,
		  task->place->line, task->place->column, runtime, task->code, task->name);
}

static ONE_PLACE void fire_end(const struct ky_usdt_task *task, uint64_t flags)
{
	leave_red_zone();
	KY_USDT_7(tokio, task__poll__end, POLL_END, task->id, task->place->file, task->place->line,
		  task->place->column, flags, task->code, task->name);
}

static ONE_PLACE void fire_terminate(const struct ky_usdt_task *task, uint64_t flags)
{
	leave_red_zone();
	KY_USDT_7(tokio, task__terminate, TERMINATE, task->id, task->place->file, task->place->line,
		  task->place->column, flags, task->code, task->name);
}

static ONE_PLACE void fire_wake(const struct ky_usdt_event *event)
{
	leave_red_zone();
	KY_USDT_4(kymo, wake, WAKE, event->task.id, event->other, event->flags, event->copy);
}

static ONE_PLACE void fire_worker_begin(uint64_t runtime, uint64_t worker, uint64_t task)
{
	leave_red_zone();
	KY_USDT_3(tokio, worker__thread__start, WORKER_START, runtime, worker, task);
	KY_USDT_3(kymo, worker__begin, WORKER_START, runtime, worker, task);
}

static ONE_PLACE void fire_worker_end(uint64_t runtime, uint64_t worker)
{
	leave_red_zone();
	KY_USDT_3(tokio, worker__thread__stop, WORKER_STOP, runtime, worker, 0);
	KY_USDT_3(kymo, worker__end, WORKER_STOP, runtime, worker, 0);
}

static ONE_PLACE void fire_park(uint64_t runtime, uint64_t worker, uint64_t wait)
{
	leave_red_zone();
	KY_USDT_3(tokio, worker__thread__park, WORKER_PARK, runtime, worker, wait);
	KY_USDT_3(kymo, worker__park, WORKER_PARK, runtime, worker, wait);
}

/* 0xffff: the wait failed. */
static uint64_t ready_count(uint64_t ready)
{
	return ready <= KYMO_READY_MAX || ready == KYMO_READY_FAILED ? ready : 1;
}

static ONE_PLACE void fire_unpark(uint64_t runtime, uint64_t worker, uint64_t ready_count)
{
	leave_red_zone();
	KY_USDT_3(tokio, worker__thread__unpark, WORKER_UNPARK, runtime, worker, ready_count);
	KY_USDT_3(kymo, worker__unpark, WORKER_UNPARK, runtime, worker, ready_count);
}

/* A window is what a poll saw given out, so polls of several threads see the same ids: whoever is
 * first fires one. Of more than there is room for here the rest is not fired: a tracer stops the
 * thread at each. */
static uint64_t claimed[SPAWNS_MAX]; /* atomic; by id */

static bool claim(uint64_t id)
{
	uint64_t *place = &claimed[id % SPAWNS_MAX];
	uint64_t before = __atomic_load_n(place, __ATOMIC_RELAXED);

	return before != id && __atomic_compare_exchange_n(place, &before, id, false,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void fire_spawns(const struct ky_usdt_event *event)
{
	uint64_t count = event->count < SPAWNS_MAX ? event->count : SPAWNS_MAX;

	for (uint64_t i = 0; i < count && kymo_usdt_is_on(KYMO_USDT_TASKS); i++)
		if (claim(event->task.id + i))
			fire_spawn(&event->task, event->task.id + i, event->other);
}

void ky_usdt_fire(const struct ky_usdt_event *event)
{
	const struct ky_usdt_task *task = &event->task;

	switch (event->record) {
	case KYMO_RECORD_POLL_BEGIN:
		fire_start(task, event->runtime);
		break;
	case KYMO_RECORD_POLL_END:
		if (event->flags & KYMO_POLL_READY)
			fire_terminate(task, event->flags);
		fire_end(task, event->flags);
		break;
	case KYMO_RECORD_TASK_END:
		fire_terminate(task, event->flags);
		break;
	case KYMO_RECORD_SPAWN:
		fire_spawns(event);
		break;
	case KYMO_RECORD_WAKE:
		fire_wake(event);
		break;
	case KYMO_RECORD_WORKER_BEGIN:
		fire_worker_begin(event->runtime, event->worker, task->id);
		break;
	case KYMO_RECORD_WORKER_END:
		fire_worker_end(event->runtime, event->worker);
		break;
	case KYMO_RECORD_PARK:
		fire_park(event->runtime, event->worker, event->flags & KYMO_PARK_WAIT_MASK);
		break;
	case KYMO_RECORD_UNPARK:
		fire_unpark(event->runtime, event->worker, ready_count(event->flags));
		break;
	default:
		break;
	}
}
