/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* conn.h - requests on connections, as an adapter sees them by reads and writes of sockets.
 *
 * A request is a span (span.h) with facts of its connection: on one that the program accepted it
 * begins with the first bytes that come in and ends with the first that go out; on one that it
 * made itself the other way round. Gate: KYMO_GATE_CONN; an end is recorded exactly when its begin
 * was.
 * Threads: any.      Signals: unsafe.      errno: untouched.      Since 0.1
 */
#ifndef KYMO_CONN_H
#define KYMO_CONN_H

#include <kymo/span.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kymo_conn {
	uint32_t number;      /* of the connection, in the process; never reused before 2^32 */
	uint32_t name;        /* of its spans: kymo_name_intern() */
	uint16_t descriptor;  /* which others may have had before */
	uint16_t peer_port;   /* 0: none, or not known */
	uint64_t since_ticks; /* nothing moved on it since then; 0: not known */
};

/* Bytes of an end: exact below 2^23, else in units of 4 KiB, saturating at 32 GiB. */
#define KYMO_CONN_BYTES_BITS 24
#define KYMO_CONN_BYTES_COARSE (1u << 23)
#define KYMO_CONN_BYTES_SHIFT 12

static inline uint32_t kymo_conn_bytes(uint64_t bytes)
{
	uint64_t coarse = bytes >> KYMO_CONN_BYTES_SHIFT;

	if (bytes < KYMO_CONN_BYTES_COARSE)
		return (uint32_t)bytes;
	if (coarse >= KYMO_CONN_BYTES_COARSE)
		coarse = KYMO_CONN_BYTES_COARSE - 1;
	return KYMO_CONN_BYTES_COARSE | (uint32_t)coarse;
}

/* A request begins here. Cost as kymo_span_begin(); one record. */
KYMO_API void kymo_conn_begin(struct kymo_span *span, const struct kymo_conn *conn);

/* It ends here. bytes_out 0 where the connection was accepted, bytes_in 0 where it was not: it was
 * closed without an answer. Leaves id 0. Cost as kymo_span_end(); one record. */
KYMO_API void kymo_conn_end(struct kymo_span *span, const struct kymo_conn *conn, uint64_t bytes_in,
			    uint64_t bytes_out);

/* More of an open request came in just now; there had been nothing to read since those ticks. */
KYMO_API void kymo_conn_wait(const struct kymo_span *span, uint64_t since_ticks);

/* So many connections, or requests on them, are not seen for want of room. */
KYMO_API void kymo_conn_unseen(uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
