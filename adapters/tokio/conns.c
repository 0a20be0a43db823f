/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "conns.h"

#include <errno.h>
#include <kymo/conn.h>
#include <kymo/recorder.h>
#include <netinet/in.h>
#include <stdbool.h>

#include "blocking.h"

#define FIRST_NUMBER 1u

struct ky_tokio_conn ky_tokio_conns[KY_TOKIO_CONNS_MAX];
_Atomic uint32_t ky_tokio_conn_count;

static _Atomic uint32_t next_number = FIRST_NUMBER;
static _Atomic uint32_t name_in, name_out; /* of the spans */

_Static_assert(sizeof(struct ky_tokio_conn) == 64, "one cache line a descriptor");
_Static_assert(KY_TOKIO_CONNS_MAX <= 1u << 16, "a record has 16 bits for it");

void ky_tokio_conns_name(void)
{
	atomic_store_explicit(&name_in, kymo_name_intern("conn", 4, 0, 0, 0), memory_order_relaxed);
	atomic_store_explicit(&name_out, kymo_name_intern("conn_out", 8, 0, 0, 0),
			      memory_order_relaxed);
}

/* ---- an entry ---- */

static uint64_t phase_of(uint64_t state)
{
	return state & KY_TOKIO_CONN_PHASES;
}

static uint64_t with_phase(uint64_t state, enum ky_tokio_conn_phase phase)
{
	return (state & ~(uint64_t)KY_TOKIO_CONN_PHASES) | phase;
}

/* Pairs with the acquiring exchanges of other threads: what was stored before is seen after. */
static bool change(struct ky_tokio_conn *conn, uint64_t from, uint64_t to)
{
	return atomic_compare_exchange_strong_explicit(&conn->state, &from, to,
						       memory_order_acq_rel, memory_order_relaxed);
}

static struct kymo_conn facts_of(const struct ky_tokio_conn *conn, uint64_t state)
{
	return (struct kymo_conn){
		.number = (uint32_t)(state >> KY_TOKIO_CONN_NUMBER_SHIFT),
		.name = atomic_load_explicit(state & KY_TOKIO_CONN_OUT ? &name_out : &name_in,
					     memory_order_relaxed),
		.descriptor = (uint16_t)(conn - ky_tokio_conns),
		.peer_port = (uint16_t)atomic_load_explicit(&conn->peer_port, memory_order_relaxed),
		.since_ticks = atomic_load_explicit(&conn->since_ticks, memory_order_relaxed)};
}

static struct kymo_span span_of(const struct ky_tokio_conn *conn, uint64_t state)
{
	return (struct kymo_span){
		.id = atomic_load_explicit(&conn->span_id, memory_order_relaxed),
		.begin_ticks = atomic_load_explicit(&conn->span_begin, memory_order_relaxed),
		.name = facts_of(conn, state).name,
		.slot = atomic_load_explicit(&conn->span_slot, memory_order_relaxed)};
}

static void keep_span(struct ky_tokio_conn *conn, const struct kymo_span *span)
{
	atomic_store_explicit(&conn->span_id, span->id, memory_order_relaxed);
	atomic_store_explicit(&conn->span_begin, span->begin_ticks, memory_order_relaxed);
	atomic_store_explicit(&conn->span_slot, span->slot, memory_order_relaxed);
}

/* answer: bytes of it, 0: none came. */
static void end_span(struct ky_tokio_conn *conn, uint64_t state, struct kymo_span *span,
		     uint64_t answer)
{
	struct kymo_conn facts = facts_of(conn, state);
	uint64_t asked = atomic_exchange_explicit(&conn->bytes, 0, memory_order_relaxed);

	if (state & KY_TOKIO_CONN_OUT)
		kymo_conn_end(span, &facts, answer, asked);
	else
		kymo_conn_end(span, &facts, asked, answer);
}

