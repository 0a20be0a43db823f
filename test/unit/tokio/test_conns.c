/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests by the calls that a program makes on real sockets of loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/conn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../../adapters/tokio/conns.h"
#include "../../../adapters/tokio/hooks.h"
#include "../../../adapters/tokio/waits.h"
#include "fake_recorder.h"

#define GATES (KYMO_GATE_CONN)
#define THREADS 4
#define ROUNDS 20000

typedef int (*accept4_fn)(int, struct sockaddr *, socklen_t *, int);
typedef int (*connect_fn)(int, const struct sockaddr *, socklen_t);
typedef int (*close_fn)(int);
typedef ssize_t (*recv_fn)(int, void *, size_t, int);
typedef ssize_t (*send_fn)(int, const void *, size_t, int);
typedef ssize_t (*read_fn)(int, void *, size_t);
typedef ssize_t (*write_fn)(int, const void *, size_t);
typedef ssize_t (*vector_fn)(int, const struct iovec *, int);
typedef ssize_t (*message_fn)(int, struct msghdr *, int);
typedef ssize_t (*send_message_fn)(int, const struct msghdr *, int);
typedef ssize_t (*send_file_fn)(int, int, off_t *, size_t);

static struct calls {
	accept4_fn accept4;
	connect_fn connect;
	close_fn close;
	recv_fn recv;
	send_fn send;
	read_fn read;
	write_fn write;
	vector_fn readv, writev;
	message_fn recvmsg;
	send_message_fn sendmsg;
	send_file_fn sendfile;
} calls;

/* A connection: `server` was given by accept4(), `client` called connect(). Plain calls of the
 * other end are not seen. */
struct pair {
	int server, client;
	uint16_t port; /* of the client */
};

static int listener;
static struct sockaddr_in address;

static void take(void *out, uint32_t kind)
{
	uintptr_t code = ky_tokio_wait_address(kind);

	assert_true(code != 0);
	memcpy(out, &code, sizeof(code));
}

static int set_up(void **state)
{
	socklen_t bytes = sizeof(address);

	(void)state;
	fake_recorder_reset(GATES);
	memset(&ky_tokio_self, 0, sizeof(ky_tokio_self));
	ky_tokio_conns_name();
	take(&calls.accept4, KY_TOKIO_GOT_CALL_accept4);
	take(&calls.connect, KY_TOKIO_GOT_CALL_connect);
	take(&calls.close, KY_TOKIO_GOT_CLOSE);
	take(&calls.recv, KY_TOKIO_GOT_CALL_recv);
	take(&calls.send, KY_TOKIO_GOT_CALL_send);
	take(&calls.read, KY_TOKIO_GOT_CALL_read);
	take(&calls.write, KY_TOKIO_GOT_WRITE);
	take(&calls.readv, KY_TOKIO_GOT_CALL_readv);
	take(&calls.writev, KY_TOKIO_GOT_CALL_writev);
	take(&calls.recvmsg, KY_TOKIO_GOT_CALL_recvmsg);
	take(&calls.sendmsg, KY_TOKIO_GOT_CALL_sendmsg);
	take(&calls.sendfile, KY_TOKIO_GOT_CALL_sendfile);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	address = (struct sockaddr_in){.sin_family = AF_INET,
				       .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 8), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(listener);
	assert_int_equal(ky_tokio_conn_count, 0);
	return 0;
}

static struct pair connect_plain(void)
{
	struct sockaddr_in peer;
	socklen_t bytes = sizeof(peer);
	struct pair pair = {.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

