/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "fake_tokio.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../adapters/tokio/patch.h"

#define TASK_MODULE "_ZN5tokio7runtime4task3raw"
#define KEPT __attribute__((used, noinline, noclone))
#if defined(__clang__)
#undef KEPT
#define KEPT __attribute__((used, noinline, optnone))
#endif

struct table {
	void (*functions[KY_TOKIO_FUNCTIONS])(struct fake_task *);
	uint64_t trailer, scheduler, id;
};

struct waker_table {
	struct ky_tokio_raw_waker (*clone)(struct fake_task *);
	void (*others[3])(struct fake_task *);
};

fake_body_fn fake_poll_body, fake_shutdown_body;
static volatile uint32_t call_count; /* keeps calls from being folded away */

uint64_t fake_next_id = FAKE_NEXT_ID_FIRST;
void fake_schedule_multi(struct fake_task *task) __asm__(TASK_MODULE
							 "8schedule17h0000000000000001E");
void fake_schedule_current(struct fake_task *task) __asm__(TASK_MODULE
							   "8schedule17h0000000000000002E");
void fake_schedule_blocking(struct fake_task *task) __asm__(TASK_MODULE
							    "8schedule17h0000000000000003E");
void fake_multi_push(void) __asm__("_ZN5tokio7runtime9scheduler12multi_thread6handle4push17h01E");
void fake_current_push(void) __asm__("_ZN5tokio7runtime9scheduler14current_thread8schedule17h02E");
void fake_blocking_panics(void) __asm__(
	"_ZN5tokio7runtime8blocking16BlockingSchedule8schedule17h3E");
void fake_worker_run(void) __asm__("_ZN5tokio7runtime9scheduler12multi_thread6worker3run17h04E");
void fake_poll_multi(struct fake_task *task) __asm__(TASK_MODULE "4poll17h0000000000000001E");
void fake_poll_current(struct fake_task *task) __asm__(TASK_MODULE "4poll17h0000000000000002E");
void fake_poll_blocking(struct fake_task *task) __asm__(TASK_MODULE "4poll17h0000000000000003E");
void fake_poll_launch(struct fake_task *task) __asm__(TASK_MODULE "4poll17h0000000000000004E");
extern const struct waker_table
	fake_waker_table __asm__("_ZN5tokio7runtime4task5waker12WAKER_VTABLE17h0000000000000001E");

KEPT void fake_multi_push(void)
{
	call_count += 1;
}

KEPT void fake_current_push(void)
{
	call_count += 2;
}

KEPT void fake_blocking_panics(void)
{
	call_count += 3;
}

KEPT void fake_worker_run(void)
{
	call_count += 4;
}

KEPT void fake_schedule_multi(struct fake_task *task)
{
	fake_multi_push();
	task->next = 1;
}

KEPT void fake_schedule_current(struct fake_task *task)
{
	fake_current_push();
	task->next = 2;
}

KEPT void fake_schedule_blocking(struct fake_task *task)
{
	fake_blocking_panics();
	task->next = 3;
}

static void poll(struct fake_task *task)
{
	task->poll_count++;
	if (fake_poll_body)
		fake_poll_body(task);
}

KEPT void fake_poll_multi(struct fake_task *task)
{
	call_count += 11;
	poll(task);
}

KEPT void fake_poll_current(struct fake_task *task)
{
	call_count += 12;
	poll(task);
}

KEPT void fake_poll_blocking(struct fake_task *task)
{
	call_count += 13;
	poll(task);
}

KEPT void fake_poll_launch(struct fake_task *task)
{
	fake_worker_run();
	poll(task);
}

static void dealloc(struct fake_task *task)
{
	task->dealloc_count++;
}

static void nothing(struct fake_task *task)
{
	task->next++;
}

static void shut_down(struct fake_task *task)
{
	task->shutdown_count++;
	if (fake_shutdown_body)
		fake_shutdown_body(task);
}

static struct ky_tokio_raw_waker clone_waker(struct fake_task *task)
{
	task->state += FAKE_REFERENCE;
	return (struct ky_tokio_raw_waker){{(uintptr_t)task, 17}};
}