static void count_down(void)
{
	atomic_fetch_sub_explicit(&ky_tokio_conn_count, 1, memory_order_relaxed);
}

/* By the thread that has the entry. */
static void forget(struct ky_tokio_conn *conn)
{
	atomic_store_explicit(&conn->state, 0, memory_order_release);
	count_down();
}

/* It is no connection any more. A thread that has the entry gives it back itself. */
static void take_out(struct ky_tokio_conn *conn)
{
	uint64_t state = atomic_load_explicit(&conn->state, memory_order_acquire);
	struct kymo_span span;

	for (;; state = atomic_load_explicit(&conn->state, memory_order_acquire)) {
		switch (phase_of(state)) {
		case KY_TOKIO_CONN_OPENING:
		case KY_TOKIO_CONN_CLOSING:
			if (change(conn, state, with_phase(state, KY_TOKIO_CONN_ABANDONED)))
				return;
			continue;
		case KY_TOKIO_CONN_OPEN:
			if (!change(conn, state, with_phase(state, KY_TOKIO_CONN_CLOSING)))
				continue;
			span = span_of(conn, state);
			end_span(conn, state, &span, 0);
			forget(conn);
			return;
		case KY_TOKIO_CONN_IDLE:
			if (!change(conn, state, 0))
				continue;
			count_down();
			return;
		default:
			return;
		}
	}
}

/* ---- marks ---- */

static uint32_t port_of(const struct sockaddr *peer)
{
	/* In one place in both. */
	if (peer && (peer->sa_family == AF_INET || peer->sa_family == AF_INET6))
		return ntohs(((const struct sockaddr_in *)(const void *)peer)->sin_port);
	return 0;
}

static void mark(int fd, const struct sockaddr *peer, uint64_t flags)
{
	struct ky_tokio_conn *conn;
	uint64_t state, number;

	if (fd < 0 || !kymo_gate_is_open(KYMO_GATE_CONN))
		return;
	if (fd >= (int)KY_TOKIO_CONNS_MAX) {
		kymo_conn_unseen(1);
		return;
	}
	conn = &ky_tokio_conns[fd];
	take_out(conn); /* its close was not seen */
	if (atomic_load_explicit(&conn->state, memory_order_acquire)) {
		kymo_conn_unseen(1);
		return;
	}
	number = atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed);
	state = number << KY_TOKIO_CONN_NUMBER_SHIFT | flags | KY_TOKIO_CONN_IDLE;
	atomic_store_explicit(&conn->peer_port, port_of(peer), memory_order_relaxed);
	atomic_store_explicit(&conn->since_ticks, ky_tokio_ticks(), memory_order_relaxed);
	atomic_store_explicit(&conn->empty_ticks, 0, memory_order_relaxed);
	atomic_store_explicit(&conn->bytes, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&ky_tokio_conn_count, 1, memory_order_relaxed);
	atomic_store_explicit(&conn->state, state, memory_order_release);
}

void ky_tokio_conn_accepted(int fd, const struct sockaddr *peer)
{
	int saved = errno;

	mark(fd, peer, 0);
	errno = saved;
}

void ky_tokio_conn_made(int fd, const struct sockaddr *peer)
{
	int saved = errno;

	mark(fd, peer, KY_TOKIO_CONN_OUT);
	errno = saved;
}

void ky_tokio_conn_closes(int fd)
{
	struct ky_tokio_conn *conn = &ky_tokio_conns[fd];
	int saved = errno;

	take_out(conn);
	errno = saved;
}

/* ---- bytes ---- */

static void begin_request(struct ky_tokio_conn *conn, uint64_t idle)
{
	uint64_t opening = with_phase(idle, KY_TOKIO_CONN_OPENING);
	struct kymo_conn facts;
	struct kymo_span span;

	/* From here on it would have to be known what moves while nothing is recorded. */
	if (!kymo_gate_is_open(KYMO_GATE_CONN)) {
		if (change(conn, idle, 0))
			count_down();
		return;
	}
	if (!change(conn, idle, opening))
		return;
	facts = facts_of(conn, idle);
	kymo_conn_begin(&span, &facts);
	keep_span(conn, &span);
	if (change(conn, opening, with_phase(idle, KY_TOKIO_CONN_OPEN)))
		return;
	end_span(conn, idle, &span, 0);
	forget(conn);
}