	assert_int_equal(connect(pair.client, (struct sockaddr *)&address, sizeof(address)), 0);
	pair.server = calls.accept4(listener, (struct sockaddr *)&peer, &bytes,
				    SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(pair.server >= 0);
	pair.port = ntohs(peer.sin_port);
	return pair;
}

static void close_pair(const struct pair *pair)
{
	calls.close(pair->server);
	calls.close(pair->client);
}

/* Bytes have arrived once a plain peek sees them. */
static void put(const struct pair *pair, size_t bytes)
{
	char buffer[256] = {0};
	size_t seen = 0;

	assert_int_equal(send(pair->client, buffer, bytes, 0), bytes);
	while (seen < bytes) {
		ssize_t got = recv(pair->server, buffer, sizeof(buffer), MSG_PEEK);

		seen = got > 0 ? (size_t)got : 0;
	}
}

static void request__begins_with_bytes_in_and_ends_with_bytes_out(void **state)
{
	struct fake_event begin, end;
	struct pair pair = connect_plain();
	char buffer[64];

	(void)state;
	errno = 77;
	assert_int_equal(ky_tokio_conn_count, 1);
	put(&pair, 10);
	assert_int_equal(calls.recv(pair.server, buffer, sizeof(buffer), 0), 10);
	begin = fake_last_of(KYMO_RECORD_CONN_BEGIN);
	assert_int_equal(begin.arg, pair.port);
	assert_int_equal(begin.b & UINT32_MAX, pair.server);
	assert_true(begin.c != 0);
	assert_int_equal(calls.send(pair.server, buffer, 30, 0), 30);
	end = fake_last_of(KYMO_RECORD_CONN_END);
	assert_int_equal(end.arg, pair.port);
	assert_int_equal(end.a, begin.a);
	assert_int_equal(end.b, 10);
	assert_int_equal(end.c, 30);
	assert_int_equal(errno, 77);
	/* The rest of the answer is no second one. */
	assert_int_equal(calls.send(pair.server, buffer, 30, 0), 30);
	put(&pair, 5);
	assert_int_equal(calls.recv(pair.server, buffer, sizeof(buffer), 0), 5);
	assert_int_equal(calls.send(pair.server, buffer, 1, 0), 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_BEGIN), 2);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_END), 2);
	assert_int_equal(fake_last_of(KYMO_RECORD_CONN_END).b, 5);
	close_pair(&pair);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_END), 2);
}

static void reads_before_the_answer__are_one_request_that_waited(void **state)
{
	struct pair pair = connect_plain();
	char buffer[8];

	(void)state;
	put(&pair, 20);
	/* A full buffer may have more behind it, so nothing waits. */
	assert_int_equal(calls.recv(pair.server, buffer, 8, 0), 8);
	assert_int_equal(calls.recv(pair.server, buffer, 8, 0), 8);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_WAIT), 0);
	assert_int_equal(calls.recv(pair.server, buffer, 8, 0), 4); /* short: it is all */
	put(&pair, 3);
	assert_int_equal(calls.recv(pair.server, buffer, 8, 0), 3);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_WAIT), 1);
	assert_int_equal(fake_last_of(KYMO_RECORD_CONN_WAIT).a,
			 fake_last_of(KYMO_RECORD_CONN_BEGIN).a);
	put(&pair, 8);
	assert_int_equal(calls.recv(pair.server, buffer, 8, 0), 8);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_WAIT), 2);
	errno = 0;
	assert_int_equal(calls.recv(pair.server, buffer, 8, 0), -1);
	assert_int_equal(errno, EAGAIN);
	put(&pair, 1);
	assert_int_equal(calls.recv(pair.server, buffer, 8, 0), 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_WAIT), 3);
	assert_int_equal(calls.send(pair.server, buffer, 2, 0), 2);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_BEGIN), 1);
	assert_int_equal(fake_last_of(KYMO_RECORD_CONN_END).b, 32);
	/* What was found empty before the answer says nothing of the next request. */
	put(&pair, 1);
	assert_int_equal(calls.recv(pair.server, buffer, 8, 0), 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_WAIT), 3);
	close_pair(&pair);
}

static void server_that_speaks_first__has_no_request_yet(void **state)
{
	struct pair pair = connect_plain();
	char buffer[8];
	uint64_t since;

	(void)state;
	since = ky_tokio_conns[pair.server].since_ticks;
	assert_int_equal(calls.write(pair.server, "hello", 5), 5);
	assert_int_equal(fake_event_count(), 0);
	assert_true(ky_tokio_conns[pair.server].since_ticks != since);
	put(&pair, 4);
	assert_int_equal(calls.read(pair.server, buffer, 8), 4);
	assert_int_equal(calls.write(pair.server, "ok", 2), 2);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_END), 1);
	close_pair(&pair);
}

