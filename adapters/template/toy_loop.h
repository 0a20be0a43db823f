/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* toy_loop.h - the smallest runtime there is: tasks that are woken are polled in turn, by one
 * thread. It knows nothing of kymo: it has callbacks, as most runtimes have.
 * Threads: one, but for toy_loop_depth().
 */
#ifndef TOY_LOOP_H
#define TOY_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOY_LOOP_TASKS_MAX 64u

/* What the loop tells. All of them or, as a whole, NULL. */
struct toy_loop_hooks {
	void (*begins)(void);
	void (*spawned)(uint32_t task, const char *name);
	void (*polls)(uint32_t task, size_t depth);
	void (*polled)(uint32_t task, bool is_done);
	void (*woken)(uint32_t task);
	void (*ends)(void);
};
void toy_loop_set_hooks(const struct toy_loop_hooks *hooks);

/* Returns true when the task is done. */
typedef bool (*toy_loop_fn)(void *ctx, uint32_t task);

/* Woken at once. Returns its number, from 1 on; 0: there is no room. */
uint32_t toy_loop_spawn(const char *name, toy_loop_fn fn, void *ctx);
void toy_loop_wake(uint32_t task);
size_t toy_loop_depth(void); /* tasks that are woken */
void toy_loop_run(void);     /* until none is */

#endif
