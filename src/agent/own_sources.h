/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_sources.h - the sources (kymo/source.h) of a program that links the library.
 *
 * Invariants:  one callback runs at a time, with the lock free: it may add and remove sources.
 * Threads:     any, but for step(), which is the library's thread alone.
 */
#ifndef KY_AGENT_OWN_SOURCES_H
#define KY_AGENT_OWN_SOURCES_H

#include <kymo/source.h>

/* Returns as kymo_event_source_add(), which has asked whether a recorder is open. */
int ky_own_sources_add(const struct kymo_event_source *source);
int ky_own_sources_remove(int number);

/* Calls what is due. Returns when to come again, CLOCK_MONOTONIC ns; UINT64_MAX: when one is added.
 */
uint64_t ky_own_sources_step(uint64_t now_ns);

/* Closes all of them. */
void ky_own_sources_end(void);

/* In a forked child: there are none, and the lock is free. */
void ky_own_sources_forget(void);

#endif
