/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* tokio.h - records every task of the Tokio that is linked into this program, those of libraries
 * included: polls, wakes, ends, workers, parks, with any build of Tokio.
 *
 * Order:    kymo_recorder_open(), kymo_tokio_start(); kymo_tokio_stop(), kymo_recorder_close().
 *           Runtimes may begin and end before, between and after.
 * How:      words of Tokio's static tables, and of the slots through which this program calls libc,
 *           are replaced, each by one aligned store, and restored by kymo_tokio_stop(). A table
 *           whose first poll contradicts the known layout is left alone from then on.
 * Needs:    sources of this library that were compiled for it (adapters/tokio/own_calls.h): its own
 *           calls must not pass through the slots that it replaces.
 * Not seen: the metadata tokio.* of the trace says what; blocking calls of other libraries,
 *           allocations (alloc.h has functions for allocators), Tokio in a library that is opened
 *           after the start.
 * Threads:  any; a lock.      Signals: unsafe.      Since 0.1
 */
#ifndef KYMO_TOKIO_H
#define KYMO_TOKIO_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Searches for Tokio and records it from here on.
 *
 * text     text_bytes for one word and a sentence: "ok tables=N copies=M refused=R shaped=S", or
 *          why nothing is recorded
 * Returns  0; KYMO_E_UNSUPPORTED: no Tokio, or one that is laid out differently; KYMO_E_ACTIVE: it
 *          is recorded already, or by another recorder; KYMO_E_CLOSED: no recorder is open;
 *          KYMO_E_LIMIT: too many tables; -errno: memory could not be made writable. Nothing is
 *          changed unless it is 0.
 * Cost     reads the symbols of the program from its file: some 10 ms for 10 MiB
 */
KYMO_API int kymo_tokio_start(char *text, size_t text_bytes);

/* Restores what was replaced. Polls that are open end as usual, through code that stays.
 *
 * Returns  0; KYMO_E_CLOSED: it was not started; -errno: a word could not be restored, and
 *          recording continues.
 */
KYMO_API int kymo_tokio_stop(void);

/* Names the runtime of the task whose poll is the innermost one open on this thread, in traces from
 * now on, until the runtime ends.
 *
 * name     UTF-8, cut at 63 bytes
 * Returns  0; KYMO_E_CLOSED: no poll of this thread is recorded; -ENOENT: a task of a local set, or
 *          of one runtime too many
 * Threads  any.      Signals: unsafe.
 */
KYMO_API int kymo_tokio_runtime_name(const char *name);

/* Tokio's id of the task whose poll is the innermost one open on this thread; 0: none is, or it is
 * not seen. What Tokio says (`tokio::task::id()`) must be equal. */
KYMO_API uint64_t kymo_tokio_task(void);

/* Number of that task's copy of Tokio, for kymo_name_intern(); KYMO_E_CLOSED: no poll is open. */
KYMO_API int kymo_tokio_copy(void);

/* How many tasks lie in the local queue of this thread's worker, for the next poll that begins on
 * this thread: what a callback before the poll knows. Cost: one store. */
KYMO_API void kymo_tokio_queue_depth(uint32_t depth);

#ifdef __cplusplus
}
#endif

#endif
