/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* source.h - what records and is no part of this project: an adapter of another runtime, or a
 * sampler that reads numbers from time to time, as functions that the recorder calls.
 *
 * A source records by emit.h, event.h, span.h, counter.h: in its program's own threads, or in
 * sample(). It belongs to the recorder that is open when it is added, and ends with that.
 * Order:    open(), sample() any number of times, close(): one after the other, never two at once.
 * Thread:   open() on the one that adds it; sample() on the recorder's ("kymo-drain", low priority,
 *           all signals blocked), where a call that takes long delays dumps and segments, and one
 *           that waits for a dump waits for ever; close() on the one that closes the recorder or
 *           removes the source, while events are still recorded.
 * Fork:     a child has none of its parent's sources; their close() is not called there.
 * Since     0.1
 */
#ifndef KYMO_SOURCE_H
#define KYMO_SOURCE_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KYMO_SOURCES_MAX 64u
#define KYMO_SOURCE_NAME_BYTES_MAX 47u
#define KYMO_SOURCE_INTERVAL_NS_MIN UINT64_C(1000000)
#define KYMO_SOURCE_NEVER UINT64_MAX

struct kymo_event_source {
	size_t size;      /* sizeof(struct kymo_event_source) */
	const char *name; /* metadata "source.NAME" of the trace says that it was there; copied */
	void *ctx;        /* of the source, valid until close() has returned */
	/* Before the first sample. Returns 0; a negative error: kymo_event_source_add() returns it,
	 * and nothing follows. NULL: nothing to prepare. */
	int (*open)(void *ctx);
	/* now_ns: CLOCK_MONOTONIC. Returns when to be called again, in ns from now, at least
	 * KYMO_SOURCE_INTERVAL_NS_MIN; KYMO_SOURCE_NEVER: no more. NULL: an adapter that needs no
	 * sampling. */
	uint64_t (*sample)(void *ctx, uint64_t now_ns);
	/* Last, and once. NULL: nothing to end. */
	void (*close)(void *ctx);
};

/* Opens it, and has the recorder call it from now on.
 *
 * Returns  a number above 0, for kymo_event_source_remove(); KYMO_E_CLOSED: no recorder is open
 *          here; KYMO_E_UNSUPPORTED: another process drains its ring; KYMO_E_LIMIT: there are
 *          KYMO_SOURCES_MAX; -EINVAL: no name, or a longer one;
 *          what open() returned.
 * Threads  any, also in a callback.      Signals unsafe.
 */
KYMO_API int kymo_event_source_add(const struct kymo_event_source *source);

/* Ends it: waits for a callback that runs, then calls close(). In a callback of its own: at once,
 * and close() follows when that has returned.
 *
 * Returns  0; -ENOENT: it has ended already.
 * Threads  any.      Signals unsafe.
 */
KYMO_API int kymo_event_source_remove(int source);

#ifdef __cplusplus
}
#endif

#endif