static void wake(struct fake_task *task)
{
	task->wake_count++;
	task->state |= FAKE_NOTIFIED;
}

#define OFFSETS 80, 32, 40
#define TABLE(poll_fn, schedule_fn)                                                                \
	{                                                                                          \
		{poll_fn, schedule_fn, dealloc, nothing, nothing, nothing, shut_down}, OFFSETS     \
	}

static const struct table tables[FAKE_TABLES] = {
	[FAKE_MULTI] = TABLE(fake_poll_multi, fake_schedule_multi),
	[FAKE_CURRENT] = TABLE(fake_poll_current, fake_schedule_current),
	[FAKE_BLOCKING] = TABLE(fake_poll_blocking, fake_schedule_blocking),
	[FAKE_LAUNCH] = TABLE(fake_poll_launch, fake_schedule_blocking),
};

/* Has the shape of one and is none: the offsets make no sense. */
static const struct table impostor = {{fake_poll_multi, fake_schedule_multi, dealloc, nothing,
				       nothing, nothing, shut_down},
				      8,
				      UINT64_C(1) << 40,
				      3};

const struct waker_table fake_waker_table = {clone_waker, {wake, wake, nothing}};

/* Through memory the compiler must not think it knows. */
static void call(const void *table, uint32_t slot, struct fake_task *task)
{
	void (*const volatile *functions)(struct fake_task *) = table;

	functions[slot](task);
}

void fake_poll(struct fake_task *task)
{
	call(task->table, KY_TOKIO_SLOT_POLL, task);
}

void fake_shutdown(struct fake_task *task)
{
	call(task->table, KY_TOKIO_SLOT_SHUTDOWN, task);
}

void fake_wake(struct fake_task *task)
{
	call(&fake_waker_table, 1, task);
}

void fake_wake_by_ref(struct fake_task *task)
{
	call(&fake_waker_table, 2, task);
}

void fake_clone(struct fake_task *task)
{
	struct ky_tokio_raw_waker (*const volatile *clone)(
		struct fake_task *) = &fake_waker_table.clone;
	struct ky_tokio_raw_waker waker = (*clone)(task);

	if (waker.words[0] != (uintptr_t)task || waker.words[1] != 17)
		abort();
}

struct fake_task fake_task(enum fake_table table, uint64_t id)
{
	struct fake_task task;

	memset(&task, 0, sizeof(task));
	task.state = FAKE_NOTIFIED | 3 * FAKE_REFERENCE;
	task.table = &tables[table];
	task.owner = table >= FAKE_BLOCKING ? 0 : 7 + (uint64_t)table;
	task.scheduler = 0x100000 + 0x1000 * (uint64_t)table;
	task.id = id;
	return task;
}

static int find_in_main(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	struct ky_tokio_elf elf;

	(void)info_bytes;
	if (ky_tokio_elf_open(&elf, info, "/proc/self/exe") == KY_TOKIO_ELF_FOUND) {
		ky_tokio_tables_find(ctx, &elf);
		ky_tokio_elf_close(&elf);
	}
	return 1;
}

const struct ky_tokio_found *fake_find(void)
{
	static struct ky_tokio_found found;
	const volatile uint64_t *keep = &impostor.scheduler;

	if (found.table_count == 0 && *keep)
		dl_iterate_phdr(find_in_main, &found);
	return &found;
}

void fake_patch(void)
{
	static bool is_patched;
	struct ky_tokio_found found = *fake_find();

	/* The adapter is linked into this very program, so that its own calls of libc would come
	 * back to it: the slots stay as they are. */
	found.got_count = 0;
	if (!is_patched && ky_tokio_patch(&found) < 0) {
		fprintf(stderr, "the test program could not be patched\n");
		abort();
	}
	is_patched = true;
}

struct ky_tokio_table *fake_table_of(enum fake_table table)
{
	for (uint32_t i = 0; i < fake_find()->table_count; i++)
		if (ky_tokio_tables[i].words == (const void *)&tables[table])
			return &ky_tokio_tables[i];
	return NULL;
}