static void end_of_file_and_peeks__are_no_bytes(void **state)
{
	struct pair pair = connect_plain();
	char buffer[8];

	(void)state;
	put(&pair, 4);
	assert_int_equal(calls.recv(pair.server, buffer, 8, MSG_PEEK), 4);
	assert_int_equal(fake_event_count(), 0);
	assert_int_equal(calls.recv(pair.server, buffer, 8, 0), 4);
	assert_int_equal(shutdown(pair.client, SHUT_WR), 0);
	while (calls.recv(pair.server, buffer, 8, 0) != 0)
		;
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_BEGIN), 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_END), 0);
	calls.close(pair.server); /* without an answer */
	assert_int_equal(fake_last_of(KYMO_RECORD_CONN_END).b, 4);
	assert_int_equal(fake_last_of(KYMO_RECORD_CONN_END).c, 0);
	calls.close(pair.client);
}

static void vectors_messages_and_files__count_too(void **state)
{
	struct pair pair = connect_plain();
	char one[4], other[4];
	struct iovec vectors[] = {{one, 4}, {other, 4}};
	struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 2};
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	put(&pair, 6);
	assert_int_equal(calls.readv(pair.server, vectors, 2), 6);
	put(&pair, 8);
	assert_int_equal(calls.recvmsg(pair.server, &message, 0), 8);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_WAIT), 1); /* the first was short */
	assert_int_equal(calls.writev(pair.server, vectors, 2), 8);
	assert_int_equal(fake_last_of(KYMO_RECORD_CONN_END).b, 14);
	put(&pair, 1);
	assert_int_equal(calls.read(pair.server, one, 4), 1);
	assert_int_equal(calls.sendmsg(pair.server, &message, 0), 8);
	put(&pair, 1);
	assert_int_equal(calls.read(pair.server, one, 4), 1);
	assert_int_equal(calls.sendfile(pair.server, file, NULL, 100), 100);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_END), 3);
	assert_int_equal(fake_last_of(KYMO_RECORD_CONN_END).c, 100);
	close(file);
	close_pair(&pair);
}

/* The other way round, and not before it is connected. */
static void connection_of_our_own__asks_with_bytes_out(void **state)
{
	int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), server;
	struct fake_event end;
	char buffer[64] = {0};

	(void)state;
	assert_int_equal(calls.connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	server = accept(listener, NULL, NULL);
	assert_int_equal(calls.send(client, buffer, 10, 0), 10);
	assert_int_equal(calls.send(client, buffer, 10, 0), 10);
	assert_int_equal(fake_last_of(KYMO_RECORD_CONN_BEGIN).arg, ntohs(address.sin_port));
	assert_int_equal(send(server, buffer, 7, 0), 7);
	assert_int_equal(calls.recv(client, buffer, sizeof(buffer), 0), 7);
	end = fake_last_of(KYMO_RECORD_CONN_END);
	assert_int_equal(end.b, 7);
	assert_int_equal(end.c, 20);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_BEGIN), 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_WAIT), 0);
	assert_int_equal(calls.close(client), 0);
	close(server);
}

static void closed_gate__marks_nothing_and_forgets_what_it_knew(void **state)
{
	struct pair before = connect_plain(), after;
	char buffer[8];

	(void)state;
	put(&before, 4);
	assert_int_equal(calls.recv(before.server, buffer, 8, 0), 4);
	kymo_control.gates = 0;
	after = connect_plain();
	assert_int_equal(ky_tokio_conn_count, 1);
	put(&after, 4);
	assert_int_equal(calls.recv(after.server, buffer, 8, 0), 4);
	/* An end is recorded exactly when its begin was; then there is nothing more to see. */
	assert_int_equal(calls.send(before.server, buffer, 1, 0), 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_END), 1);
	put(&before, 4);
	assert_int_equal(calls.recv(before.server, buffer, 8, 0), 4);
	assert_int_equal(ky_tokio_conn_count, 0);
	kymo_control.gates = GATES;
	put(&before, 4);
	assert_int_equal(calls.recv(before.server, buffer, 8, 0), 4);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_BEGIN), 1);
	close_pair(&before);
	close_pair(&after);
}

