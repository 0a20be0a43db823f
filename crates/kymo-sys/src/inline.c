/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the headers have as inline functions, for callers in another language. */
#include <base/quantity.h>
#include <kymo/alloc.h>
#include <kymo/emit.h>
#include <kymo/recorder.h>

#include "inline.h"

void kymo_sys_poll_begin(uint64_t task, uint32_t name, uint32_t queue_depth)
{
	(void)kymo_poll_begin(task, name,
			      queue_depth < KYMO_QUEUE_UNKNOWN ? queue_depth : KYMO_QUEUE_UNKNOWN);
}

void kymo_sys_spawn(uint64_t task, uint32_t name)
{
	kymo_spawn(task, name);
}

void kymo_sys_poll_delay(uint64_t delay_ns)
{
	kymo_poll_delay(delay_ns);
}

void kymo_sys_poll_end(uint32_t flags)
{
	(void)kymo_poll_end(flags);
}

void kymo_sys_wake(uint64_t task, uint32_t flags)
{
	kymo_emit(KYMO_GATE_WAKE, KYMO_RECORD_WAKE, flags, 1, kymo_task_word(task, 0), 0, 0);
}

void kymo_sys_task_end(uint64_t task, uint32_t name)
{
	kymo_task_end(task, name);
}

void kymo_sys_mark(uint32_t string)
{
	kymo_mark(string);
}

uint32_t kymo_sys_gates(void)
{
	return __atomic_load_n(&kymo_control.gates, __ATOMIC_RELAXED);
}

bool kymo_sys_alloc_is_due(size_t bytes)
{
	return kymo_alloc_is_due(bytes);
}

void kymo_sys_alloc(const void *address, size_t bytes)
{
	struct kymo_alloc_caller caller = {{0, 0, 0, 0}, 0, 0};

	KYMO_STACK_HERE(&caller.from);
	kymo_alloc_emit(address, bytes, &caller);
}

void kymo_sys_free(const void *address)
{
	kymo_free(address);
}

int kymo_sys_bytes(const char *text, uint64_t *out)
{
	return ky_quantity_bytes(text, out);
}

int kymo_sys_ns(const char *text, uint64_t *out)
{
	return ky_quantity_ns(text, out);
}
