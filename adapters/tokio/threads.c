/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "threads.h"

#include <kymo/sampling.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "hooks.h"
#include "next_ids.h"

struct start {
	_Atomic uint32_t is_taken;
	void *(*function)(void *);
	void *argument;
};

static struct start starts[KY_TOKIO_STARTS_MAX];

/* Its frame stands below the thread's own on its stack until the thread ends, a detach or not: this
 * library is never unloaded. */
static void *run(void *ctx)
{
	struct start *start = ctx;
	void *(*function)(void *) = start->function;
	void *argument = start->argument, *result;

	atomic_store_explicit(&start->is_taken, 0, memory_order_release);
	kymo_sampling_begin();
	ky_tokio_self.root_id = ky_tokio_ids_root_next();
	result = function(argument);
	kymo_sampling_end();
	return result;
}

static struct start *take(void)
{
	for (uint32_t i = 0; i < KY_TOKIO_STARTS_MAX; i++) {
		uint32_t none = 0;

		if (atomic_compare_exchange_strong_explicit(&starts[i].is_taken, &none, 1,
							    memory_order_acquire,
							    memory_order_relaxed))
			return &starts[i];
	}
	return NULL;
}

static int on_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
		     void *argument)
{
	struct start *start = kymo_sampling_is_on() ? take() : NULL;
	int err;

	if (!start)
		return pthread_create(thread, attributes, function, argument);
	start->function = function;
	start->argument = argument;
	err = pthread_create(thread, attributes, run, start);
	if (err)
		atomic_store_explicit(&start->is_taken, 0, memory_order_release);
	return err;
}

uintptr_t ky_tokio_create_address(void)
{
	return (uintptr_t)on_create;
}