static void descriptor_that_comes_back__is_another_connection(void **state)
{
	struct pair first = connect_plain(), second;
	uint64_t number = ky_tokio_conns[first.server].state >> KY_TOKIO_CONN_NUMBER_SHIFT;
	char buffer[8];

	(void)state;
	put(&first, 4);
	assert_int_equal(calls.recv(first.server, buffer, 8, 0), 4);
	close(first.server); /* behind our back: its request has no answer */
	close(first.client);
	second = connect_plain();
	if (second.server == first.server)
		assert_int_equal(fake_count_of(KYMO_RECORD_CONN_END), 1);
	else
		ky_tokio_conn_closes(first.server);
	assert_int_equal(ky_tokio_conn_count, 1);
	assert_true(ky_tokio_conns[second.server].state >> KY_TOKIO_CONN_NUMBER_SHIFT > number);
	assert_int_equal(calls.send(second.server, buffer, 1, 0), 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_END), 1);
	close_pair(&second);
}

static void descriptor_beyond_the_table__is_counted(void **state)
{
	(void)state;
	ky_tokio_conn_accepted((int)KY_TOKIO_CONNS_MAX, NULL);
	assert_int_equal(fake_count_of(KYMO_RECORD_CONN_UNSEEN), 1);
	assert_int_equal(fake_last_of(KYMO_RECORD_CONN_UNSEEN).a, 1);
	assert_int_equal(ky_tokio_conn_count, 0);
	ky_tokio_conn_close((int)KY_TOKIO_CONNS_MAX);
	ky_tokio_conn_close(-1);
	assert_false(ky_tokio_conn_is_marked(-1));
}

static void bytes__are_exact_up_to_8_MiB(void **state)
{
	(void)state;
	assert_int_equal(kymo_conn_bytes(0), 0);
	assert_int_equal(kymo_conn_bytes(8388607), 8388607);
	assert_int_equal(kymo_conn_bytes(8388608), KYMO_CONN_BYTES_COARSE | 2048);
	assert_int_equal(kymo_conn_bytes(UINT64_MAX), 0xffffff);
}

/* ---- threads ---- */

static pthread_barrier_t start;

/* All on one descriptor, which also comes and goes. */
static void *move_bytes(void *ctx)
{
	int fd = *(const int *)ctx;

	pthread_barrier_wait(&start);
	for (int i = 0; i < ROUNDS; i++) {
		if (ky_tokio_conn_is_marked(fd))
			ky_tokio_conn_read(fd, 1, 2);
		if (ky_tokio_conn_is_marked(fd))
			ky_tokio_conn_wrote(fd, 1);
	}
	return NULL;
}

static void *come_and_go(void *ctx)
{
	int fd = *(const int *)ctx;

	pthread_barrier_wait(&start);
	for (int i = 0; i < ROUNDS; i++) {
		ky_tokio_conn_accepted(fd, NULL);
		ky_tokio_conn_close(fd);
	}
	return NULL;
}

static void many_threads__leave_one_state(void **state)
{
	pthread_t threads[THREADS + 1];
	int fd = 9;

	(void)state;
	fake_recorder_reset(0);
	kymo_control.gates = GATES;
	fake_counting_only(true);
	pthread_barrier_init(&start, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, move_bytes, &fd), 0);
	assert_int_equal(pthread_create(&threads[THREADS], NULL, come_and_go, &fd), 0);
	for (int i = 0; i <= THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	assert_int_equal(ky_tokio_conn_count, 0);
	assert_int_equal(ky_tokio_conns[fd].state & KY_TOKIO_CONN_PHASES, 0);
	/* Each begin has its end, whichever thread brought it. */
	assert_int_equal(fake_counted(KYMO_RECORD_CONN_BEGIN), fake_counted(KYMO_RECORD_CONN_END));
	fake_counting_only(false);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(request__begins_with_bytes_in_and_ends_with_bytes_out),
		CASE(reads_before_the_answer__are_one_request_that_waited),
		CASE(server_that_speaks_first__has_no_request_yet),
		CASE(end_of_file_and_peeks__are_no_bytes),
		CASE(vectors_messages_and_files__count_too),
		CASE(connection_of_our_own__asks_with_bytes_out),
		CASE(closed_gate__marks_nothing_and_forgets_what_it_knew),
		CASE(descriptor_that_comes_back__is_another_connection),
		CASE(descriptor_beyond_the_table__is_counted),
		CASE(bytes__are_exact_up_to_8_MiB),
		CASE(many_threads__leave_one_state),
	};

	return cmocka_run_group_tests_name("tokio_conns", tests, NULL, NULL);
}
