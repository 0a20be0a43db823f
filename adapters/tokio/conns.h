/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* conns.h - requests on connections (kymo/conn.h), by the reads and writes of their sockets.
 *
 * A socket that accept() gave is marked in a table by its descriptor, and one that connect() was
 * called on. Bytes in begin a request of an accepted one, bytes out end it; on the other it is the
 * other way round. Until the first byte of the answer whatever comes is the same request; after
 * that, whatever comes begins the next.
 * Invariants:  an entry's state is one word: the number of its connection and a phase. A thread
 *              that changes the phase to OPENING or CLOSING has the rest of the entry until it
 *              changes it back, also where the descriptor is closed meanwhile (ABANDONED). No
 *              thread waits: what finds an entry taken is counted as not seen.
 * Memory:      4 MiB of zeros, of which the kernel gives pages as descriptors are used.
 * Threads:     any.      Signals: safe, and not seen where they interrupt one of ours.
 * errno:       the caller's is kept.
 * Cost:        while no connection is marked, which is so while the gate is closed, one load a
 *              call; then two for a descriptor that is none of them.
 */
#ifndef KY_TOKIO_CONNS_H
#define KY_TOKIO_CONNS_H

#include <kymo/emit.h>
#include <kymo/span.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>

#define KY_TOKIO_CONNS_MAX 65536u /* by descriptor; those above are counted as not seen */

enum ky_tokio_conn_phase {
	KY_TOKIO_CONN_NONE = 0, /* not a connection, or not one that is seen */
	KY_TOKIO_CONN_IDLE,
	KY_TOKIO_CONN_OPENING,
	KY_TOKIO_CONN_OPEN, /* a request waits for its answer */
	KY_TOKIO_CONN_CLOSING,
	KY_TOKIO_CONN_ABANDONED /* closed while a thread had the entry: until that gives it back */
};
#define KY_TOKIO_CONN_PHASES 7u
#define KY_TOKIO_CONN_OUT 8u /* the program made it */
#define KY_TOKIO_CONN_NUMBER_SHIFT 32

struct ky_tokio_conn {
	_Atomic uint64_t state; /* number << 32 | KY_TOKIO_CONN_OUT | enum ky_tokio_conn_phase */
	_Atomic uint64_t since_ticks; /* nothing moved since */
	_Atomic uint64_t empty_ticks; /* a read of the open request found nothing then; 0 */
	_Atomic uint64_t bytes;       /* of the open request */
	_Atomic uint64_t span_id, span_begin;
	_Atomic uint32_t span_slot;
	_Atomic uint32_t peer_port;
	uint64_t reserved;
};

extern struct ky_tokio_conn ky_tokio_conns[KY_TOKIO_CONNS_MAX];

/* Entries whose phase is not NONE. */
extern _Atomic uint32_t ky_tokio_conn_count;

/* Names of the spans; off the hot path, once a recorder is open. */
void ky_tokio_conns_name(void);

void ky_tokio_conn_accepted(int fd, const struct sockaddr *peer);
void ky_tokio_conn_made(int fd, const struct sockaddr *peer);
/* What calls on a marked one gave: bytes, 0 or -1. wanted: bytes that there was room for. */
void ky_tokio_conn_read(int fd, int64_t result, uint64_t wanted);
void ky_tokio_conn_wrote(int fd, int64_t result);
/* Before a marked descriptor is given back. */
void ky_tokio_conn_closes(int fd);

static inline bool ky_tokio_conn_is_any(void)
{
	return KYMO_UNLIKELY(atomic_load_explicit(&ky_tokio_conn_count, memory_order_relaxed));
}

static inline bool ky_tokio_conn_is_marked(int fd)
{
	return (uint32_t)fd < KY_TOKIO_CONNS_MAX &&
	       atomic_load_explicit(&ky_tokio_conns[fd].state, memory_order_relaxed) &
		       KY_TOKIO_CONN_PHASES;
}

/* While there is any: after a call on some descriptor. */
static inline void ky_tokio_conn_in(int fd, int64_t result, uint64_t wanted)
{
	if (ky_tokio_conn_is_marked(fd))
		ky_tokio_conn_read(fd, result, wanted);
}

static inline void ky_tokio_conn_out(int fd, int64_t result)
{
	if (result > 0 && ky_tokio_conn_is_marked(fd))
		ky_tokio_conn_wrote(fd, result);
}

static inline void ky_tokio_conn_close(int fd)
{
	if (ky_tokio_conn_is_any() && ky_tokio_conn_is_marked(fd))
		ky_tokio_conn_closes(fd);
}

#endif
