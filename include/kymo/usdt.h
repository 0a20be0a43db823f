/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* usdt.h - static tracepoints (USDT) in every program that records: bpftrace, perf, SystemTap and
 * gdb find them by the notes in the file, attach to them while it runs, and leave again.
 *
 * Probes:      every argument has 8 bytes; texts end in NUL. A task's are arg0 id, arg1 file, arg2
 *              line, arg3 column of its spawn ("", 0, 0: not known), arg4 as below, arg5 address
 *              of the function that polls it, 0: not known, arg6 text of its name ("")
 *   tokio      task__spawn            arg4 id of the task that spawned it, 0: none
 *              task__poll__start      arg4 runtime: key of kymo_worker_begin()
 *              task__poll__end        arg4 enum kymo_poll_end_flags
 *              task__terminate        arg4 the same; before the end of its last poll
 *              worker__thread__start, _stop, _park, _unpark
 *                                     arg0 runtime, arg1 worker: keys of kymo_worker_begin();
 *                                     park: arg2 enum kymo_wait, unpark: arg2 events it brought
 *   kymo       wake                   arg0 task that is woken, arg1 task that wakes it, 0: none,
 *                                     arg2 enum kymo_wake_flags, arg3 number of the runtime copy
 *              worker__begin, worker__end, worker__park, worker__unpark
 *                                     as tokio's; begin: arg2 id of the task that launched it
 * When:        after the record was written, so what is not recorded (a closed gate, no recorder,
 *              no room) fires nothing, and a trace counts the same. A poll that began before the
 *              tracer was attached fires no end.
 * Cost:        without a tracer one load and one predicted branch in a record that has a probe.
 *              With one, all records of the process take the slow path.
 * Here:        x86_64 and aarch64. KYMO_WITHOUT_USDT leaves the probes out: define it for all
 *              sources or for none.
 */
#ifndef KYMO_USDT_H
#define KYMO_USDT_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Four semaphores of 16 bits in each word, so that one load asks for all of a kind. A tracer counts
 * them up and down in the memory of the process. They are part of whatever the recorder is linked
 * into, and so must be who emits. */
enum kymo_usdt_word {
	KYMO_USDT_TASKS = 0,   /* spawn, poll start, poll end, terminate */
	KYMO_USDT_WAKES = 1,   /* wake */
	KYMO_USDT_WORKERS = 2, /* start, stop, park, unpark; of both providers */
	KYMO_USDT_WORDS = 8    /* a cache line, so that no word beside them is written */
};
extern __attribute__((visibility("hidden"))) uint64_t kymo_usdt_semaphores[KYMO_USDT_WORDS];

/* True while a tracer is attached to one of these probes. */
static inline bool kymo_usdt_is_on(enum kymo_usdt_word word)
{
#if defined(KYMO_WITHOUT_USDT)
	(void)word;
	return false;
#else
	return __builtin_expect(__atomic_load_n(&kymo_usdt_semaphores[word], __ATOMIC_RELAXED) != 0,
				0);
#endif
}

/* Where a task was spawned, in memory that is never freed and was written to, so that a tracer can
 * read it: it cannot wait for a page. */
struct kymo_usdt_place {
	const char *file; /* NUL at its end */
	uint32_t line, column;
};

/* Returns the one place of these three; "", 0, 0 where there is no room for it (1 MiB for all). The
 * file is cut at 255 bytes. Threads any. Signals safe. Since 0.1 */
KYMO_API const struct kymo_usdt_place *kymo_usdt_place(const char *file, size_t file_bytes,
						       uint32_t line, uint32_t column);

/* place_of: where the task was spawned whose poll or end the calling thread records; called only
 * while a tracer is attached. Where it returns NULL the text of the task's name counts, if that is
 * FILE:LINE or FILE:LINE:COLUMN. NULL: no function. Threads any. Since 0.1 */
KYMO_API void kymo_usdt_places_by(const struct kymo_usdt_place *(*place_of)(uint64_t task));

#ifdef __cplusplus
}
#endif

#endif
