/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests on connections as an adapter calls them. */
#include <kymo/conn.h>
#include <kymo/emit.h>
#include <record/emit/span_table.h>

void kymo_conn_begin(struct kymo_span *span, const struct kymo_conn *conn)
{
	*span = (struct kymo_span){0};
	if (!kymo_gate_is_open(KYMO_GATE_CONN))
		return;
	ky_span_number(span, conn->name);
	/* The first event of a process makes the ring, so it comes first. */
	kymo_emit_ungated(KYMO_RECORD_CONN_BEGIN, conn->peer_port, 3,
			  kymo_task_word(span->id, span->name),
			  (uint64_t)conn->number << 32 | conn->descriptor, conn->since_ticks);
	ky_span_open(span);
}

void kymo_conn_end(struct kymo_span *span, const struct kymo_conn *conn, uint64_t bytes_in,
		   uint64_t bytes_out)
{
	uint64_t word = kymo_task_word(span->id, span->name);
	uint64_t bytes = (uint64_t)kymo_conn_bytes(bytes_in) << (16 + KYMO_CONN_BYTES_BITS) |
			 (uint64_t)kymo_conn_bytes(bytes_out) << 16;

	if (ky_span_close(span))
		kymo_emit_ungated(KYMO_RECORD_CONN_END, conn->peer_port, 3, word, span->begin_ticks,
				  bytes | conn->descriptor);
}

void kymo_conn_wait(const struct kymo_span *span, uint64_t since_ticks)
{
	if (span->id)
		kymo_emit(KYMO_GATE_CONN, KYMO_RECORD_CONN_WAIT, 0, 2,
			  kymo_task_word(span->id, span->name), since_ticks, 0);
}

void kymo_conn_unseen(uint32_t count)
{
	kymo_emit(KYMO_GATE_CONN, KYMO_RECORD_CONN_UNSEEN, 0, 1, count, 0, 0);
}
