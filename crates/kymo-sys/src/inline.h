/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* inline.h - functions of inline.c, as src/lib.rs declares them. */
#ifndef KYMO_SYS_INLINE_H
#define KYMO_SYS_INLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* queue_depth: UINT32_MAX: not known. */
void kymo_sys_poll_begin(uint64_t task, uint32_t name, uint32_t queue_depth);
void kymo_sys_spawn(uint64_t task, uint32_t name);
void kymo_sys_poll_delay(uint64_t delay_ns);
void kymo_sys_poll_end(uint32_t flags);
void kymo_sys_wake(uint64_t task, uint32_t flags);
void kymo_sys_task_end(uint64_t task, uint32_t name);
void kymo_sys_mark(uint32_t string);
uint32_t kymo_sys_gates(void);
bool kymo_sys_alloc_is_due(size_t bytes);
void kymo_sys_alloc(const void *address, size_t bytes);
void kymo_sys_free(const void *address);
int kymo_sys_bytes(const char *text, uint64_t *out);
int kymo_sys_ns(const char *text, uint64_t *out);

#endif