/* Bytes of the side that asks. Returns whether a request of an accepted connection is open. */
static bool take_request(struct ky_tokio_conn *conn, uint64_t state, uint64_t bytes)
{
	struct kymo_span span;
	uint64_t empty;

	switch (phase_of(state)) {
	case KY_TOKIO_CONN_IDLE:
		atomic_fetch_add_explicit(&conn->bytes, bytes, memory_order_relaxed);
		begin_request(conn, state);
		return true;
	case KY_TOKIO_CONN_OPENING:
		atomic_fetch_add_explicit(&conn->bytes, bytes, memory_order_relaxed);
		return false;
	case KY_TOKIO_CONN_OPEN:
		atomic_fetch_add_explicit(&conn->bytes, bytes, memory_order_relaxed);
		empty = atomic_exchange_explicit(&conn->empty_ticks, 0, memory_order_relaxed);
		span = span_of(conn, state);
		if (empty)
			kymo_conn_wait(&span, empty);
		return true;
	case KY_TOKIO_CONN_CLOSING:
		kymo_conn_unseen(1);
		return false;
	default:
		return false;
	}
}

static void take_answer(struct ky_tokio_conn *conn, uint64_t state, uint64_t bytes)
{
	uint64_t closing = with_phase(state, KY_TOKIO_CONN_CLOSING);
	struct kymo_span span;

	if (phase_of(state) == KY_TOKIO_CONN_IDLE) {
		atomic_store_explicit(&conn->since_ticks, ky_tokio_ticks(), memory_order_relaxed);
		return;
	}
	if (phase_of(state) != KY_TOKIO_CONN_OPEN || !change(conn, state, closing))
		return;
	span = span_of(conn, state);
	end_span(conn, state, &span, bytes);
	atomic_store_explicit(&conn->since_ticks, ky_tokio_ticks(), memory_order_relaxed);
	atomic_store_explicit(&conn->empty_ticks, 0, memory_order_relaxed);
	if (!change(conn, closing, with_phase(state, KY_TOKIO_CONN_IDLE)))
		forget(conn);
}

void ky_tokio_conn_read(int fd, int64_t result, uint64_t wanted)
{
	struct ky_tokio_conn *conn = &ky_tokio_conns[fd];
	uint64_t state = atomic_load_explicit(&conn->state, memory_order_acquire);
	bool is_open = phase_of(state) == KY_TOKIO_CONN_OPEN, is_empty;
	int saved = errno;

	is_empty = result > 0 ? (uint64_t)result < wanted : result == -1 && saved == EAGAIN;
	if (result > 0 && state & KY_TOKIO_CONN_OUT)
		take_answer(conn, state, (uint64_t)result);
	else if (result > 0)
		is_open = take_request(conn, state, (uint64_t)result);
	if (is_open && is_empty && !(state & KY_TOKIO_CONN_OUT) &&
	    !atomic_load_explicit(&conn->empty_ticks, memory_order_relaxed))
		atomic_store_explicit(&conn->empty_ticks, ky_tokio_ticks(), memory_order_relaxed);
	errno = saved;
}

void ky_tokio_conn_wrote(int fd, int64_t result)
{
	struct ky_tokio_conn *conn = &ky_tokio_conns[fd];
	uint64_t state = atomic_load_explicit(&conn->state, memory_order_acquire);
	int saved = errno;

	if (state & KY_TOKIO_CONN_OUT)
		(void)take_request(conn, state, (uint64_t)result);
	else
		take_answer(conn, state, (uint64_t)result);
	errno = saved;
}
